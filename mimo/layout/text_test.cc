#include "mimo/layout/text.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mimo {
namespace {

using ::testing::HasSubstr;

std::string Canonical(absl::string_view text) { return ParseEdge(text).value().ToString(); }

std::string ErrorOf(absl::string_view text) {
  const absl::StatusOr<Edge> edge = ParseEdge(text);
  EXPECT_EQ(edge.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(edge.status().message());
}

TEST(TextTest, CanonicalTextRoundTripsExactly) {
  for (const char* text : {
           "vision{dp:4,tp:2}[S(0),I] -> language{dp:2,tp:4}[S(0),I]",
           "vision{dp:4@1,tp:2@4}[S(0),B] -> language{dp:2,cp:2,tp:2}+8[S(0),S(1;zigzag),P]",
           "a_1.b{x:1}[S(63;balanced)] -> c{y:2}[S(0;ragged)]",
           "a{x:2}[S(0;assigned)] -> a{x:2}[B]",
       }) {
    EXPECT_EQ(Canonical(text), text);
  }
}

TEST(TextTest, DefaultsAndSpacesAreLeftOut) {
  EXPECT_EQ(Canonical(" vision { dp : 4 @ 2 , tp:2@1 } + 0 [ S( 0 ; chunk ) , I ]->b{dp:1@8,tp:8@1}"
                      "[S(0),I] "),
            "vision{dp:4,tp:2}[S(0),I] -> b{dp:1,tp:8}[S(0),I]");
}

TEST(TextTest, NamedEntriesComeInAnyOrder) {
  EXPECT_EQ(Canonical("v{dp:4,tp:2}[tp=I,dp=S(0)] -> l{dp:8}[dp=S(0)]"),
            "v{dp:4,tp:2}[S(0),I] -> l{dp:8}[S(0)]");
}

TEST(TextTest, ErrorsGiveThePositionAndWhatWasExpected) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("at 0 of \"\": expected a placement name, found the end"));
  EXPECT_THAT(ErrorOf("v{dp:4}[S(0)]"), HasSubstr("at 13 of"));
  EXPECT_THAT(ErrorOf("v{dp:4}[S(0)]"), HasSubstr("expected '->', found the end"));
  EXPECT_THAT(ErrorOf("v{dp:x}[I] -> l{dp:2}[I]"), HasSubstr("at 5 of"));
  EXPECT_THAT(ErrorOf("v{dp:x}[I] -> l{dp:2}[I]"), HasSubstr("expected a size, found \"x\""));
  EXPECT_THAT(ErrorOf("v{dp:2}[Q] -> l{dp:2}[I]"), HasSubstr("at 8 of"));
  EXPECT_THAT(ErrorOf("v{dp:2}[Q] -> l{dp:2}[I]"), HasSubstr("expected S(dim), I, B or P"));
  EXPECT_THAT(ErrorOf("v{dp:2}[S] -> l{dp:2}[I]"), HasSubstr("expected '(' and a dimension"));
  EXPECT_THAT(ErrorOf("v{dp:2}[S(0;zig)] -> l{dp:2}[I]"), HasSubstr("expected chunk, balanced"));
  EXPECT_THAT(ErrorOf("v{dp:2}[I] -> l{dp:2}[I] x"), HasSubstr("at 25 of"));
  EXPECT_THAT(ErrorOf("v{dp:2@0}[I] -> l{dp:2}[I]"), HasSubstr("a stride of at least 1"));
  EXPECT_THAT(ErrorOf("v{dp:99999999999999999999}[I] -> l{dp:2}[I]"),
              HasSubstr("expected a size below 2^63"));
}

TEST(TextTest, ErrorsCountAndShowWholeCharacters) {
  EXPECT_THAT(ErrorOf("v{dp:2}[é] -> l"),
              HasSubstr("at 8 of \"v{dp:2}[é] -> l\": expected S(dim)"));
  EXPECT_THAT(ErrorOf("v{dp:2}[é] -> l"), HasSubstr("found \"é\""));
  EXPECT_THAT(ErrorOf("v{dp:2}[I] ü"), HasSubstr("at 11 of"));
  EXPECT_THAT(ErrorOf("v{é:2}[I] ü"), HasSubstr("at 2 of"));
  EXPECT_THAT(ErrorOf("v{dp:2}[I]é ü"), HasSubstr("found \"é\""));
  // A control character neither ends the message nor leaves its line.
  EXPECT_THAT(ErrorOf(absl::string_view("v{dp:2\0}", 8)),
              HasSubstr("of \"v{dp:2\\000}\": expected ',' or '}', found \"\\000\""));
}

TEST(TextTest, ErrorsOfValuesNameThePlacement) {
  EXPECT_THAT(ErrorOf("vision{dp:0}[I] -> l{dp:2}[I]"), HasSubstr("vision: axis dp has size 0"));
  EXPECT_THAT(ErrorOf("v{dp:2,tp:2}[dp=I] -> l{dp:2}[I]"), HasSubstr("v: no sbp for axis tp"));
  EXPECT_THAT(ErrorOf("v{dp:2}[cp=I] -> l{dp:2}[I]"), HasSubstr("axis cp which is not in {dp:2}"));
  EXPECT_THAT(ErrorOf("v{dp:2,tp:2}[dp=I,dp=I] -> l{dp:2}[I]"),
              HasSubstr("axis dp is given twice"));
  EXPECT_THAT(ErrorOf("v{dp:2,tp:2}[dp=I,B] -> l{dp:2}[I]"), HasSubstr("1 of 2 are named"));
  EXPECT_THAT(ErrorOf("v{dp:2,tp:2}[I] -> l{dp:2}[I]"), HasSubstr("2 axes {dp:2,tp:2} but 1"));
}

TEST(TextTest, PrintedTextOfRandomEdgesParsesToAnEqualEdge) {
  std::mt19937 random(1);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  const auto layout = [&] {
    std::vector<Axis> axes;
    std::vector<Sbp> sbp;
    for (int i = draw(3); i >= 0; --i) {
      axes.push_back({absl::StrCat("a", i), 1 + draw(3)});
      switch (draw(3)) {
        case 0:
          sbp.push_back(Sbp::Split(draw(2), static_cast<SplitRule>(draw(4))));
          break;
        case 1:
          sbp.push_back(Sbp::Invariant());
          break;
        case 2:
          sbp.push_back(Sbp::Broadcast());
          break;
        default:
          sbp.push_back(Sbp::Partial());
      }
    }
    std::shuffle(axes.begin(), axes.end(), random);
    int64_t stride = 1 + draw(1);
    for (Axis& axis : axes) {
      axis.stride = stride;
      stride *= axis.size;
    }
    std::shuffle(axes.begin(), axes.end(), random);
    return Layout::Create("m", Mesh::Create(axes, draw(9)).value(), sbp).value();
  };
  for (int i = 0; i < 2000; ++i) {
    const Edge edge{layout(), layout()};
    const std::string text = edge.ToString();
    const absl::StatusOr<Edge> parsed = ParseEdge(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, edge) << text;
    EXPECT_EQ(parsed->ToString(), text);
  }
}

}  // namespace
}  // namespace mimo
