// One JSON value of tool calls, byte by byte: where it ends, and on the way its calls' names and arguments as they
// come.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::text {

class CallScan {
 public:
  // Arguments that have begun; of one call an event begins with `name`, further ones have none.
  struct Event {
    std::string name, arguments;  // JSON text without white space between its parts
  };

  // `c` opens the value. Behind a header that names the call the value is its arguments, else it is an object with name
  // and arguments, or a list of such.
  void begin(char c, std::string_view name);
  // True: the value ends with `c`.
  bool step(char c);

  std::vector<Event> take();
  // Calls that were told of, from the first on without a gap. (One whose arguments come before its name is not.)
  size_t told() const { return told_; }

 private:
  void begin_arguments(std::string name, char c);
  void end_string();

  size_t depth_ = 0, call_depth_ = 0, told_ = 0;
  bool in_string_ = false, escaped_ = false, in_arguments_ = false;
  bool call_told_ = false, telling_ = true;  // telling_: no call went by untold
  std::string text_, key_;                   // of a string of a call's object; of its member
  std::string name_;                         // of the call, once it is known
  std::vector<Event> events_;
};

}  // namespace tenon::text
