#include "mimo/layout/layout.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mimo/layout/quoted.h"

namespace mimo {
namespace {

// One axis as far as it matters to where data lies.
struct PlacedAxis {
  int64_t size;
  int64_t stride;
  Sbp sbp;

  friend bool operator==(const PlacedAxis&, const PlacedAxis&) = default;
};

// The axes that matter in a form that equal meanings share: splits by dimension and, within one, as
// they nest; the others by kind and stride, those that continue each other as one. Splits are never
// merged: where sizes do not divide, two in a row cut otherwise than one of their product.
std::vector<PlacedAxis> NormalForm(const Layout& layout) {
  std::vector<PlacedAxis> axes;
  for (size_t i = 0; i < layout.sbp().size(); ++i) {
    const Axis& axis = layout.mesh().axes()[i];
    if (axis.size > 1) axes.push_back({axis.size, axis.stride, layout.sbp()[i]});
  }
  const auto key = [](const PlacedAxis& axis) {
    return std::make_tuple(axis.sbp.kind, axis.sbp.dim, axis.sbp.is_split() ? 0 : axis.stride);
  };
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const PlacedAxis& a, const PlacedAxis& b) { return key(a) < key(b); });
  std::vector<PlacedAxis> merged;
  for (const PlacedAxis& axis : axes) {
    const bool continues = !merged.empty() && !axis.sbp.is_split() &&
                           merged.back().sbp.kind == axis.sbp.kind &&
                           axis.stride % merged.back().stride == 0 &&
                           axis.stride / merged.back().stride == merged.back().size;
    if (continues) {
      merged.back().size *= axis.size;
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

}  // namespace

absl::Status CheckPlacementName(absl::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(name), " is no placement name: a letter or '_', then letters, digits, '_', '.'"));
}

Layout::Layout(std::string name, Mesh mesh, std::vector<Sbp> sbp)
    : name_(std::move(name)), mesh_(std::move(mesh)), sbp_(std::move(sbp)) {}

absl::StatusOr<Layout> Layout::Create(std::string name, Mesh mesh, std::vector<Sbp> sbp) {
  if (absl::Status status = CheckPlacementName(name); !status.ok()) return status;
  if (sbp.size() != mesh.axes().size()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has ", mesh.axes().size(), " axes ",
                                                   MeshToString(mesh), " but ", sbp.size(),
                                                   " sbp entries: give one for each axis"));
  }
  for (size_t i = 0; i < sbp.size(); ++i) {
    if (sbp[i].dim < 0) {
      return absl::InvalidArgumentError(absl::StrCat(name, " axis ", mesh.axes()[i].name,
                                                     " splits dimension ", sbp[i].dim,
                                                     ": dimensions count from 0"));
    }
  }
  return Layout(std::move(name), std::move(mesh), std::move(sbp));
}

Layout Layout::Dual() const {
  std::vector<Sbp> dual;
  dual.reserve(sbp_.size());
  for (const Sbp& entry : sbp_) dual.push_back(entry.Dual());
  return Layout(name_, mesh_, std::move(dual));
}

int64_t Layout::NumParts(int dim) const {
  int64_t parts = 1;
  for (size_t i = 0; i < sbp_.size(); ++i) {
    if (sbp_[i].is_split() && sbp_[i].dim == dim) parts *= mesh_.axes()[i].size;
  }
  return parts;
}

int Layout::MinimumDims() const {
  int dims = 0;
  for (const Sbp& entry : sbp_) {
    if (entry.is_split()) dims = std::max(dims, entry.dim + 1);
  }
  return dims;
}

std::string Layout::ToString() const {
  return absl::StrCat(name_, MeshToString(mesh_), "[",
                      absl::StrJoin(sbp_, ",",
                                    [](std::string* out, const Sbp& entry) {
                                      absl::StrAppend(out, entry.ToString());
                                    }),
                      "]");
}

bool operator==(const Layout& a, const Layout& b) {
  return a.mesh().offset() == b.mesh().offset() && NormalForm(a) == NormalForm(b);
}

std::string Edge::ToString() const {
  return absl::StrCat(source.ToString(), " -> ", destination.ToString());
}

std::string MeshToString(const Mesh& mesh) {
  std::string text = "{";
  for (int i = 0; i < static_cast<int>(mesh.axes().size()); ++i) {
    const Axis& axis = mesh.axes()[i];
    absl::StrAppend(&text, i ? "," : "", axis.name, ":", axis.size);
    if (axis.size > 1 && axis.stride != mesh.DefaultStride(i)) {
      absl::StrAppend(&text, "@", axis.stride);
    }
  }
  text += '}';
  if (mesh.offset()) absl::StrAppend(&text, "+", mesh.offset());
  return text;
}

}  // namespace mimo
