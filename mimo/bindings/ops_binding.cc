// What Python asks of the ops beside calling them: the names of groups, traffic totals.

#include <string>
#include <tuple>

#include "ops/group.h"
#include "ops/traffic.h"
#include "torch/library.h"

namespace mimo {
namespace {

std::string NameOf(at::IntArrayRef ranks) { return GroupName({ranks.data(), ranks.size()}); }

std::tuple<int64_t, int64_t, int64_t> Totals() {
  const Traffic traffic = TotalTraffic();
  return {traffic.calls, traffic.nanoseconds, traffic.bytes};
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_FRAGMENT(mimo, m) {
  m.def("group_name(int[] ranks) -> str", &mimo::NameOf);
  m.def("traffic() -> (int calls, int nanoseconds, int bytes)", &mimo::Totals);
}
