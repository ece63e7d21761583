// The table of commands, and errors as exit codes: 0 done, 1 failed, 2 usage, 3 does not fit.
#include <unistd.h>

#include <cstdio>
#include <new>

#include "base/error.h"
#include "cli/command.h"
#include "cli/process.h"

namespace tenon::cli {

extern const Command run_command, plan_command, inspect_command, tokenize_command, template_command, forward_command,
    eval_command, bench_command, info_command, serve_command;

namespace {

const Command* const kCommands[] = {&run_command,      &plan_command,    &inspect_command, &tokenize_command,
                                    &template_command, &forward_command, &eval_command,    &bench_command,
                                    &info_command,     &serve_command};

int exit_code(const Error& e) {
  switch (e.code()) {
    case ErrorCode::does_not_fit:
      return 3;
    case ErrorCode::invalid_argument:
      return 2;
    default:
      return 1;
  }
}

int run(int argc, char** argv) {
  CLI::App app{"tenon loads a model as it was published and runs it"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "tenon " TENON_VERSION);
  app.footer(
      "MODEL is a directory (Hugging Face), a .gguf file or a .safetensors file. `tenon COMMAND --help` explains a "
      "command.");
  std::function<int()> chosen;
  for (const Command* c : kCommands) {
    CLI::App* sub = app.add_subcommand(c->name, c->summary);
    sub->footer(std::string("Examples:\n") + c->examples);
    std::function<int()> body = c->declare(*sub);
    sub->callback([&chosen, body] { chosen = body; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  return chosen();
}

}  // namespace
}  // namespace tenon::cli

int main(int argc, char** argv) {
  tenon::cli::mark_process_start();
  try {
    int code = tenon::cli::run(argc, argv);
    if (std::fflush(stdout) != 0) {
      std::fprintf(stderr, "error: standard output could not be written\n");
      return 1;
    }
    return code;
  } catch (const tenon::Error& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", e.what());
    return tenon::cli::exit_code(e);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: out of memory\n");
    return 3;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
