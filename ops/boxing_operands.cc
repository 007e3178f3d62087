#include "ops/boxing_operands.h"

#include "ops/status.h"

namespace mimo {

std::vector<c10::SymIntArrayRef> SizesByTensor(const char* op, at::TensorList tensors,
                                               const std::vector<std::string>& edges,
                                               c10::SymIntArrayRef sizes, at::TensorList rows) {
  TORCH_CHECK_VALUE(tensors.size() == edges.size(), op, ": ", tensors.size(), " tensors but ",
                    edges.size(), " edges");
  TORCH_CHECK_VALUE(rows.empty(), op, ": ", rows.size(),
                    " run-time rows, but no edge here has a split rule that takes them");
  std::vector<c10::SymIntArrayRef> by_tensor;
  by_tensor.reserve(tensors.size());
  size_t first = 0;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(tensor.device() == tensors[0].device(), op, ": tensors on ",
                      tensors[0].device(), " and on ", tensor.device(),
                      ": those of one border lie on one device");
    const size_t dims = tensor.dim();
    if (first + dims <= sizes.size()) by_tensor.push_back(sizes.slice(first, dims));
    first += dims;
  }
  TORCH_CHECK_VALUE(first == sizes.size(), op, ": the tensors have ", first,
                    " dimensions together, but there are ", sizes.size(), " logical sizes");
  return by_tensor;
}

std::vector<std::shared_ptr<const RankPlan>> PlansByTensor(
    const char* op, PlanKind kind, at::TensorList tensors, const std::vector<std::string>& edges,
    c10::SymIntArrayRef sizes, at::TensorList rows, const std::vector<int64_t>& group,
    int64_t rank) {
  const auto by_tensor = SizesByTensor(op, tensors, edges, sizes, rows);
  std::vector<std::shared_ptr<const RankPlan>> plans;
  plans.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::IntArrayRef logical = C10_AS_INTARRAYREF_SLOW(by_tensor[i]);
    plans.push_back(ValueOrThrow(CachedRankPlan(edges[i], {logical.data(), logical.size()}, rank)));
    const RankPlan& plan = *plans.back();
    CheckKind(op, kind, plan.kind, edges[i], logical);
    TORCH_CHECK_VALUE(plan.kind == PlanKind::kIdentity || plan.group == group, op, ": ", edges[i],
                      " of ", logical, " needs the group of ranks ", at::IntArrayRef(plan.group),
                      " on rank ", rank, ", not of ", at::IntArrayRef(group));
    TORCH_CHECK_VALUE(tensors[i].sizes() == at::IntArrayRef(plan.source_shape), op, ": ", edges[i],
                      " of ", logical, " puts ", at::IntArrayRef(plan.source_shape), " on rank ",
                      rank, ", but the tensor there has ", tensors[i].sizes());
  }
  return plans;
}

std::shared_ptr<const ParsedEdge> EdgeOrThrow(const std::string& text) {
  return ValueOrThrow(CachedEdge(text));
}

void CheckKind(const char* op, PlanKind kind, PlanKind planned, const std::string& edge,
               at::IntArrayRef sizes) {
  TORCH_CHECK_VALUE(planned == kind || planned == PlanKind::kIdentity, op, ": ", edge, " of ",
                    sizes, " is a plan of kind ", PlanKindName(planned), ", this op carries out ",
                    PlanKindName(kind));
}

}  // namespace mimo
