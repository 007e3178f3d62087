#include "mimo/layout/layout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mimo/layout/text.h"

namespace mimo {
namespace {

using ::testing::HasSubstr;

Layout L(absl::string_view text) { return ParseLayout(text).value(); }

TEST(LayoutTest, DualSwapsBroadcastAndPartialAndKeepsSplitAndInvariant) {
  EXPECT_EQ(L("m{a:2,b:2,c:2,d:2}[S(1),I,B,P]").Dual().ToString(),
            "m{a:2,b:2,c:2,d:2}[S(1),I,P,B]");
}

TEST(LayoutTest, AdjointTurnsTheEdgeRound) {
  const Edge edge{L("vision{dp:4}[S(0)]"), L("language{dp:2,tp:2}[S(0),B]")};
  EXPECT_EQ(edge.Adjoint().ToString(), "language{dp:2,tp:2}[S(0),P] -> vision{dp:4}[S(0)]");
  EXPECT_EQ(edge.Adjoint().Adjoint(), edge);
}

TEST(LayoutTest, PartsMultiplyOverNestedSplits) {
  const Layout layout = L("m{dp:2,tp:4,cp:3}[S(0),I,S(0)]");
  EXPECT_EQ(layout.NumParts(0), 6);
  EXPECT_EQ(layout.NumParts(1), 1);
  EXPECT_EQ(layout.MinimumDims(), 1);
}

TEST(LayoutTest, EqualityIsOnMeaning) {
  EXPECT_EQ(L("a{dp:4@2,tp:2@1}[S(0),I]"), L("b{data:4,tensor:2}[S(0),I]"));
  EXPECT_EQ(L("m{dp:4@2,tp:2@1}[S(0),I]"), L("m{tp:2@1,dp:4@2}[I,S(0)]"));
  EXPECT_EQ(L("m{dp:4,tp:1}[S(0),I]"), L("m{dp:4}[S(0)]"));
  EXPECT_EQ(L("m{dp:2,cp:2@2,tp:2@1}[S(0),I,S(1)]"), L("m{cp:2@2,tp:2@1,dp:2@4}[I,S(1),S(0)]"));
}

TEST(LayoutTest, OneSetOfReplicasIsTheSameHoweverItsAxesAreCut) {
  EXPECT_EQ(L("m{a:2,b:2}[I,I]"), L("m{tp:4}[I]"));
  EXPECT_EQ(L("m{a:3,b:2}[P,P]"), L("m{a:3@1,b:2@3}[P,P]"));
  EXPECT_EQ(L("m{dp:2,a:2,b:2}[S(0),I,I]"), L("m{dp:2,tp:4}[S(0),I]"));
  EXPECT_EQ(L("m{a:2@8,dp:2@4,b:2@2,c:2@1}[B,S(0),B,B]"), L("m{a:2@8,dp:2@4,b:4@1}[B,S(0),B]"));
  EXPECT_NE(L("m{a:2,b:2}[I,B]"), L("m{tp:4}[I]"));
  EXPECT_NE(L("m{a:2@4,b:2@1}[I,I]"), L("m{tp:4}[I]"));
  // Two splits in a row cut 5 rows into 2, 1, 1, 1; one cuts them into 2, 2, 1, 0.
  EXPECT_NE(L("m{a:2,b:2}[S(0),S(0)]"), L("m{dp:4}[S(0)]"));
}

TEST(LayoutTest, DifferentMeaningsAreNotEqual) {
  const Layout layout = L("m{dp:2@2,tp:2@1}[S(0),I]");
  EXPECT_NE(layout, L("m{dp:2@1,tp:2@2}[S(0),I]"));
  EXPECT_NE(layout, L("m{dp:2@2,tp:2@1}[S(0),B]"));
  EXPECT_NE(layout, L("m{dp:2@2,tp:2@1}[S(1),I]"));
  EXPECT_NE(layout, L("m{dp:2@2,tp:2@1}[S(0;zigzag),I]"));
  EXPECT_NE(layout, L("m{dp:2@2,tp:2@1}+4[S(0),I]"));
  // Splits of one dimension nest, so their order counts.
  EXPECT_NE(L("m{a:2@2,b:2@1}[S(0),S(0)]"), L("m{b:2@1,a:2@2}[S(0),S(0)]"));
}

TEST(LayoutTest, ErrorsNameThePlacementAndTheAxis) {
  const Mesh mesh = Mesh::Create({{"dp", 2}, {"tp", 2}}).value();
  const auto error = [&](std::string name, std::vector<Sbp> sbp) {
    const absl::Status status = Layout::Create(std::move(name), mesh, std::move(sbp)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error("vision", {Sbp::Split(0)}),
              HasSubstr("vision has 2 axes {dp:2,tp:2} but 1 sbp entries"));
  EXPECT_THAT(error("vision", {Sbp::Split(-1), Sbp::Invariant()}),
              HasSubstr("vision axis dp splits dimension -1"));
  EXPECT_THAT(error("", {Sbp::Split(0), Sbp::Invariant()}), HasSubstr("no placement name"));
}

}  // namespace
}  // namespace mimo
