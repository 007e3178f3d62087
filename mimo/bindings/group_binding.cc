// torch.ops.mimo.group_name.

#include <string>

#include "ops/group.h"
#include "torch/library.h"

namespace mimo {
namespace {

std::string NameOf(at::IntArrayRef ranks) { return GroupName({ranks.data(), ranks.size()}); }

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_FRAGMENT(mimo, m) { m.def("group_name(int[] ranks) -> str", &mimo::NameOf); }
