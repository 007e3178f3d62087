#include "mimo/layout/box.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mimo/layout/text.h"

namespace mimo {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> Boxes(absl::string_view text, const std::vector<int64_t>& sizes) {
  const Layout layout = ParseLayout(text).value();
  std::vector<std::string> boxes;
  for (const int64_t rank : layout.mesh().Ranks()) {
    boxes.push_back(BoxToString(LocalBox(layout, sizes, rank).value()));
  }
  return boxes;
}

using Strings = std::vector<std::string>;

TEST(BoxTest, ChunkIsTorchChunk) {
  EXPECT_EQ(Boxes("m{dp:4}[S(0)]", {10}), (Strings{"[0,3)", "[3,6)", "[6,9)", "[9,10)"}));
  EXPECT_EQ(Boxes("m{dp:4}[S(0)]", {5}), (Strings{"[0,2)", "[2,4)", "[4,5)", "[5,5)"}));
  EXPECT_EQ(Boxes("m{dp:3}[S(0)]", {0}), (Strings{"[0,0)", "[0,0)", "[0,0)"}));
}

TEST(BoxTest, BalancedGivesTheFirstPartsOneMore) {
  EXPECT_EQ(Boxes("m{dp:4}[S(0;balanced)]", {10}), (Strings{"[0,3)", "[3,6)", "[6,8)", "[8,10)"}));
}

TEST(BoxTest, SplitsOfOneDimensionNestLeftToRight) {
  EXPECT_EQ(Boxes("m{a:2@1,b:2@2}[S(0),S(0)]", {8}), (Strings{"[0,2)", "[2,4)", "[4,6)", "[6,8)"}));
  EXPECT_EQ(Boxes("m{a:2@1,b:2@2}+4[S(0),S(1)]", {8, 6}),
            (Strings{"[0,4)x[0,3)", "[0,4)x[3,6)", "[4,8)x[0,3)", "[4,8)x[3,6)"}));
}

TEST(BoxTest, PartsOfTheLargestSizesDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Layout layout = ParseLayout("m{a:4}[S(0)]").value();
  constexpr int64_t kPart = kMost / 4 + 1;
  EXPECT_EQ(LocalBox(layout, {kMost}, 0).value(), (Box{{0, kPart}}));
  EXPECT_EQ(LocalBox(layout, {kMost}, 3).value(), (Box{{3 * kPart, kMost}}));
}

TEST(BoxTest, EverythingButSplitsHoldsTheWhole) {
  EXPECT_EQ(Boxes("m{a:3}[P]", {4, 2}), (Strings(3, "[0,4)x[0,2)")));
}

TEST(BoxTest, ErrorsNameTheLayoutAndTheValues) {
  const Layout layout = ParseLayout("m{a:2}[S(1)]").value();
  EXPECT_THAT(std::string(LocalBox(layout, {4}, 0).status().message()),
              HasSubstr("m{a:2}[S(1)] splits dimension 1 of a tensor of logical sizes [4]"));
  EXPECT_THAT(std::string(LocalBox(layout, {4, -1}, 0).status().message()),
              HasSubstr("negative logical size"));
  EXPECT_THAT(
      std::string(LocalBox(layout, {0, int64_t{1} << 32, int64_t{1} << 31}, 0).status().message()),
      HasSubstr("[0,4294967296,2147483648] multiply to more than 2^63 - 1"));
  EXPECT_THAT(std::string(LocalBox(layout, {4, 4}, 2).status().message()),
              HasSubstr("rank 2 is not in m{a:2}"));
  const Layout zigzag = ParseLayout("m{a:2}[S(0;zigzag)]").value();
  EXPECT_EQ(LocalBox(zigzag, {4}, 0).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mimo
