// `tenon bench serve`.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace tenon::cli {

std::function<int()> declare_bench_serve(CLI::App& app);

}  // namespace tenon::cli
