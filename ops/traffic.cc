#include "ops/traffic.h"

#include <atomic>

namespace mimo {
namespace {

std::atomic<int64_t> calls{0};
std::atomic<int64_t> nanoseconds{0};
std::atomic<int64_t> received{0};

}  // namespace

Traffic TotalTraffic() { return {calls, nanoseconds, received}; }

TrafficTimer::~TrafficTimer() {
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  ++calls;
  nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  received += bytes_;
}

}  // namespace mimo
