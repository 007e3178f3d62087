// A user's text inside a message.

#ifndef MIMO_LAYOUT_QUOTED_H_
#define MIMO_LAYOUT_QUOTED_H_

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mimo {

// `text` between quotes, with control characters and quotes escaped: a message stays one line and
// is not cut at a NUL.
inline std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

}  // namespace mimo

#endif  // MIMO_LAYOUT_QUOTED_H_
