#include "usage.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ebb/base/nearest.h"
#include "ebb/base/result.h"
#include "outcome.h"

namespace ebb::tool {
namespace {

bool is_option(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

std::string say_no_command(const CLI::App& app, const std::string& word) {
  NearestWord nearest(word);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    nearest.offer(command->get_name());
  }
  return fmt::format("there is no command '{}'{}", printable(word), nearest.hint());
}

std::string say_no_option(const CLI::App& app, const std::string& command,
                          const std::string& word) {
  const std::string_view option = std::string_view(word).substr(0, word.find('='));
  const std::string_view name = option.substr(std::min(option.find_first_not_of('-'), word.size()));
  NearestWord nearest(name);
  for (const CLI::Option* known : app.get_options()) {
    for (const std::string& long_name : known->get_lnames()) nearest.offer(long_name);
  }
  return fmt::format(
      "{} has no option '{}'{}", command, printable(option),
      nearest.word().empty() ? "" : fmt::format("; did you mean '--{}'?", nearest.word()));
}

// What the parser was left with, or nothing where that is not what is wrong.
std::vector<std::string> left_over(const CLI::App& app, const CLI::ParseError& wrong) {
  // It asks for what is required before it looks at what is left: `ebb shwo x` wants a command.
  const bool says_why = dynamic_cast<const CLI::ExtrasError*>(&wrong) != nullptr ||
                        dynamic_cast<const CLI::RequiredError*>(&wrong) != nullptr;
  auto words = says_why ? app.remaining(true) : std::vector<std::string>();
  std::erase(words, "--");
  return words;
}

// "--budget: 1 required SIZE|PERCENT missing" and "--budget: At Most 1 required but received 2" in
// the words of this tool; what else the parser may say stays as it is.
std::string say_mismatch(std::string_view said) {
  constexpr std::string_view kTooFew = ": 1 required ";
  constexpr std::string_view kMissing = " missing";
  const std::string_view option = said.substr(0, said.find(": "));
  const std::string_view rest = said.substr(option.size());
  if (rest.starts_with(kTooFew) && rest.ends_with(kMissing)) {
    const std::string_view type =
        rest.substr(kTooFew.size(), rest.size() - kTooFew.size() - kMissing.size());
    return fmt::format("{} needs a value: {} {}", option, option, type);
  }
  if (rest.starts_with(": At Most 1 ")) return fmt::format("give {} only once", option);
  return std::string(said);
}

}  // namespace

int report_usage(const CLI::App& app, const CLI::ParseError& wrong) {
  const auto chosen = app.get_subcommands();
  const CLI::App& used = chosen.empty() ? app : *chosen.front();
  const std::string command =
      chosen.empty() ? app.get_name() : fmt::format("{} {}", app.get_name(), used.get_name());
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&wrong) != nullptr) {
    return report_usage(say_mismatch(wrong.what()), command);
  }
  const auto words = left_over(app, wrong);
  if (words.empty()) return report_usage(wrong.what(), command);
  if (chosen.empty() && app.get_require_subcommand_min() > 0 && !is_option(words.front())) {
    return report_usage(say_no_command(app, words.front()), command);
  }
  // A word may be the value of an option that is not there; the option says more.
  const auto option = std::ranges::find_if(words, is_option);
  if (option != words.end()) return report_usage(say_no_option(used, command, *option), command);
  if (dynamic_cast<const CLI::RequiredError*>(&wrong) != nullptr) {
    return report_usage(wrong.what(), command);
  }
  return report_usage(fmt::format("{} has no use for '{}'", command, printable(words.front())),
                      command);
}

int report_empty_argument(std::span<char* const> arguments, std::string_view command) {
  std::string_view before = command;
  for (const std::string_view argument : arguments) {
    const bool is_option = argument.starts_with("--");
    if (argument.empty()) {
      return report_usage(
          fmt::format("there is nothing in the argument after '{}'", printable(before)), command);
    }
    if (is_option && argument.ends_with('=')) {
      return report_usage(fmt::format("there is nothing after '{}'", printable(argument)), command);
    }
    before = argument;
  }
  return 0;
}

}  // namespace ebb::tool
