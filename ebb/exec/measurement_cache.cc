#include "ebb/exec/measurement_cache.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ebb/base/hash_index.h"

namespace ebb::exec {
namespace {

// When a file has more it begins anew: signatures that nobody uses any more are in it for ever.
constexpr std::size_t kMostOperations = 20'000;

// What this process has run or measured; the rest only came with the file.
MeasurementFile used_of(const MeasurementFile& file) {
  MeasurementFile used{.environment = file.environment, .link = file.link};
  for (const auto& [signature, measured] : file.operations) {
    if (measured.is_new || measured.is_warm) used.operations.emplace(signature, measured);
  }
  return used;
}

// Names are hashes, and anybody may have put another file there.
Result<MeasurementFile> read_for(const Environment& environment, const std::string& text) {
  auto file = parse_measurements(text);
  if (!file) return file;
  if (file->environment != environment) {
    return fail(ErrorKind::kBadInput, "it was measured in another environment");
  }
  return file;
}

}  // namespace

std::string file_name(const Environment& environment) {
  std::string text;
  for (const auto& [key, value] : environment) text += fmt::format("{}={}\n", key, value);
  return fmt::format("measured-{:016x}.json", hash_bytes(text));
}

LoadedMeasurements load_measurements(const Cache& cache, Environment environment) {
  const std::string name = file_name(environment);
  LoadedMeasurements loaded;
  if (const auto text = cache.read(name)) {
    auto file = read_for(environment, *text);
    if (file) {
      loaded.file = *std::move(file);
      return loaded;
    }
    const std::string path = printable(cache.path_of(name));
    loaded.note = fmt::format("{} cannot be used, and operations are measured again: {}", path,
                              file.error().render(path));
  }
  loaded.file.environment = std::move(environment);
  return loaded;
}

void save_measurements(const Cache& cache, const MeasurementFile& file) {
  const auto is_new = [](const auto& operation) { return operation.second.is_new; };
  if (std::none_of(file.operations.begin(), file.operations.end(), is_new)) return;
  cache.update(file_name(file.environment), [&](const std::optional<std::string>& before) {
    MeasurementFile all;
    if (before) {
      if (auto theirs = read_for(file.environment, *before)) all = *std::move(theirs);
    }
    all.environment = file.environment;
    if (file.link) all.link = file.link;
    for (const auto& [signature, measured] : file.operations) {
      Measured& ours = all.operations[signature];
      if (measured.recipe && (measured.is_new || !ours.recipe)) ours.recipe = measured.recipe;
      if (measured.time && (measured.is_new || !ours.time)) ours.time = measured.time;
    }
    return to_json(all.operations.size() > kMostOperations ? used_of(file) : all);
  });
}

}  // namespace ebb::exec
