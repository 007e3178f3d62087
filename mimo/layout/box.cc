#include "mimo/layout/box.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mimo {
namespace {

Interval ChunkPart(Interval whole, int64_t parts, int64_t index) {
  const int64_t rows = whole.size() / parts + (whole.size() % parts != 0);
  // Empty parts lie at the end; the first comparison keeps index * rows from overflowing.
  const auto edge = [&](int64_t i) {
    return whole.start +
           (rows && i > whole.size() / rows ? whole.size() : std::min(whole.size(), i * rows));
  };
  return {edge(index), edge(index + 1)};
}

Interval BalancedPart(Interval whole, int64_t parts, int64_t index) {
  const int64_t rows = whole.size() / parts;
  const int64_t longer = whole.size() % parts;
  const auto edge = [&](int64_t i) { return whole.start + i * rows + std::min(i, longer); };
  return {edge(index), edge(index + 1)};
}

}  // namespace

int64_t NumElements(const Box& box) {
  int64_t elements = 1;
  for (const Interval& interval : box) elements *= interval.size();
  return elements;
}

std::string BoxToString(const Box& box) {
  return absl::StrJoin(box, "x", [](std::string* out, const Interval& interval) {
    absl::StrAppend(out, "[", interval.start, ",", interval.stop, ")");
  });
}

absl::Status CheckSizes(const Layout& layout, absl::Span<const int64_t> sizes) {
  if (static_cast<int>(sizes.size()) < layout.MinimumDims()) {
    return absl::InvalidArgumentError(
        absl::StrCat(layout.ToString(), " splits dimension ", layout.MinimumDims() - 1,
                     " of a tensor of logical sizes [", absl::StrJoin(sizes, ","), "]"));
  }
  // Counted with empty dimensions as 1: strides must not overflow either.
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (size < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          layout.ToString(), ": negative logical size in [", absl::StrJoin(sizes, ","), "]"));
    }
    if (__builtin_mul_overflow(elements, std::max<int64_t>(1, size), &elements)) {
      return absl::InvalidArgumentError(
          absl::StrCat(layout.ToString(), ": logical sizes [", absl::StrJoin(sizes, ","),
                       "] multiply to more than 2^63 - 1, empty dimensions counted as 1"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Box> LocalBox(const Layout& layout, absl::Span<const int64_t> sizes, int64_t rank) {
  if (absl::Status status = CheckSizes(layout, sizes); !status.ok()) return status;
  const std::optional<Coordinates> coordinates = layout.mesh().CoordinatesOf(rank);
  if (!coordinates) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " is not in ", layout.ToString()));
  }
  Box box;
  box.reserve(sizes.size());
  for (const int64_t size : sizes) box.push_back({0, size});
  for (size_t i = 0; i < layout.sbp().size(); ++i) {
    const Sbp& sbp = layout.sbp()[i];
    const Axis& axis = layout.mesh().axes()[i];
    if (!sbp.is_split() || axis.size == 1) continue;
    Interval& interval = box[sbp.dim];
    if (sbp.rule == SplitRule::kChunk) {
      interval = ChunkPart(interval, axis.size, (*coordinates)[i]);
    } else if (sbp.rule == SplitRule::kBalanced) {
      interval = BalancedPart(interval, axis.size, (*coordinates)[i]);
    } else {
      return absl::UnimplementedError(absl::StrCat(layout.ToString(), " axis ", axis.name, ": ",
                                                   sbp.ToString(), " parts are not boxes"));
    }
  }
  return box;
}

}  // namespace mimo
