// What the kernels of the boxing ops read from their operands:
//
//   mimo::fan_in(Tensor[] tensors, str[] edges, SymInt[] sizes, Tensor[] rows, str group)
//     -> Tensor[]
//   mimo::fan_out(the same) -> Tensor[]
//
// - tensors: what this rank holds of the logical tensors of one border, all on one device.
// - edges: the text of each tensor's edge.
// - sizes: the logical sizes of each tensor, one tensor's behind the other's.
// - rows: rows known only at run time, for split rules that need them; none does yet.
// - group: the name (ops/group.h) of the group that gathers: for fan_out its backward's.
//
// fan_in carries out all-gathers, fan_out slices; both take identities (a group of one). The
// results are fresh contiguous tensors.

#ifndef OPS_BOXING_OPERANDS_H_
#define OPS_BOXING_OPERANDS_H_

#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/SymIntArrayRef.h"
#include "mimo/plan/rank_plan.h"

namespace mimo {

// The C++ type of the boxing ops: tensors, edges, logical sizes, rows, group -> outputs.
using BoxingSignature = std::vector<at::Tensor>(at::TensorList, const std::vector<std::string>&,
                                                c10::SymIntArrayRef, at::TensorList,
                                                const std::string&);

// The part of `sizes` that belongs to each tensor. Throws, in the name of `op`, unless there is one
// edge and one size for each dimension of each tensor, one device and no rows.
std::vector<c10::SymIntArrayRef> SizesByTensor(const char* op, at::TensorList tensors,
                                               const std::vector<std::string>& edges,
                                               c10::SymIntArrayRef sizes, at::TensorList rows);

// Each tensor's plan on `rank`. Throws as SizesByTensor, and where there is no plan, where it is
// neither of `kind` nor an identity, where `group` (ascending global ranks) is not the plan's, or
// where a tensor has not the shape of the rank's part.
std::vector<std::shared_ptr<const RankPlan>> PlansByTensor(
    const char* op, PlanKind kind, at::TensorList tensors, const std::vector<std::string>& edges,
    c10::SymIntArrayRef sizes, at::TensorList rows, const std::vector<int64_t>& group,
    int64_t rank);

// The parsed edge, or throws. Hold the pointer while you use it.
std::shared_ptr<const ParsedEdge> EdgeOrThrow(const std::string& text);

// Throws, in the name of `op`, unless a plan is of `kind` or an identity.
void CheckKind(const char* op, PlanKind kind, PlanKind planned, const std::string& edge,
               at::IntArrayRef sizes);

}  // namespace mimo

#endif  // OPS_BOXING_OPERANDS_H_
