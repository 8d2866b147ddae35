#include "state_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/graph/text_names.h"
#include "tools/ebb/input.h"

namespace ebb::tool {
namespace {

constexpr std::string_view kGenerator = "ebb.generator";
constexpr std::string_view kFormatKey = "format";
constexpr std::string_view kFormat = "ebb-step-1";
constexpr std::string_view kFormats = "ebb-step-";  // what all versions begin with

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorKind::kBadInput, std::move(message));
}

// The tensor that a node brings in, with bytes of its own; not valid for other nodes.
TensorId declared_tensor(const Graph& graph, NodeId node) {
  const NodeKind kind = graph.kind(node);
  if (kind != NodeKind::kInput && kind != NodeKind::kParam && kind != NodeKind::kConst) return {};
  const TensorId tensor = graph.results(node)[0];
  return graph.root(graph.storage(tensor)) == tensor ? tensor : TensorId();
}

// What the format cannot hold as it is, because it is not row-major, stands there as one row.
bool fits(const Safetensor& found, const TensorType& type) {
  const auto bytes = extent(type);
  if (!bytes) return true;  // unknown sizes are refused when the step is made
  const auto count = bytes->count / element_size(type.dtype);
  return found.dtype == type.dtype &&
         static_cast<std::int64_t>(found.bytes.size()) == bytes->count &&
         (found.shape == type.dims || found.shape == std::vector{count});
}

Status check_format(const Metadata& metadata, const std::string& name) {
  const auto format = metadata.find(std::string(kFormatKey));
  // Files of other makers say other things, and may have the tensors all the same.
  if (format == metadata.end() || !format->second.starts_with(kFormats)) return {};
  if (format->second == kFormat) return {};
  return bad(
      fmt::format("{} is of format {}, and this version of ebb reads {}: save the step again", name,
                  printable(format->second), kFormat));
}

}  // namespace

Result<StateFile> StateFile::load(const Graph& graph, const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return fail(file.error());
  const auto content = read_safetensors(file->bytes());
  const std::string name = shown_name(path);
  if (!content) return bad(fmt::format("{}: {}", name, content.error().message));
  if (Status ok = check_format(content->metadata, name); !ok) return fail(ok.error());
  StateFile state(*std::move(file));
  if (Status ok = state.take(graph, *content, name); !ok) return fail(ok.error());
  state.metadata_ = content->metadata;
  return state;
}

Status StateFile::take(const Graph& graph, const Safetensors& content, const std::string& name) {
  std::vector<TensorId> missing;
  for (const NodeId node : graph.order()) {
    const TensorId tensor = declared_tensor(graph, node);
    if (!tensor.valid()) continue;
    const Safetensor* found = content.find(graph.name(tensor));
    if (found == nullptr) {
      missing.push_back(tensor);
      continue;
    }
    if (!fits(*found, graph.type(tensor))) {
      return bad(fmt::format("{}: '{}' is {}, and the step has %{}: {}", name, found->name,
                             to_text(*found), spelled(found->name), to_text(graph.type(tensor))));
    }
    declared_.push_back({tensor, graph.kind(node), found->shape, found->bytes});
  }
  if (!missing.empty()) {
    return bad(fmt::format(
        "{} has no '{}', which the step needs{}: is it another step's file?", name,
        graph.name(missing[0]),
        missing.size() == 1 ? "" : fmt::format(", and lacks {} more", missing.size() - 1)));
  }
  for (const Safetensor& tensor : content.tensors) {
    if (tensor.name == kGenerator) {
      generator_.assign(tensor.bytes.begin(), tensor.bytes.end());
      continue;
    }
    const TensorId known = graph.find_tensor(tensor.name);
    if (!known.valid() || !declared_tensor(graph, graph.producer(known)).valid()) {
      unused_.push_back(tensor.name);
    }
  }
  return {};
}

Status StateFile::move_in(const torch::Step& step) {
  for (Declared& declared : declared_) {
    if (declared.kind == NodeKind::kInput) {
      // Their places are used again within a step.
      const auto& copy = input_bytes_.emplace_back(declared.bytes.begin(), declared.bytes.end());
      declared.bytes = copy;
    } else {
      if (Status ok = step.write(declared.tensor, declared.bytes); !ok) return ok;
      declared.bytes = {step.place(declared.tensor), declared.bytes.size()};
    }
  }
  file_.reset();
  return {};
}

Status StateFile::fill_inputs(const torch::Step& step) const {
  for (const Declared& declared : declared_) {
    if (declared.kind != NodeKind::kInput) continue;
    if (Status ok = step.write(declared.tensor, declared.bytes); !ok) return ok;
  }
  return {};
}

Status StateFile::save(const std::string& path, const torch::Step& step, Metadata metadata,
                       std::span<const std::byte> generator) const {
  Safetensors content;
  std::vector<std::vector<std::byte>> from_device;
  for (const Declared& declared : declared_) {
    std::span<const std::byte> bytes = declared.bytes;
    if (declared.kind != NodeKind::kInput && !step.device().is_cpu()) {
      auto& copy = from_device.emplace_back(bytes.size());
      if (Status ok = step.read(declared.tensor, copy); !ok) return ok;
      bytes = copy;
    }
    content.tensors.push_back({std::string(step.graph().name(declared.tensor)),
                               step.graph().type(declared.tensor).dtype, declared.shape, bytes});
  }
  content.tensors.push_back({std::string(kGenerator),
                             DType::kU8,
                             {static_cast<std::int64_t>(generator.size())},
                             generator});
  metadata[std::string(kFormatKey)] = kFormat;
  content.metadata = std::move(metadata);
  const auto pieces = write_safetensors(content);
  if (!pieces) return fail(pieces.error());
  return write_file(path, pieces->all());
}

}  // namespace ebb::tool
