// What one mesh axis does with a logical tensor.

#ifndef MIMO_LAYOUT_SBP_H_
#define MIMO_LAYOUT_SBP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mimo {

enum class SbpKind {
  kSplit,      // S(d): each rank holds its part of dimension d
  kInvariant,  // I: each rank holds the whole and uses it identically; gradients arrive identical
  kBroadcast,  // B: each rank holds the whole for a purpose of its own; gradients arrive partial
  kPartial,    // P: the ranks' values add up to the whole
};

// How a split cuts a dimension of L rows into n parts.
enum class SplitRule {
  kChunk,     // ceil(L / n) rows a part until none are left, as torch.chunk
  kBalanced,  // L / n rows a part, the first L mod n parts one more
  kZigzag,    // 2n chunks, part i holds chunks i and 2n - 1 - i (context parallel)
  kRagged,    // contiguous, the rows of each part known at run time
  kAssigned,  // intervals of rows and the part that owns each, known at run time
};

// The name of a rule in the text form, e.g. "zigzag".
absl::string_view SplitRuleName(SplitRule rule);

// One mesh axis's entry. `dim` and `rule` belong to splits and are 0 and kChunk elsewhere.
struct Sbp {
  SbpKind kind;
  int dim = 0;
  SplitRule rule = SplitRule::kChunk;

  static Sbp Split(int dim, SplitRule rule = SplitRule::kChunk) {
    return {SbpKind::kSplit, dim, rule};
  }
  static Sbp Invariant() { return {SbpKind::kInvariant}; }
  static Sbp Broadcast() { return {SbpKind::kBroadcast}; }
  static Sbp Partial() { return {SbpKind::kPartial}; }

  bool is_split() const { return kind == SbpKind::kSplit; }

  // The entry of the gradient: B and P are each other's dual, S and I their own.
  Sbp Dual() const;

  // "S(0)", "S(1;zigzag)", "I", "B" or "P".
  std::string ToString() const;

  friend bool operator==(const Sbp&, const Sbp&) = default;
};

}  // namespace mimo

#endif  // MIMO_LAYOUT_SBP_H_
