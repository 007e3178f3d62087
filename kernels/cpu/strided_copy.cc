#include "kernels/cpu/strided_copy.h"

#include <cstddef>
#include <cstring>

namespace mimo {
namespace {

// The constant size lets the compiler turn the inner memcpy into one load and one store.
template <size_t kItemSize>
void CopyItems(const std::byte* source, int64_t source_step, std::byte* destination,
               int64_t destination_step, int64_t items) {
  for (int64_t i = 0; i < items; ++i) {
    std::memcpy(destination + i * destination_step, source + i * source_step, kItemSize);
  }
}

void CopyRun(const std::byte* source, int64_t source_step, std::byte* destination,
             int64_t destination_step, int64_t items, int64_t item_size) {
  if (source_step == item_size && destination_step == item_size) {
    std::memcpy(destination, source, items * item_size);
    return;
  }
  switch (item_size) {
    case 1:
      return CopyItems<1>(source, source_step, destination, destination_step, items);
    case 2:
      return CopyItems<2>(source, source_step, destination, destination_step, items);
    case 4:
      return CopyItems<4>(source, source_step, destination, destination_step, items);
    case 8:
      return CopyItems<8>(source, source_step, destination, destination_step, items);
    case 16:
      return CopyItems<16>(source, source_step, destination, destination_step, items);
    default:
      for (int64_t i = 0; i < items; ++i) {
        std::memcpy(destination + i * destination_step, source + i * source_step, item_size);
      }
  }
}

}  // namespace

StridedCopy::StridedCopy(absl::Span<const int64_t> extents,
                         absl::Span<const int64_t> source_strides,
                         absl::Span<const int64_t> destination_strides, int64_t item_size)
    : item_size_(item_size) {
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 0) {
      outer_.clear();
      inner_.extent = 0;
      num_runs_ = 0;
      return;
    }
    if (extents[d] == 1) continue;
    const Dimension next = {extents[d], source_strides[d], destination_strides[d]};
    if (!outer_.empty() && outer_.back().source_stride == next.source_stride * next.extent &&
        outer_.back().destination_stride == next.destination_stride * next.extent) {
      outer_.back() = {outer_.back().extent * next.extent, next.source_stride,
                       next.destination_stride};
    } else {
      outer_.push_back(next);
    }
  }
  if (!outer_.empty()) {
    inner_ = outer_.back();
    outer_.pop_back();
  }
  for (const Dimension& dimension : outer_) num_runs_ *= dimension.extent;
}

void StridedCopy::Run(const void* source, void* destination, int64_t first, int64_t last) const {
  for (int64_t run = first; run < last; ++run) {
    int64_t source_offset = 0;
    int64_t destination_offset = 0;
    int64_t rest = run;
    for (size_t d = outer_.size(); d-- > 0;) {
      const int64_t index = rest % outer_[d].extent;
      rest /= outer_[d].extent;
      source_offset += index * outer_[d].source_stride;
      destination_offset += index * outer_[d].destination_stride;
    }
    CopyRun(static_cast<const std::byte*>(source) + source_offset * item_size_,
            inner_.source_stride * item_size_,
            static_cast<std::byte*>(destination) + destination_offset * item_size_,
            inner_.destination_stride * item_size_, inner_.extent, item_size_);
  }
}

}  // namespace mimo
