#include "ops/group.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "mimo/layout/quoted.h"
#include "ops/status.h"
#include "torch/csrc/distributed/c10d/GroupRegistry.hpp"

namespace mimo {
namespace {

constexpr absl::string_view kPrefix = "mimo:";

}  // namespace

std::string GroupName(absl::Span<const int64_t> ranks) {
  std::vector<int64_t> ascending(ranks.begin(), ranks.end());
  std::sort(ascending.begin(), ascending.end());
  return absl::StrCat(kPrefix, absl::StrJoin(ascending, ","));
}

absl::StatusOr<std::vector<int64_t>> GroupRanks(absl::string_view name) {
  const auto error = [name] {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(name),
        " is no name of a mimo group: \"mimo:\" and ascending ranks, as in \"mimo:0,2\""));
  };
  absl::string_view text = name;
  if (!absl::ConsumePrefix(&text, kPrefix)) return error();
  std::vector<int64_t> ranks;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    int64_t rank;
    if (!absl::SimpleAtoi(word, &rank) || rank < 0) return error();
    if (!ranks.empty() && rank <= ranks.back()) return error();
    ranks.push_back(rank);
  }
  return ranks;
}

Group ResolveGroup(const std::string& name) {
  Group group;
  group.ranks = ValueOrThrow(GroupRanks(name));
  try {
    group.process_group = c10d::resolve_process_group(name);
  } catch (const c10::Error&) {
    TORCH_CHECK(false, "there is no group ", name,
                ": it is made by mimo.attach and gone after mimo.destroy");
  }
  const int size = group.process_group->getSize();
  TORCH_CHECK_VALUE(size == static_cast<int>(group.ranks.size()), "the group called ", name,
                    " has ", size, " members, its name ", group.ranks.size());
  group.rank = group.ranks[group.process_group->getRank()];
  return group;
}

}  // namespace mimo
