// The verdict of the proof on pairs of texts, for tests: the second is made from the first by
// replacing pieces of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ebb/graph/parse.h"
#include "ebb/rewrite/proof.h"

namespace ebb {

using Replacements = std::vector<std::pair<std::string_view, std::string_view>>;

// Each piece must stand in the text exactly once.
inline std::string replaced(std::string text, const Replacements& replacements) {
  for (const auto& [old_piece, new_piece] : replacements) {
    const auto at = text.find(old_piece);
    EXPECT_NE(at, std::string::npos) << "no '" << old_piece << "' in\n" << text;
    if (at == std::string::npos) continue;
    EXPECT_EQ(text.find(old_piece, at + 1), std::string::npos) << "'" << old_piece << "' twice";
    text.replace(at, old_piece.size(), new_piece);
  }
  return text;
}

// The proof, or the code and message of the difference.
inline std::string verdict(std::string_view original, const Replacements& replacements,
                           const ProofOptions& options = {}) {
  const auto before = parse_valid(original);
  EXPECT_TRUE(before) << before.error().render("original");
  const auto after = parse(replaced(std::string(original), replacements));
  EXPECT_TRUE(after) << after.error().render("rewritten");
  if (!before || !after) return "no graph";
  const auto proof = prove_same(*before, after->graph, options);
  if (proof) return to_text(*proof);
  EXPECT_EQ(proof.error().kind, ErrorKind::kRefused);
  return proof.error().code + ": " + proof.error().message;
}

}  // namespace ebb
