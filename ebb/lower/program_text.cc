#include <iterator>

#include <fmt/format.h>

#include "ebb/graph/print.h"
#include "ebb/graph/text_names.h"
#include "ebb/lower/program.h"

namespace ebb {
namespace {

class Listing {
 public:
  Listing(const Graph& graph, const Program& program) : graph_(graph), program_(program) {}

  std::string write() {
    write_head();
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      write("{}: ", i);
      write_instruction(program_.instructions[i]);
      write_waits(program_.instructions[i]);
      out_ += '\n';
    }
    return std::move(out_);
  }

 private:
  template <class... Args>
  void write(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void write_head() {
    const std::size_t count = program_.instructions.size();
    write("program {}: {} instruction{}, arena {}, state {}, bound {}", spelled(graph_.name()),
          count, count == 1 ? "" : "s", program_.arena_size.count, program_.state_size.count,
          program_.bound.count);
    if (program_.host_size.count > 0) {
      write(", host {} (bound {})", program_.host_size.count, program_.host_bound.count);
    }
    write(", {} in place\n", program_.reused_in_place);
  }

  void write_instruction(const Instruction& instruction) {
    const NodeId node = instruction.node;
    if (instruction.kind == InstructionKind::kArithmetic) {
      out_ += print(graph_, node);
      return;
    }
    write_results(node);
    append_op(out_, graph_.op(node));
    out_ += '(';
    write_operands(node);
    out_ += ')';
    const char* separator = " asks for ";
    for (const Serving& serving : program_.servings_of(instruction)) {
      out_ += separator;
      separator = ", ";
      if (serving.offset == Serving::kElsewhere) {
        write("{} elsewhere", serving.size.count);
      } else {
        write_range(serving.offset, serving.size);
      }
    }
  }

  void write_waits(const Instruction& instruction) {
    const char* separator = " waits for ";
    for (const std::uint32_t awaited : program_.waits_of(instruction)) {
      write("{}{}", separator, awaited);
      separator = ", ";
    }
  }

  void write_results(NodeId node) {
    if (const ScalarId scalar = graph_.scalar_result(node); scalar.valid()) {
      write("${} = ", spelled(graph_.name(scalar)));
      return;
    }
    const auto results = graph_.results(node);
    if (results.empty()) {
      append_label(out_, graph_.name(node));
      out_ += ": ";
      return;
    }
    const char* separator = "";
    for (const TensorId result : results) {
      out_ += separator;
      separator = ", ";
      write_tensor(result);
    }
    out_ += " = ";
  }

  void write_operands(NodeId node) {
    using Position = Operand::Position;
    bool in_list = false;
    const char* separator = "";
    for (const Operand& operand : graph_.operands(node)) {
      if (in_list && operand.position != Position::kListNext) {
        out_ += ']';
        in_list = false;
      }
      out_ += separator;
      separator = ", ";
      if (operand.position == Position::kListFirst) {
        out_ += '[';
        in_list = true;
      }
      if (operand.tensor.valid()) {
        write_tensor(operand.tensor, operand.access == Access::kUpdate ? "!" : "");
      } else {
        out_ += operand.position == Position::kEmptyList ? "[]" : "none";
      }
    }
    if (in_list) out_ += ']';
  }

  void write_tensor(TensorId tensor, std::string_view mark = "") {
    write("%{}{} ", spelled(graph_.name(tensor)), mark);
    const TensorType& type = graph_.type(tensor);
    write_range(program_.offsets[tensor.index()], extent(type).value_or(Bytes{}));
    if (type.residence == Residence::kHost) out_ += " @host";
  }

  void write_range(Bytes begin, Bytes size) { write("{}..{}", begin.count, (begin + size).count); }

  const Graph& graph_;
  const Program& program_;
  std::string out_;
};

}  // namespace

std::string to_text(const Graph& graph, const Program& program) {
  return Listing(graph, program).write();
}

}  // namespace ebb
