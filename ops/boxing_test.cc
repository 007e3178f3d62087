#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mimo/layout/text.h"
#include "mimo/plan/plan.h"
#include "ops/group.h"
#include "ops/testing/call_op.h"
#include "ops/testing/in_process.h"
#include "ops/traffic.h"
#include "tests/cases/colocated_groups.h"
#include "torch/csrc/autograd/autograd.h"

namespace mimo {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// One edge carried out on the calling rank by the op that its plan asks for.
struct EdgeRun {
  std::string edge;
  std::vector<int64_t> sizes;

  Plan plan() const { return Plan::Create(ParseEdge(edge).value(), sizes).value(); }

  at::Tensor Run(InProcessRank& self, const at::Tensor& tensor) const {
    const Plan plan = this->plan();
    const std::string group = self.Join(plan.Group(self.rank()).value());
    const char* op = plan.kind() == PlanKind::kSlice ? "mimo::fan_out" : "mimo::fan_in";
    return CallOp(op, {tensor}, {edge}, sizes, group)[0];
  }
};

// `whole` cut to a box.
at::Tensor Part(at::Tensor whole, const Box& box) {
  for (size_t d = 0; d < box.size(); ++d) {
    whole = whole.slice(static_cast<int64_t>(d), box[d].start, box[d].stop);
  }
  return whole.contiguous();
}

// A tensor whose every element says where it lies.
at::Tensor Labelled(const std::vector<int64_t>& sizes, double first) {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  return (at::arange(elements, at::kDouble) + first).view(sizes);
}

// Forward and backward of one run against the parts of the labelled whole, bit for bit. The
// destination's replicas are invariant: each brings the same gradient.
void ExpectLabelsArrive(const EdgeRun& run) {
  const Plan plan = run.plan();
  const at::Tensor values = Labelled(run.sizes, 1);
  const at::Tensor gradients = Labelled(run.sizes, 1000);
  RunRanks(plan.edge().source.mesh().num_ranks(), [&](InProcessRank& self) {
    const Box before = plan.SourceBox(self.rank()).value();
    const Box after = plan.DestinationBox(self.rank()).value();
    at::Tensor input = Part(values, before).requires_grad_(true);
    const at::Tensor output = run.Run(self, input);
    EXPECT_TRUE(at::equal(output, Part(values, after))) << "forward on rank " << self.rank();
    const Tensors gradient = torch::autograd::grad({output}, {input}, {Part(gradients, after)});
    EXPECT_TRUE(at::equal(gradient[0], Part(gradients, before)))
        << "backward on rank " << self.rank();
  });
}

class ColocatedGroupsTest : public ::testing::TestWithParam<ColocatedCase> {};

TEST_P(ColocatedGroupsTest, LabelledRowsArriveForwardAndBackward) {
  const ColocatedCase& c = GetParam();
  ExpectLabelsArrive({c.EdgeText(0), {c.batch, 3, 4}});
  ExpectLabelsArrive({c.EdgeText(1), {3, c.batch, 4}});
}

INSTANTIATE_TEST_SUITE_P(Cases, ColocatedGroupsTest, ::testing::ValuesIn(ColocatedCases()),
                         ColocatedCaseName);

TEST(BoxingTest, SlotsInAnotherOrderThanRanks) {
  ExpectLabelsArrive({"v{a:2@1,b:2@2}[S(0),S(0)] -> l{t:4}[I]", {8, 3}});
  ExpectLabelsArrive({"v{t:4}[I] -> l{a:2@1,b:2@2}[S(0),S(0)]", {8, 3}});
}

TEST(BoxingTest, TilesOfTwoDimensions) {
  ExpectLabelsArrive({"v{a:2,b:3}[S(1),S(0)] -> l{t:6}[I]", {6, 4, 2}});
  ExpectLabelsArrive({"v{a:2,b:2,c:2}[S(2),I,S(0)] -> l{a:2,b:2,c:2}[I,I,I]", {2, 3, 4}});
}

TEST(BoxingTest, NoRowsAtAllStillTakePart) {
  ExpectLabelsArrive({"v{dp:4}[S(0)] -> l{dp:2,tp:2}[S(0),I]", {0, 3}});
  ExpectLabelsArrive({"v{dp:2,tp:2}[S(0),I] -> l{dp:4}[S(0)]", {0, 3}});
}

// <A x, y> = <x, A* y> in integers, where an axis of invariant replicas counts once.
TEST(BoxingTest, AdjointIdentityHoldsInIntegers) {
  const std::vector<EdgeRun> runs = {
      {"v{dp:4,tp:2}[S(0),I] -> l{dp:2,tp:4}[S(0),I]", {8, 3}},
      {"v{dp:2,tp:4}[S(1),I] -> l{dp:4,tp:2}[S(1),I]", {3, 8}},
      {"v{dp:2@1,tp:4@2}[S(0),S(1)] -> l{dp:2@1,tp:4@2}[S(0),I]", {4, 8}},
      {"v{dp:8}[I] -> l{dp:2,sp:4}[S(0),S(1)]", {4, 8}},
  };
  std::mt19937_64 seeds(3);
  for (const EdgeRun& run : runs) {
    const Plan plan = run.plan();
    const auto whole = [&] {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(seeds());
      return at::randint(-9, 10, run.sizes, generator, at::kDouble);
    };
    const at::Tensor x = whole();
    const at::Tensor y = whole();
    const int64_t ranks = plan.edge().source.mesh().num_ranks();
    std::vector<double> left(ranks, 0);
    std::vector<double> right(ranks, 0);
    // The rank counts where all its invariant coordinates are 0.
    const auto counts = [](const Layout& layout, int64_t rank) {
      const Coordinates at = layout.mesh().CoordinatesOf(rank).value();
      for (size_t i = 0; i < at.size(); ++i) {
        if (!layout.sbp()[i].is_split() && at[i]) return false;
      }
      return true;
    };
    RunRanks(ranks, [&](InProcessRank& self) {
      const int64_t rank = self.rank();
      at::Tensor input = Part(x, plan.SourceBox(rank).value()).requires_grad_(true);
      const at::Tensor cotangent = Part(y, plan.DestinationBox(rank).value());
      const at::Tensor output = run.Run(self, input);
      const at::Tensor gradient = torch::autograd::grad({output}, {input}, {cotangent})[0];
      if (counts(plan.edge().destination, rank)) {
        left[rank] = (output.detach() * cotangent).sum().item<double>();
      }
      if (counts(plan.edge().source, rank)) {
        right[rank] = (input.detach() * gradient).sum().item<double>();
      }
    });
    const double forward = std::accumulate(left.begin(), left.end(), 0.0);
    EXPECT_EQ(forward, std::accumulate(right.begin(), right.end(), 0.0)) << run.edge;
    EXPECT_EQ(forward, (x * y).sum().item<double>()) << run.edge;
  }
}

TEST(BoxingTest, OneCallCarriesTensorsOfManyShapesTypesAndStrides) {
  RunRanks(4, [](InProcessRank& self) {
    const std::string rows = "v{dp:4}[S(0)] -> l{dp:2,tp:2}[S(0),I]";
    const std::string columns = "v{dp:4}[S(1)] -> l{dp:2,tp:2}[S(1),I]";
    const std::string same = "v{dp:4}[S(0)] -> l{dp:4}[S(0)]";
    const int64_t rank = self.rank();
    const std::string group = self.Join({rank / 2 * 2, rank / 2 * 2 + 1});
    const at::Tensor wholes[] = {
        at::arange(12, at::kLong).view({4, 3}), at::arange(24, at::kFloat).view({3, 8}),
        at::arange(4, at::kDouble).view({4, 1}).to(at::kBFloat16), at::arange(5 * 8) > 7};
    const at::Tensor bools = wholes[3].view({5, 8});
    // Columns of a transposed tensor and every other element of a wider one.
    const Tensors inputs = {wholes[0].slice(0, rank, rank + 1),
                            wholes[1].t().contiguous().t().slice(1, 2 * rank, 2 * rank + 2),
                            wholes[2].repeat({1, 2}).slice(1, 0, 2, 2).slice(0, rank, rank + 1),
                            bools.slice(1, 2 * rank, 2 * rank + 2),
                            wholes[2].slice(0, rank, rank + 1)};
    const Tensors outputs = CallOp("mimo::fan_in", inputs, {rows, columns, rows, columns, same},
                                   {4, 3, 3, 8, 4, 1, 5, 8, 4, 1}, group);
    const int64_t half = rank / 2;
    EXPECT_TRUE(at::equal(outputs[0], wholes[0].slice(0, 2 * half, 2 * half + 2)));
    EXPECT_TRUE(at::equal(outputs[1], wholes[1].slice(1, 4 * half, 4 * half + 4)));
    EXPECT_TRUE(at::equal(outputs[2], wholes[2].slice(0, 2 * half, 2 * half + 2)));
    EXPECT_TRUE(at::equal(outputs[3], bools.slice(1, 4 * half, 4 * half + 4)));
    EXPECT_TRUE(at::equal(outputs[4], inputs[4]));
    EXPECT_FALSE(outputs[4].is_alias_of(inputs[4]));
    for (const at::Tensor& output : outputs) EXPECT_TRUE(output.is_contiguous());
  });
}

TEST(BoxingTest, OnlyTensorsThatNeedAGradientGetOneAndUnusedOutputsCountAsZeros) {
  RunRanks(2, [](InProcessRank& self) {
    const std::string edge = "v{t:2}[I] -> l{dp:2}[S(0)]";
    const std::string group = self.Join({0, 1});
    const at::Tensor used = at::ones({2, 2}, at::kDouble).requires_grad_(true);
    const at::Tensor unused = at::ones({2, 3}, at::kDouble).requires_grad_(true);
    const at::Tensor ids = at::arange(2, at::kLong);
    const Tensors outputs =
        CallOp("mimo::fan_out", {used, ids, unused}, {edge, edge, edge}, {2, 2, 2, 2, 3}, group);
    EXPECT_FALSE(outputs[1].requires_grad());
    const Tensors gradients =
        torch::autograd::grad({outputs[0].sum() * (self.rank() + 2)}, {used, unused});
    EXPECT_TRUE(at::equal(gradients[0], at::tensor({2.0, 2.0, 3.0, 3.0}).view({2, 2})));
    EXPECT_TRUE(at::equal(gradients[1], at::zeros({2, 3}, at::kDouble)));
  });
}

TEST(BoxingTest, TrafficCountsCallsAndReceivedBytes) {
  const Traffic before = TotalTraffic();
  RunRanks(2, [](InProcessRank& self) {
    const EdgeRun run{"v{dp:2}[S(0)] -> l{t:2}[I]", {6, 2}};
    run.Run(self, at::zeros({3, 2}, at::kFloat));
  });
  const Traffic after = TotalTraffic();
  EXPECT_EQ(after.calls - before.calls, 2);
  EXPECT_EQ(after.bytes - before.bytes, 2 * 3 * 2 * 4);
  EXPECT_GT(after.nanoseconds, before.nanoseconds);
}

// The message of the error that `body` throws on rank 0 of two.
std::string ErrorOf(const std::function<void(InProcessRank&)>& body) {
  try {
    RunRanks(2, [&](InProcessRank& self) {
      if (self.rank() == 0) body(self);
    });
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(BoxingTest, ErrorsNameTheEdgeAndTheValues) {
  const std::string gather = "v{dp:2}[S(0)] -> l{t:2}[I]";
  const std::string slice = "v{t:2}[I] -> l{dp:2}[S(0)]";
  const auto error = [&](const char* op, const Tensors& tensors, std::vector<std::string> edges,
                         std::vector<int64_t> sizes, std::vector<int64_t> group = {0, 1}) {
    return ErrorOf(
        [&](InProcessRank& self) { CallOp(op, tensors, edges, sizes, self.Join(group)); });
  };
  const at::Tensor rows = at::zeros({3, 2});
  EXPECT_THAT(error("mimo::fan_in", {rows}, {gather}, {8, 2}),
              HasSubstr("v{dp:2}[S(0)] -> l{t:2}[I] of [8, 2] puts [4, 2] on rank 0, but the "
                        "tensor there has [3, 2]"));
  EXPECT_THAT(error("mimo::fan_in", {rows}, {gather}, {6}), HasSubstr("2 dimensions together"));
  EXPECT_THAT(error("mimo::fan_in", {rows}, {}, {6, 2}), HasSubstr("1 tensors but 0 edges"));
  EXPECT_THAT(error("mimo::fan_out", {rows}, {gather}, {6, 2}),
              HasSubstr("is a plan of kind all-gather, this op carries out slice"));
  EXPECT_THAT(error("mimo::fan_in", {rows}, {slice}, {3, 2}), HasSubstr("does not divide the 3"));
  EXPECT_THAT(error("mimo::fan_in", {rows}, {"v{dp:2}[S(0)]"}, {6, 2}), HasSubstr("expected '->'"));
  EXPECT_THAT(error("mimo::fan_in", {rows}, {gather}, {6, 2}, {0}),
              HasSubstr("needs the group of ranks [0, 1] on rank 0, not of [0]"));
}

TEST(BoxingTest, PartsOfOneElementMayHaveAnyStrides) {
  RunRanks(2, [](InProcessRank& self) {
    const std::string group = self.Join({0, 1});
    const at::Tensor wide = at::arange(8, at::kDouble).view({2, 4});
    // Strides (4, 4) of one element: contiguous, though no dimension has stride 1.
    at::Tensor one = wide.slice(0, self.rank(), self.rank() + 1).slice(1, 0, 4, 4);
    one = one.detach().as_strided({1, 1}, {4, 4}, one.storage_offset()).requires_grad_(true);
    const at::Tensor both =
        CallOp("mimo::fan_in", {one}, {"v{dp:2}[S(0)] -> l{t:2}[I]"}, {2, 1}, group)[0];
    EXPECT_TRUE(at::equal(both, at::tensor({0.0, 4.0}).view({2, 1}).to(at::kDouble)));
    const at::Tensor none = wide.as_strided({0, 1}, {3, 7});
    EXPECT_EQ(
        CallOp("mimo::fan_in", {none}, {"v{dp:2}[S(0)] -> l{t:2}[I]"}, {0, 1}, group)[0].sizes(),
        at::IntArrayRef({0, 1}));
    // The gradient of a slice is gathered from such parts, too.
    const at::Tensor whole = at::zeros({2, 1}, at::kDouble).requires_grad_(true);
    const at::Tensor part =
        CallOp("mimo::fan_out", {whole}, {"v{t:2}[I] -> l{dp:2}[S(0)]"}, {2, 1}, group)[0];
    const at::Tensor gradient = torch::autograd::grad({part}, {whole}, {one.detach()})[0];
    EXPECT_TRUE(at::equal(gradient, both));
  });
}

TEST(BoxingTest, GradientsWithoutAPlanFailBeforeAnythingIsSent) {
  const std::string edge = "v{dp:2}[S(0)] -> l{t:2}[B]";
  const at::Tensor rows = at::zeros({2, 2});
  // The other rank never calls: to gather first would be to wait for it.
  EXPECT_THAT(ErrorOf([&](InProcessRank& self) {
                CallOp("mimo::fan_in", {rows.clone().requires_grad_(true)}, {edge}, {4, 2},
                       self.Join({0, 1}));
              }),
              HasSubstr("mimo::fan_in: the gradient of v{dp:2}[S(0)] -> l{t:2}[B] has no plan"));
  // Nobody asks for the gradient.
  RunRanks(2, [&](InProcessRank& self) {
    const at::NoGradGuard no_grad;
    const at::Tensor input = rows.clone().requires_grad_(true);
    EXPECT_EQ(CallOp("mimo::fan_in", {input}, {edge}, {4, 2}, self.Join({0, 1}))[0].size(0), 4);
  });
}

TEST(GroupTest, NamesAreMadeFromRanksAndReadBack) {
  EXPECT_EQ(GroupName({6, 4}), "mimo:4,6");
  EXPECT_THAT(GroupRanks("mimo:4,6").value(), ::testing::ElementsAre(4, 6));
  for (const char* name : {"0", "mimo:", "mimo:2,1", "mimo:1,1", "mimo:1,", "mimo:-1", "mimo:x"}) {
    EXPECT_EQ(GroupRanks(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace mimo
