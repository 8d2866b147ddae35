// Reading: the JSON reader tells HeaderReader what it meets, word by word, so that nothing is built
// of a header that is wrong; then the places are checked as a whole.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ebb/import/safetensors.h"

namespace ebb {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorKind::kBadInput, std::move(message));
}

// Names and words of a file, which may be of any length, in a message.
std::string in_quotes(std::string_view word) {
  constexpr std::size_t kShown = 100;
  std::size_t end = std::min(word.size(), kShown);
  while (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0U) == 0x80U) --end;
  return fmt::format("'{}{}'", word.substr(0, end), end < word.size() ? "..." : "");
}

struct Entry {
  Safetensor tensor;
  std::uint64_t begin = 0;  // in the data
  std::uint64_t end = 0;
};

// Hears what the JSON reader reads, in order, and accepts only what the header may hold where it
// stands. What it does not accept ends the reading, with error().
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  [[nodiscard]] const std::string& error() const { return error_; }
  std::vector<Entry>& entries() { return entries_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

  bool null() override { return misplaced("null"); }
  bool boolean(bool value) override { return misplaced(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return misplaced(fmt::format("{}", value));
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return misplaced(in_quotes(text));
  }
  bool binary(binary_t& /*value*/) override { return misplaced("bytes"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<std::uint64_t>(INT64_MAX)) {
        return refuse(fmt::format("{} has a dimension of {}", subject(), value));
      }
      entries_.back().tensor.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_ == 0 ? entries_.back().begin : entries_.back().end) = value;
      ++offsets_;
      return true;
    }
    return misplaced(fmt::format("{}", value));
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      if (metadata_.emplace(key_, value).second) return true;
      return refuse(fmt::format("the metadata have {} twice", in_quotes(key_)));
    }
    if (place_ == Place::kTensor && field_ == kDType) {
      const auto dtype = find_safetensors_dtype(value);
      if (!dtype) {
        return refuse(fmt::format("{} has elements of type {}, which Ebb does not know", subject(),
                                  in_quotes(value)));
      }
      entries_.back().tensor.dtype = *dtype;
      return true;
    }
    return misplaced(in_quotes(value));
  }

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ != Place::kTop) return misplaced("an object");
    if (key_ == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) return refuse("the header has two __metadata__");
      place_ = Place::kMetadata;
      return true;
    }
    entries_.emplace_back().tensor.name = key_;
    has_field_ = {};
    place_ = Place::kTensor;
    return true;
  }

  bool key(string_t& value) override {
    if (place_ != Place::kTensor) {
      key_ = value;
      return true;
    }
    field_ = static_cast<std::size_t>(std::ranges::find(kFields, value) - kFields.begin());
    if (field_ == kFields.size()) {
      return refuse(fmt::format("{} has the field {}, which the format does not have", subject(),
                                in_quotes(value)));
    }
    if (std::exchange(has_field_[field_], true)) {
      return refuse(fmt::format("{} has two {}", subject(), value));
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      const auto* missing = std::ranges::find(has_field_, false);
      if (missing != has_field_.end()) {
        return refuse(fmt::format("{} has no {}", subject(),
                                  kFields[static_cast<std::size_t>(missing - has_field_.begin())]));
      }
    }
    place_ = place_ == Place::kTop ? Place::kOutside : Place::kTop;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::kTensor || field_ == kDType) return misplaced("a list");
    place_ = field_ == kShape ? Place::kShape : Place::kOffsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2) {
      return refuse(fmt::format("{} has {} of two data_offsets", subject(), offsets_));
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    return refuse(fmt::format("the header is not JSON, at byte {} of it", position));
  }

 private:
  enum class Place { kOutside, kTop, kMetadata, kTensor, kShape, kOffsets };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};
  static constexpr std::size_t kDType = 0;
  static constexpr std::size_t kShape = 1;

  [[nodiscard]] std::string subject() const {
    return fmt::format("tensor {}", in_quotes(entries_.back().tensor.name));
  }

  bool refuse(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  // A value that cannot stand where it does.
  bool misplaced(std::string_view found) {
    switch (place_) {
      case Place::kOutside:
        return refuse(fmt::format("the header is {}, not an object", found));
      case Place::kTop:
        return refuse(fmt::format("{} is {}, not an object with dtype, shape and data_offsets",
                                  in_quotes(key_), found));
      case Place::kMetadata:
        return refuse(
            fmt::format("the metadata have {} for {}, not a text", found, in_quotes(key_)));
      case Place::kTensor:
        return refuse(fmt::format("{} has {} for its {}", subject(), found, kFields[field_]));
      case Place::kShape:
        return refuse(fmt::format("{} has {} in its shape", subject(), found));
      case Place::kOffsets:
        return refuse(
            fmt::format("{} has {} in its data_offsets, not two whole numbers", subject(), found));
    }
    return false;
  }

  Place place_ = Place::kOutside;
  std::string key_;  // the last in the header itself, or in the metadata
  bool has_metadata_ = false;
  std::size_t field_ = 0;  // the tensor's field that is being read
  std::array<bool, kFields.size()> has_field_{};
  int offsets_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::string error_;
};

// nullopt when it does not fit.
std::optional<std::uint64_t> byte_count(const Safetensor& tensor) {
  auto count = static_cast<std::uint64_t>(element_size(tensor.dtype));
  for (const std::int64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(dim), &count)) return std::nullopt;
  }
  return count;
}

// What is wrong with a tensor by itself, or nothing.
std::optional<std::string> defect(const Entry& entry, std::uint64_t data_size) {
  const std::string name = in_quotes(entry.tensor.name);
  if (entry.end < entry.begin || entry.end > data_size) {
    return fmt::format("tensor {} is said to be at bytes {} to {} of {}", name, entry.begin,
                       entry.end, data_size);
  }
  const auto count = byte_count(entry.tensor);
  if (!count) {
    return fmt::format("tensor {} is too large: {}", name, to_text(entry.tensor));
  }
  if (*count != entry.end - entry.begin) {
    return fmt::format("tensor {} is {}, which is {} bytes, and the file has {} for it", name,
                       to_text(entry.tensor), *count, entry.end - entry.begin);
  }
  return std::nullopt;
}

// Sorts by place, and finds what lies in another's bytes or leaves bytes to nobody.
std::optional<std::string> misplacement(std::vector<Entry>& entries, std::uint64_t data_size) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (entry.begin < covered) {
      return fmt::format("tensors {} and {} lie in the same bytes",
                         in_quotes(entries[i - 1].tensor.name), in_quotes(entry.tensor.name));
    }
    if (entry.begin > covered) {
      return fmt::format("the {} bytes before tensor {} belong to no tensor", entry.begin - covered,
                         in_quotes(entry.tensor.name));
    }
    covered = entry.end;
  }
  if (covered < data_size) {
    return fmt::format("the last {} bytes belong to no tensor", data_size - covered);
  }
  return std::nullopt;
}

// Sorts by name, and finds a name given twice.
std::optional<std::string> repetition(std::vector<Safetensor>& tensors) {
  std::ranges::sort(tensors, {}, &Safetensor::name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &Safetensor::name);
  if (twice == tensors.end()) return std::nullopt;
  return fmt::format("the header has two tensors {}", in_quotes(twice->name));
}

// The header's text; the rest of the file begins where it ends.
Result<std::string_view> find_header(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return bad(
        fmt::format("the file has {} bytes, and a safetensors file begins with {} that say "
                    "how long its header is",
                    file.size(), kLengthBytes));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8U | std::to_integer<std::uint64_t>(file[i]);
  }
  const auto rest = file.subspan(kLengthBytes);
  if (length > rest.size()) {
    return bad(
        fmt::format("the header is said to be {} bytes long, and {} follow: the file is cut "
                    "off, or no safetensors file",
                    length, rest.size()));
  }
  if (length > kLongestSafetensorsHeader) {
    return bad(fmt::format("the header is {} bytes long, and {} are allowed", length,
                           kLongestSafetensorsHeader));
  }
  const std::string_view header(reinterpret_cast<const char*>(rest.data()), length);
  if (!header.starts_with('{')) {
    return bad("the header does not begin with '{': this is no safetensors file");
  }
  return header;
}

}  // namespace

Result<Safetensors> read_safetensors(std::span<const std::byte> file) {
  const auto header = find_header(file);
  if (!header) return fail(header.error());
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header->begin(), header->end(), &reader)) {
    return bad(reader.error());
  }
  const auto data = file.subspan(kLengthBytes + header->size());
  std::vector<Entry>& entries = reader.entries();
  for (const Entry& entry : entries) {
    if (auto wrong = defect(entry, data.size())) return bad(*std::move(wrong));
  }
  const auto misplaced = misplacement(entries, data.size());
  Safetensors content;
  content.metadata = std::move(reader.metadata());
  content.tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    entry.tensor.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    content.tensors.push_back(std::move(entry.tensor));
  }
  // The nearer cause first: what stands there twice mostly lies there twice.
  if (auto wrong = repetition(content.tensors)) return bad(*std::move(wrong));
  if (misplaced) return bad(*misplaced);
  return content;
}

}  // namespace ebb
