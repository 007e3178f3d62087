#include "mimo/plan/plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "mimo/plan/digits.h"

namespace mimo {
namespace {

bool HoldsWhole(SbpKind kind) { return kind == SbpKind::kInvariant || kind == SbpKind::kBroadcast; }

// What one digit asks of the plan.
enum class Step { kNothing, kSlice, kGather, kOther };

Step StepOf(const Digit& digit) {
  const SbpKind from = digit.source.kind;
  const SbpKind to = digit.destination.kind;
  if (digit.source == digit.destination || (HoldsWhole(from) && HoldsWhole(to))) {
    return Step::kNothing;
  }
  if (HoldsWhole(from) && to == SbpKind::kSplit) return Step::kSlice;
  if (from == SbpKind::kSplit && HoldsWhole(to)) return Step::kGather;
  return Step::kOther;
}

std::string Describe(const Digit& digit) {
  return absl::StrCat(digit.size, " ranks of stride ", digit.stride, " go from ",
                      DigitRoleToString(digit.source), " to ",
                      DigitRoleToString(digit.destination));
}

}  // namespace

absl::string_view PlanKindName(PlanKind kind) {
  switch (kind) {
    case PlanKind::kIdentity:
      return "identity";
    case PlanKind::kSlice:
      return "slice";
    case PlanKind::kAllGather:
      return "all-gather";
  }
  return "";
}

Plan::Plan(PlanKind kind, Edge edge, std::vector<int64_t> sizes, std::vector<GroupAxis> group_axes)
    : kind_(kind),
      edge_(std::move(edge)),
      sizes_(std::move(sizes)),
      group_axes_(std::move(group_axes)) {}

absl::StatusOr<Plan> Plan::Create(Edge edge, std::vector<int64_t> sizes) {
  // Equal layouts need no common digits: sizes may be uneven and strides need not nest.
  if (edge.source == edge.destination) {
    if (absl::Status status = CheckSizes(edge.source, sizes); !status.ok()) return status;
    return Plan(PlanKind::kIdentity, std::move(edge), std::move(sizes), {});
  }
  absl::StatusOr<std::vector<Digit>> digits = CommonDigits(edge, sizes);
  if (!digits.ok()) return digits.status();
  std::vector<Digit> sliced;
  std::vector<Digit> gathered;
  for (const Digit& digit : *digits) {
    switch (StepOf(digit)) {
      case Step::kNothing:
        break;
      case Step::kSlice:
        sliced.push_back(digit);
        break;
      case Step::kGather:
        gathered.push_back(digit);
        break;
      case Step::kOther:
        return absl::UnimplementedError(
            absl::StrCat(edge.ToString(), ": ", Describe(digit), ": no plan for this yet"));
    }
  }
  if (!sliced.empty() && !gathered.empty()) {
    return absl::UnimplementedError(absl::StrCat(edge.ToString(), ": ", Describe(sliced.front()),
                                                 " while ", Describe(gathered.front()),
                                                 ": no plan for both at once yet"));
  }
  const PlanKind kind = !gathered.empty() ? PlanKind::kAllGather
                        : !sliced.empty() ? PlanKind::kSlice
                                          : PlanKind::kIdentity;
  std::vector<Digit>& moved = gathered.empty() ? sliced : gathered;
  const auto role = [&](const Digit& digit) {
    return kind == PlanKind::kAllGather ? digit.source : digit.destination;
  };
  // Slots are numbered as the parts lie: first dimension slowest, within one the largest step.
  std::sort(moved.begin(), moved.end(), [&](const Digit& a, const Digit& b) {
    return std::make_tuple(role(a).dim, -role(a).weight, -a.stride) <
           std::make_tuple(role(b).dim, -role(b).weight, -b.stride);
  });
  std::vector<GroupAxis> group_axes;
  group_axes.reserve(moved.size());
  for (const Digit& digit : moved) group_axes.push_back({digit.size, digit.stride});
  return Plan(kind, std::move(edge), std::move(sizes), std::move(group_axes));
}

int64_t Plan::group_size() const {
  int64_t size = 1;
  for (const GroupAxis& axis : group_axes_) size *= axis.size;
  return size;
}

absl::StatusOr<std::vector<int64_t>> Plan::Group(int64_t rank) const {
  const Mesh& mesh = edge_.source.mesh();
  const std::optional<Coordinates> coordinates = mesh.CoordinatesOf(rank);
  if (!coordinates) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " is not in ", edge_.ToString()));
  }
  // Each group axis is a digit of the one mesh axis that reaches its stride (two would name a rank
  // twice): step that digit back to 0.
  int64_t first = rank;
  for (const GroupAxis& digit : group_axes_) {
    for (size_t i = 0; i < coordinates->size(); ++i) {
      const Axis& axis = mesh.axes()[i];
      const int64_t step = digit.stride / axis.stride;
      if (digit.stride % axis.stride == 0 && step < axis.size) {
        first -= (*coordinates)[i] / step % digit.size * digit.stride;
      }
    }
  }
  std::vector<int64_t> group = {first};
  for (const GroupAxis& axis : group_axes_) {
    std::vector<int64_t> wider;
    wider.reserve(group.size() * axis.size);
    for (const int64_t member : group) {
      for (int64_t i = 0; i < axis.size; ++i) wider.push_back(member + i * axis.stride);
    }
    group = std::move(wider);
  }
  return group;
}

std::vector<std::vector<int64_t>> Plan::Groups() const {
  std::vector<int64_t> ranks = edge_.source.mesh().Ranks();
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::vector<int64_t>> groups;
  absl::flat_hash_set<int64_t> seen;
  for (const int64_t rank : ranks) {
    if (seen.contains(rank)) continue;
    groups.push_back(*Group(rank));
    seen.insert(groups.back().begin(), groups.back().end());
  }
  return groups;
}

absl::StatusOr<Box> Plan::SourceBox(int64_t rank) const {
  return LocalBox(edge_.source, sizes_, rank);
}

absl::StatusOr<Box> Plan::DestinationBox(int64_t rank) const {
  return LocalBox(edge_.destination, sizes_, rank);
}

int64_t Plan::ElementsReceived() const {
  if (kind_ != PlanKind::kAllGather) return 0;
  int64_t elements = 1;
  for (const int64_t size : sizes_) elements *= size;
  int64_t parts = 1;
  for (size_t dim = 0; dim < sizes_.size(); ++dim) {
    parts *= edge_.source.NumParts(static_cast<int>(dim));
  }
  return elements / parts * (group_size() - 1);
}

}  // namespace mimo
