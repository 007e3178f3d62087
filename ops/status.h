// absl's errors as torch's: InvalidArgument becomes Python's ValueError, Unimplemented its
// NotImplementedError, everything else a RuntimeError.

#ifndef OPS_STATUS_H_
#define OPS_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "c10/util/Exception.h"

namespace mimo {

inline void ThrowIfError(const absl::Status& status) {
  if (status.ok()) return;
  const std::string message(status.message());
  TORCH_CHECK_VALUE(!absl::IsInvalidArgument(status), message);
  TORCH_CHECK_NOT_IMPLEMENTED(!absl::IsUnimplemented(status), message);
  TORCH_CHECK(false, message);
}

template <typename T>
T ValueOrThrow(absl::StatusOr<T> value) {
  ThrowIfError(value.status());
  return *std::move(value);
}

}  // namespace mimo

#endif  // OPS_STATUS_H_
