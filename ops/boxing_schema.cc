// Schemas of the boxing ops; ops/boxing_operands.h says what the operands mean.

#include "torch/library.h"

TORCH_LIBRARY_FRAGMENT(mimo, m) {
  m.def(
      "fan_in(Tensor[] tensors, str[] edges, SymInt[] sizes, Tensor[] rows, str group) -> Tensor[]",
      {at::Tag::pt2_compliant_tag});
  m.def(
      "fan_out(Tensor[] tensors, str[] edges, SymInt[] sizes, Tensor[] rows, str group) -> "
      "Tensor[]",
      {at::Tag::pt2_compliant_tag});
}
