#include "tensorflow_options.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ebb/import/tensorflow_device.h"

namespace ebb::tool {
namespace {

constexpr const char* kGroup = "TensorFlow's files";

}  // namespace

void TensorFlowOptions::add_reading(CLI::App& command) {
  accelerator_option_ = command
                            .add_option("--accelerator", devices_.accelerator,
                                        "Which devices are accelerators; * is any number. Nodes "
                                        "without a device count\n"
                                        "as being on one, if there is a kernel")
                            ->capture_default_str()
                            ->group(kGroup);
  tags_option_ = command
                     .add_option("--tags", tags_,
                                 "Take the graph of a SavedModel that has exactly these tags; else "
                                 "the first")
                     ->delimiter(',')
                     ->allow_extra_args(false)
                     ->group(kGroup);
}

void TensorFlowOptions::add_writing(CLI::App& command) {
  host_option_ =
      command.add_option("--host", devices_.host, "The device where swapped tensors wait")
          ->capture_default_str()
          ->group(kGroup);
  swap_nodes_option_ =
      command
          .add_option(
              "--swap-nodes", swap_nodes_,
              "What swaps become: identity, nodes on the host, or copy_kernels, which only\n"
              "TensorFlow for GPUs has")
          ->check(CLI::IsMember({"identity", "copy_kernels"}))
          ->capture_default_str()
          ->group(kGroup);
}

Status TensorFlowOptions::check() const {
  if (auto ok = check_device_pattern(devices_.accelerator, "--accelerator"); !ok) return ok;
  return check_host_device(devices_.host, "--host");
}

Status TensorFlowOptions::check_read(const std::vector<Read>& read) const {
  const auto is_tensorflow = [](const Read& each) { return each.file != nullptr; };
  const auto is_saved_model = [](const Read& each) {
    return each.file != nullptr && each.file->kind == TensorFlowKind::kSavedModel;
  };
  const Read& last = read.back();
  if (is_given(accelerator_option_) && std::ranges::none_of(read, is_tensorflow)) {
    return fail(ErrorKind::kUsage,
                fmt::format("--accelerator is for TensorFlow's files; {} is an .ebb text, where "
                            "every tensor says where it is",
                            last.name));
  }
  if (is_given(tags_option_) && std::ranges::none_of(read, is_saved_model)) {
    return fail(ErrorKind::kUsage,
                fmt::format("--tags is for SavedModels; {} is a {}", last.name,
                            last.file == nullptr ? "text of one graph" : last.file->describe()));
  }
  return {};
}

Status TensorFlowOptions::check_not_writing(std::string_view instead) const {
  for (const CLI::Option* option : {host_option_, swap_nodes_option_}) {
    if (!is_given(option)) continue;
    return fail(ErrorKind::kUsage,
                fmt::format("{} is for what is written as .pb or .pbtxt, and this becomes {}",
                            option->get_name(), instead));
  }
  return {};
}

Status TensorFlowOptions::check_not_needed() const {
  for (const CLI::Option* option :
       {accelerator_option_, tags_option_, host_option_, swap_nodes_option_}) {
    if (!is_given(option)) continue;
    return fail(ErrorKind::kUsage,
                fmt::format("{} has no say here: between .pb and .pbtxt the whole file only "
                            "changes its form",
                            option->get_name()));
  }
  return {};
}

TensorFlowFileOptions TensorFlowOptions::file() const {
  TensorFlowFileOptions options;
  if (is_given(tags_option_)) options.tags = tags_;
  return options;
}

GraphDefOptions TensorFlowOptions::reading() const {
  GraphDefOptions options;
  options.devices = devices_;
  return options;
}

GraphDefExport TensorFlowOptions::writing() const {
  return {
      .devices = devices_,
      .swap_nodes = swap_nodes_ == "copy_kernels" ? SwapNodes::kCopyKernels : SwapNodes::kIdentity};
}

}  // namespace ebb::tool
