#include "ebb/graph/scalar_op.h"

#include <algorithm>
#include <array>

namespace ebb {
namespace {

constexpr std::array kScalarOps = {
    ScalarOp{"scalar::abs", 1},      ScalarOp{"scalar::add", 2},     ScalarOp{"scalar::float", 1},
    ScalarOp{"scalar::floordiv", 2}, ScalarOp{"scalar::int", 1},     ScalarOp{"scalar::max", 2},
    ScalarOp{"scalar::min", 2},      ScalarOp{"scalar::mod", 2},     ScalarOp{"scalar::mul", 2},
    ScalarOp{"scalar::neg", 1},      ScalarOp{"scalar::pow", 2},     ScalarOp{"scalar::sqrt", 1},
    ScalarOp{"scalar::sub", 2},      ScalarOp{"scalar::truediv", 2},
};

}  // namespace

std::span<const ScalarOp> scalar_ops() { return kScalarOps; }

const ScalarOp* find_scalar_op(std::string_view name) {
  const auto* found = std::find_if(kScalarOps.begin(), kScalarOps.end(),
                                   [&](const ScalarOp& op) { return op.name == name; });
  return found == kScalarOps.end() ? nullptr : found;
}

}  // namespace ebb
