// How long this process spent in borders, and how much it received there.

#ifndef OPS_TRAFFIC_H_
#define OPS_TRAFFIC_H_

#include <chrono>
#include <cstdint>

namespace mimo {

struct Traffic {
  int64_t calls = 0;
  // Wall-clock time of the calling threads, waiting for peers included.
  int64_t nanoseconds = 0;
  // Bytes received from other ranks.
  int64_t bytes = 0;
};

// Totals since the library was loaded, forward and backward, over all threads.
Traffic TotalTraffic();

// Adds one call to the totals when it goes out of scope.
class TrafficTimer {
 public:
  TrafficTimer() : start_(std::chrono::steady_clock::now()) {}
  ~TrafficTimer();
  TrafficTimer(const TrafficTimer&) = delete;
  TrafficTimer& operator=(const TrafficTimer&) = delete;

  void AddBytes(int64_t bytes) { bytes_ += bytes; }

 private:
  std::chrono::steady_clock::time_point start_;
  int64_t bytes_ = 0;
};

}  // namespace mimo

#endif  // OPS_TRAFFIC_H_
