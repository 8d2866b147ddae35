#include "ebb/lower/accesses.h"

namespace ebb {

std::vector<ByteAccess> accesses_of(const Graph& graph, const Program& program,
                                    const Instruction& instruction) {
  std::vector<ByteAccess> accesses;
  const auto add = [&](Bytes begin, Bytes size, bool is_on_host, bool writes) {
    if (size.count > 0) accesses.push_back({begin, begin + size, is_on_host, writes});
  };
  const auto add_tensor = [&](TensorId tensor, bool writes) {
    const TensorType& type = graph.type(tensor);
    add(program.offsets[tensor.index()], extent(type).value_or(Bytes{}),
        type.residence == Residence::kHost, writes);
  };
  if (instruction.kind == InstructionKind::kArithmetic) return accesses;
  for (const Operand& operand : graph.operands(instruction.node)) {
    if (operand.tensor.valid()) add_tensor(operand.tensor, operand.access == Access::kUpdate);
  }
  for (const TensorId result : graph.results(instruction.node)) {
    // A view is a place and nothing is written, unless it is the next version of what is updated,
    // which its operand says.
    if (graph.root(graph.storage(result)) == result) add_tensor(result, true);
  }
  for (const Serving& serving : program.servings_of(instruction)) {
    if (serving.offset != Serving::kElsewhere) add(serving.offset, serving.size, false, true);
  }
  return accesses;
}

}  // namespace ebb
