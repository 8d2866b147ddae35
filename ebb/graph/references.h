// Names that a text uses before any line has defined them. At the end of the text each is either
// unknown, or of another kind, or stands on a cycle, or merely stands too early: this says which.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/graph/text_cursor.h"

namespace ebb {

class References {
 public:
  enum class Kind : std::uint8_t { kTensor, kScalar, kNode };

  // `user` is the node whose line uses the name; not valid for the return line.
  void note(NodeId user, Kind kind, std::string_view name, const char* at,
            const TextCursor& cursor);

  // Whether there are none; otherwise records the error at the cursor.
  bool settle(TextCursor& cursor, const Graph& graph, const std::vector<int>& lines) const;

 private:
  struct Use {
    NodeId user;
    Kind kind;
    std::string_view name;
    const char* at;
  };

  static NodeId find_producer(const Graph& graph, const Use& use);
  static std::string why_unknown(const Graph& graph, const Use& use);

  std::vector<Use> uses_;
  std::deque<std::string> unescaped_;  // names that do not lie in the text as they are
};

}  // namespace ebb
