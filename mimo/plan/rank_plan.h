// What one rank does to carry out an edge, ready to use, and kept for the next call.

#ifndef MIMO_PLAN_RANK_PLAN_H_
#define MIMO_PLAN_RANK_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mimo/layout/box.h"
#include "mimo/layout/layout.h"
#include "mimo/plan/plan.h"

namespace mimo {

struct RankPlan {
  PlanKind kind;
  // The ranks that gather together, ascending, as process groups number them.
  std::vector<int64_t> group;
  // What the rank holds before and after.
  std::vector<int64_t> source_shape;
  std::vector<int64_t> destination_shape;
  // All-gather: for each member of the group the box its part fills in this rank's output. Slice:
  // one box, this rank's part of its input. Identity: none.
  std::vector<Box> blocks;
  // All-gather: true where the parts lie in the output one behind the other in the group's order,
  // so that they can be received in place.
  bool stacked = false;
};

// An edge read from its text.
struct ParsedEdge {
  Edge edge;
  // The canonical text of the edge that gradients take back.
  std::string adjoint;
};

// The plan of `rank`. Errors as ParseEdge, Plan::Create and LocalBox.
absl::StatusOr<RankPlan> MakeRankPlan(absl::string_view edge, absl::Span<const int64_t> sizes,
                                      int64_t rank);

// The same, the plan of all ranks and the edge from bounded caches that all threads share. The text
// is the key: each spelling of an edge has its own entry. Hold the pointer while you use what it
// points to: any later call can empty the cache.
absl::StatusOr<std::shared_ptr<const RankPlan>> CachedRankPlan(absl::string_view edge,
                                                               absl::Span<const int64_t> sizes,
                                                               int64_t rank);
absl::StatusOr<std::shared_ptr<const Plan>> CachedPlan(absl::string_view edge,
                                                       absl::Span<const int64_t> sizes);
absl::StatusOr<std::shared_ptr<const ParsedEdge>> CachedEdge(absl::string_view text);

// How many entries each cache holds at the most; one more and it starts over.
inline constexpr int kMostCachedPlans = 4096;

}  // namespace mimo

#endif  // MIMO_PLAN_RANK_PLAN_H_
