// A boxing op called by name, with sizes that are known.

#ifndef OPS_TESTING_CALL_OP_H_
#define OPS_TESTING_CALL_OP_H_

#include <string>
#include <vector>

#include "ATen/core/dispatch/Dispatcher.h"
#include "ops/boxing_operands.h"

namespace mimo {

// - name: "mimo::fan_in" or "mimo::fan_out".
// - The others as in ops/boxing_operands.h.
inline std::vector<at::Tensor> CallOp(const std::string& name,
                                      const std::vector<at::Tensor>& tensors,
                                      const std::vector<std::string>& edges,
                                      const std::vector<int64_t>& sizes, const std::string& group) {
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").typed<BoxingSignature>();
  const std::vector<c10::SymInt> symbolic(sizes.begin(), sizes.end());
  return op.call(tensors, edges, symbolic, {}, group);
}

}  // namespace mimo

#endif  // OPS_TESTING_CALL_OP_H_
