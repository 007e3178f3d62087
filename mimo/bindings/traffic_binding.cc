// torch.ops.mimo.traffic.

#include <tuple>

#include "ops/traffic.h"
#include "torch/library.h"

namespace mimo {
namespace {

std::tuple<int64_t, int64_t, int64_t> Totals() {
  const Traffic traffic = TotalTraffic();
  return {traffic.calls, traffic.nanoseconds, traffic.bytes};
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_FRAGMENT(mimo, m) {
  m.def("traffic() -> (int calls, int nanoseconds, int bytes)", &mimo::Totals);
}
