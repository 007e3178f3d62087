#include "mimo/layout/sbp.h"

#include "absl/strings/str_cat.h"

namespace mimo {

absl::string_view SplitRuleName(SplitRule rule) {
  switch (rule) {
    case SplitRule::kChunk:
      return "chunk";
    case SplitRule::kBalanced:
      return "balanced";
    case SplitRule::kZigzag:
      return "zigzag";
    case SplitRule::kRagged:
      return "ragged";
    case SplitRule::kAssigned:
      return "assigned";
  }
  return "";
}

Sbp Sbp::Dual() const {
  if (kind == SbpKind::kBroadcast) return Partial();
  if (kind == SbpKind::kPartial) return Broadcast();
  return *this;
}

std::string Sbp::ToString() const {
  switch (kind) {
    case SbpKind::kSplit:
      if (rule == SplitRule::kChunk) return absl::StrCat("S(", dim, ")");
      return absl::StrCat("S(", dim, ";", SplitRuleName(rule), ")");
    case SbpKind::kInvariant:
      return "I";
    case SbpKind::kBroadcast:
      return "B";
    case SbpKind::kPartial:
      return "P";
  }
  return "";
}

}  // namespace mimo
