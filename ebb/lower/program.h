// A graph made ready to run: a flat list of instructions, and a place for everything they touch. A
// value; to_text prints it for people and tests.
//
// Three lanes (plan/timeline.h): kernels compute in one, and each direction of the link has one of
// its own for its copies. The instructions of a lane run one after the other, in line order; the
// lanes run side by side, so that whoever needs what another lane does, or its bytes, says for whom
// it waits. Views, and updates' results, are places and need no instruction. The arena holds
// everything on the device side: first the state (parameters and constants), at offsets that depend
// on the declarations only, so that programs of one model for batches of several shapes can share
// it; then inputs, activations, workspaces. What was swapped out lies in a second block, the host
// slab, which has offsets of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/lower/recipe.h"
#include "ebb/plan/timeline.h"

namespace ebb {

// Where one request of a running operation is served.
struct Serving {
  static constexpr Bytes kElsewhere{-1};  // by the framework's own allocator

  Bytes size;    // the most that may be asked for
  Bytes offset;  // in the arena
};

enum class InstructionKind : std::uint8_t {
  kKernel,      // a framework's operation
  kArithmetic,  // host arithmetic on runtime scalars
  kCopy,        // ebb::swap_out, ebb::swap_in, ebb::snapshot: the bytes of the one operand
};

// What a node becomes. Nothing when there is nothing to run: for declarations, and for views, whose
// results all lie in the bytes of operands that the node only reads.
std::optional<InstructionKind> instruction_kind(const Graph& graph, NodeId node);

struct Instruction {
  InstructionKind kind = InstructionKind::kKernel;
  Lane lane = Lane::kCompute;
  NodeId node;
  std::uint32_t first_serving = 0;
  std::uint32_t serving_count = 0;
  std::uint32_t first_wait = 0;
  std::uint32_t wait_count = 0;
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Serving> servings;
  // Instructions that must be done before another one starts: above it, in other lanes, and none
  // that would be done anyhow.
  std::vector<std::uint32_t> waits;
  // By tensor: where it begins, in the arena or, where its type says @host, in the host slab.
  std::vector<Bytes> offsets;
  Bytes arena_size;
  Bytes state_size;  // the front part that lives from step to step
  Bytes bound;       // no layout of these lifetimes is smaller
  Bytes host_size;   // of the slab; zero when nothing is swapped out
  Bytes host_bound;
  // How many results took over the bytes of an operand that died at their operation.
  std::size_t reused_in_place = 0;

  [[nodiscard]] std::span<const Serving> servings_of(const Instruction& instruction) const {
    return std::span<const Serving>(servings).subspan(instruction.first_serving,
                                                      instruction.serving_count);
  }
  [[nodiscard]] std::span<const std::uint32_t> waits_of(const Instruction& instruction) const {
    return std::span<const std::uint32_t>(waits).subspan(instruction.first_wait,
                                                         instruction.wait_count);
  }
};

struct LowerOptions {
  Bytes alignment{64};  // of every place in either block; a power of two
  bool reuse_in_place = true;
  Bytes budget{};  // what the arena should not be larger than, as in plan/arena.h
};

// `recipes` by node; those of nodes that run no kernel are not looked at. The graph must pass the
// verifier. Fails (kBadInput) when a tensor has no known size, naming it; on what this version does
// not run: codecs, host tensors that are not copies of device tensors, control flow, several
// devices; and on a recipe that does not fit its node.
[[nodiscard]] Result<Program> lower(const Graph& graph, std::span<const Recipe> recipes,
                                    const LowerOptions& options = {});

// Brute force, and written without a look at lower: everything alive at one line lies apart, inside
// its block, aligned; results lie where their requests are served; copies are copies. The error
// says who is in whose way. O(lines * storages^2) at worst.
[[nodiscard]] Status check_program(const Graph& graph, std::span<const Recipe> recipes,
                                   const Program& program, const LowerOptions& options = {});

// Whether every two instructions that touch the same bytes, one of them writing, are in order, and
// so are those with a control edge between them: in one lane, or by waits. Between two steps all
// lanes meet. Nothing is assumed of how the waits were made. The error names the two and the bytes.
// O(copies * instructions).
[[nodiscard]] Status check_races(const Graph& graph, const Program& program);

// One line of sums, then one line an instruction; places are byte ranges of the arena, begin..end:
//   program g: 2 instructions, arena 256, state 64, bound 256, 1 in place
//   0: %a 64..96 = my::op(%x 128..160, %w 0..32) asks for 64..96, 192..200, 16 elsewhere
//   1: %b 64..96 = aten::relu(%a 64..96) asks for 64..96
// Where there is a host slab, the first line says ", host 64 (bound 64)" too, and a place in it is
// marked: '%a.host 0..32 @host = ebb::swap_out(%a 64..96)'. Who waits says so at the end of the
// line: ' waits for 3'.
std::string to_text(const Graph& graph, const Program& program);

}  // namespace ebb
