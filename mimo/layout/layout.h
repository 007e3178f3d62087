// A layout: how one logical tensor lies on ranks. An edge: the way from one layout to another.

#ifndef MIMO_LAYOUT_LAYOUT_H_
#define MIMO_LAYOUT_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mimo/layout/mesh.h"
#include "mimo/layout/sbp.h"

namespace mimo {

// InvalidArgument unless a placement can be called `name`: a letter or '_', then letters, digits,
// '_', '.'.
absl::Status CheckPlacementName(absl::string_view name);

// A mesh and one sbp entry for each of its axes, under the name of the module that lives there.
// Axes that split the same dimension nest left to right: {dp:2,cp:2}[S(0),S(0)] cuts rows in two,
// then each half in two.
class Layout {
 public:
  // Errors (InvalidArgument): a malformed placement name, not one entry for each axis, a negative
  // dimension.
  static absl::StatusOr<Layout> Create(std::string name, Mesh mesh, std::vector<Sbp> sbp);

  const std::string& name() const { return name_; }
  const Mesh& mesh() const { return mesh_; }
  absl::Span<const Sbp> sbp() const { return sbp_; }

  // The layout of the gradient of a tensor that lies like this.
  Layout Dual() const;

  // How many parts dimension `dim` is cut into, over all axes.
  int64_t NumParts(int dim) const;

  // The dimensions a tensor needs at least: one more than the largest split dimension.
  int MinimumDims() const;

  // Canonical text, e.g. "vision{dp:4,tp:2}[S(0),I]".
  std::string ToString() const;

  // Equality of meaning: the same ranks hold the same parts in the same role, whatever the sizes.
  // Names, axes of size 1, the order of axes that do not nest and how one set of replicas is made
  // up of axes make no difference.
  friend bool operator==(const Layout& a, const Layout& b);

 private:
  Layout(std::string name, Mesh mesh, std::vector<Sbp> sbp);

  std::string name_;
  Mesh mesh_;
  std::vector<Sbp> sbp_;
};

// The way of one logical tensor from the layout in which a module leaves it to the layout in which
// another takes it.
struct Edge {
  Layout source;
  Layout destination;

  // The edge that gradients take back: from the destination's dual to the source's dual.
  Edge Adjoint() const { return {destination.Dual(), source.Dual()}; }

  // Canonical text: "vision{dp:4}[S(0)] -> language{dp:2,tp:2}[S(0),I]".
  std::string ToString() const;

  friend bool operator==(const Edge&, const Edge&) = default;
};

// Canonical text of a mesh: "{dp:4@2,tp:2}+8"; default strides and offset 0 are left out.
std::string MeshToString(const Mesh& mesh);

}  // namespace mimo

#endif  // MIMO_LAYOUT_LAYOUT_H_
