// Gradients of the boxing ops: the op of the adjoint edges, with the same operands.

#include <string>
#include <utility>
#include <vector>

#include "ATen/core/LegacyTypeDispatch.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

// The op's operands whose gradient is wanted, and their way back.
struct Gradients {
  std::vector<int64_t> tensors;
  std::vector<std::string> edges;
  std::vector<c10::SymInt> sizes;
};

// An edge whose adjoint has no plan must fail before anything is sent, where all ranks still run
// alike. Symbolic sizes are planned when the program runs.
Gradients PlanGradients(const char* op, at::TensorList tensors,
                        const std::vector<std::string>& edges, c10::SymIntArrayRef sizes,
                        at::TensorList rows) {
  Gradients gradients;
  const auto by_tensor = SizesByTensor(op, tensors, edges, sizes, rows);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].requires_grad()) continue;
    const auto parsed = EdgeOrThrow(edges[i]);
    if (const auto logical = c10::asIntArrayRefSlowOpt(by_tensor[i])) {
      const absl::Status status =
          CachedPlan(parsed->adjoint, {logical->data(), logical->size()}).status();
      if (!status.ok()) {
        ThrowIfError(absl::Status(status.code(), absl::StrCat(op, ": the gradient of ", edges[i],
                                                              " has no plan: ", status.message())));
      }
    }
    gradients.tensors.push_back(static_cast<int64_t>(i));
    gradients.edges.push_back(parsed->adjoint);
    gradients.sizes.insert(gradients.sizes.end(), by_tensor[i].begin(), by_tensor[i].end());
  }
  return gradients;
}

class Boxing : public torch::autograd::Function<Boxing> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList tensors,
                               const std::vector<std::string>& edges, c10::SymIntArrayRef sizes,
                               at::TensorList rows, const std::string& group,
                               const Gradients& gradients, bool fan_in) {
    variable_list outputs;
    {
      at::AutoDispatchBelowADInplaceOrView below_autograd;
      outputs = Op(fan_in).call(tensors, edges, sizes, rows, group);
    }
    variable_list others;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].requires_grad()) others.push_back(outputs[i]);
    }
    context->mark_non_differentiable(others);
    context->save_for_backward({rows.begin(), rows.end()});
    context->saved_data["tensors"] = static_cast<int64_t>(tensors.size());
    context->saved_data["differentiable"] = gradients.tensors;
    context->saved_data["edges"] = gradients.edges;
    context->saved_data["sizes"] = c10::SymIntArrayRef(gradients.sizes);
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

    // One entry for each tensor, for each of the rows and for the other five arguments of forward.
    const int64_t num_tensors = saved.at("tensors").toInt();
    variable_list result(num_tensors + rows.size() + 5);
    for (size_t k = 0; k < differentiable.size(); ++k) result[differentiable[k]] = taken_back[k];
    return result;
  }
};

template <bool kFanIn>
std::vector<at::Tensor> Apply(at::TensorList tensors, const std::vector<std::string>& edges,
                              c10::SymIntArrayRef sizes, at::TensorList rows,
                              const std::string& group) {
  if (at::GradMode::is_enabled()) {
    const char* op = kFanIn ? "mimo::fan_in" : "mimo::fan_out";
    const Gradients gradients = PlanGradients(op, tensors, edges, sizes, rows);
    if (!gradients.tensors.empty()) {
      return Boxing::apply(tensors, edges, sizes, rows, group, gradients, kFanIn);
    }
  }
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  return Op(kFanIn).call(tensors, edges, sizes, rows, group);
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_IMPL(mimo, Autograd, m) {
  m.impl("fan_in", &mimo::Apply<true>);
  m.impl("fan_out", &mimo::Apply<false>);
}
