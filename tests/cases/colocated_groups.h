// Encoder and language model on the same ranks: who gathers together and who holds which rows.
// The cases and their right answers stand in colocated_groups.json.

#ifndef TESTS_CASES_COLOCATED_GROUPS_H_
#define TESTS_CASES_COLOCATED_GROUPS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace mimo {

struct ColocatedCase {
  std::string name;
  // {dp, tp} of each side, dp outside.
  std::pair<int64_t, int64_t> source;
  std::pair<int64_t, int64_t> destination;
  // Who gathers together, in slot order.
  std::vector<std::vector<int64_t>> gather_groups;
  int64_t batch;
  // Rows [first, second) of the batch that each rank holds before and after.
  std::vector<std::pair<int64_t, int64_t>> source_rows;
  std::vector<std::pair<int64_t, int64_t>> destination_rows;

  int64_t num_ranks() const { return source.first * source.second; }

  // The edge with the batch in dimension `dim`.
  std::string EdgeText(int dim) const;
};

std::vector<ColocatedCase> ColocatedCases();

// Names parametrised tests.
std::string ColocatedCaseName(const ::testing::TestParamInfo<ColocatedCase>& info);

}  // namespace mimo

#endif  // TESTS_CASES_COLOCATED_GROUPS_H_
