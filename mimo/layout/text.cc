#include "mimo/layout/text.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "mimo/layout/quoted.h"

namespace mimo {
namespace {

constexpr SplitRule kRules[] = {SplitRule::kChunk, SplitRule::kBalanced, SplitRule::kZigzag,
                                SplitRule::kRagged, SplitRule::kAssigned};

// Splits divide dimensions of real tensors; the bound keeps dim an int.
constexpr int64_t kMostDims = 64;

// True for the bytes of a UTF-8 character behind its first.
bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// One entry of an sbp list and the axis it was given for, if it was named.
struct Entry {
  std::string axis;
  Sbp sbp;
};

// What stands in a mesh's text, its values not yet checked.
struct MeshText {
  std::vector<Axis> axes;
  int64_t offset = 0;
};

// A recursive-descent reader of one text. Each Read* method leaves the position behind what it
// read, or returns the error.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Edge> ReadEdge() {
    absl::StatusOr<Layout> source = ReadLayout();
    if (!source.ok()) return source.status();
    if (!Take("->")) return Expected("'->'");
    absl::StatusOr<Layout> destination = ReadLayout();
    if (!destination.ok()) return destination.status();
    return Edge{*std::move(source), *std::move(destination)};
  }

  absl::StatusOr<Layout> ReadLayout() {
    const std::string name = ReadName();
    if (name.empty()) return Expected("a placement name");
    absl::StatusOr<MeshText> mesh_text = ReadMeshText();
    if (!mesh_text.ok()) return mesh_text.status();
    absl::StatusOr<std::vector<Entry>> entries = ReadEntries();
    if (!entries.ok()) return entries.status();
    absl::StatusOr<Mesh> mesh = Mesh::Create(std::move(mesh_text->axes), mesh_text->offset);
    if (!mesh.ok()) {
      return absl::Status(mesh.status().code(), absl::StrCat(name, ": ", mesh.status().message()));
    }
    absl::StatusOr<std::vector<Sbp>> sbp = Order(name, *mesh, *std::move(entries));
    if (!sbp.ok()) return sbp.status();
    return Layout::Create(name, *std::move(mesh), *std::move(sbp));
  }

  absl::StatusOr<Mesh> ReadMesh() {
    absl::StatusOr<MeshText> mesh = ReadMeshText();
    if (!mesh.ok()) return mesh.status();
    return Mesh::Create(std::move(mesh->axes), mesh->offset);
  }

  absl::Status CheckEnd() {
    SkipSpaces();
    return position_ == text_.size() ? absl::OkStatus() : Expected("the end");
  }

 private:
  absl::StatusOr<MeshText> ReadMeshText() {
    if (!Take("{")) return Expected("'{'");
    MeshText mesh;
    do {
      absl::StatusOr<Axis> axis = ReadAxis();
      if (!axis.ok()) return axis.status();
      mesh.axes.push_back(*std::move(axis));
    } while (Take(","));
    if (!Take("}")) return Expected("',' or '}'");
    if (Take("+")) {
      absl::StatusOr<int64_t> offset = ReadNumber("a rank offset");
      if (!offset.ok()) return offset.status();
      mesh.offset = *offset;
    }
    return mesh;
  }

  absl::StatusOr<Axis> ReadAxis() {
    Axis axis;
    axis.name = ReadName();
    if (axis.name.empty()) return Expected("an axis name");
    if (!Take(":")) return Expected("':' and a size");
    absl::StatusOr<int64_t> size = ReadNumber("a size");
    if (!size.ok()) return size.status();
    axis.size = *size;
    if (Take("@")) {
      absl::StatusOr<int64_t> stride = ReadNumber("a stride");
      if (!stride.ok()) return stride.status();
      if (*stride == kDefaultStride) return Expected("a stride of at least 1 before this");
      axis.stride = *stride;
    }
    return axis;
  }

  absl::StatusOr<std::vector<Entry>> ReadEntries() {
    if (!Take("[")) return Expected("'['");
    std::vector<Entry> entries;
    do {
      absl::StatusOr<Entry> entry = ReadEntry();
      if (!entry.ok()) return entry.status();
      entries.push_back(*std::move(entry));
    } while (Take(","));
    if (!Take("]")) return Expected("',' or ']'");
    return entries;
  }

  absl::StatusOr<Entry> ReadEntry() {
    SkipSpaces();
    size_t start = position_;
    std::string word = ReadName();
    Entry entry;
    if (Take("=")) {
      entry.axis = std::move(word);
      SkipSpaces();
      start = position_;
      word = ReadName();
    }
    absl::StatusOr<Sbp> sbp = ReadSbp(word, start);
    if (!sbp.ok()) return sbp.status();
    entry.sbp = *sbp;
    return entry;
  }

  // The rest of an entry after its word, which began at `start`.
  absl::StatusOr<Sbp> ReadSbp(absl::string_view word, size_t start) {
    if (word == "I") return Sbp::Invariant();
    if (word == "B") return Sbp::Broadcast();
    if (word == "P") return Sbp::Partial();
    if (word != "S") {
      position_ = start;
      return Expected("S(dim), I, B or P");
    }
    if (!Take("(")) return Expected("'(' and a dimension");
    absl::StatusOr<int64_t> dim = ReadNumber("a dimension");
    if (!dim.ok()) return dim.status();
    if (*dim >= kMostDims) {
      return absl::InvalidArgumentError(
          absl::StrCat("S(", *dim, "): a dimension is below ", kMostDims));
    }
    SplitRule rule = SplitRule::kChunk;
    if (Take(";")) {
      const std::optional<SplitRule> read = ReadRule();
      if (!read) return Expected("chunk, balanced, zigzag, ragged or assigned");
      rule = *read;
    }
    if (!Take(")")) return Expected("')'");
    return Sbp::Split(static_cast<int>(*dim), rule);
  }

  std::optional<SplitRule> ReadRule() {
    SkipSpaces();
    const size_t start = position_;
    const std::string word = ReadName();
    for (const SplitRule rule : kRules) {
      if (word == SplitRuleName(rule)) return rule;
    }
    position_ = start;
    return std::nullopt;
  }

  // Entries in the order of the mesh's axes.
  static absl::StatusOr<std::vector<Sbp>> Order(absl::string_view name, const Mesh& mesh,
                                                const std::vector<Entry>& entries) {
    std::vector<Sbp> sbp;
    size_t named = 0;
    for (const Entry& entry : entries) named += !entry.axis.empty();
    if (named == 0) {
      for (const Entry& entry : entries) sbp.push_back(entry.sbp);
      return sbp;
    }
    if (named != entries.size()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": name all sbp entries or none, here ",
                                                     named, " of ", entries.size(), " are named"));
    }
    std::vector<std::optional<Sbp>> by_axis(mesh.axes().size());
    for (const Entry& entry : entries) {
      const int axis = mesh.FindAxis(entry.axis);
      if (axis < 0 || by_axis[axis]) {
        return absl::InvalidArgumentError(absl::StrCat(
            name, ": sbp for axis ", entry.axis,
            axis < 0 ? " which is not in " : " is given twice for ", MeshToString(mesh)));
      }
      by_axis[axis] = entry.sbp;
    }
    for (size_t i = 0; i < by_axis.size(); ++i) {
      if (!by_axis[i]) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": no sbp for axis ", mesh.axes()[i].name));
      }
      sbp.push_back(*by_axis[i]);
    }
    return sbp;
  }

  absl::StatusOr<int64_t> ReadNumber(absl::string_view what) {
    SkipSpaces();
    const size_t start = position_;
    while (position_ < text_.size() && absl::ascii_isdigit(text_[position_])) ++position_;
    const absl::string_view digits = text_.substr(start, position_ - start);
    int64_t number;
    if (!absl::SimpleAtoi(digits, &number)) {
      position_ = start;
      return Expected(digits.empty() ? std::string(what) : absl::StrCat(what, " below 2^63"));
    }
    return number;
  }

  // The name here, or "" and nothing read.
  std::string ReadName() {
    SkipSpaces();
    size_t end = position_;
    while (end < text_.size() &&
           (absl::ascii_isalnum(text_[end]) || text_[end] == '_' || text_[end] == '.')) {
      ++end;
    }
    std::string name(text_.substr(position_, end - position_));
    if (!IsName(name)) return "";
    position_ = end;
    return name;
  }

  bool Take(absl::string_view word) {
    SkipSpaces();
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  void SkipSpaces() {
    while (position_ < text_.size() && absl::ascii_isspace(text_[position_])) ++position_;
  }

  absl::Status Expected(absl::string_view what) {
    SkipSpaces();
    size_t next = position_ + 1;
    while (next < text_.size() && IsContinuation(text_[next])) ++next;
    const std::string found =
        position_ < text_.size() ? Quoted(text_.substr(position_, next - position_)) : "the end";
    const absl::string_view before = text_.substr(0, position_);
    return absl::InvalidArgumentError(
        absl::StrCat("at ", before.size() - absl::c_count_if(before, IsContinuation), " of ",
                     Quoted(text_), ": expected ", what, ", found ", found));
  }

  absl::string_view text_;
  size_t position_ = 0;
};

// `read` on the whole of `text`.
template <typename Read>
auto ParseWhole(absl::string_view text, Read read) -> decltype(read(std::declval<Parser&>())) {
  Parser parser(text);
  auto value = read(parser);
  if (!value.ok()) return value;
  if (absl::Status status = parser.CheckEnd(); !status.ok()) return status;
  return value;
}

}  // namespace

absl::StatusOr<Mesh> ParseMesh(absl::string_view text) {
  return ParseWhole(text, [](Parser& parser) { return parser.ReadMesh(); });
}

absl::StatusOr<Layout> ParseLayout(absl::string_view text) {
  return ParseWhole(text, [](Parser& parser) { return parser.ReadLayout(); });
}

absl::StatusOr<Edge> ParseEdge(absl::string_view text) {
  return ParseWhole(text, [](Parser& parser) { return parser.ReadEdge(); });
}

}  // namespace mimo
