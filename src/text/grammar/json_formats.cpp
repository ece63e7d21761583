#include "text/grammar/json_formats.h"

#include <utility>

namespace tenon::text::grammar {
namespace {

// RFC 3339, years 0001 to 9999, the 29th of February in leap years only.
const std::string kYear = "(\\d{3}[1-9]|\\d{2}[1-9]\\d|\\d[1-9]\\d{2}|[1-9]\\d{3})";
const std::string kDay =
    "((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))";
const std::string kLeapYear = "(\\d{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)";
const std::string kDate = "(" + kYear + "-" + kDay + "|" + kLeapYear + "-02-29)";
const std::string kTime = "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
const std::string kLabel = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,22}[a-zA-Z0-9])?";
const std::string kHostname = kLabel + "(\\." + kLabel + "){0,5}";
const std::string kDomain = kLabel + "(\\." + kLabel + "){1,5}";
const std::string kByte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const std::string kIpv4 = "(" + kByte + "(\\." + kByte + "){3})";
const std::string kAtom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";

// RFC 4291: up to seven groups around "::", eight without it; the last two may be written as an IPv4 address.
std::string ipv6() {
  const std::string h = "[0-9a-fA-F]{1,4}";
  auto up_to = [](int n) { return "{0," + std::to_string(n) + "}"; };
  std::string out = "((" + h + ":){6}(" + h + ":" + h + "|" + kIpv4 + ")";
  for (int before = 0; before <= 7; ++before) {
    const int after = 7 - before;
    out += "|" + (before == 0 ? ":" : "(" + h + ":){" + std::to_string(before) + "}") + ":(";
    if (after >= 1) out += h + "(:" + h + ")" + up_to(after - 1) + "|";
    if (after >= 2) out += "(" + h + ":)" + up_to(after - 2) + kIpv4 + "|";
    out += ")";
  }
  return out + ")";
}

// RFC 3986.
std::string uri() {
  const std::string unreserved = "a-zA-Z0-9._~\\-", delimiters = "!$&'()*+,;=";
  const std::string escaped = "%[0-9a-fA-F]{2}";
  auto any_of = [&](const std::string& more) { return "([" + unreserved + delimiters + more + "]|" + escaped + ")"; };
  const std::string segments = "(/" + any_of(":@") + "*)*", path = any_of(":@") + "+" + segments;
  const std::string future = "v[0-9a-fA-F]+\\.[" + unreserved + delimiters + ":]+";
  const std::string host = "(\\[(" + ipv6() + "|" + future + ")\\]|" + any_of("") + "*)";
  const std::string authority = "(" + any_of(":") + "*@)?" + host + "(:\\d*)?";
  const std::string behind = any_of(":@/?") + "*";
  return "[a-zA-Z][a-zA-Z0-9+.\\-]{0,15}:(//" + authority + segments + "|/(" + path + ")?|" + path + "|)(\\?" + behind +
         ")?(#" + behind + ")?";
}

std::string duration() {
  const std::string n = "\\d{1,6}";
  const std::string clock = "T(" + n + "H(" + n + "M(" + n + "S)?)?|" + n + "M(" + n + "S)?|" + n + "S)";
  const std::string days = "(" + n + "Y(" + n + "M(" + n + "D)?)?|" + n + "M(" + n + "D)?|" + n + "D)";
  return "P(" + n + "W|" + days + "(" + clock + ")?|" + clock + ")";
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  static const std::pair<std::string_view, std::string> kFormats[] = {
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "T" + kTime},
      {"duration", duration()},
      {"uuid", "[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
      {"email", kAtom + "(\\." + kAtom + "){0,3}@" + kDomain},
      {"hostname", kHostname},
      {"ipv4", kIpv4},
      {"ipv6", ipv6()},
      {"uri", uri()},
  };
  for (const auto& [name, pattern] : kFormats)
    if (name == format) return pattern;
  return std::nullopt;
}

}  // namespace tenon::text::grammar
