#include "mimo/plan/digits.h"

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mimo/layout/box.h"

namespace mimo {
namespace {

// An axis's place in its mesh and its role there, for axes of more than one coordinate.
struct RoleAxis {
  std::string name;
  // Unsigned: the end of an axis, size * stride, can be up to 2^64 - 2.
  uint64_t size;
  uint64_t stride;
  DigitRole role;
};

absl::StatusOr<std::vector<RoleAxis>> RoleAxes(const Layout& layout,
                                               absl::Span<const int64_t> sizes) {
  if (absl::Status status = CheckSizes(layout, sizes); !status.ok()) return status;
  std::vector<int64_t> rows(sizes.begin(), sizes.end());
  std::vector<RoleAxis> axes;
  for (size_t i = 0; i < layout.sbp().size(); ++i) {
    const Axis& axis = layout.mesh().axes()[i];
    const Sbp& sbp = layout.sbp()[i];
    if (axis.size == 1) continue;
    DigitRole role{sbp.kind};
    if (sbp.is_split()) {
      if (sbp.rule != SplitRule::kChunk && sbp.rule != SplitRule::kBalanced) {
        return absl::UnimplementedError(absl::StrCat(layout.ToString(), " axis ", axis.name,
                                                     ": no plan for ", sbp.ToString(), " yet"));
      }
      if (rows[sbp.dim] % axis.size) {
        return absl::UnimplementedError(
            absl::StrCat(layout.ToString(), " axis ", axis.name, " of size ", axis.size,
                         " does not divide the ", rows[sbp.dim], " rows of dimension ", sbp.dim,
                         " of [", absl::StrJoin(sizes, ","), "]: no plan for uneven parts yet"));
      }
      rows[sbp.dim] /= axis.size;
      role.dim = sbp.dim;
      role.weight = rows[sbp.dim];
    }
    axes.push_back(
        {axis.name, static_cast<uint64_t>(axis.size), static_cast<uint64_t>(axis.stride), role});
  }
  return axes;
}

struct HalfDigit {
  uint64_t size;
  DigitRole role;
};

// The axes of `layout` cut at `cuts`, by stride.
absl::StatusOr<absl::btree_map<uint64_t, HalfDigit>> Cut(const Layout& layout,
                                                         absl::Span<const RoleAxis> axes,
                                                         const absl::btree_set<uint64_t>& cuts) {
  absl::btree_map<uint64_t, HalfDigit> digits;
  for (const RoleAxis& axis : axes) {
    uint64_t lower = axis.stride;
    for (auto cut = cuts.upper_bound(axis.stride); lower < axis.stride * axis.size; ++cut) {
      if (*cut % lower) {
        return absl::UnimplementedError(absl::StrCat(
            layout.ToString(), " axis ", axis.name, " of size ", axis.size, " and stride ",
            axis.stride, " is cut at stride ", *cut, " by the other mesh, which ", lower,
            " does not divide: no plan for this yet"));
      }
      HalfDigit digit{*cut / lower, axis.role};
      digit.role.weight *= static_cast<int64_t>(lower / axis.stride);
      digits.emplace(lower, digit);
      lower = *cut;
    }
  }
  return digits;
}

std::string Ranks(const absl::btree_map<uint64_t, HalfDigit>& digits) {
  return absl::StrJoin(digits, " x ", [](std::string* out, const auto& digit) {
    absl::StrAppend(out, digit.second.size, "@", digit.first);
  });
}

}  // namespace

std::string DigitRoleToString(const DigitRole& role) {
  const Sbp sbp{role.kind, role.dim};
  if (!sbp.is_split()) return sbp.ToString();
  return absl::StrCat(sbp.ToString(), " by ", role.weight, " rows");
}

absl::StatusOr<std::vector<Digit>> CommonDigits(const Edge& edge, absl::Span<const int64_t> sizes) {
  const absl::StatusOr<std::vector<RoleAxis>> source_axes = RoleAxes(edge.source, sizes);
  if (!source_axes.ok()) return source_axes.status();
  const absl::StatusOr<std::vector<RoleAxis>> destination_axes = RoleAxes(edge.destination, sizes);
  if (!destination_axes.ok()) return destination_axes.status();
  absl::btree_set<uint64_t> cuts;
  for (const auto* axes : {&*source_axes, &*destination_axes}) {
    for (const RoleAxis& axis : *axes) {
      cuts.insert(axis.stride);
      cuts.insert(axis.stride * axis.size);
    }
  }
  const auto source = Cut(edge.source, *source_axes, cuts);
  if (!source.ok()) return source.status();
  const auto destination = Cut(edge.destination, *destination_axes, cuts);
  if (!destination.ok()) return destination.status();

  const auto same_digits = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.size == b.second.size;
  };
  if (edge.source.mesh().offset() != edge.destination.mesh().offset() ||
      !std::equal(source->begin(), source->end(), destination->begin(), destination->end(),
                  same_digits)) {
    return absl::UnimplementedError(
        absl::StrCat(edge.ToString(), ": not the same ranks: from ", edge.source.mesh().offset(),
                     " on ", Ranks(*source), " against from ", edge.destination.mesh().offset(),
                     " on ", Ranks(*destination), ": no plan for this yet"));
  }
  std::vector<Digit> digits;
  digits.reserve(source->size());
  for (auto a = source->begin(), b = destination->begin(); a != source->end(); ++a, ++b) {
    digits.push_back({static_cast<int64_t>(a->second.size), static_cast<int64_t>(a->first),
                      a->second.role, b->second.role});
  }
  return digits;
}

}  // namespace mimo
