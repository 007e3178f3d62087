// Gradients of the boxing ops: the op of the adjoint edges, with the same operands.

#include <string>
#include <utility>
#include <vector>

#include "ATen/core/LegacyTypeDispatch.h"
#include "mimo/plan/rank_plan.h"
#include "ops/boxing_operands.h"
#include "ops/status.h"
#include "torch/csrc/autograd/custom_function.h"
#include "torch/library.h"

namespace mimo {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

c10::TypedOperatorHandle<BoxingSignature> FindOp(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<BoxingSignature>();
}

// fan_in's adjoint is a fan_out and the other way round.
c10::TypedOperatorHandle<BoxingSignature> Op(bool fan_in) {
  static const auto fan_in_op = FindOp("mimo::fan_in");
  static const auto fan_out_op = FindOp("mimo::fan_out");
  return fan_in ? fan_in_op : fan_out_op;
}

std::string AdjointText(const std::string& edge) { return EdgeOrThrow(edge)->Adjoint().ToString(); }

// An edge whose adjoint has no plan must fail in the forward, where all ranks still run alike.
void CheckAdjointHasAPlan(const std::string& edge, c10::SymIntArrayRef sizes) {
  const auto logical = c10::asIntArrayRefSlowOpt(sizes);
  if (!logical) return;
  const Edge adjoint = EdgeOrThrow(edge)->Adjoint();
  const absl::Status status = Plan::Create(adjoint, {logical->begin(), logical->end()}).status();
  ThrowIfError(absl::Status(
      status.code(), "the gradient of " + edge + " has no plan: " + std::string(status.message())));
}

class Boxing : public torch::autograd::Function<Boxing> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList tensors,
                               const std::vector<std::string>& edges, c10::SymIntArrayRef sizes,
                               at::TensorList rows, const std::string& group, bool fan_in) {
    variable_list outputs;
    {
      at::AutoDispatchBelowADInplaceOrView below_autograd;
      outputs = Op(fan_in).call(tensors, edges, sizes, rows, group);
    }
    std::vector<int64_t> differentiable;
    variable_list others;
    std::vector<std::string> adjoint_edges;
    std::vector<c10::SymInt> adjoint_sizes;
    const auto by_tensor = SizesByTensor("boxing", tensors, edges, sizes, rows);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].requires_grad()) {
        others.push_back(outputs[i]);
        continue;
      }
      CheckAdjointHasAPlan(edges[i], by_tensor[i]);
      differentiable.push_back(static_cast<int64_t>(i));
      adjoint_edges.push_back(AdjointText(edges[i]));
      adjoint_sizes.insert(adjoint_sizes.end(), by_tensor[i].begin(), by_tensor[i].end());
    }
    context->mark_non_differentiable(others);
    context->save_for_backward({rows.begin(), rows.end()});
    context->saved_data["tensors"] = static_cast<int64_t>(tensors.size());
    context->saved_data["differentiable"] = differentiable;
    context->saved_data["edges"] = adjoint_edges;
    context->saved_data["sizes"] = c10::SymIntArrayRef(adjoint_sizes);
    context->saved_data["group"] = group;
    context->saved_data["fan_in"] = fan_in;
    return outputs;
  }

  // One adjoint op for all tensors that need a gradient. Outputs nobody used count as zeros: a rank
  // must not leave the others waiting.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& saved = context->saved_data;
    const std::vector<int64_t> differentiable = saved.at("differentiable").toIntVector();
    std::vector<std::string> edges;
    for (const c10::IValue& edge : saved.at("edges").toListRef()) {
      edges.push_back(edge.toStringRef());
    }
    const variable_list rows = context->get_saved_variables();
    std::vector<at::Tensor> arrived;
    arrived.reserve(differentiable.size());
    for (const int64_t i : differentiable) arrived.push_back(gradients[i]);

    const std::vector<at::Tensor> taken_back =
        Op(!saved.at("fan_in").toBool())
            .call(arrived, edges, saved.at("sizes").toSymIntVector(), rows,
                  saved.at("group").toStringRef());

    // One entry for each tensor, for each of the rows and for the other four operands.
    const int64_t num_tensors = saved.at("tensors").toInt();
    variable_list result(num_tensors + rows.size() + 4);
    for (size_t k = 0; k < differentiable.size(); ++k) result[differentiable[k]] = taken_back[k];
    return result;
  }
};

template <bool kFanIn>
std::vector<at::Tensor> Apply(at::TensorList tensors, const std::vector<std::string>& edges,
                              c10::SymIntArrayRef sizes, at::TensorList rows,
                              const std::string& group) {
  return Boxing::apply(tensors, edges, sizes, rows, group, kFanIn);
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_IMPL(mimo, Autograd, m) {
  m.impl("fan_in", &mimo::Apply<true>);
  m.impl("fan_out", &mimo::Apply<false>);
}
