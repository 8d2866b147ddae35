#include "lms_options.h"

#include <charconv>
#include <string>
#include <vector>

namespace ebb::tool {
namespace {

void add_list(CLI::App& command, const char* name, std::vector<std::string>& list, const char* what,
              const char* group = kPaperGroup) {
  command.add_option(name, list, what)->delimiter(',')->allow_extra_args(false)->group(group);
}

// A size as people write it, "4MiB".
void add_size(CLI::App& command, const char* name, Bytes& size, const char* what) {
  const auto take = [&size](const std::string& text) {
    const auto parsed = text == "0" ? Result<Bytes>(Bytes{}) : parse_bytes(text);
    if (!parsed) throw CLI::ValidationError(parsed.error().message);
    size = *parsed;
  };
  command.add_option_function<std::string>(name, take, what)->type_name("SIZE")->group(kMoreGroup);
}

// A whole number, which CLI11 would cut to the largest it knows.
CLI::Option* add_number(CLI::App& command, const char* name, std::int64_t& number,
                        const char* what) {
  const auto take = [&number](const std::string& text) {
    std::int64_t parsed = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (problem == std::errc::result_out_of_range) {
      throw CLI::ValidationError("'" + printable(text) + "' is too large a number");
    }
    if (problem != std::errc() || end != text.data() + text.size()) {
      throw CLI::ValidationError("'" + printable(text) + "' is no whole number");
    }
    number = parsed;
  };
  return command.add_option_function<std::string>(name, take, what)
      ->type_name("INT")
      ->default_str(std::to_string(number));
}

void add_scopes_and_types(CLI::App& command, LmsOptions& options) {
  add_list(command, "--optimizer-scopes", options.optimizer_scopes,
           "Where the backward phase is; else where 'gradients' or 'gradient_tape' is in the path");
  command
      .add_option("--starting-scope", options.starting_scope,
                  "Walk from the operations in this scope; else from the inputs")
      ->group(kPaperGroup);
  add_list(command, "--starting-op-names", options.starting_op_names,
           "Walk from these operations (together with the starting scope)");
  add_list(command, "--excl-scopes", options.excl_scopes,
           "Do not swap what operations in these scopes make");
  add_list(command, "--incl-scopes", options.incl_scopes,
           "Swap only what operations in these scopes make");
  add_list(command, "--excl-types", options.excl_types,
           "Do not swap what operators of these types make: Relu, aten::relu");
  add_list(command, "--incl-types", options.incl_types,
           "Swap only what operators of these types make");
}

void add_n_tensors_and_lb(CLI::App& command, LmsOptions& options) {
  add_number(command, "--n-tensors", options.n_tensors,
             "How many tensors to swap; -1: all, 0: none")
      ->group(kPaperGroup);
  add_number(command, "--lb", options.lb,
             "Look for the trigger at least so many levels from the reader (direct_order), or\n"
             "from the producer along the forward phase (chain_rule)")
      ->group(kPaperGroup);
}

void add_ub(CLI::App& command, LmsOptions& options) {
  add_number(command, "--ub", options.ub,
             "And at most so many: ub included (direct_order), or not (chain_rule)")
      ->group(kPaperGroup);
}

void add_strategy(CLI::App& command, LmsOptions& options) {
  command
      .add_option("--ctrld-strategy", options.ctrld_strategy,
                  "How a trigger for bringing back is found: chain_rule or direct_order")
      ->capture_default_str()
      ->group(kPaperGroup);
}

CLI::Option* add_fusing(CLI::App& command, LmsOptions& options) {
  return command
      .add_flag("--fuse-swapins", options.fuse_swapins,
                "Bring a tensor back once for readers that are close to each other")
      ->group(kPaperGroup);
}

CLI::Option* add_branches(CLI::App& command, LmsOptions& options) {
  return command
      .add_flag("--swap-branches", options.swap_branches,
                "Also swap between forward operations that are far apart")
      ->group(kPaperGroup);
}

CLI::Option* add_branch_threshold(CLI::App& command, LmsOptions& options) {
  return add_number(command, "--branch-threshold", options.branch_threshold,
                    "Far apart: by more than so many levels")
      ->group(kPaperGroup);
}

// What the paper does not have.
void add_more(CLI::App& command, LmsOptions& options, CLI::Option* fuse) {
  add_number(command, "--fuse-distance", options.fuse_distance,
             "Close to each other: within so many levels of the first")
      ->needs(fuse)
      ->group(kMoreGroup);
  auto* whole = command
                    .add_flag("--whole-graph", options.whole_graph,
                              "Swap along every edge that spans --alpha levels or more")
                    ->group(kMoreGroup);
  add_number(command, "--alpha", options.alpha, "For --whole-graph: so many levels")
      ->needs(whole)
      ->group(kMoreGroup);
  auto* codec =
      command
          .add_option("--codec", options.codec,
                      "Encode tensors that it takes: bits, bf16 (lossy), nonpositive, positive")
          ->group(kMoreGroup);
  command
      .add_flag("--codec-on-host", options.codec_on_host,
                "Encode on the host: saves its memory, and not the link")
      ->needs(codec)
      ->group(kMoreGroup);
  add_list(command, "--recompute-types", options.recompute_types,
           "Compute what operators of these types make again, instead of swapping it", kMoreGroup);
  add_number(command, "--sync", options.sync,
             "For executors that run ahead, as TensorFlow's: an operation whose result is swapped\n"
             "waits until that of the N-th such operation before it is on the host; 0: off. A run\n"
             "of the forward phase alone then copies tensors to the host as well")
      ->group(kMoreGroup);
  add_size(command, "--min-bytes", options.min_bytes, "Leave smaller tensors alone, as 4MiB");
}

}  // namespace

void add_lms_options(CLI::App& command, LmsOptions& options) {
  add_scopes_and_types(command, options);
  add_n_tensors_and_lb(command, options);
  add_ub(command, options);
  add_strategy(command, options);
  auto* fuse = add_fusing(command, options);
  auto* branches = add_branches(command, options);
  add_branch_threshold(command, options)->needs(branches);
  add_more(command, options, fuse);
}

void add_untuned_lms_options(CLI::App& command, LmsOptions& options) {
  add_scopes_and_types(command, options);
  add_ub(command, options);
  auto* fuse = add_fusing(command, options);
  add_branch_threshold(command, options);
  add_more(command, options, fuse);
}

}  // namespace ebb::tool
