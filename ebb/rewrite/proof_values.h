// What the tensors of the original hold, where the original has copies and clones of its own: it
// may be the outcome of an earlier rewriting. Part of proof.h.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "ebb/graph/graph.h"
#include "ebb/rewrite/codec.h"
#include "ebb/rewrite/proof.h"

namespace ebb {

// A value: that of a tensor which is no copy and no clone, as it is or encoded.
struct Holding {
  TensorId tensor;         // of the original
  std::string_view codec;  // empty: as it is
  // Of what was decoded by a codec that does not serve everybody: that codec; otherwise null.
  const Codec* serving = nullptr;

  friend bool operator==(const Holding&, const Holding&) = default;
};

// Which bytes of a storage of the original a storage has. Places count in the original's.
struct Extract {
  StorageId storage;
  std::int64_t shift = 0;   // the place of the first byte
  std::int64_t end = kAll;  // of what is faithful

  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
};

// Where a tensor is.
struct Spot {
  bool begins = false;  // it brings its bytes into being
  TensorId root;        // of its storage, if the original has that
  Extract extract;      // of its storage
  std::int64_t place = 0;
};
// Whether both bring bytes into being, or both are views of the same place of the same bytes.
bool lie_alike(const Spot& a, const Spot& b, const TensorType& type);

bool gives_back(std::string_view codec, const ProofOptions& options);

// What the results of encoding and decoding hold, of an operand that holds `held`; nullopt: no
// value that is known by another tensor.
std::optional<Holding> encoded(const Holding& held, std::string_view codec);
std::optional<Holding> decoded(const Holding& held, std::string_view codec,
                               const ProofOptions& options);

// Whether the node has the form of a copy; otherwise, in what it has not.
std::string_view defect_of_copy(const Graph& graph, NodeId copy);
// swap_out, swap_in, snapshot: what makes the same elements elsewhere.
bool is_plain_copy(std::string_view op);
bool differ_at_most_in_residence(const TensorType& a, const TensorType& b);

class Values {
 public:
  Values(const Graph& original, const ProofOptions& options);

  [[nodiscard]] const Holding& held(TensorId tensor) const { return held_[tensor.index()]; }
  // Where the bytes of a storage are a copy's, what they are of; otherwise that storage itself.
  [[nodiscard]] const Extract& extract(StorageId storage) const {
    return extracts_[storage.index()];
  }
  [[nodiscard]] Spot spot(TensorId tensor) const;
  // What a copy of the tensor has of its storage: the elements, not the gaps between them.
  [[nodiscard]] Extract extract_of_copy(TensorId tensor) const;
  // Whether one is the other, or a copy of it, or of such a copy: whoever waits for the copy waits
  // for the other as well. Clones are none.
  [[nodiscard]] bool is_copy_of(TensorId copy, TensorId tensor) const;

 private:
  void take(NodeId node, const ProofOptions& options);
  void take_clone(NodeId clone, NodeId node);
  void set_held(TensorId tensor, const Holding& value);

  const Graph& graph_;
  std::vector<Holding> held_;
  std::vector<Extract> extracts_;
  std::vector<TensorId> sources_;  // of copies
  bool has_changed_ = false;       // what some tensor is known to hold, since last asked
  bool is_in_doubt_ = false;       // whether some clone is one, which later lines may decide
};

}  // namespace ebb
