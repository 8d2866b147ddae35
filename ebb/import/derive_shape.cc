#include "ebb/import/derive_shape.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ebb {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kOpen = TensorType::kUnknownDim;

// Operators with an operand that is the shape of the result, and which one that is.
constexpr auto kShapeOperands = std::to_array<std::pair<std::string_view, std::size_t>>({
    {"tf::AvgPool3DGrad", 0},
    {"tf::AvgPoolGrad", 0},
    {"tf::BroadcastTo", 1},
    {"tf::Conv2DBackpropFilter", 1},
    {"tf::Conv2DBackpropInput", 0},
    {"tf::Conv3DBackpropFilterV2", 1},
    {"tf::Conv3DBackpropInputV2", 0},
    {"tf::DepthwiseConv2dNativeBackpropFilter", 1},
    {"tf::DepthwiseConv2dNativeBackpropInput", 0},
    {"tf::Empty", 0},
    {"tf::Fill", 0},
    {"tf::RandomStandardNormal", 0},
    {"tf::RandomUniform", 0},
    {"tf::RandomUniformInt", 0},
    {"tf::ScatterNd", 2},
    {"tf::StatelessRandomNormal", 0},
    {"tf::StatelessRandomNormalV2", 0},
    {"tf::StatelessRandomUniform", 0},
    {"tf::StatelessRandomUniformFullInt", 0},
    {"tf::StatelessRandomUniformFullIntV2", 0},
    {"tf::StatelessRandomUniformInt", 0},
    {"tf::StatelessRandomUniformIntV2", 0},
    {"tf::StatelessRandomUniformV2", 0},
    {"tf::StatelessTruncatedNormal", 0},
    {"tf::StatelessTruncatedNormalV2", 0},
    {"tf::StridedSliceGrad", 0},
    {"tf::TruncatedNormal", 0},
});

constexpr auto kReductions = std::to_array<std::string_view>({
    "tf::All",
    "tf::Any",
    "tf::EuclideanNorm",
    "tf::Max",
    "tf::Mean",
    "tf::Min",
    "tf::Prod",
    "tf::Sum",
});

constexpr auto kSegmentReductions = std::to_array<std::string_view>({
    "tf::UnsortedSegmentMax",
    "tf::UnsortedSegmentMin",
    "tf::UnsortedSegmentProd",
    "tf::UnsortedSegmentSum",
});

constexpr auto kElementwise = std::to_array<std::string_view>({
    "tf::Abs",         "tf::Add",
    "tf::AddN",        "tf::AddV2",
    "tf::BiasAdd",     "tf::Cast",
    "tf::DivNoNan",    "tf::Elu",
    "tf::EluGrad",     "tf::Equal",
    "tf::Erf",         "tf::Exp",
    "tf::FloorDiv",    "tf::FloorMod",
    "tf::Greater",     "tf::GreaterEqual",
    "tf::LeakyRelu",   "tf::LeakyReluGrad",
    "tf::Less",        "tf::LessEqual",
    "tf::Log",         "tf::LogicalAnd",
    "tf::LogicalNot",  "tf::LogicalOr",
    "tf::Maximum",     "tf::Minimum",
    "tf::Mul",         "tf::Neg",
    "tf::NotEqual",    "tf::OnesLike",
    "tf::Pow",         "tf::RealDiv",
    "tf::Relu",        "tf::Relu6",
    "tf::Relu6Grad",   "tf::ReluGrad",
    "tf::Rsqrt",       "tf::RsqrtGrad",
    "tf::SelectV2",    "tf::Selu",
    "tf::SeluGrad",    "tf::Sigmoid",
    "tf::SigmoidGrad", "tf::Sign",
    "tf::Softplus",    "tf::SoftplusGrad",
    "tf::Sqrt",        "tf::SqrtGrad",
    "tf::Square",      "tf::SquaredDifference",
    "tf::Sub",         "tf::Tanh",
    "tf::TanhGrad",    "tf::ZerosLike",
});

template <class List>
bool contains(const List& list, std::string_view op) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

// Open where one of them is, or where there are more than any memory holds.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (a == kOpen || b == kOpen || __builtin_mul_overflow(a, b, &out)) return kOpen;
  return out;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (a == kOpen || b == kOpen || __builtin_add_overflow(a, b, &out)) return kOpen;
  return out;
}

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count = times(count, dim);
  return count;
}

// The place of an axis, which may be told from the end.
std::optional<std::size_t> place_of(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

class Deriver {
 public:
  Deriver(const Graph& graph, const KnownValues& known, NodeId node)
      : graph_(graph), known_(known), node_(node), op_(graph.op(node)) {}

  [[nodiscard]] std::optional<Dims> derive() const {
    if (is_elementwise(op_)) return op_ == "tf::BiasAdd" ? of(0) : broadcast();
    if (contains(kReductions, op_)) return reduce();
    if (op_ == "tf::Reshape") return reshape();
    if (op_ == "tf::Transpose") return transpose();
    if (op_ == "tf::ConcatV2") return concat();
    if (op_ == "tf::GatherV2") return gather();
    if (op_ == "tf::Tile") return tile();
    if (op_ == "tf::Range") return range();
    if (op_ == "tf::Select") return of(1);
    if (contains(kSegmentReductions, op_)) return reduce_segments();
    for (const auto& [op, place] : kShapeOperands) {
      if (op == op_) return told(place);
    }
    return std::nullopt;
  }

 private:
  // The shape of an operand.
  [[nodiscard]] std::optional<Dims> of(std::size_t place) const {
    const auto operands = graph_.operands(node_);
    if (place >= operands.size() || !operands[place].tensor.valid()) return std::nullopt;
    const TensorType& type = graph_.type(operands[place].tensor);
    return type.ranked ? std::optional(type.dims) : std::nullopt;
  }

  // The shape that an operand holds.
  [[nodiscard]] std::optional<Dims> told(std::size_t place) const {
    const Elements* elements = known_.find_operand(node_, place);
    if (elements == nullptr) return std::nullopt;
    Dims dims;
    for (const auto& each : *elements) {
      if (each && *each < 0) return std::nullopt;
      dims.push_back(each.value_or(kOpen));
    }
    return dims;
  }

  // Numbers that an operand holds, all of which must be known.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(std::size_t place) const {
    const Elements* elements = known_.find_operand(node_, place);
    if (elements == nullptr) return std::nullopt;
    std::vector<std::int64_t> out;
    for (const auto& each : *elements) {
      if (!each) return std::nullopt;
      out.push_back(*each);
    }
    return out;
  }
  [[nodiscard]] std::optional<std::int64_t> number(std::size_t place) const {
    const auto all = numbers(place);
    return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
  }

  [[nodiscard]] std::optional<Dims> broadcast() const {
    Dims out;
    for (std::size_t i = 0; i < graph_.operands(node_).size(); ++i) {
      auto dims = of(i);
      if (!dims) return std::nullopt;
      if (dims->size() > out.size()) std::swap(*dims, out);
      const std::size_t missing = out.size() - dims->size();
      for (std::size_t axis = 0; axis < dims->size(); ++axis) {
        std::int64_t& all = out[missing + axis];
        const std::int64_t own = (*dims)[axis];
        if (all == 1 || (all == kOpen && own != 1)) {
          all = own;
        } else if (own != 1 && own != kOpen && own != all) {
          return std::nullopt;
        }
      }
    }
    return out;
  }

  [[nodiscard]] std::optional<Dims> reduce() const {
    const auto dims = of(0);
    const auto axes = numbers(1);
    if (!dims || !axes) return std::nullopt;
    std::vector<bool> is_reduced(dims->size());
    for (const std::int64_t axis : *axes) {
      const auto place = place_of(axis, dims->size());
      if (!place) return std::nullopt;
      is_reduced[*place] = true;
    }
    const bool keeps = bool_attribute(graph_, node_, "keep_dims", false);
    Dims out;
    for (std::size_t i = 0; i < dims->size(); ++i) {
      if (!is_reduced[i]) {
        out.push_back((*dims)[i]);
      } else if (keeps) {
        out.push_back(1);
      }
    }
    return out;
  }

  // With one dimension of -1, which is what is left.
  [[nodiscard]] std::optional<Dims> reshape() const {
    const auto dims = of(0);
    const Elements* shape = known_.find_operand(node_, 1);
    if (!dims || shape == nullptr) return std::nullopt;
    Dims out;
    std::int64_t others = 1;
    std::size_t rest = shape->size();
    for (const auto& each : *shape) {
      if (each && *each < -1) return std::nullopt;
      if (each == -1) {
        if (rest != shape->size()) return std::nullopt;
        rest = out.size();
      } else {
        others = times(others, each.value_or(kOpen));
      }
      out.push_back(each.value_or(kOpen));
    }
    const std::int64_t count = count_of(*dims);
    if (others == kOpen || count == kOpen) return out;
    if (rest == shape->size()) return count == others ? std::optional(out) : std::nullopt;
    if (others == 0 || count % others != 0) return std::nullopt;
    out[rest] = count / others;
    return out;
  }

  [[nodiscard]] std::optional<Dims> transpose() const {
    const auto dims = of(0);
    const auto places = numbers(1);
    if (!dims || !places || dims->size() != places->size()) return std::nullopt;
    Dims out;
    for (const std::int64_t each : *places) {
      const auto place = place_of(each, dims->size());
      if (!place) return std::nullopt;
      out.push_back((*dims)[*place]);
    }
    return out;
  }

  [[nodiscard]] std::optional<Dims> concat() const {
    const std::size_t count = graph_.operands(node_).size();
    auto out = of(0);
    const auto axis = count < 2 ? std::nullopt : number(count - 1);
    if (!out || !axis) return std::nullopt;
    const auto place = place_of(*axis, out->size());
    if (!place) return std::nullopt;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      const auto dims = of(i);
      if (!dims || dims->size() != out->size()) return std::nullopt;
      for (std::size_t j = 0; j < dims->size(); ++j) {
        std::int64_t& all = (*out)[j];
        if (j == *place) {
          all = plus(all, (*dims)[j]);
        } else if (all == kOpen) {
          all = (*dims)[j];
        }
      }
    }
    return out;
  }

  // The axis is replaced by the shape of what is looked up.
  [[nodiscard]] std::optional<Dims> gather() const {
    const auto from = of(0);
    const auto places = of(1);
    const auto axis = number(2);
    if (!from || !places || !axis) return std::nullopt;
    const auto at = place_of(*axis, from->size());
    const auto batch = int_attribute(graph_, node_, "batch_dims", 0);
    if (!at || batch < 0 || batch > static_cast<std::int64_t>(std::min(*at, places->size()))) {
      return std::nullopt;
    }
    const auto before = from->begin() + static_cast<std::ptrdiff_t>(*at);
    Dims out(from->begin(), before);
    out.insert(out.end(), places->begin() + batch, places->end());
    out.insert(out.end(), before + 1, from->end());
    return out;
  }

  [[nodiscard]] std::optional<Dims> tile() const {
    auto dims = of(0);
    const auto multiples = told(1);
    if (!dims || !multiples || dims->size() != multiples->size()) return std::nullopt;
    for (std::size_t i = 0; i < dims->size(); ++i) {
      (*dims)[i] = times((*dims)[i], (*multiples)[i]);
    }
    return dims;
  }

  // Upwards only.
  [[nodiscard]] std::optional<Dims> range() const {
    const auto start = number(0);
    const auto limit = number(1);
    const auto delta = number(2);
    std::int64_t length = 0;
    if (!start || !limit || !delta || *delta <= 0 ||
        __builtin_sub_overflow(*limit, *start, &length)) {
      return std::nullopt;
    }
    if (length <= 0) return Dims{0};
    return Dims{length / *delta + static_cast<std::int64_t>(length % *delta != 0)};
  }

  // What the segments' numbers have of the data's dimensions becomes one: the number of segments.
  [[nodiscard]] std::optional<Dims> reduce_segments() const {
    const auto data = of(0);
    const auto segments = of(1);
    const auto count = number(2);
    if (!data || !segments || !count || *count < 0 || segments->size() > data->size()) {
      return std::nullopt;
    }
    Dims out = {*count};
    out.insert(out.end(), data->begin() + static_cast<std::ptrdiff_t>(segments->size()),
               data->end());
    return out;
  }

  const Graph& graph_;
  const KnownValues& known_;
  NodeId node_;
  std::string_view op_;
};

}  // namespace

bool is_elementwise(std::string_view op) { return contains(kElementwise, op); }

std::optional<std::vector<std::int64_t>> derive_shape(const Graph& graph, const KnownValues& known,
                                                      NodeId node) {
  return Deriver(graph, known, node).derive();
}

}  // namespace ebb
