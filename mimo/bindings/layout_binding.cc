// torch.classes.mimo.Mesh, and what Python asks of an edge's text.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mimo/layout/layout.h"
#include "mimo/layout/text.h"
#include "ops/status.h"
#include "torch/custom_class.h"
#include "torch/library.h"

namespace mimo {
namespace {

// A mesh read from its text, e.g. "{dp:4,tp:2}".
class MeshBinding : public torch::CustomClassHolder {
 public:
  explicit MeshBinding(const std::string& text) : mesh_(ValueOrThrow(ParseMesh(text))) {}

  std::string Text() const { return MeshToString(mesh_); }
  std::vector<int64_t> Ranks() const { return mesh_.Ranks(); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Axis& axis : mesh_.axes()) names.push_back(axis.name);
    return names;
  }

  std::vector<int64_t> Sizes() const {
    std::vector<int64_t> sizes;
    for (const Axis& axis : mesh_.axes()) sizes.push_back(axis.size);
    return sizes;
  }

  std::vector<int64_t> Strides() const {
    std::vector<int64_t> strides;
    for (const Axis& axis : mesh_.axes()) strides.push_back(axis.stride);
    return strides;
  }

  // The rank's coordinate on each axis; empty if it is not in the mesh.
  std::vector<int64_t> CoordinatesOf(int64_t rank) const {
    const auto coordinates = mesh_.CoordinatesOf(rank);
    if (!coordinates) return {};
    return {coordinates->begin(), coordinates->end()};
  }

 private:
  Mesh mesh_;
};

void CheckPlacementNameOrThrow(const std::string& name) { ThrowIfError(CheckPlacementName(name)); }

std::string AdjointEdge(const std::string& text) {
  return ValueOrThrow(ParseEdge(text)).Adjoint().ToString();
}

// How many parts each dimension is cut into, as far as either side of the edge splits.
std::vector<int64_t> Parts(const std::string& text, bool destination) {
  const Edge edge = ValueOrThrow(ParseEdge(text));
  const int dims = std::max(edge.source.MinimumDims(), edge.destination.MinimumDims());
  const Layout& layout = destination ? edge.destination : edge.source;
  std::vector<int64_t> parts;
  parts.reserve(dims);
  for (int d = 0; d < dims; ++d) parts.push_back(layout.NumParts(d));
  return parts;
}

std::vector<int64_t> SourceParts(const std::string& text) {
  return Parts(text, /*destination=*/false);
}

std::vector<int64_t> DestinationParts(const std::string& text) {
  return Parts(text, /*destination=*/true);
}

// The destination's axes, longer than 1, whose ranks hold the same for the same use.
std::vector<std::string> InvariantAxes(const std::string& text) {
  const Layout destination = ValueOrThrow(ParseEdge(text)).destination;
  std::vector<std::string> names;
  for (size_t i = 0; i < destination.sbp().size(); ++i) {
    const Axis& axis = destination.mesh().axes()[i];
    if (axis.size > 1 && destination.sbp()[i].kind == SbpKind::kInvariant) {
      names.push_back(axis.name);
    }
  }
  return names;
}

}  // namespace
}  // namespace mimo

TORCH_LIBRARY_FRAGMENT(mimo, m) {
  m.class_<mimo::MeshBinding>("Mesh")
      .def(torch::init<const std::string&>())
      .def("text", &mimo::MeshBinding::Text)
      .def("ranks", &mimo::MeshBinding::Ranks)
      .def("names", &mimo::MeshBinding::Names)
      .def("sizes", &mimo::MeshBinding::Sizes)
      .def("strides", &mimo::MeshBinding::Strides)
      .def("coordinates_of", &mimo::MeshBinding::CoordinatesOf);
  m.def("check_placement_name(str name) -> ()", &mimo::CheckPlacementNameOrThrow);
  m.def("adjoint_edge(str edge) -> str", &mimo::AdjointEdge);
  m.def("invariant_axes(str edge) -> str[]", &mimo::InvariantAxes);
  m.def("source_parts(str edge) -> int[]", &mimo::SourceParts);
  m.def("destination_parts(str edge) -> int[]", &mimo::DestinationParts);
}
