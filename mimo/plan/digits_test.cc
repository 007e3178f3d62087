#include "mimo/plan/digits.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mimo/layout/text.h"

namespace mimo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DigitRole kInvariant{SbpKind::kInvariant};

DigitRole Split(int dim, int64_t weight) { return {SbpKind::kSplit, dim, weight}; }

absl::StatusOr<std::vector<Digit>> DigitsOf(absl::string_view edge,
                                            const std::vector<int64_t>& sizes) {
  return CommonDigits(ParseEdge(edge).value(), sizes);
}

std::string ErrorOf(absl::string_view edge, const std::vector<int64_t>& sizes) {
  const absl::Status status = DigitsOf(edge, sizes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  return std::string(status.message());
}

TEST(DigitsTest, EachMeshIsCutAtTheOthersStrides) {
  EXPECT_THAT(
      DigitsOf("v{dp:4,tp:2}[S(0),I] -> l{dp:2,tp:4}[S(0),I]", {64, 8}).value(),
      ElementsAre(Digit{2, 1, kInvariant, kInvariant}, Digit{2, 2, Split(0, 16), kInvariant},
                  Digit{2, 4, Split(0, 32), Split(0, 32)}));
}

TEST(DigitsTest, StridesOfPermutedMeshesAreKept) {
  EXPECT_THAT(
      DigitsOf("v{dp:4@2,tp:2@1}[S(0),I] -> l{dp:4@1,tp:2@4}[S(0),I]", {32}).value(),
      ElementsAre(Digit{2, 1, kInvariant, Split(0, 8)}, Digit{2, 2, Split(0, 8), Split(0, 16)},
                  Digit{2, 4, Split(0, 16), kInvariant}));
}

TEST(DigitsTest, MeshesWithGapsShareDigits) {
  EXPECT_THAT(
      DigitsOf("v{dp:2@4,tp:2@1}+3[S(0),I] -> l{x:2@1,y:2@4}+3[I,S(0)]", {4}).value(),
      ElementsAre(Digit{2, 1, kInvariant, kInvariant}, Digit{2, 4, Split(0, 2), Split(0, 2)}));
}

TEST(DigitsTest, AxesOfSizeOneAreNoDigits) {
  EXPECT_THAT(DigitsOf("v{dp:1}[S(0)] -> l{dp:1,tp:1}[S(0),B]", {5}).value(), ElementsAre());
}

TEST(DigitsTest, ErrorsNameWhatDiffers) {
  EXPECT_THAT(ErrorOf("v{dp:3,tp:4}[S(0),I] -> l{dp:4,tp:3}[S(0),I]", {12}),
              HasSubstr("is cut at stride 4 by the other mesh, which 3 does not divide"));
  EXPECT_THAT(ErrorOf("v{dp:4}[S(0)] -> l{dp:2,tp:2}[S(0),I]", {10}),
              HasSubstr("v{dp:4}[S(0)] axis dp of size 4 does not divide the 10 rows of dimension "
                        "0 of [10]"));
  EXPECT_THAT(ErrorOf("v{dp:4}[S(0)] -> l{dp:4}+4[S(0)]", {8}), HasSubstr("not the same ranks"));
  EXPECT_THAT(ErrorOf("v{dp:4}[S(0)] -> l{dp:8}[S(0)]", {8}), HasSubstr("not the same ranks"));
  EXPECT_THAT(ErrorOf("v{dp:4}[S(0;zigzag)] -> l{dp:4}[I]", {8}),
              HasSubstr("axis dp: no plan for S(0;zigzag) yet"));
}

TEST(DigitsTest, SizesThatDoNotFitAreInvalid) {
  EXPECT_EQ(DigitsOf("v{dp:4}[S(1)] -> l{dp:4}[I]", {8}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mimo
