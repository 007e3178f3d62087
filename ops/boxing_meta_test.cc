#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mimo/layout/text.h"
#include "mimo/plan/plan.h"
#include "ops/testing/call_op.h"

namespace mimo {
namespace {

using ::testing::HasSubstr;

std::vector<int64_t> Shape(const Box& box) {
  std::vector<int64_t> shape;
  for (const Interval& interval : box) shape.push_back(interval.size());
  return shape;
}

// One op on tensors that all take `edge`.
std::vector<at::Tensor> Call(const char* name, const std::vector<at::Tensor>& tensors,
                             const std::string& edge, const std::vector<int64_t>& sizes) {
  return CallOp(name, tensors, std::vector<std::string>(tensors.size(), edge), sizes, "mimo:0");
}

at::Tensor Meta(const std::vector<int64_t>& shape) {
  return at::empty(shape, at::TensorOptions().device(at::kMeta).dtype(at::kBFloat16));
}

TEST(BoxingMetaTest, ShapesAreThoseOfTheBoxes) {
  struct Case {
    std::string edge;
    std::vector<int64_t> sizes;
  };
  const Case cases[] = {
      {"v{dp:4,tp:2}[S(0),I] -> l{dp:2,tp:4}[S(0),I]", {8, 3}},
      {"v{dp:2,tp:4}[S(1),I] -> l{dp:4,tp:2}[S(1),I]", {3, 8, 2}},
      {"v{a:2,b:3}[S(1),S(0)] -> l{t:6}[B]", {6, 4}},
      {"v{dp:2}[S(0)] -> l{t:2}[I]", {0, 3}},
      // Equal layouts of rows that do not divide: each rank keeps what it has.
      {"v{dp:4}[S(0)] -> l{dp:4}[S(0)]", {10, 3}},
      {"v{dp:2,a:2,b:2}[S(0),I,I] -> l{dp:2,tp:4}[S(0),I]", {3, 2}},
  };
  for (const Case& c : cases) {
    const Plan plan = Plan::Create(ParseEdge(c.edge).value(), c.sizes).value();
    const char* name = plan.kind() == PlanKind::kSlice ? "mimo::fan_out" : "mimo::fan_in";
    for (const int64_t rank : plan.edge().source.mesh().Ranks()) {
      const auto input = Meta(Shape(plan.SourceBox(rank).value()));
      const at::Tensor output = Call(name, {input}, c.edge, c.sizes)[0];
      EXPECT_EQ(output.sizes(), at::IntArrayRef(Shape(plan.DestinationBox(rank).value())))
          << c.edge << " on rank " << rank;
      EXPECT_EQ(output.dtype(), input.dtype());
      EXPECT_TRUE(output.is_meta());
    }
  }
}

TEST(BoxingMetaTest, WhatNoDeviceCarriesOutIsRefused) {
  const std::string gather = "v{dp:2}[S(0)] -> l{t:2}[I]";
  const auto error = [](const char* name, const std::vector<at::Tensor>& tensors,
                        const std::string& edge, const std::vector<int64_t>& sizes) -> std::string {
    try {
      Call(name, tensors, edge, sizes);
    } catch (const c10::Error& caught) {
      return caught.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("mimo::fan_out", {Meta({3, 2})}, gather, {6, 2}),
              HasSubstr("mimo::fan_out: v{dp:2}[S(0)] -> l{t:2}[I] of [6, 2] is a plan of kind "
                        "all-gather, this op carries out slice"));
  EXPECT_THAT(error("mimo::fan_in", {Meta({3, 2})}, gather, {8, 2}),
              HasSubstr("of [8, 2] puts [4, 2] on each rank, but the tensor here has [3, 2]"));
  EXPECT_THAT(error("mimo::fan_in", {Meta({3, 2})}, gather, {7, 2}),
              HasSubstr("does not divide the 7 rows"));
  EXPECT_THAT(error("mimo::fan_in", {Meta({3, 2})}, "v{dp:2}[S(2)] -> l{t:2}[I]", {3, 2}),
              HasSubstr("splits dimension 2"));
  EXPECT_THAT(error("mimo::fan_in", {Meta({3, 2}), at::zeros({3, 2})}, gather, {6, 2, 6, 2}),
              HasSubstr("mimo::fan_in: tensors on meta and on cpu"));
}

}  // namespace
}  // namespace mimo
