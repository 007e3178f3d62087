#include "mimo/layout/mesh.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mimo/layout/quoted.h"

namespace mimo {
namespace {

// Axes that overlap are rare and small; a larger mesh is only accepted when its strides nest.
constexpr int64_t kMostRanksToCompare = int64_t{1} << 20;

std::string Where(const Mesh& mesh, absl::Span<const int64_t> coordinates) {
  return absl::StrJoin(mesh.axes(), ",", [&, i = 0](std::string* out, const Axis& axis) mutable {
    absl::StrAppend(out, axis.name, "=", coordinates[i++]);
  });
}

// True where each stride is larger than all that the faster axes can add up to: ranks then differ.
bool StridesNest(std::vector<Axis> axes) {
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  int64_t reach = 0;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (axis.stride <= reach) return false;
    reach += (axis.size - 1) * axis.stride;
  }
  return true;
}

template <typename Visit>
void ForEachCoordinates(const Mesh& mesh, Visit visit) {
  Coordinates coordinates(mesh.axes().size(), 0);
  for (int64_t i = 0; i < mesh.num_ranks(); ++i) {
    visit(coordinates);
    for (int axis = static_cast<int>(coordinates.size()) - 1; axis >= 0; --axis) {
      if (++coordinates[axis] < mesh.axes()[axis].size) break;
      coordinates[axis] = 0;
    }
  }
}

absl::Status CheckRanksDiffer(const Mesh& mesh) {
  if (mesh.num_ranks() > kMostRanksToCompare) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the strides of a mesh of ", mesh.num_ranks(),
        " ranks do not nest: each must be larger than what the faster axes add up to"));
  }
  absl::flat_hash_map<int64_t, Coordinates> seen;
  absl::Status status;
  ForEachCoordinates(mesh, [&](const Coordinates& coordinates) {
    const int64_t rank = mesh.RankAt(coordinates);
    const auto [first, inserted] = seen.emplace(rank, coordinates);
    if (!inserted && status.ok()) {
      status = absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, " is named twice, at ", Where(mesh, first->second),
                       " and at ", Where(mesh, coordinates), ": change a stride"));
    }
  });
  return status;
}

absl::Status CheckAxis(const Axis& axis) {
  if (!IsName(axis.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(axis.name), " is no axis name: a letter or '_', then letters, digits, '_', '.'"));
  }
  if (axis.size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis.name, " has size ", axis.size, ": a size is at least 1"));
  }
  if (axis.stride < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis.name, " has stride ", axis.stride, ": a stride is at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsName(absl::string_view text) {
  if (text.empty() || !(absl::ascii_isalpha(text[0]) || text[0] == '_')) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '.';
  });
}

Mesh::Mesh(std::vector<Axis> axes, int64_t offset, int64_t num_ranks)
    : axes_(std::move(axes)), offset_(offset), num_ranks_(num_ranks) {
  for (int i = 0; i < static_cast<int>(axes_.size()); ++i) by_stride_.push_back(i);
  std::stable_sort(by_stride_.begin(), by_stride_.end(),
                   [this](int a, int b) { return axes_[a].stride > axes_[b].stride; });
}

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes, int64_t offset) {
  if (axes.empty()) return absl::InvalidArgumentError("a mesh has at least one axis");
  if (offset < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the mesh starts at rank ", offset, ": an offset is at least 0"));
  }
  absl::flat_hash_map<std::string, int> names;
  int64_t num_ranks = 1;
  int64_t last_rank = offset;
  for (size_t i = axes.size(); i-- > 0;) {
    Axis& axis = axes[i];
    if (axis.stride == kDefaultStride) axis.stride = num_ranks;
    if (absl::Status status = CheckAxis(axis); !status.ok()) return status;
    if (!names.emplace(axis.name, i).second) {
      return absl::InvalidArgumentError(absl::StrCat("two axes are called ", axis.name));
    }
    if (axis.size == 1) axis.stride = 1;
    int64_t reach;
    if (__builtin_mul_overflow(num_ranks, axis.size, &num_ranks) ||
        __builtin_mul_overflow(axis.size - 1, axis.stride, &reach) ||
        __builtin_add_overflow(last_rank, reach, &last_rank)) {
      return absl::InvalidArgumentError(absl::StrCat("axis ", axis.name, " with size ", axis.size,
                                                     " and stride ", axis.stride,
                                                     " leads to ranks beyond 2^63 - 1"));
    }
  }
  const bool nested = StridesNest(axes);
  Mesh mesh(std::move(axes), offset, num_ranks);
  if (!nested) {
    if (absl::Status status = CheckRanksDiffer(mesh); !status.ok()) return status;
  }
  return mesh;
}

int64_t Mesh::DefaultStride(int index) const {
  int64_t stride = 1;
  for (size_t i = index + 1; i < axes_.size(); ++i) stride *= axes_[i].size;
  return stride;
}

int Mesh::FindAxis(absl::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int64_t Mesh::RankAt(absl::Span<const int64_t> coordinates) const {
  int64_t rank = offset_;
  for (size_t i = 0; i < axes_.size(); ++i) rank += coordinates[i] * axes_[i].stride;
  return rank;
}

std::optional<Coordinates> Mesh::CoordinatesOf(int64_t rank) const {
  Coordinates coordinates(axes_.size(), 0);
  // Slowest axis first; where strides nest one value fits at each step, elsewhere a few are tried.
  const auto solve = [&](auto& self, size_t step, int64_t rest) -> bool {
    if (step == by_stride_.size()) return rest == 0;
    const Axis& axis = axes_[by_stride_[step]];
    int64_t reach = 0;
    for (size_t i = step + 1; i < by_stride_.size(); ++i) {
      reach += (axes_[by_stride_[i]].size - 1) * axes_[by_stride_[i]].stride;
    }
    const int64_t least = rest > reach ? (rest - reach + axis.stride - 1) / axis.stride : 0;
    const int64_t most = std::min(axis.size - 1, rest / axis.stride);
    for (int64_t value = least; value <= most; ++value) {
      coordinates[by_stride_[step]] = value;
      if (self(self, step + 1, rest - value * axis.stride)) return true;
    }
    return false;
  };
  if (rank < offset_ || !solve(solve, 0, rank - offset_)) return std::nullopt;
  return coordinates;
}

std::vector<int64_t> Mesh::Ranks() const {
  std::vector<int64_t> ranks;
  ranks.reserve(num_ranks_);
  ForEachCoordinates(*this,
                     [&](const Coordinates& coordinates) { ranks.push_back(RankAt(coordinates)); });
  return ranks;
}

}  // namespace mimo
