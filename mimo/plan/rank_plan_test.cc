#include "mimo/plan/rank_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mimo {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Blocks(const RankPlan& plan) {
  std::vector<std::string> blocks;
  blocks.reserve(plan.blocks.size());
  for (const Box& box : plan.blocks) blocks.push_back(BoxToString(box));
  return blocks;
}

TEST(RankPlanTest, LeadingRowsInRankOrderAreStacked) {
  const RankPlan plan =
      MakeRankPlan("v{dp:4,tp:2}[S(0),I] -> l{dp:2,tp:4}[S(0),I]", {8, 3}, 6).value();
  EXPECT_EQ(plan.kind, PlanKind::kAllGather);
  EXPECT_THAT(plan.group, ElementsAre(4, 6));
  EXPECT_THAT(plan.source_shape, ElementsAre(2, 3));
  EXPECT_THAT(plan.destination_shape, ElementsAre(4, 3));
  EXPECT_THAT(Blocks(plan), ElementsAre("[0,2)x[0,3)", "[2,4)x[0,3)"));
  EXPECT_TRUE(plan.stacked);
}

TEST(RankPlanTest, InnerDimensionsAndOtherOrdersAreNotStacked) {
  const RankPlan inner = MakeRankPlan("v{dp:2}[S(1)] -> l{tp:2}[I]", {3, 8}, 0).value();
  EXPECT_THAT(Blocks(inner), ElementsAre("[0,3)x[0,4)", "[0,3)x[4,8)"));
  EXPECT_FALSE(inner.stacked);
  EXPECT_TRUE(MakeRankPlan("v{dp:2}[S(1)] -> l{tp:2}[I]", {1, 8}, 0)->stacked);
  const RankPlan order = MakeRankPlan("v{a:2@1,b:2@2}[S(0),S(0)] -> l{t:4}[I]", {8}, 0).value();
  EXPECT_THAT(order.group, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Blocks(order), ElementsAre("[0,2)", "[4,6)", "[2,4)", "[6,8)"));
  EXPECT_FALSE(order.stacked);
}

TEST(RankPlanTest, SliceIsTheRanksPartOfItsInput) {
  const RankPlan plan =
      MakeRankPlan("v{dp:2,tp:4}[S(1),I] -> l{dp:4,tp:2}[S(1),I]", {3, 8}, 6).value();
  EXPECT_EQ(plan.kind, PlanKind::kSlice);
  EXPECT_THAT(plan.group, ElementsAre(4, 6));
  EXPECT_THAT(Blocks(plan), ElementsAre("[0,3)x[2,4)"));
}

TEST(RankPlanTest, CacheReturnsTheSamePlanAndStaysBounded) {
  const auto plan = [](int64_t rows) {
    return CachedRankPlan("v{dp:2}[S(0)] -> l{tp:2}[I]", {2 * rows}, 1).value();
  };
  const auto first = plan(1);
  EXPECT_EQ(plan(1), first);
  for (int64_t rows = 2; rows < int64_t{2} * kMostCachedPlans; ++rows) plan(rows);
  // More plans than the cache holds came after it: it was dropped and is made anew.
  EXPECT_NE(plan(1), first);
  EXPECT_EQ(plan(1)->destination_shape, first->destination_shape);
  EXPECT_FALSE(CachedRankPlan("v{dp:2}[S(0)] -> ", {2}, 0).ok());
}

}  // namespace
}  // namespace mimo
