#include "ebb/import/tensorflow_kind.h"

#include <array>

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>

#include "ebb/base/utf8.h"
#include "ebb/import/graphdef_error.h"

namespace ebb {
namespace {

constexpr int kLevels = 6;   // as far inwards as a node's attributes in a SavedModel
constexpr int kSamples = 4;  // values of a field that are looked into; of the others, the lengths

// How well bytes fit a message. `known` and `unknown` count its own fields only.
struct Fit {
  bool is_wrong = false;  // a known field holds what it cannot hold
  bool is_cut = false;    // the last field goes on beyond the end
  std::size_t known = 0;
  std::size_t unknown = 0;

  [[nodiscard]] bool is_exact() const { return !is_wrong && !is_cut && unknown == 0; }
  // Newer versions add fields.
  [[nodiscard]] bool is_likely() const { return !is_wrong && known > unknown; }
};

// Names do not begin with control characters, and messages mostly do.
bool is_name(std::string_view text) {
  return is_utf8(text) && (text.empty() || static_cast<unsigned char>(text[0]) >= 0x20);
}

Fit fit(const ProtoMessage& message, std::string_view bytes, int levels);

bool holds(const ProtoField& field, std::string_view bytes, int levels) {
  if (field.kind == ProtoKind::kString) return is_name(bytes);
  if (field.kind != ProtoKind::kMessage || levels == 0) return true;
  const Fit inner = fit(held_message(field), bytes, levels - 1);
  return !inner.is_cut && (inner.is_exact() || inner.is_likely());
}

Fit fit(const ProtoMessage& message, std::string_view bytes, int levels) {
  Fit found;
  std::array<int, kMostProtoFields> samples{};
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      const auto wire = static_cast<std::uint32_t>(reader.wire_type());
      const ProtoField* field = message.find(reader.tag());
      const bool is_run = wire == 2 && field != nullptr && field->is_repeated();
      if (field == nullptr) {
        reader.skip();
        ++found.unknown;
      } else if (wire != wire_type(field->kind) && !is_run) {
        found.is_wrong = true;
        return found;
      } else {
        ++found.known;
        if (wire != 2 || wire_type(field->kind) != 2) {
          reader.skip();
          continue;
        }
        const protozero::data_view view = reader.get_view();
        if (samples[message.index_of(*field)]++ >= kSamples) continue;
        if (!holds(*field, {view.data(), view.size()}, levels)) {
          found.is_wrong = true;
          return found;
        }
      }
    }
  } catch (const protozero::end_of_buffer_exception&) {
    found.is_cut = true;
  } catch (const protozero::exception&) {
    found.is_wrong = true;
  }
  return found;
}

}  // namespace

Result<TensorFlowKind> kind_of_bytes(std::string_view bytes) {
  std::array<Fit, std::size(kTensorFlowKinds)> fits;
  for (const TensorFlowKind kind : kTensorFlowKinds) {
    Fit& found = fits[static_cast<std::size_t>(kind)];
    found = fit(root_message(kind), bytes, kLevels);
    if (found.is_exact()) return kind;
  }
  for (const TensorFlowKind kind : kTensorFlowKinds) {
    const Fit& found = fits[static_cast<std::size_t>(kind)];
    if (!found.is_likely()) continue;
    if (!found.is_cut) return kind;
    return refuse_graphdef("G01",
                           fmt::format("the file begins like a binary {} and ends after {} bytes "
                                       "in the middle of a field: it is cut off",
                                       to_text(kind), bytes.size()));
  }
  return refuse_graphdef("G01",
                         "this is no TensorFlow graph: neither a GraphDef nor a MetaGraphDef nor a "
                         "SavedModel, binary or text");
}

}  // namespace ebb
