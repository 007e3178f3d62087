// Every pair of layouts over up to 24 ranks against boxes laid out by definition.

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mimo/layout/text.h"
#include "mimo/plan/plan.h"

namespace mimo {
namespace {

using Factors = std::vector<int64_t>;

// All ways to write n as an ordered product of factors above 1.
std::vector<Factors> OrderedFactorizations(int64_t n) {
  if (n == 1) return {{}};
  std::vector<Factors> all;
  for (int64_t first = 2; first <= n; ++first) {
    if (n % first) continue;
    for (Factors rest : OrderedFactorizations(n / first)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

// A layout and the box of each rank, computed from the definition of nested even splits.
struct Laid {
  Layout layout;
  std::vector<Box> boxes;
};

std::vector<Box> BoxesByDefinition(const Layout& layout, const std::vector<int64_t>& sizes) {
  std::vector<Box> boxes;
  for (int64_t rank = 0; rank < layout.mesh().num_ranks(); ++rank) {
    Box box;
    for (const int64_t size : sizes) box.push_back({0, size});
    for (size_t i = 0; i < layout.sbp().size(); ++i) {
      if (!layout.sbp()[i].is_split()) continue;
      const Axis& axis = layout.mesh().axes()[i];
      Interval& interval = box[layout.sbp()[i].dim];
      const int64_t rows = interval.size() / axis.size;
      interval.start += rank / axis.stride % axis.size * rows;
      interval.stop = interval.start + rows;
    }
    boxes.push_back(std::move(box));
  }
  return boxes;
}

// One layout for each different meaning over n ranks: S(0), S(1) or I on axes of any order.
std::vector<Laid> AllLayouts(int64_t n, const std::vector<int64_t>& sizes) {
  const Sbp entries[] = {Sbp::Split(0), Sbp::Split(1), Sbp::Invariant()};
  std::map<std::string, Laid> by_meaning;
  for (const Factors& factors : OrderedFactorizations(n)) {
    std::vector<int> order(factors.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      std::vector<Axis> axes(factors.size());
      int64_t stride = 1;
      for (const int i : order) {
        axes[i] = {absl::StrCat("a", i), factors[i], stride};
        stride *= factors[i];
      }
      if (axes.empty()) axes.push_back({"a", 1});
      int64_t choices = 1;
      for (size_t i = 0; i < axes.size(); ++i) choices *= 3;
      for (int64_t choice = 0; choice < choices; ++choice) {
        std::vector<Sbp> sbp;
        for (int64_t i = 0, c = choice; i < static_cast<int64_t>(axes.size()); ++i, c /= 3) {
          sbp.push_back(entries[c % 3]);
        }
        Layout layout = Layout::Create("m", Mesh::Create(axes).value(), sbp).value();
        std::vector<Box> boxes = BoxesByDefinition(layout, sizes);
        std::string meaning;
        for (const Box& box : boxes) absl::StrAppend(&meaning, BoxToString(box), ";");
        by_meaning.try_emplace(meaning, Laid{std::move(layout), std::move(boxes)});
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  std::vector<Laid> layouts;
  layouts.reserve(by_meaning.size());
  for (auto& [meaning, laid] : by_meaning) layouts.push_back(std::move(laid));
  return layouts;
}

bool Inside(const Box& inner, const Box& outer) {
  for (size_t d = 0; d < inner.size(); ++d) {
    if (inner[d].start < outer[d].start || inner[d].stop > outer[d].stop) return false;
  }
  return true;
}

// True where the members' parts in slot order are the tiles of `whole`, first dimension slowest.
bool TilesInSlotOrder(const std::vector<int64_t>& group, const std::vector<Box>& parts,
                      const Box& whole) {
  int64_t elements = 0;
  for (size_t slot = 0; slot < group.size(); ++slot) {
    const Box& part = parts[group[slot]];
    if (!Inside(part, whole)) return false;
    elements += NumElements(part);
    if (slot == 0) continue;
    const Box& before = parts[group[slot - 1]];
    const auto start = [](const Box& box) { return std::make_pair(box[0].start, box[1].start); };
    if (!(start(before) < start(part))) return false;
  }
  return elements == NumElements(whole);
}

// Empty where the plan does what the boxes ask for, else what is wrong.
std::string Fault(const Plan& plan, const Laid& source, const Laid& destination) {
  for (int64_t rank = 0; rank < static_cast<int64_t>(source.boxes.size()); ++rank) {
    const Box& from = source.boxes[rank];
    const Box& to = destination.boxes[rank];
    if (plan.SourceBox(rank).value() != from) return "source box";
    if (plan.DestinationBox(rank).value() != to) return "destination box";
    const std::vector<int64_t> group = plan.Group(rank).value();
    if (std::count(group.begin(), group.end(), rank) != 1) return "group without its rank";
    switch (plan.kind()) {
      case PlanKind::kIdentity:
        if (from != to) return "identity of different boxes";
        break;
      case PlanKind::kSlice:
        if (!Inside(to, from)) return "slice of what is not there";
        if (!TilesInSlotOrder(group, destination.boxes, from)) return "slots of the adjoint";
        break;
      case PlanKind::kAllGather:
        if (!TilesInSlotOrder(group, source.boxes, to)) return "gather of other parts";
        break;
    }
  }
  return "";
}

class PlanBruteForceTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(PlanBruteForceTest, PlansDoWhatTheBoxesAskFor) {
  const std::vector<int64_t> sizes = {2 * GetParam(), 3 * GetParam()};
  const std::vector<Laid> layouts = AllLayouts(GetParam(), sizes);
  std::map<PlanKind, int64_t> kinds;
  for (const Laid& source : layouts) {
    for (const Laid& destination : layouts) {
      const absl::StatusOr<Plan> plan = Plan::Create({source.layout, destination.layout}, sizes);
      if (!plan.ok()) {
        // Layouts of one meaning each: equal boxes would have been equal layouts.
        ASSERT_EQ(plan.status().code(), absl::StatusCode::kUnimplemented);
        ASSERT_NE(source.boxes, destination.boxes);
        continue;
      }
      ++kinds[plan->kind()];
      ASSERT_EQ(Fault(*plan, source, destination), "") << plan->edge().ToString();
    }
  }
  EXPECT_EQ(kinds[PlanKind::kIdentity], static_cast<int64_t>(layouts.size()));
  if (GetParam() > 1) {
    EXPECT_GT(kinds[PlanKind::kAllGather], 0);
    EXPECT_EQ(kinds[PlanKind::kSlice], kinds[PlanKind::kAllGather]);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlanBruteForceTest, ::testing::Range<int64_t>(1, 25));

}  // namespace
}  // namespace mimo
