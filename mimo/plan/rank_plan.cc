#include "mimo/plan/rank_plan.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "mimo/layout/text.h"

namespace mimo {
namespace {

// A map that starts over when it is full: steady jobs use a handful of entries.
template <typename Key, typename Value>
class Cache {
 public:
  std::shared_ptr<const Value> Find(const Key& key) {
    absl::MutexLock lock(&mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : found->second;
  }

  std::shared_ptr<const Value> Keep(Key key, Value value) {
    auto shared = std::make_shared<const Value>(std::move(value));
    absl::MutexLock lock(&mutex_);
    if (values_.size() >= kMostCachedPlans) values_.clear();
    values_.insert_or_assign(std::move(key), shared);
    return shared;
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<Key, std::shared_ptr<const Value>> values_ ABSL_GUARDED_BY(mutex_);
};

using PlanKey = std::pair<std::string, std::vector<int64_t>>;
using RankPlanKey = std::tuple<std::string, std::vector<int64_t>, int64_t>;

// The caches are leaked on purpose: ops can run while static objects are destroyed.
Cache<RankPlanKey, RankPlan>& RankPlans() {
  static auto& plans = *new Cache<RankPlanKey, RankPlan>();
  return plans;
}

Cache<PlanKey, Plan>& Plans() {
  static auto& plans = *new Cache<PlanKey, Plan>();
  return plans;
}

Cache<std::string, ParsedEdge>& Edges() {
  static auto& edges = *new Cache<std::string, ParsedEdge>();
  return edges;
}

std::vector<int64_t> Shape(const Box& box) {
  std::vector<int64_t> shape;
  shape.reserve(box.size());
  for (const Interval& interval : box) shape.push_back(interval.size());
  return shape;
}

// `inner` in coordinates that start at `outer`.
Box Relative(Box inner, const Box& outer) {
  for (size_t d = 0; d < inner.size(); ++d) {
    inner[d].start -= outer[d].start;
    inner[d].stop -= outer[d].start;
  }
  return inner;
}

// True where block k of a contiguous tensor of `shape` is its k-th run of equal length.
bool AreStacked(const std::vector<Box>& blocks, absl::Span<const int64_t> shape) {
  for (size_t k = 0; k < blocks.size(); ++k) {
    int64_t position = 0;
    bool must_be_one = false;
    for (size_t d = shape.size(); d-- > 0;) {
      if (must_be_one && blocks[k][d].size() != 1) return false;
      must_be_one = must_be_one || blocks[k][d].size() != shape[d];
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      position = position * shape[d] + blocks[k][d].start;
    }
    if (position != static_cast<int64_t>(k) * NumElements(blocks[k])) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<RankPlan> MakeRankPlan(absl::string_view edge, absl::Span<const int64_t> sizes,
                                      int64_t rank) {
  absl::StatusOr<std::shared_ptr<const Plan>> cached = CachedPlan(edge, sizes);
  if (!cached.ok()) return cached.status();
  const Plan* plan = cached->get();
  absl::StatusOr<Box> source = plan->SourceBox(rank);
  if (!source.ok()) return source.status();
  absl::StatusOr<Box> destination = plan->DestinationBox(rank);
  if (!destination.ok()) return destination.status();
  absl::StatusOr<std::vector<int64_t>> group = plan->Group(rank);
  if (!group.ok()) return group.status();

  RankPlan rank_plan{plan->kind(), *std::move(group), Shape(*source), Shape(*destination), {}};
  std::sort(rank_plan.group.begin(), rank_plan.group.end());
  if (plan->kind() == PlanKind::kSlice) {
    rank_plan.blocks.push_back(Relative(*destination, *source));
  } else if (plan->kind() == PlanKind::kAllGather) {
    for (const int64_t member : rank_plan.group) {
      absl::StatusOr<Box> part = plan->SourceBox(member);
      if (!part.ok()) return part.status();
      rank_plan.blocks.push_back(Relative(*std::move(part), *destination));
    }
    rank_plan.stacked = AreStacked(rank_plan.blocks, rank_plan.destination_shape);
  }
  return rank_plan;
}

absl::StatusOr<std::shared_ptr<const RankPlan>> CachedRankPlan(absl::string_view edge,
                                                               absl::Span<const int64_t> sizes,
                                                               int64_t rank) {
  RankPlanKey key{std::string(edge), {sizes.begin(), sizes.end()}, rank};
  if (std::shared_ptr<const RankPlan> plan = RankPlans().Find(key)) return plan;
  absl::StatusOr<RankPlan> plan = MakeRankPlan(edge, sizes, rank);
  if (!plan.ok()) return plan.status();
  return RankPlans().Keep(std::move(key), *std::move(plan));
}

absl::StatusOr<std::shared_ptr<const Plan>> CachedPlan(absl::string_view edge,
                                                       absl::Span<const int64_t> sizes) {
  PlanKey key{std::string(edge), {sizes.begin(), sizes.end()}};
  if (std::shared_ptr<const Plan> plan = Plans().Find(key)) return plan;
  absl::StatusOr<std::shared_ptr<const ParsedEdge>> parsed = CachedEdge(edge);
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<Plan> plan = Plan::Create((*parsed)->edge, key.second);
  if (!plan.ok()) return plan.status();
  return Plans().Keep(std::move(key), *std::move(plan));
}

absl::StatusOr<std::shared_ptr<const ParsedEdge>> CachedEdge(absl::string_view text) {
  std::string key(text);
  if (std::shared_ptr<const ParsedEdge> edge = Edges().Find(key)) return edge;
  absl::StatusOr<Edge> edge = ParseEdge(text);
  if (!edge.ok()) return edge.status();
  std::string adjoint = edge->Adjoint().ToString();
  return Edges().Keep(std::move(key), {*std::move(edge), std::move(adjoint)});
}

}  // namespace mimo
