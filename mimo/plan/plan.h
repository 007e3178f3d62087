// A plan: how an edge is carried out for a tensor of given logical sizes.

#ifndef MIMO_PLAN_PLAN_H_
#define MIMO_PLAN_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mimo/layout/box.h"
#include "mimo/layout/layout.h"

namespace mimo {

enum class PlanKind {
  kIdentity,   // every rank already holds what it needs
  kSlice,      // every rank needs a part of what it holds
  kAllGather,  // every rank needs what the members of its group hold together
};

// "identity", "slice" or "all-gather".
absl::string_view PlanKindName(PlanKind kind);

// One axis of a plan's groups: `size` members, `stride` ranks apart.
struct GroupAxis {
  int64_t size;
  int64_t stride;

  friend bool operator==(const GroupAxis&, const GroupAxis&) = default;
};

// Recognised from the edge's digits; no ranks are enumerated.
class Plan {
 public:
  // Errors: InvalidArgument where the sizes do not fit the layouts; Unimplemented, naming what
  // differs, where the edge is neither an identity nor a slice nor an all-gather.
  static absl::StatusOr<Plan> Create(Edge edge, std::vector<int64_t> sizes);

  PlanKind kind() const { return kind_; }
  const Edge& edge() const { return edge_; }
  absl::Span<const int64_t> sizes() const { return sizes_; }

  // The axes of the groups, slowest slot first: who gathers together, here for an all-gather, in
  // the adjoint for a slice. Empty for an identity.
  absl::Span<const GroupAxis> group_axes() const { return group_axes_; }
  int64_t group_size() const;

  // The members of `rank`'s group in slot order: the order of their parts in the gathered tensor,
  // first dimension slowest. InvalidArgument if the rank is not in the mesh.
  absl::StatusOr<std::vector<int64_t>> Group(int64_t rank) const;

  // All groups, in the order of their smallest ranks. Enumerates all ranks.
  std::vector<std::vector<int64_t>> Groups() const;

  // What `rank` holds before and after, in logical coordinates.
  absl::StatusOr<Box> SourceBox(int64_t rank) const;
  absl::StatusOr<Box> DestinationBox(int64_t rank) const;

  // Elements that a rank gets from others; as many go out to others, for all ranks are alike.
  int64_t ElementsReceived() const;

 private:
  Plan(PlanKind kind, Edge edge, std::vector<int64_t> sizes, std::vector<GroupAxis> group_axes);

  PlanKind kind_;
  Edge edge_;
  std::vector<int64_t> sizes_;
  std::vector<GroupAxis> group_axes_;
};

}  // namespace mimo

#endif  // MIMO_PLAN_PLAN_H_
