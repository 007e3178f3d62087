#include "kernels/cpu/strided_copy.h"

#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace mimo {
namespace {

TEST(StridedCopyTest, DenseArraysAreOneRun) {
  const StridedCopy copy({4, 5, 6}, {30, 6, 1}, {30, 6, 1}, 2);
  EXPECT_EQ(copy.num_runs(), 1);
  EXPECT_EQ(copy.bytes_per_run(), 4 * 5 * 6 * 2);
}

TEST(StridedCopyTest, ABoxIsARunForEachRow) {
  const StridedCopy copy({4, 5, 6}, {30, 6, 1}, {60, 12, 1}, 4);
  EXPECT_EQ(copy.num_runs(), 20);
  EXPECT_EQ(copy.bytes_per_run(), 24);
}

TEST(StridedCopyTest, EmptyArraysHaveNoRuns) {
  EXPECT_EQ(StridedCopy({4, 0, 6}, {0, 6, 1}, {0, 6, 1}, 4).num_runs(), 0);
  EXPECT_EQ(StridedCopy({}, {}, {}, 4).num_runs(), 1);
}

// Random shapes, strides, orders of dimensions and item sizes against one loop over all elements.
TEST(StridedCopyTest, CopiesWhatALoopOverElementsCopies) {
  std::mt19937 random(5);
  const auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const int dims = static_cast<int>(draw(0, 4));
    const int64_t item_size = (const int64_t[]){1, 2, 3, 4, 8, 16}[draw(0, 5)];
    std::vector<int64_t> extents(dims);
    for (int64_t& extent : extents) extent = draw(draw(0, 9) ? 1 : 0, 5);
    const auto strides = [&](int64_t* elements) {
      std::vector<int> order(dims);
      std::iota(order.begin(), order.end(), 0);
      if (draw(0, 1)) std::shuffle(order.begin(), order.end(), random);
      std::vector<int64_t> result(dims);
      *elements = 1;
      for (int i = dims; i-- > 0;) {
        result[order[i]] = *elements;
        *elements *= extents[order[i]] + draw(0, 1);
      }
      *elements += 1;
      return result;
    };
    int64_t source_elements;
    int64_t destination_elements;
    const std::vector<int64_t> source_strides = strides(&source_elements);
    const std::vector<int64_t> destination_strides = strides(&destination_elements);
    std::vector<uint8_t> source(source_elements * item_size);
    for (uint8_t& byte : source) byte = static_cast<uint8_t>(draw(1, 255));
    std::vector<uint8_t> expected(destination_elements * item_size, 0);
    std::vector<uint8_t> actual = expected;

    std::vector<int64_t> index(dims, 0);
    int64_t elements = 1;
    for (const int64_t extent : extents) elements *= extent;
    for (int64_t e = 0; e < elements; ++e) {
      int64_t from = 0;
      int64_t to = 0;
      for (int64_t d = dims, rest = e; d-- > 0; rest /= extents[d]) {
        from += rest % extents[d] * source_strides[d];
        to += rest % extents[d] * destination_strides[d];
      }
      for (int64_t b = 0; b < item_size; ++b) {
        expected[to * item_size + b] = source[from * item_size + b];
      }
    }
    const StridedCopy copy(extents, source_strides, destination_strides, item_size);
    const int64_t middle = copy.num_runs() / 2;
    copy.Run(source.data(), actual.data(), middle, copy.num_runs());
    copy.Run(source.data(), actual.data(), 0, middle);
    ASSERT_EQ(actual, expected) << "trial " << trial;
  }
}

}  // namespace
}  // namespace mimo
