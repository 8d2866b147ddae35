// The tensors that a step is given, as the file beside it keeps them: inputs, parameters and
// constants by the graph's names, each with its bytes as they lie in memory, and the state of
// PyTorch's random number generator. Declarations that share another's bytes are not in the file.
//
//   Result<StateFile> file = StateFile::load(graph, "step.safetensors");   // checked
//   file->move_in(*step);             // state and constants, once
//   file->fill_inputs(*step);         // before every step
//   Status ok = file->save("next.safetensors", *step, metadata, generator_state());
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/file.h"
#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/import/safetensors.h"
#include "ebb/torch/step.h"
#include "scalar_values.h"

namespace ebb::tool {

class StateFile {
 public:
  // Fails (kBadInput) when tensors are missing, or are not what the graph declares.
  [[nodiscard]] static Result<StateFile> load(const Graph& graph, const std::string& path);

  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  // Empty when the file has none.
  [[nodiscard]] std::span<const std::byte> generator() const { return generator_; }
  // Tensors of the file that the step does not ask for, by name.
  [[nodiscard]] const std::vector<std::string>& unused() const { return unused_; }

  // Copies parameters and constants to their places, and lets go of the file. Once.
  [[nodiscard]] Status move_in(const torch::Step& step);
  [[nodiscard]] Status fill_inputs(const torch::Step& step) const;

  // Everything again, with the parameters as they are now, in the same layout: a file that load
  // takes.
  [[nodiscard]] Status save(const std::string& path, const torch::Step& step, Metadata metadata,
                            std::span<const std::byte> generator) const;

 private:
  struct Declared {
    TensorId tensor;
    NodeKind kind = NodeKind::kParam;
    std::vector<std::int64_t> shape;   // in the file
    std::span<const std::byte> bytes;  // in the file; of inputs, the copy in input_bytes_; or moved
  };

  explicit StateFile(MappedFile file) : file_(std::move(file)) {}
  [[nodiscard]] Status take(const Graph& graph, const Safetensors& content,
                            const std::string& name);

  std::optional<MappedFile> file_;
  std::vector<Declared> declared_;
  std::vector<std::vector<std::byte>> input_bytes_;
  Metadata metadata_;
  std::vector<std::byte> generator_;
  std::vector<std::string> unused_;
};

}  // namespace ebb::tool
