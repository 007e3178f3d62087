#include "mimo/plan/plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mimo/layout/text.h"
#include "tests/cases/colocated_groups.h"

namespace mimo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Plan> PlanOf(absl::string_view edge, std::vector<int64_t> sizes) {
  return Plan::Create(ParseEdge(edge).value(), std::move(sizes));
}

std::string UnimplementedOf(absl::string_view edge, std::vector<int64_t> sizes) {
  const absl::Status status = PlanOf(edge, std::move(sizes)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << edge;
  return std::string(status.message());
}

TEST(PlanTest, FanInGathersOverTheDigitsThatDiffer) {
  const Plan plan = PlanOf("v{dp:4,tp:2}[S(0),I] -> l{dp:2,tp:4}[S(0),I]", {8, 3}).value();
  EXPECT_EQ(plan.kind(), PlanKind::kAllGather);
  EXPECT_THAT(plan.group_axes(), ElementsAre(GroupAxis{2, 2}));
  EXPECT_THAT(plan.Groups(), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6),
                                         ElementsAre(5, 7)));
  EXPECT_EQ(plan.ElementsReceived(), 2 * 3);
}

TEST(PlanTest, FanOutSlicesAndItsAdjointGathersInTheSameGroups) {
  const Plan plan = PlanOf("v{dp:2,tp:4}[S(0),I] -> l{dp:4,tp:2}[S(0),I]", {8}).value();
  EXPECT_EQ(plan.kind(), PlanKind::kSlice);
  EXPECT_EQ(plan.ElementsReceived(), 0);
  const Plan adjoint = Plan::Create(plan.edge().Adjoint(), {8}).value();
  EXPECT_EQ(adjoint.kind(), PlanKind::kAllGather);
  EXPECT_EQ(adjoint.Groups(), plan.Groups());
}

TEST(PlanTest, SlotsFollowThePartsAndNotTheRanks) {
  // The slower half of the rows lies on the odd ranks' side of the mesh.
  const Plan plan = PlanOf("v{a:2@1,b:2@2}[S(0),S(0)] -> l{t:4}[I]", {8}).value();
  EXPECT_THAT(plan.Group(0).value(), ElementsAre(0, 2, 1, 3));
  // Two dimensions: the first is the slowest.
  const Plan tiles = PlanOf("v{a:2@2,b:2@1}[S(1),S(0)] -> l{t:4}[I]", {8, 8}).value();
  EXPECT_THAT(tiles.Group(3).value(), ElementsAre(0, 2, 1, 3));
}

TEST(PlanTest, OtherRankOrderIsNeverAnIdentity) {
  EXPECT_THAT(UnimplementedOf("v{dp:4@2,tp:2@1}[S(0),I] -> l{dp:4@1,tp:2@4}[S(0),I]", {32}),
              HasSubstr("2 ranks of stride 2 go from S(0) by 8 rows to S(0) by 16 rows"));
  EXPECT_THAT(UnimplementedOf("v{dp:4@2,tp:2@1}[S(0),I] -> l{dp:2@1,tp:4@2}[S(0),I]", {32}),
              HasSubstr("2 ranks of stride 1 go from I to S(0) by 16 rows while 4 ranks of stride "
                        "2 go from S(0) by 8 rows to I"));
}

TEST(PlanTest, BroadcastAndInvariantHoldTheSameData) {
  EXPECT_EQ(PlanOf("v{dp:4}[I] -> l{dp:4}[B]", {4})->kind(), PlanKind::kIdentity);
  EXPECT_EQ(PlanOf("v{dp:4}[S(0)] -> l{dp:4}[B]", {4})->kind(), PlanKind::kAllGather);
  EXPECT_EQ(PlanOf("v{dp:4}[B] -> l{dp:4}[S(0)]", {4})->kind(), PlanKind::kSlice);
}

TEST(PlanTest, PartialSumsAndOtherSplitsAreNamed) {
  EXPECT_THAT(UnimplementedOf("v{dp:4}[P] -> l{dp:4}[I]", {4}),
              HasSubstr("4 ranks of stride 1 go from P to I"));
  EXPECT_THAT(UnimplementedOf("v{dp:4}[I] -> l{dp:4}[P]", {4}), HasSubstr("from I to P"));
  EXPECT_THAT(UnimplementedOf("v{dp:4}[S(0)] -> l{dp:4}[S(1)]", {4, 4}),
              HasSubstr("from S(0) by 1 rows to S(1) by 1 rows"));
}

TEST(PlanTest, EqualLayoutsNeedNoDivision) {
  const Plan plan = PlanOf("v{dp:4,tp:2}[S(0),I] -> l{dp:4,tp:2}[S(0),I]", {10}).value();
  EXPECT_EQ(plan.kind(), PlanKind::kIdentity);
  EXPECT_EQ(BoxToString(plan.SourceBox(7).value()), "[9,10)");
  EXPECT_THAT(plan.Group(3).value(), ElementsAre(3));
}

TEST(PlanTest, RanksOutsideTheMeshAreInvalid) {
  const Plan plan = PlanOf("v{dp:2}+2[S(0)] -> l{tp:2}+2[I]", {4}).value();
  EXPECT_EQ(plan.Group(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(plan.Groups(), ElementsAre(ElementsAre(2, 3)));
}

class ColocatedGroupsTest : public ::testing::TestWithParam<ColocatedCase> {};

TEST_P(ColocatedGroupsTest, GroupsAndRowsAreThoseOfTheCase) {
  const ColocatedCase& c = GetParam();
  for (const bool batch_first : {true, false}) {
    const std::vector<int64_t> sizes =
        batch_first ? std::vector<int64_t>{c.batch, 5} : std::vector<int64_t>{5, c.batch};
    const int dim = batch_first ? 0 : 1;
    const Plan plan = PlanOf(c.EdgeText(dim), sizes).value();
    std::vector<std::vector<int64_t>> groups = plan.Groups();
    EXPECT_EQ(groups, c.gather_groups);
    for (int64_t rank = 0; rank < c.num_ranks(); ++rank) {
      const Interval source = plan.SourceBox(rank).value()[dim];
      const Interval destination = plan.DestinationBox(rank).value()[dim];
      EXPECT_EQ(std::make_pair(source.start, source.stop), c.source_rows[rank]);
      EXPECT_EQ(std::make_pair(destination.start, destination.stop), c.destination_rows[rank]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ColocatedGroupsTest, ::testing::ValuesIn(ColocatedCases()),
                         ColocatedCaseName);

}  // namespace
}  // namespace mimo
