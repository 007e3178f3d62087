#include "ops/testing/in_process.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "ops/group.h"
#include "torch/csrc/distributed/c10d/GroupRegistry.hpp"
#include "torch/csrc/distributed/c10d/HashStore.hpp"

namespace mimo {

// What all threads share: the groups' meeting points and whether a rank has failed.
class InProcessWorld {
 public:
  // One group's members lay their buffers out here and read each other's between two meetings.
  struct Meeting {
    std::vector<at::Tensor> inputs;
    int64_t arrived = 0;
    int64_t round = 0;
  };

  Meeting& MeetingOf(const std::string& group, size_t members) {
    const std::lock_guard lock(mutex_);
    Meeting& meeting = meetings_[group];
    meeting.inputs.resize(members);
    return meeting;
  }

  // Returns once all members of the meeting have called.
  void Meet(Meeting& meeting) {
    std::unique_lock lock(mutex_);
    const int64_t round = meeting.round;
    if (++meeting.arrived == static_cast<int64_t>(meeting.inputs.size())) {
      meeting.arrived = 0;
      ++meeting.round;
      changed_.notify_all();
      return;
    }
    const bool met = changed_.wait_for(lock, std::chrono::minutes(1),
                                       [&] { return meeting.round != round || failed_; });
    TORCH_CHECK(met, "a rank waited for a minute");
    TORCH_CHECK(meeting.round != round, "another rank failed");
  }

  void Fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }

  void ThrowIfFailed() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Meeting> meetings_;
  bool failed_ = false;
  std::exception_ptr error_;
};

namespace {

class DoneWork : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

class InProcessBackend : public c10d::Backend {
 public:
  InProcessBackend(InProcessWorld* world, InProcessWorld::Meeting* meeting, int rank, int size)
      : Backend(rank, size), world_(world), meeting_(meeting) {}

  const std::string getBackendName() const override { return "in-process"; }

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    meeting_->inputs[getRank()] = input;
    world_->Meet(*meeting_);
    auto* bytes = static_cast<std::byte*>(output.data_ptr());
    for (const at::Tensor& part : meeting_->inputs) {
      std::memcpy(bytes, part.const_data_ptr(), part.nbytes());
      bytes += part.nbytes();
    }
    world_->Meet(*meeting_);
    return c10::make_intrusive<DoneWork>();
  }

 private:
  InProcessWorld* world_;
  InProcessWorld::Meeting* meeting_;
};

}  // namespace

std::string InProcessRank::Join(const std::vector<int64_t>& ranks) {
  const std::string name = GroupName(ranks);
  const std::vector<int64_t> ascending = GroupRanks(name).value();
  const auto size = static_cast<int>(ascending.size());
  const auto index =
      static_cast<int>(std::find(ascending.begin(), ascending.end(), rank_) - ascending.begin());
  TORCH_CHECK(index < size, "rank ", rank_, " is not in ", name);
  auto backend = c10::make_intrusive<InProcessBackend>(
      world_, &world_->MeetingOf(name, ascending.size()), index, size);
  auto group =
      c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), index, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  group->setGroupName(name);
  c10d::register_process_group(name, group);
  groups_.push_back(std::move(group));
  return name;
}

void RunRanks(int64_t num_ranks, const std::function<void(InProcessRank&)>& body) {
  InProcessWorld world;
  // A registry of groups for each thread: all ranks use the same names.
  c10d::set_thread_isolation_mode(true);
  std::vector<std::thread> threads;
  threads.reserve(num_ranks);
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&world, &body, rank] {
      try {
        InProcessRank self(&world, rank);
        body(self);
      } catch (...) {
        world.Fail(std::current_exception());
      }
      c10d::unregister_all_process_groups();
    });
  }
  for (std::thread& thread : threads) thread.join();
  c10d::set_thread_isolation_mode(false);
  world.ThrowIfFailed();
}

}  // namespace mimo
