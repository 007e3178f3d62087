// The common numbering of two meshes: what changes on the way from one layout to another.

#ifndef MIMO_PLAN_DIGITS_H_
#define MIMO_PLAN_DIGITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mimo/layout/layout.h"

namespace mimo {

// What one digit of a rank's number does in one layout. For a split, a step of the digit moves a
// rank's part by `weight` rows of dimension `dim`; both are 0 for the other kinds.
struct DigitRole {
  SbpKind kind;
  int dim = 0;
  int64_t weight = 0;

  friend bool operator==(const DigitRole&, const DigitRole&) = default;
};

// "I", or "S(0) by 4 rows".
std::string DigitRoleToString(const DigitRole& role);

// One digit: ranks that differ in it alone lie `stride` apart.
struct Digit {
  int64_t size;
  int64_t stride;
  DigitRole source;
  DigitRole destination;

  friend bool operator==(const Digit&, const Digit&) = default;
};

// Both layouts of the edge in the same mixed-radix digits, fastest first, found without looking at
// any rank: each mesh is cut at every stride of the other, so that
//
//   {dp:8}[S(0)] -> {dp:2,tp:4}[S(0),I]   over 16 rows gives
//   digit of size 4, stride 1: S(0) by 2 rows -> I
//   digit of size 2, stride 4: S(0) by 8 rows -> S(0) by 8 rows.
//
// Unimplemented, with the axes and values that differ, where there are no such digits: the ranks
// are not the same, the cuts do not divide, a dimension is not divided evenly, or a split rule's
// parts are not one interval known now. InvalidArgument where a layout's CheckSizes fails.
absl::StatusOr<std::vector<Digit>> CommonDigits(const Edge& edge, absl::Span<const int64_t> sizes);

}  // namespace mimo

#endif  // MIMO_PLAN_DIGITS_H_
