// tenon forward: tensors in, tensors out.
#include <cstring>

#include "base/error.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "formats/checkpoint.h"
#include "formats/safetensors_writer.h"
#include "pipelines/forward.h"

namespace tenon::cli {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> inputs, outputs;
  bool hidden_states = false;
  RunFlags run;
};

template <class T>
void append(std::span<const std::byte> raw, std::vector<int32_t>& out, const std::string& file) {
  for (size_t i = 0; i + sizeof(T) <= raw.size(); i += sizeof(T)) {
    T v;
    std::memcpy(&v, raw.data() + i, sizeof(T));
    if (v < 0 || static_cast<int64_t>(v) > INT32_MAX)
      fail(ErrorCode::invalid_argument, "{}: input_ids holds {}, which is no token id", file, static_cast<int64_t>(v));
    out.push_back(static_cast<int32_t>(v));
  }
}

// input_ids [n] or [1, n], i64 or i32.
std::vector<int32_t> read_ids(const std::string& file) {
  formats::Checkpoint in = formats::Checkpoint::open(file);
  for (const auto& t : in.tensors())
    if (t.name != "input_ids")
      fail(ErrorCode::invalid_argument, "{}: this model takes input_ids, not {}", file, printable(t.name));
  const formats::TensorInfo& t = in.at("input_ids");
  bool shape = t.shape.size() == 1 || (t.shape.size() == 2 && t.shape[0] == 1);
  if (!shape || (t.dtype != DType::i64 && t.dtype != DType::i32))
    fail(ErrorCode::invalid_argument, "{}: input_ids must be I64 or I32 [n] or [1, n]", file);
  std::vector<int32_t> ids;
  if (t.dtype == DType::i64)
    append<int64_t>(in.bytes(t), ids, file);
  else
    append<int32_t>(in.bytes(t), ids, file);
  return ids;
}

int forward(const Options& o) {
  if (o.inputs.size() != o.outputs.size())
    fail(ErrorCode::invalid_argument, "{} --inputs but {} --outputs; they come in pairs", o.inputs.size(),
         o.outputs.size());
  std::vector<std::vector<int32_t>> prompts;
  int64_t longest = 1;
  for (const std::string& file : o.inputs) {
    prompts.push_back(read_ids(file));
    longest = std::max(longest, static_cast<int64_t>(prompts.back().size()));
  }
  runtime::RunOptions options = o.run.resolve();
  options.hidden_states = o.hidden_states;
  options.all_logits = true;
  options.max_sequences = std::max<int64_t>(options.max_sequences, static_cast<int64_t>(prompts.size()));
  auto model = models::Model::open(o.model, options.adapters);
  // The inputs say how much context is needed.
  if (options.context == 0) options.context = std::min(longest, model->dimensions().context);
  runtime::Engine engine(model, options);

  auto wanted = pipelines::forward_outputs(engine);
  std::vector<std::unique_ptr<formats::SafetensorsWriter>> files;
  for (size_t i = 0; i < prompts.size(); ++i) {
    std::vector<formats::SafetensorsWriter::Tensor> tensors;
    for (const auto& [name, size] : wanted)
      tensors.push_back({name, DType::f32, {static_cast<int64_t>(prompts[i].size()), size}});
    files.push_back(std::make_unique<formats::SafetensorsWriter>(o.outputs[i], std::move(tensors)));
  }
  pipelines::forward(engine, prompts, [&](const pipelines::ForwardValue& v) {
    for (size_t k = 0; k < wanted.size(); ++k)
      if (wanted[k].first == v.output)
        files[v.prompt]->write(k, static_cast<uint64_t>(v.row) * v.values.size_bytes(), std::as_bytes(v.values));
  });
  return 0;
}

std::function<int()> declare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "model directory, .gguf or .safetensors file")->required();
  app.add_option("--inputs", o->inputs, "safetensors file with input_ids; several pairs run as one batch")->required();
  app.add_option("--outputs", o->outputs, "safetensors file to write: logits [n, vocab]")->required();
  app.add_flag("--hidden-states", o->hidden_states,
               "also hidden.0 (embedding) .. hidden.L and final (after the last norm)");
  o->run.declare(app);
  return [o] { return forward(*o); };
}

}  // namespace

extern const Command forward_command{
    "forward", "Tensors in, tensors out: logits and hidden states",
    "  tenon forward model/ --inputs in.safetensors --outputs out.safetensors --compute f32\n"
    "  tenon forward model/ --inputs a.st --outputs ao.st --inputs b.st --outputs bo.st\n",
    declare};

}  // namespace tenon::cli
