// The text form of meshes, layouts and edges, as it stands in graphs, errors, logs and on the
// command line:
//
//   edge    = layout "->" layout
//   layout  = name mesh "[" entry { "," entry } "]"
//   mesh    = "{" axis { "," axis } "}" [ "+" offset ]
//   axis    = name ":" size [ "@" stride ]
//   entry   = [ axis-name "=" ] ( "S(" dim [ ";" rule ] ")" | "I" | "B" | "P" )
//   rule    = "chunk" | "balanced" | "zigzag" | "ragged" | "assigned"
//
// e.g. "vision{dp:4@2,tp:2@1}[S(0),I] -> language{dp:2,tp:4}[dp=S(0),tp=I]". Spaces may stand
// between words. Entries are either all named, in any order, or all unnamed, in the order of the
// axes. ToString of each type prints the canonical text, which parses to an equal value.
//
// Errors are InvalidArgument. Where the text is no such sentence the message gives the position
// (in characters, from 0) and what was expected there; where it is one, what Mesh::Create or
// Layout::Create say of its values.

#ifndef MIMO_LAYOUT_TEXT_H_
#define MIMO_LAYOUT_TEXT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mimo/layout/layout.h"
#include "mimo/layout/mesh.h"

namespace mimo {

absl::StatusOr<Mesh> ParseMesh(absl::string_view text);
absl::StatusOr<Layout> ParseLayout(absl::string_view text);
absl::StatusOr<Edge> ParseEdge(absl::string_view text);

}  // namespace mimo

#endif  // MIMO_LAYOUT_TEXT_H_
