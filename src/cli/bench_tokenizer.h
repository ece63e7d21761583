// tenon bench tokenizer: a part of the command `bench`.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace tenon::cli {

// Declares the subcommand's flags; the returned function runs it.
std::function<int()> declare_bench_tokenizer(CLI::App& app);

}  // namespace tenon::cli
