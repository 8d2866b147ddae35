// ebb-run: what `ebb run` becomes (tools/ebb/run.cc). It speaks as ebb.
#include <charconv>
#include <optional>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ebb/base/result.h"
#include "run.h"
#include "tools/ebb/outcome.h"
#include "tools/ebb/usage.h"

namespace ebb::tool {
namespace {

constexpr const char* kFooter =
    "The step is what ebb.torch.capture(...).save(\"step.ebb\") wrote in Python: the graph, and\n"
    "step.safetensors beside it with parameters, optimizer state, constants, the example batch,\n"
    "hyperparameters and the random number generator. Every step trains on that batch.\n"
    "\n"
    "First a line with the memory it takes: the arena, all that the step uses; the state in it,\n"
    "which lives from step to step; the bound, below which no layout of it could be; and, where\n"
    "tensors are swapped out, the host memory for them. Then a line a step: what it returns, "
    "where\n"
    "that is one number, and how long it took.\n"
    "\n"
    "The numbers are those of PyTorch, bit for bit, if it uses as many threads.\n"
    "\n"
    "Ctrl-C stops the run as soon as no step is half done, with status 130.\n"
    "\n"
    "Examples:\n"
    "  ebb run step.ebb\n"
    "  ebb run step.ebb --budget 60%\n"
    "  ebb run step.ebb --device cuda --budget 16GiB --steps 100\n"
    "  ebb run step.ebb --steps 100 -o after.safetensors\n"
    "  ebb run step.ebb --state after.safetensors --scalar lr=0.01 --steps 100\n"
    "  ebb run step.ebb --steps 10 --save-profile step.json\n"
    "  ebb run step.ebb --steps 10 --json | jq '.steps[].outputs[0]'\n"
    "  ebb run step.ebb --program | less";

// What torch.manual_seed takes: 64 bits, with a sign or without.
std::optional<std::uint64_t> read_seed(const std::string& text) {
  const char* end = text.data() + text.size();
  const auto reads_as = [&](auto& number) {
    const auto [stopped, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stopped == end;
  };
  std::uint64_t plain = 0;
  if (reads_as(plain)) return plain;
  std::int64_t negative = 0;
  if (reads_as(negative)) return static_cast<std::uint64_t>(negative);
  return std::nullopt;
}

int read_options_and_run(int argc, char** argv) {
  RunOptions options;
  std::string seed;
  bool no_cache = false;
  CLI::App app("Run a captured PyTorch training step, without Python", "ebb run");
  app.add_option("STEP", options.step, "The step's graph, an .ebb text; - is standard input")
      ->required();
  app.add_option("--steps", options.steps, "How many steps to run")
      // CLI11 cuts a number to the largest that there is, so that has to be too large.
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--budget", options.budget,
                 "What the step may use: 16GiB, 60% of what it needs as it is, or auto")
      ->type_name("SIZE|PERCENT|auto")
      ->capture_default_str();
  app.add_option("--host-budget", options.host_budget,
                 "What the host may hold of it at a time; as much as it takes by default")
      ->type_name("SIZE");
  app.add_flag("--as-is", options.as_is,
               "Make no plan: fail with status 4 if the step as it is needs more than the budget");
  app.add_option("--device", options.device,
                 "Where it runs: cpu, cuda or cuda:1 (default: where it was captured)")
      ->type_name("DEVICE");
  app.add_option("--trace", options.trace,
                 "Write the measured timeline of the last step here, for ui.perfetto.dev")
      ->type_name("FILE");
  app.add_option("--state", options.state,
                 "The tensors to begin with, in place of those beside STEP")
      ->type_name("FILE.safetensors");
  app.add_option("--scalar", options.scalars,
                 "Another value for a hyperparameter, as lr=0.01; may be given several times")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  auto* seed_option =
      app.add_option("--seed", seed, "Begin with the random numbers of torch.manual_seed(N)")
          ->type_name("N");
  auto* output =
      app.add_option("-o,--output", options.output,
                     "Where to write the state after the last step, for --state; may be the "
                     "file that it was read from, which then goes on from there")
          ->type_name("FILE.safetensors");
  auto* profile =
      app.add_option("--save-profile", options.profile,
                     "Where to write what each operation took, and its workspace, for planning")
          ->type_name("FILE.json");
  auto* program = app.add_flag("--program", options.program,
                               "Print the instructions and where everything lies, and run nothing");
  app.add_flag("--no-cache", no_cache,
               "Measure anew, and keep nothing: as with EBB_CACHE=off in the environment");
  app.add_option("--threads", options.threads,
                 "Threads an operation may use (default: as PyTorch has it, one a core)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  auto* json = app.add_flag("--json", options.json, "Print one JSON object, at the end");
  program->excludes(json)->excludes(output)->excludes(profile);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    return report_usage(app, wrong);
  }
  options.cache = !no_cache;
  if (*seed_option) {
    options.seed = read_seed(seed);
    if (!options.seed) {
      return report_usage(
          fmt::format("--seed: '{}' is no whole number of 64 bits", printable(seed)), "ebb run");
    }
  }
  if (options.output == "-") {
    return report_usage("the state cannot go to standard output, where the losses go; name a file",
                        "ebb run");
  }
  if (options.profile == "-") {
    return report_usage(
        "the profile cannot go to standard output, where the losses go; name a file", "ebb run");
  }
  const auto status = run(options);
  return status ? *status : report(status.error());
}

}  // namespace
}  // namespace ebb::tool

int main(int argc, char** argv) {
  return ebb::tool::guarded([&] { return ebb::tool::read_options_and_run(argc, argv); });
}
