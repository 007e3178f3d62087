#include "mimo/layout/mesh.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mimo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Mesh MakeMesh(std::vector<Axis> axes, int64_t offset = 0) {
  return Mesh::Create(std::move(axes), offset).value();
}

std::string ErrorOf(std::vector<Axis> axes, int64_t offset = 0) {
  const absl::StatusOr<Mesh> mesh = Mesh::Create(std::move(axes), offset);
  EXPECT_EQ(mesh.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(mesh.status().message());
}

TEST(MeshTest, LastAxisIsFastestByDefault) {
  const Mesh mesh = MakeMesh({{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(mesh.axes()[0].stride, 4);
  EXPECT_EQ(mesh.axes()[1].stride, 1);
  EXPECT_THAT(mesh.Ranks(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(MeshTest, StridesAndOffsetChooseTheRanks) {
  EXPECT_THAT(MakeMesh({{"dp", 2, 1}, {"tp", 3, 2}}, 8).Ranks(), ElementsAre(8, 10, 12, 9, 11, 13));
}

TEST(MeshTest, CoordinatesInvertRankAt) {
  const std::vector<Mesh> meshes = {
      MakeMesh({{"dp", 4}, {"cp", 3}, {"tp", 2}}, 5), MakeMesh({{"a", 2, 1}, {"b", 5, 4}}),
      MakeMesh({{"a", 3, 2}, {"b", 2, 3}}),  // strides that do not nest, ranks differ all the same
      MakeMesh({{"one", 1, 7}, {"b", 3, 2}})};
  for (const Mesh& mesh : meshes) {
    int64_t found = 0;
    for (int64_t rank = 0; rank < 64; ++rank) {
      const auto coordinates = mesh.CoordinatesOf(rank);
      if (!coordinates) continue;
      ++found;
      EXPECT_EQ(mesh.RankAt(*coordinates), rank);
    }
    EXPECT_EQ(found, mesh.num_ranks());
  }
}

TEST(MeshTest, RanksInGapsAreNotInTheMesh) {
  const Mesh mesh = MakeMesh({{"dp", 2, 4}, {"tp", 2, 1}});
  EXPECT_FALSE(mesh.CoordinatesOf(2));
  EXPECT_FALSE(mesh.CoordinatesOf(6));
  EXPECT_FALSE(mesh.CoordinatesOf(-1));
}

TEST(MeshTest, StrideOfASizeOneAxisHasNoMeaning) {
  EXPECT_EQ(MakeMesh({{"dp", 1, 8}, {"tp", 8, 1}}), MakeMesh({{"dp", 1}, {"tp", 8}}));
}

TEST(MeshTest, ErrorsNameTheAxisAndItsValues) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("at least one axis"));
  EXPECT_THAT(ErrorOf({{"dp", 0}}), HasSubstr("axis dp has size 0"));
  EXPECT_THAT(ErrorOf({{"dp", 2, -3}}), HasSubstr("axis dp has stride -3"));
  EXPECT_THAT(ErrorOf({{"dp", 2}, {"dp", 2}}), HasSubstr("two axes are called dp"));
  EXPECT_THAT(ErrorOf({{"2p", 2}}), HasSubstr("\"2p\" is no axis name"));
  EXPECT_THAT(ErrorOf({{"dp", 2}}, -1), HasSubstr("starts at rank -1"));
}

TEST(MeshTest, RanksNamedTwiceAreAnError) {
  EXPECT_THAT(ErrorOf({{"dp", 2, 1}, {"tp", 4, 1}}),
              HasSubstr("rank 1 is named twice, at dp=0,tp=1 and at dp=1,tp=0"));
}

TEST(MeshTest, RanksBeyondInt64AreAnError) {
  const int64_t large = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_THAT(ErrorOf({{"dp", 4, large}}), HasSubstr("beyond 2^63 - 1"));
  EXPECT_THAT(ErrorOf({{"dp", large}, {"tp", 4}}), HasSubstr("beyond 2^63 - 1"));
}

}  // namespace
}  // namespace mimo
