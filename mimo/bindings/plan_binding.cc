// torch.classes.mimo.Plan.

#include <string>
#include <utility>
#include <vector>

#include "mimo/layout/text.h"
#include "mimo/plan/plan.h"
#include "ops/status.h"
#include "torch/custom_class.h"
#include "torch/library.h"

namespace mimo {
namespace {

// The plan of an edge's text for logical sizes.
class PlanBinding : public torch::CustomClassHolder {
 public:
  PlanBinding(const std::string& edge, std::vector<int64_t> sizes)
      : plan_(ValueOrThrow(Plan::Create(ValueOrThrow(ParseEdge(edge)), std::move(sizes)))) {}

  std::string Kind() const { return std::string(PlanKindName(plan_.kind())); }
  std::string EdgeText() const { return plan_.edge().ToString(); }
  std::vector<int64_t> Sizes() const { return {plan_.sizes().begin(), plan_.sizes().end()}; }
  int64_t ElementsReceived() const { return plan_.ElementsReceived(); }
  std::vector<int64_t> Group(int64_t rank) const { return ValueOrThrow(plan_.Group(rank)); }
  std::vector<std::vector<int64_t>> Groups() const { return plan_.Groups(); }

  // [size, stride] of each axis of the groups, slowest slot first.
  std::vector<std::vector<int64_t>> GroupAxes() const {
    std::vector<std::vector<int64_t>> axes;
    for (const GroupAxis& axis : plan_.group_axes()) axes.push_back({axis.size, axis.stride});
    return axes;
  }

 private:
  Plan plan_;
};

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_FRAGMENT(mimo, m) {
  m.class_<mimo::PlanBinding>("Plan")
      .def(torch::init<const std::string&, std::vector<int64_t>>())
      .def("kind", &mimo::PlanBinding::Kind)
      .def("edge", &mimo::PlanBinding::EdgeText)
      .def("sizes", &mimo::PlanBinding::Sizes)
      .def("elements_received", &mimo::PlanBinding::ElementsReceived)
      .def("group", &mimo::PlanBinding::Group)
      .def("groups", &mimo::PlanBinding::Groups)
      .def("group_axes", &mimo::PlanBinding::GroupAxes);
}
