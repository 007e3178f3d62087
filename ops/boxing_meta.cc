// Shapes of the boxing ops' results, from logical sizes alone: symbolic sizes stay symbolic, no
// group and no rank is asked.

#include <string>
#include <vector>

#include "ATen/ops/empty.h"
#include "ops/boxing_operands.h"
#include "torch/library.h"

namespace mimo {
namespace {

// Only plans of even parts exist, so a part's size is the logical size over the number of parts.
std::vector<at::Tensor> EmptyOutputs(at::TensorList tensors, const std::vector<std::string>& edges,
                                     c10::SymIntArrayRef sizes, at::TensorList rows,
                                     const std::string& /*group*/) {
  const auto by_tensor = SizesByTensor("boxing", tensors, edges, sizes, rows);
  std::vector<at::Tensor> outputs;
  outputs.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Layout& destination = EdgeOrThrow(edges[i])->destination;
    std::vector<c10::SymInt> shape;
    shape.reserve(by_tensor[i].size());
    for (size_t d = 0; d < by_tensor[i].size(); ++d) {
      shape.push_back(by_tensor[i][d] / destination.NumParts(static_cast<int>(d)));
    }
    outputs.push_back(at::empty_symint(shape, tensors[i].options()));
  }
  return outputs;
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_IMPL(mimo, Meta, m) {
  m.impl("fan_in", &mimo::EmptyOutputs);
  m.impl("fan_out", &mimo::EmptyOutputs);
}
