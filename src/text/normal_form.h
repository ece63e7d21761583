// Unicode normalization forms as the reference has them (an older Unicode than its regular expressions).
#pragma once
#include <string>
#include <string_view>

namespace tenon::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// `text` is valid UTF-8. Returns false and leaves `out` alone when the text is in the form already (a quick test that
// may miss some such texts).
bool to_normal_form(std::string_view text, NormalForm form, std::string& out);

}  // namespace tenon::text
