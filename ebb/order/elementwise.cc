#include "ebb/order/elementwise.h"

#include <algorithm>
#include <array>

namespace ebb {
namespace {

struct Entry {
  std::string_view op;
  TakeOver take_over = TakeOver::kAny;

  friend constexpr bool operator<(const Entry& a, const Entry& b) { return a.op < b.op; }
};

// In the order of their names. Those of kAny are one TensorIterator loop (or MKL's vector functions
// and oneDNN's forward functions, which may also work in place). Of kFirst:
//   gelu_backward            oneDNN's, which allows the gradient to be overwritten, not the input
//   masked_fill              copies the first operand, then looks at the mask
//   native_dropout_backward  on the CPU two multiplications
//   bernoulli, fill, zero, *_like  look at the type of the first operand at most
// Of kEach: operators on lists do one elementwise operation after the other, or all in one loop.
constexpr std::array kEntries = {
    Entry{"aten::_foreach_abs", TakeOver::kEach},
    Entry{"aten::_foreach_add.List", TakeOver::kEach},
    Entry{"aten::_foreach_add.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_add.ScalarList", TakeOver::kEach},
    Entry{"aten::_foreach_addcdiv.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_addcdiv.ScalarList", TakeOver::kEach},
    Entry{"aten::_foreach_addcmul.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_addcmul.ScalarList", TakeOver::kEach},
    Entry{"aten::_foreach_clamp_max.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_clamp_min.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_div.List", TakeOver::kEach},
    Entry{"aten::_foreach_div.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_div.ScalarList", TakeOver::kEach},
    Entry{"aten::_foreach_div.Tensor", TakeOver::kEach},
    Entry{"aten::_foreach_lerp.List", TakeOver::kEach},
    Entry{"aten::_foreach_lerp.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_maximum.List", TakeOver::kEach},
    Entry{"aten::_foreach_maximum.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_minimum.List", TakeOver::kEach},
    Entry{"aten::_foreach_minimum.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_mul.List", TakeOver::kEach},
    Entry{"aten::_foreach_mul.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_mul.ScalarList", TakeOver::kEach},
    Entry{"aten::_foreach_mul.Tensor", TakeOver::kEach},
    Entry{"aten::_foreach_neg", TakeOver::kEach},
    Entry{"aten::_foreach_pow.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_reciprocal", TakeOver::kEach},
    Entry{"aten::_foreach_sqrt", TakeOver::kEach},
    Entry{"aten::_foreach_sub.List", TakeOver::kEach},
    Entry{"aten::_foreach_sub.Scalar", TakeOver::kEach},
    Entry{"aten::_foreach_sub.ScalarList", TakeOver::kEach},
    Entry{"aten::abs"},
    Entry{"aten::add.Scalar"},
    Entry{"aten::add.Tensor"},
    Entry{"aten::addcdiv"},
    Entry{"aten::addcmul"},
    Entry{"aten::bernoulli.p", TakeOver::kFirst},
    Entry{"aten::bitwise_and.Tensor"},
    Entry{"aten::bitwise_not"},
    Entry{"aten::bitwise_or.Tensor"},
    Entry{"aten::bitwise_xor.Tensor"},
    Entry{"aten::ceil"},
    Entry{"aten::clamp"},
    Entry{"aten::clamp.Tensor"},
    Entry{"aten::clamp_max"},
    Entry{"aten::clamp_max.Tensor"},
    Entry{"aten::clamp_min"},
    Entry{"aten::clamp_min.Tensor"},
    Entry{"aten::cos"},
    Entry{"aten::div.Scalar"},
    Entry{"aten::div.Tensor"},
    Entry{"aten::elu"},
    Entry{"aten::elu_backward"},
    Entry{"aten::eq.Scalar"},
    Entry{"aten::eq.Tensor"},
    Entry{"aten::erf"},
    Entry{"aten::exp"},
    Entry{"aten::expm1"},
    Entry{"aten::fill.Scalar", TakeOver::kFirst},
    Entry{"aten::floor"},
    Entry{"aten::full_like", TakeOver::kFirst},
    Entry{"aten::ge.Scalar"},
    Entry{"aten::ge.Tensor"},
    Entry{"aten::gelu"},
    Entry{"aten::gelu_backward", TakeOver::kFirst},
    Entry{"aten::gt.Scalar"},
    Entry{"aten::gt.Tensor"},
    Entry{"aten::hardsigmoid"},
    Entry{"aten::hardsigmoid_backward"},
    Entry{"aten::hardswish"},
    Entry{"aten::hardswish_backward"},
    Entry{"aten::hardtanh"},
    Entry{"aten::hardtanh_backward"},
    Entry{"aten::le.Scalar"},
    Entry{"aten::le.Tensor"},
    Entry{"aten::leaky_relu"},
    Entry{"aten::leaky_relu_backward"},
    Entry{"aten::lerp.Scalar"},
    Entry{"aten::lerp.Tensor"},
    Entry{"aten::log"},
    Entry{"aten::log1p"},
    Entry{"aten::logical_and"},
    Entry{"aten::logical_not"},
    Entry{"aten::logical_or"},
    Entry{"aten::logical_xor"},
    Entry{"aten::lt.Scalar"},
    Entry{"aten::lt.Tensor"},
    Entry{"aten::masked_fill.Scalar", TakeOver::kFirst},
    Entry{"aten::maximum"},
    Entry{"aten::minimum"},
    Entry{"aten::mul.Scalar"},
    Entry{"aten::mul.Tensor"},
    Entry{"aten::native_dropout_backward", TakeOver::kFirst},
    Entry{"aten::ne.Scalar"},
    Entry{"aten::ne.Tensor"},
    Entry{"aten::neg"},
    Entry{"aten::ones_like", TakeOver::kFirst},
    Entry{"aten::pow.Tensor_Scalar"},
    Entry{"aten::reciprocal"},
    Entry{"aten::relu"},
    Entry{"aten::rsqrt"},
    Entry{"aten::rsub.Scalar"},
    Entry{"aten::sigmoid"},
    Entry{"aten::sigmoid_backward"},
    Entry{"aten::sign"},
    Entry{"aten::silu"},
    Entry{"aten::silu_backward"},
    Entry{"aten::sin"},
    Entry{"aten::softplus"},
    Entry{"aten::softplus_backward"},
    Entry{"aten::sqrt"},
    Entry{"aten::sub.Scalar"},
    Entry{"aten::sub.Tensor"},
    Entry{"aten::tanh"},
    Entry{"aten::tanh_backward"},
    Entry{"aten::threshold"},
    Entry{"aten::threshold_backward"},
    Entry{"aten::where.self"},
    Entry{"aten::zero", TakeOver::kFirst},
    Entry{"aten::zeros_like", TakeOver::kFirst},
};
static_assert(std::is_sorted(kEntries.begin(), kEntries.end()));

}  // namespace

TakeOver may_take_over(std::string_view op) {
  const auto* found = std::lower_bound(kEntries.begin(), kEntries.end(), Entry{op});
  return found != kEntries.end() && found->op == op ? found->take_over : TakeOver::kNever;
}

}  // namespace ebb
