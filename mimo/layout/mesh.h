// A mesh: named axes over ranks. It says which ranks a module runs on and how they are numbered.

#ifndef MIMO_LAYOUT_MESH_H_
#define MIMO_LAYOUT_MESH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mimo {

// Stands for "the stride that follows from the later axes": the product of their sizes.
inline constexpr int64_t kDefaultStride = 0;

// One axis of a mesh: `size` coordinates, `stride` ranks apart.
struct Axis {
  std::string name;
  int64_t size;
  int64_t stride = kDefaultStride;

  friend bool operator==(const Axis&, const Axis&) = default;
};

// One coordinate an axis, in the order of the axes.
using Coordinates = absl::InlinedVector<int64_t, 4>;

// Named axes over ranks, listed in the order in which parts are numbered, the first the slowest:
// the rank at coordinates c is offset + sum over axes of c[i] * stride[i]. Strides are free (the
// default makes the last axis the fastest), so {dp:2@1,tp:4@2} has ranks 0, 2, 4, 6 as its first
// tp group.
//
// Immutable, and valid by construction. A size-1 axis's stride has no meaning; it is kept as 1.
class Mesh {
 public:
  // Builds a mesh. Errors, each InvalidArgument and with the axis and its values in the message:
  // no axes, a name that is empty, malformed or used twice, a size below 1, a stride below 1, a
  // negative offset, ranks beyond 2^63 - 1, or two coordinates that name the same rank.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes, int64_t offset = 0);

  // Axes with their strides resolved.
  absl::Span<const Axis> axes() const { return axes_; }
  int64_t offset() const { return offset_; }
  int64_t num_ranks() const { return num_ranks_; }

  // The stride that axis `index` has where none is given.
  int64_t DefaultStride(int index) const;

  // The position of the axis called `name`, or -1.
  int FindAxis(absl::string_view name) const;

  // The rank at `coordinates`, one for each axis and each in [0, size).
  int64_t RankAt(absl::Span<const int64_t> coordinates) const;

  // Where `rank` lies, or nothing if it is not in the mesh.
  std::optional<Coordinates> CoordinatesOf(int64_t rank) const;

  // All ranks in the order of their numbering.
  std::vector<int64_t> Ranks() const;

  // Names count here: use Layout for equality of where data lies.
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  Mesh(std::vector<Axis> axes, int64_t offset, int64_t num_ranks);

  std::vector<Axis> axes_;
  int64_t offset_;
  int64_t num_ranks_;
  // Positions of the axes by falling stride, for CoordinatesOf.
  absl::InlinedVector<int, 4> by_stride_;
};

// True for what axes and placements can be called: a letter or '_', then letters, digits, '_', '.'.
bool IsName(absl::string_view text);

}  // namespace mimo

#endif  // MIMO_LAYOUT_MESH_H_
