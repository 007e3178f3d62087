// Shapes of the boxing ops' results, from logical sizes alone: symbolic sizes stay symbolic, no
// group and no rank is asked.

#include <string>
#include <vector>

#include "ATen/ops/empty.h"
#include "mimo/layout/layout.h"
#include "mimo/plan/plan.h"
#include "mimo/plan/rank_plan.h"
#include "ops/boxing_operands.h"
#include "ops/status.h"
#include "torch/library.h"

namespace mimo {
namespace {

// A part's shape. Only plans of even parts exist, but for identities between equal layouts.
std::vector<c10::SymInt> PartShape(const Layout& layout, c10::SymIntArrayRef sizes) {
  std::vector<c10::SymInt> shape;
  shape.reserve(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    shape.push_back(sizes[d] / layout.NumParts(static_cast<int>(d)));
  }
  return shape;
}

template <PlanKind kKind>
std::vector<at::Tensor> EmptyOutputs(at::TensorList tensors, const std::vector<std::string>& edges,
                                     c10::SymIntArrayRef sizes, at::TensorList rows,
                                     const std::string& /*group*/) {
  const char* op = kKind == PlanKind::kAllGather ? "mimo::fan_in" : "mimo::fan_out";
  const auto by_tensor = SizesByTensor(op, tensors, edges, sizes, rows);
  std::vector<at::Tensor> outputs;
  outputs.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto parsed = EdgeOrThrow(edges[i]);
    const Edge& edge = parsed->edge;
    // Known sizes are planned as on any device; symbolic ones when the program runs.
    if (const auto logical = c10::asIntArrayRefSlowOpt(by_tensor[i])) {
      const auto plan = ValueOrThrow(CachedPlan(edges[i], {logical->data(), logical->size()}));
      CheckKind(op, kKind, plan->kind(), edges[i], *logical);
    }
    if (edge.source == edge.destination) {
      outputs.push_back(at::empty_symint(tensors[i].sym_sizes(), tensors[i].options()));
      continue;
    }
    const std::vector<c10::SymInt> source = PartShape(edge.source, by_tensor[i]);
    TORCH_CHECK_VALUE(tensors[i].sym_sizes() == c10::SymIntArrayRef(source), op, ": ", edges[i],
                      " of ", by_tensor[i], " puts ", c10::SymIntArrayRef(source),
                      " on each rank, but the tensor here has ", tensors[i].sym_sizes());
    outputs.push_back(
        at::empty_symint(PartShape(edge.destination, by_tensor[i]), tensors[i].options()));
  }
  return outputs;
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_IMPL(mimo, Meta, m) {
  m.impl("fan_in", &mimo::EmptyOutputs<mimo::PlanKind::kAllGather>);
  m.impl("fan_out", &mimo::EmptyOutputs<mimo::PlanKind::kSlice>);
}
