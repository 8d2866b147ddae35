// What commands share that write a rewritten graph: where it goes, and dumps on the way.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "ebb/base/result.h"
#include "ebb/graph/graph.h"
#include "ebb/rewrite/lms.h"
#include "ebb/rewrite/rewriter.h"
#include "input.h"
#include "output_form.h"

namespace ebb::tool {

// Whether two paths lead to the same file, as far as that can be seen.
bool are_one_file(const std::string& a, const std::string& b);

// Whether what these parameters make can be written so: TensorFlow's files have no codecs.
[[nodiscard]] Status check_codec(Form form, const LmsOptions& parameters);

struct RewrittenOutput {
  std::string path;
  std::string format;      // "ebb", "pb", "pbtxt", or empty: by the suffix of the path
  std::string dump_after;  // "each", or empty

  void add_options(CLI::App& command);
  // For a command that need not write a graph: then the path is empty.
  void add_optional(CLI::App& command);
  // Standard output takes one thing, and what is written may not replace `kept`, a file that the
  // command reads or writes besides (empty: there is none). The graph may replace the graph.
  [[nodiscard]] Status check(bool json, const std::string& kept) const;
  // That of the input, where neither --to nor the suffix says another. Wrong usage: options that
  // are about writing in TensorFlow's forms, if it is none of these.
  [[nodiscard]] Result<Form> form(const InputGraph& input, const TensorFlowOptions& options) const;
  [[nodiscard]] RewriterOptions rewriting() const;

 private:
  CLI::Option* add_form(CLI::App& command);
};

}  // namespace ebb::tool
