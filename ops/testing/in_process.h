// Ranks as threads of one process, over a c10d backend of our own: wide meshes are cheap in tests.

#ifndef OPS_TESTING_IN_PROCESS_H_
#define OPS_TESTING_IN_PROCESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "torch/csrc/distributed/c10d/ProcessGroup.hpp"

namespace mimo {

class InProcessWorld;

// What one rank's thread sees.
class InProcessRank {
 public:
  InProcessRank(InProcessWorld* world, int64_t rank) : world_(world), rank_(rank) {}

  int64_t rank() const { return rank_; }

  // Makes the group of `ranks`, which must hold this one, registers it for this thread and returns
  // its name. Ranks outside the group need not call.
  std::string Join(const std::vector<int64_t>& ranks);

 private:
  InProcessWorld* world_;
  int64_t rank_;
  // The registry does not own them.
  std::vector<c10::intrusive_ptr<c10d::ProcessGroup>> groups_;
};

// Runs `body` once for each rank in [0, num_ranks), each in a thread of its own. When one throws,
// the others' collectives fail too, and the first error is thrown here. A collective that waits for
// longer than a minute fails.
void RunRanks(int64_t num_ranks, const std::function<void(InProcessRank&)>& body);

}  // namespace mimo

#endif  // OPS_TESTING_IN_PROCESS_H_
