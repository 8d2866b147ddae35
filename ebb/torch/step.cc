#include "ebb/torch/step.h"

#include <utility>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/graph/graph_check.h"
#include "ebb/torch/no_fill.h"

namespace ebb::torch {
namespace {

constexpr std::size_t kCheckedInstructions = 2000;

}  // namespace

Result<std::unique_ptr<Step>> Step::make(Graph graph, const StepOptions& options) {
  std::unique_ptr<Step> step(new Step(std::move(graph)));
  auto recipes = exec::measure_all(step->graph_, step->kernels_, options.progress);
  if (!recipes) return fail(recipes.error());
  step->recipes_ = *std::move(recipes);

  auto program = lower(step->graph_, step->recipes_);
  if (!program) return fail(program.error());
  step->program_ = *std::move(program);
  // By brute force, so only where that is quick; tests do it for all of theirs.
  if (step->program_.instructions.size() <= kCheckedInstructions) {
    const Status ok = check_program(step->graph_, step->recipes_, step->program_);
    EBB_CHECK_ON(step->graph_, ok.has_value(), "a wrong program: {}", ok.error().message);
  }

  auto arena = exec::Arena::make(step->program_.arena_size);
  if (!arena) return fail(arena.error());
  step->arena_ = std::make_shared<const exec::Arena>(*std::move(arena));

  auto host = exec::Arena::make(step->program_.host_size);
  if (!host) {
    host.error().message = "for what is swapped out, " + host.error().message;
    return fail(host.error());
  }
  step->host_ = std::make_shared<const exec::Arena>(*std::move(host));

  auto executor = exec::Executor::make(step->graph_, step->program_, step->kernels_, *step->arena_,
                                       *step->host_);
  if (!executor) return fail(executor.error());
  step->executor_ = std::make_unique<exec::Executor>(*std::move(executor));
  return step;
}

Status Step::run(const std::map<std::string, exec::Number>& scalars,
                 const exec::Executor::Interrupted& interrupted, std::vector<Duration>* times) {
  exec::Scalars values(graph_);
  std::size_t found = 0;
  for (const ScalarId scalar : graph_.scalars()) {
    if (graph_.kind(graph_.producer(scalar)) != NodeKind::kScalar) continue;
    const auto value = scalars.find(std::string(graph_.name(scalar)));
    if (value == scalars.end()) {
      return fail(ErrorKind::kUsage,
                  fmt::format("the step needs a value for its scalar ${}", graph_.name(scalar)));
    }
    auto converted = exec::convert(value->second, graph_.dtype(scalar));
    if (!converted) return fail(converted.error());
    values.set(scalar, *converted);
    ++found;
  }
  if (found != scalars.size()) {
    for (const auto& [name, value] : scalars) {
      const ScalarId scalar = graph_.find_scalar(name);
      if (scalar.valid() && graph_.kind(graph_.producer(scalar)) == NodeKind::kScalar) continue;
      NearestWord nearest(name);
      for (const ScalarId known : graph_.scalars()) nearest.offer(graph_.name(known));
      std::string message = fmt::format("the step has no scalar ${}", printable(name));
      if (!nearest.word().empty()) message += fmt::format("; did you mean ${}?", nearest.word());
      return fail(ErrorKind::kUsage, message);
    }
  }
  const NoFill no_fill;
  return executor_->run(values, interrupted, times);
}

}  // namespace ebb::torch
