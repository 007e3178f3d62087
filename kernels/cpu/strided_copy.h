// Copies between two strided arrays of one shape: a box out of a tensor, or into one.

#ifndef KERNELS_CPU_STRIDED_COPY_H_
#define KERNELS_CPU_STRIDED_COPY_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace mimo {

// A copy prepared once: dimensions that lie behind each other on both sides are merged, and the
// rest becomes `num_runs` runs of the innermost one, which different threads may copy.
//
//   StridedCopy copy({rows, columns}, {source_pitch, 1}, {destination_pitch, 1}, sizeof(float));
//   copy.Run(source, destination, 0, copy.num_runs());
class StridedCopy {
 public:
  // - extents: elements in each dimension, at least 0.
  // - source_strides, destination_strides: in elements, one for each dimension.
  // - item_size: bytes an element.
  StridedCopy(absl::Span<const int64_t> extents, absl::Span<const int64_t> source_strides,
              absl::Span<const int64_t> destination_strides, int64_t item_size);

  int64_t num_runs() const { return num_runs_; }
  int64_t bytes_per_run() const { return inner_.extent * item_size_; }

  // Copies runs [first, last). The arrays must not overlap.
  void Run(const void* source, void* destination, int64_t first, int64_t last) const;

 private:
  struct Dimension {
    int64_t extent;
    int64_t source_stride;
    int64_t destination_stride;
  };

  int64_t item_size_;
  int64_t num_runs_ = 1;
  // All merged dimensions but the innermost, slowest first.
  absl::InlinedVector<Dimension, 6> outer_;
  Dimension inner_ = {1, 1, 1};
};

}  // namespace mimo

#endif  // KERNELS_CPU_STRIDED_COPY_H_
