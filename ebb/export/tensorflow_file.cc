#include "ebb/export/tensorflow_file.h"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>

#include "ebb/export/textproto.h"

namespace ebb {
namespace {

std::string as_varint(std::uint64_t value) {
  std::string out;
  protozero::add_varint_to_buffer(&out, value);
  return out;
}

// A length counts what follows it up to the end of its message, lengths further inwards included;
// so they are found from the inside out.
std::vector<std::string> new_lengths(const TensorFlowFile& file, std::size_t graph_size) {
  std::vector<std::string> lengths(file.lengths.size());
  const std::size_t old_end = file.graph.begin + file.graph.size;
  std::size_t growth = graph_size - file.graph.size;  // modulo 2^64 where the graph shrinks
  for (std::size_t i = file.lengths.size(); i-- > 0;) {
    const ByteRange& place = file.lengths[i];
    const char* at = file.bytes.data() + place.begin;
    const std::size_t old_value = protozero::decode_varint(&at, file.bytes.data() + old_end);
    lengths[i] = as_varint(old_value + growth);
    growth += lengths[i].size() - place.size;
  }
  return lengths;
}

std::string replaced(const TensorFlowFile& file, std::string_view graphdef) {
  if (graphdef == file.graphdef()) return file.bytes;
  const std::vector<std::string> lengths = new_lengths(file, graphdef.size());
  std::string out;
  out.reserve(file.bytes.size() + graphdef.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const ByteRange& place = file.lengths[i];
    out.append(file.bytes, at, place.begin - at);
    out += lengths[i];
    at = place.begin + place.size;
  }
  out.append(file.bytes, at, file.graph.begin - at);
  out += graphdef;
  out.append(file.bytes, file.graph.begin + file.graph.size);
  return out;
}

}  // namespace

Result<std::string> with_graphdef(const TensorFlowFile& file, std::string_view graphdef) {
  std::string out = replaced(file, graphdef);
  if (out.size() > kLargestProto) {
    return fail(ErrorKind::kBadInput,
                fmt::format("with its new graph the {} would have {} bytes, and protobuf reads no "
                            "message of more than 2 GiB",
                            to_text(file.kind), out.size()));
  }
  if (!file.is_text) return out;
  return graphdef_to_text(out, file.kind);
}

Result<std::string> to_text(const TensorFlowFile& file) {
  return graphdef_to_text(file.bytes, file.kind);
}

}  // namespace ebb
