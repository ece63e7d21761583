// A command: one file, one line in the table of main.cpp.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace tenon::cli {

struct Command {
  const char* name;
  const char* summary;
  const char* examples;  // shown by --help
  // Declares the flags; the returned function runs the command and gives the exit code.
  std::function<int()> (*declare)(CLI::App& app);
};

}  // namespace tenon::cli
