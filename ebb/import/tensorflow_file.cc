#include "ebb/import/tensorflow_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <protozero/pbf_reader.hpp>

#include "ebb/import/graphdef_error.h"
#include "ebb/import/tensorflow_kind.h"
#include "ebb/import/textproto.h"
#include "ebb/import/textproto_cursor.h"

namespace ebb {
namespace {

constexpr std::uint32_t kMetaGraphs = 2;   // of a SavedModel
constexpr std::uint32_t kMetaInfoDef = 1;  // of a MetaGraphDef
constexpr std::uint32_t kGraphDef = 2;
constexpr std::uint32_t kTags = 4;  // of a MetaInfoDef

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorKind::kBadInput, std::move(message));
}

// A field that holds bytes: where they are, and where their length is.
struct Found {
  ByteRange content;
  ByteRange length;
};

// All fields of this number in a part of the bytes.
std::vector<Found> find_fields(std::string_view bytes, ByteRange part, std::uint32_t number) {
  std::vector<Found> found;
  const std::string_view inside = bytes.substr(part.begin, part.size);
  protozero::pbf_reader reader(inside.data(), inside.size());
  while (reader.next()) {
    if (reader.tag_and_type() !=
        protozero::tag_and_type(number, protozero::pbf_wire_type::length_delimited)) {
      reader.skip();
      continue;
    }
    const auto length_begin = static_cast<std::size_t>(reader.data().data() - bytes.data());
    const protozero::data_view view = reader.get_view();
    const auto begin = static_cast<std::size_t>(view.data() - bytes.data());
    found.push_back({.content = {.begin = begin, .size = view.size()},
                     .length = {.begin = length_begin, .size = begin - length_begin}});
  }
  return found;
}

std::vector<std::string> find_tags(std::string_view bytes, ByteRange meta_graph) {
  std::vector<std::string> tags;
  for (const Found& info : find_fields(bytes, meta_graph, kMetaInfoDef)) {
    for (const Found& tag : find_fields(bytes, info.content, kTags)) {
      tags.emplace_back(bytes.substr(tag.content.begin, tag.content.size));
    }
  }
  return tags;
}

bool is_same_set(std::vector<std::string> a, std::vector<std::string> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

// Protobuf would merge several; a graph that stands in pieces has no place to be put back to.
Status take_graph(TensorFlowFile& file, ByteRange meta_graph) {
  const auto graphs = find_fields(file.bytes, meta_graph, kGraphDef);
  if (graphs.empty()) return bad(fmt::format("the {} has no graph", to_text(file.kind)));
  if (graphs.size() > 1) {
    return bad(
        fmt::format("the {} has its graph in {} pieces; have TensorFlow read and write it, "
                    "which makes one of them",
                    to_text(file.kind), graphs.size()));
  }
  file.graph = graphs.front().content;
  file.lengths.push_back(graphs.front().length);
  return {};
}

Status choose_meta_graph(TensorFlowFile& file, const TensorFlowFileOptions& options) {
  const auto all = find_fields(file.bytes, {.begin = 0, .size = file.bytes.size()}, kMetaGraphs);
  file.meta_graph_count = all.size();
  std::vector<std::string> known;
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto tags = find_tags(file.bytes, all[i].content);
    const bool is_wanted = options.tags
                               ? is_same_set(*options.tags, tags)
                               : !find_fields(file.bytes, all[i].content, kGraphDef).empty();
    if (is_wanted) {
      file.meta_graph = i;
      file.tags = std::move(tags);
      file.lengths.push_back(all[i].length);
      return take_graph(file, all[i].content);
    }
    known.push_back(fmt::format("{{{}}}", fmt::join(tags, ", ")));
  }
  if (!options.tags) return bad("the SavedModel has no graph");
  return bad(fmt::format("the SavedModel has no graph with the tags {{{}}}; it has {}",
                         fmt::join(*options.tags, ", "),
                         known.empty() ? "none at all" : fmt::to_string(fmt::join(known, ", "))));
}

Status find_graph(TensorFlowFile& file, const TensorFlowFileOptions& options) {
  const ByteRange all{.begin = 0, .size = file.bytes.size()};
  try {
    switch (file.kind) {
      case TensorFlowKind::kGraphDef:
        file.graph = all;
        return {};
      case TensorFlowKind::kMetaGraphDef:
        return take_graph(file, all);
      case TensorFlowKind::kSavedModel:
        return choose_meta_graph(file, options);
    }
  } catch (const protozero::exception& damage) {
    return refuse_graphdef(
        "G01", fmt::format("the {} is damaged ({})", to_text(file.kind), damage.what()));
  }
  return {};
}

}  // namespace

std::string TensorFlowFile::describe() const {
  std::string out = fmt::format("{} {}", is_text ? "text" : "binary", to_text(kind));
  if (kind != TensorFlowKind::kSavedModel) return out;
  return fmt::format("{}, graph {} of {}, tags: {}", out, meta_graph + 1, meta_graph_count,
                     tags.empty() ? "none" : fmt::to_string(fmt::join(tags, ", ")));
}

bool is_textproto(std::string_view content) {
  constexpr std::size_t kLookedAt = 4096;
  const auto is_control = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && (byte < '\t' || byte > '\r');
  };
  if (std::ranges::any_of(content.substr(0, kLookedAt), is_control)) return false;
  TextProtoCursor cursor(content);
  if (cursor.name().empty()) return false;
  const char next = cursor.peek();
  return next == ':' || next == '{' || next == '<' || next == '[';
}

Result<TensorFlowFile> read_tensorflow_file(std::string content,
                                            const TensorFlowFileOptions& options) {
  if (content.empty()) return refuse_graphdef("G01", "the file is empty");
  TensorFlowFile file;
  file.is_text = is_textproto(content);
  if (file.is_text) {
    const auto kind = kind_of_text(content);
    if (!kind) return fail(kind.error());
    file.kind = *kind;
    auto bytes = graphdef_from_text(content, *kind);
    if (!bytes) return fail(bytes.error());
    file.bytes = *std::move(bytes);
  } else {
    if (content.size() > kLargestProto) {
      return refuse_graphdef(
          "G08", fmt::format("the file has {} bytes, and protobuf reads no message of more than "
                             "2 GiB: save the weights apart from the graph (a checkpoint, a "
                             "SavedModel with variables)",
                             content.size()));
    }
    const auto kind = kind_of_bytes(content);
    if (!kind) return fail(kind.error());
    file.kind = *kind;
    file.bytes = std::move(content);
  }
  if (auto found = find_graph(file, options); !found) return fail(found.error());
  return file;
}

}  // namespace ebb
