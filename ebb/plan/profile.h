// A profile: what the operations of a step took when somebody measured them, by signature.
//
//   {
//    "version": 1,
//    "device": "h200",
//    "operations": [
//     {"signature": "aten::relu(f32[32,256]) -> f32[32,256]", "seconds": 5.2e-06, "workspace": 0}
//    ]
//   }
//
// A signature (graph/signature.h) has no names and no values of runtime scalars, so one line serves
// every operation of the same kind and shape, in this graph and in others. Seconds are kept in
// whole nanoseconds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/base/result.h"
#include "ebb/base/units.h"
#include "ebb/graph/graph.h"
#include "ebb/graph/signature.h"

namespace ebb {

struct ProfiledOperation {
  std::string signature;
  Duration time{0};
  Bytes workspace;

  friend bool operator==(const ProfiledOperation&, const ProfiledOperation&) = default;
};

class Profile {
 public:
  Profile() = default;
  // Sorts them. kBadInput when a signature stands there twice, or a number cannot be.
  [[nodiscard]] static Result<Profile> make(std::string device,
                                            std::vector<ProfiledOperation> operations);

  [[nodiscard]] const std::string& device() const { return device_; }
  // In the order of their signatures.
  [[nodiscard]] const std::vector<ProfiledOperation>& operations() const { return operations_; }
  [[nodiscard]] const ProfiledOperation* find(std::string_view signature) const;  // or nullptr

  friend bool operator==(const Profile&, const Profile&) = default;

 private:
  std::string device_;
  std::vector<ProfiledOperation> operations_;
};

[[nodiscard]] Result<Profile> parse_profile(std::string_view json);
// From a file ("-": standard input), which errors name.
[[nodiscard]] Result<Profile> read_profile(const std::string& path);
// Byte for byte the same for equal profiles, one operation a line.
std::string to_json(const Profile& profile);

// How much of a graph a profile covers, counting operations that take time: no declarations, views,
// copies over the link or host arithmetic.
struct ProfileMatch {
  std::size_t operations = 0;
  std::size_t covered = 0;
};
ProfileMatch match(const Graph& graph, const Profile& profile);

}  // namespace ebb
