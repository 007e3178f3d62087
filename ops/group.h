// The process group of a boxing op and the global ranks in it.
//
// torch names its groups with counters, which differ between ranks and runs and must not enter a
// traced graph. Ours are named after their ranks: "mimo:0,2". Whoever makes a group registers it
// with c10d under that name; its members are numbered by ascending rank.

#ifndef OPS_GROUP_H_
#define OPS_GROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "torch/csrc/distributed/c10d/ProcessGroup.hpp"

namespace mimo {

// The name of the group of these ranks, given in any order.
std::string GroupName(absl::Span<const int64_t> ranks);

// The ranks in a group's name, ascending. InvalidArgument for any other text.
absl::StatusOr<std::vector<int64_t>> GroupRanks(absl::string_view name);

struct Group {
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  // Global ranks, ascending: position k is the process group's rank k.
  std::vector<int64_t> ranks;
  // This process's global rank.
  int64_t rank;
};

// The group registered under `name`. Throws if there is none or if its size is not the name's.
Group ResolveGroup(const std::string& name);

}  // namespace mimo

#endif  // OPS_GROUP_H_
