// The part of a logical tensor that one rank holds.

#ifndef MIMO_LAYOUT_BOX_H_
#define MIMO_LAYOUT_BOX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mimo/layout/layout.h"

namespace mimo {

// Rows [start, stop) of one dimension, in coordinates of the logical tensor.
struct Interval {
  int64_t start;
  int64_t stop;

  int64_t size() const { return stop - start; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// One interval for each dimension.
using Box = std::vector<Interval>;

// How many elements a box holds.
int64_t NumElements(const Box& box);

// "[0,6)x[0,16)".
std::string BoxToString(const Box& box);

// The layout's demand on the tensor: a non-negative size for each dimension, all the dimensions
// that the layout splits, and a product below 2^63, empty dimensions counted as 1. InvalidArgument
// otherwise.
absl::Status CheckSizes(const Layout& layout, absl::Span<const int64_t> sizes);

// The box that `rank` holds of a tensor of logical `sizes`; the whole tensor where nothing is
// split.
//
// - Splits by chunk and balanced, of any sizes; parts can be empty.
// - Errors: InvalidArgument if CheckSizes fails or the rank is not in the mesh; Unimplemented for
//   rules whose parts are no box or are known at run time only.
absl::StatusOr<Box> LocalBox(const Layout& layout, absl::Span<const int64_t> sizes, int64_t rank);

}  // namespace mimo

#endif  // MIMO_LAYOUT_BOX_H_
