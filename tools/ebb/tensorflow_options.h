// The options of a command that are about TensorFlow's files alone.
//
// One that can have no effect is wrong usage: whoever gives --accelerator expects that it decides
// something, and an .ebb text says by itself what is where.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ebb/base/result.h"
#include "ebb/export/graphdef.h"
#include "ebb/import/graphdef.h"
#include "ebb/import/tensorflow_file.h"

namespace ebb::tool {

class TensorFlowOptions {
 public:
  void add_reading(CLI::App& command);  // --accelerator, --tags
  void add_writing(CLI::App& command);  // --host, --swap-nodes

  // Whether devices are devices.
  [[nodiscard]] Status check() const;
  // Of what was read, `nullptr` where it was an .ebb text: whether somebody needed the options.
  struct Read {
    std::string name;
    const TensorFlowFile* file = nullptr;
  };
  [[nodiscard]] Status check_read(const std::vector<Read>& read) const;
  // What is written is none of TensorFlow's files, but `instead`, "an .ebb text".
  [[nodiscard]] Status check_not_writing(std::string_view instead) const;
  // A file of TensorFlow's changes its form, and no graph is made of it.
  [[nodiscard]] Status check_not_needed() const;

  [[nodiscard]] TensorFlowFileOptions file() const;
  [[nodiscard]] GraphDefOptions reading() const;
  [[nodiscard]] GraphDefExport writing() const;

 private:
  static bool is_given(const CLI::Option* option) {
    return option != nullptr && option->count() > 0;
  }

  TensorFlowDevices devices_;
  std::vector<std::string> tags_;
  std::string swap_nodes_ = "identity";
  CLI::Option* accelerator_option_ = nullptr;
  CLI::Option* tags_option_ = nullptr;
  CLI::Option* host_option_ = nullptr;
  CLI::Option* swap_nodes_option_ = nullptr;
};

}  // namespace ebb::tool
