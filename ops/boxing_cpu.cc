// fan_in and fan_out on the CPU: one collective for all tensors of a border, and copies.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "ATen/Parallel.h"
#include "ATen/ops/as_strided.h"
#include "ATen/ops/clone.h"
#include "ATen/ops/empty.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "kernels/cpu/strided_copy.h"
#include "mimo/layout/box.h"
#include "mimo/plan/rank_plan.h"
#include "ops/boxing_operands.h"
#include "ops/group.h"
#include "ops/status.h"
#include "ops/traffic.h"
#include "torch/library.h"

namespace mimo {
namespace {

using Plans = std::vector<std::shared_ptr<const RankPlan>>;

// A thread is worth its start from about this many bytes.
constexpr int64_t kBytesPerThread = int64_t{1} << 20;

// Segments of a message begin at multiples of the largest item.
constexpr int64_t kAlignment = 16;

void Copy(const void* source, absl::Span<const int64_t> source_strides, void* destination,
          absl::Span<const int64_t> destination_strides, absl::Span<const int64_t> extents,
          int64_t item_size) {
  const StridedCopy copy(extents, source_strides, destination_strides, item_size);
  const int64_t grain =
      std::max<int64_t>(1, kBytesPerThread / std::max<int64_t>(1, copy.bytes_per_run()));
  at::parallel_for(0, copy.num_runs(), grain, [&](int64_t first, int64_t last) {
    copy.Run(source, destination, first, last);
  });
}

absl::Span<const int64_t> SpanOf(at::IntArrayRef values) { return {values.data(), values.size()}; }

std::vector<int64_t> Strides(absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

int64_t Offset(const Box& box, absl::Span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < box.size(); ++d) offset += box[d].start * strides[d];
  return offset;
}

std::byte* Bytes(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// The memory of a contiguous tensor as a row of bytes. Its strides do not count: those of
// dimensions of size 1 and of tensors without elements are free.
at::Tensor AsBytes(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}).view(at::kByte);
}

void AllGather(const Group& group, at::Tensor output, at::Tensor input,
               absl::Span<const std::string> edges) {
  const auto fail = [&](const char* reason) {
    TORCH_CHECK(false, "mimo::fan_in over ", absl::StrJoin(edges, "; "), " on rank ", group.rank,
                " with ranks ", at::IntArrayRef(group.ranks), ": ", reason);
  };
  try {
    group.process_group->_allgather_base(output, input)->wait();
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

// Where each tensor's part begins in a member's message; the last entry is the message's length.
std::vector<int64_t> Segments(at::TensorList tensors) {
  std::vector<int64_t> starts = {0};
  for (const at::Tensor& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    starts.push_back(starts.back() + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  }
  return starts;
}

// All tensors' parts in one message a member; then each part to its box.
void GatherThroughMessages(const Group& group, at::TensorList tensors, const Plans& plans,
                           const std::vector<std::string>& edges,
                           const std::vector<at::Tensor>& outputs) {
  const std::vector<int64_t> segments = Segments(tensors);
  const int64_t length = segments.back();
  const auto members = static_cast<int64_t>(group.ranks.size());
  const at::TensorOptions bytes = at::TensorOptions().dtype(at::kByte);
  const at::Tensor message = at::empty({length}, bytes);
  const at::Tensor messages = at::empty({members * length}, bytes);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const absl::Span<const int64_t> shape = SpanOf(tensors[i].sizes());
    Copy(tensors[i].const_data_ptr(), SpanOf(tensors[i].strides()), Bytes(message) + segments[i],
         Strides(shape), shape, tensors[i].itemsize());
  }
  AllGather(group, messages, message, edges);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const absl::Span<const int64_t> shape = SpanOf(tensors[i].sizes());
    const std::vector<int64_t> part_strides = Strides(shape);
    const absl::Span<const int64_t> strides = SpanOf(outputs[i].strides());
    for (int64_t k = 0; k < members; ++k) {
      Copy(Bytes(messages) + k * length + segments[i], part_strides,
           Bytes(outputs[i]) + Offset(plans[i]->blocks[k], strides) * outputs[i].itemsize(),
           strides, shape, tensors[i].itemsize());
    }
  }
}

std::vector<at::Tensor> FanIn(at::TensorList tensors, const std::vector<std::string>& edges,
                              c10::SymIntArrayRef sizes, at::TensorList rows,
                              const std::string& name) {
  TrafficTimer traffic;
  const Group group = ResolveGroup(name);
  const Plans plans = PlansByTensor("mimo::fan_in", PlanKind::kAllGather, tensors, edges, sizes,
                                    rows, group.ranks, group.rank);
  std::vector<at::Tensor> outputs;
  outputs.reserve(tensors.size());
  // Identities have nothing to send; the others share one message.
  std::vector<at::Tensor> sent;
  Plans sent_plans;
  std::vector<std::string> sent_edges;
  std::vector<at::Tensor> sent_outputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (plans[i]->kind == PlanKind::kIdentity) {
      outputs.push_back(tensors[i].clone(at::MemoryFormat::Contiguous));
      continue;
    }
    outputs.push_back(at::empty(plans[i]->destination_shape, tensors[i].options()));
    sent.push_back(tensors[i]);
    sent_plans.push_back(plans[i]);
    sent_edges.push_back(edges[i]);
    sent_outputs.push_back(outputs[i]);
    traffic.AddBytes(static_cast<int64_t>(outputs[i].nbytes() - tensors[i].nbytes()));
  }
  if (sent.empty()) return outputs;
  if (sent.size() == 1 && sent_plans[0]->stacked) {
    AllGather(group, AsBytes(sent_outputs[0]), AsBytes(sent[0].contiguous()), sent_edges);
  } else {
    GatherThroughMessages(group, sent, sent_plans, sent_edges, sent_outputs);
  }
  return outputs;
}

std::vector<at::Tensor> FanOut(at::TensorList tensors, const std::vector<std::string>& edges,
                               c10::SymIntArrayRef sizes, at::TensorList rows,
                               const std::string& name) {
  const TrafficTimer traffic;
  const Group group = ResolveGroup(name);
  const Plans plans = PlansByTensor("mimo::fan_out", PlanKind::kSlice, tensors, edges, sizes, rows,
                                    group.ranks, group.rank);
  std::vector<at::Tensor> outputs;
  outputs.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor part = tensors[i];
    if (plans[i]->kind != PlanKind::kIdentity) {
      part = part.as_strided(
          plans[i]->destination_shape, part.strides(),
          part.storage_offset() + Offset(plans[i]->blocks[0], SpanOf(part.strides())));
    }
    outputs.push_back(part.clone(at::MemoryFormat::Contiguous));
  }
  return outputs;
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_IMPL(mimo, CPU, m) {
  m.impl("fan_in", &mimo::FanIn);
  m.impl("fan_out", &mimo::FanOut);
}
