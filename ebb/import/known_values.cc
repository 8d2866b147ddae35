#include "ebb/import/known_values.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "ebb/graph/repeatable.h"
#include "ebb/import/graphdef_attributes.h"

namespace ebb {
namespace {

using Element = std::optional<std::int64_t>;

// More than any shape has, and what is done to one.
constexpr std::size_t kMostElements = 64;

bool is_index_type(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

bool fits(DType dtype, std::int64_t value) {
  using Int32 = std::numeric_limits<std::int32_t>;
  return dtype == DType::kI64 || (value >= Int32::min() && value <= Int32::max());
}

// Python's, and TensorFlow's: towards minus infinity.
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - static_cast<std::int64_t>(a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// What an operator of two numbers gives; nothing where it is none of these, or has no result.
Element combine(std::string_view op, Element a, Element b) {
  if (!a || !b) return std::nullopt;
  std::int64_t out = 0;
  if (op == "tf::Add" || op == "tf::AddV2" || op == "tf::Sum") {
    if (__builtin_add_overflow(*a, *b, &out)) return std::nullopt;
  } else if (op == "tf::Sub") {
    if (__builtin_sub_overflow(*a, *b, &out)) return std::nullopt;
  } else if (op == "tf::Mul" || op == "tf::Prod") {
    if (__builtin_mul_overflow(*a, *b, &out)) return std::nullopt;
  } else if (op == "tf::Maximum" || op == "tf::Max") {
    out = std::max(*a, *b);
  } else if (op == "tf::Minimum" || op == "tf::Min") {
    out = std::min(*a, *b);
  } else if (op == "tf::FloorDiv" || op == "tf::FloorMod") {
    if (*b == 0 || *b == -1) return std::nullopt;  // the least number by -1 overflows
    out = op == "tf::FloorDiv" ? floor_div(*a, *b) : floor_mod(*a, *b);
  } else {
    return std::nullopt;
  }
  return out;
}

bool is_reduction(std::string_view op) {
  return op == "tf::Prod" || op == "tf::Sum" || op == "tf::Max" || op == "tf::Min";
}

bool is_arithmetic(std::string_view op) {
  return !is_reduction(op) && combine(op, 1, 1).has_value();
}

Elements elements_of(const std::vector<std::int64_t>& dims) {
  Elements out;
  for (const std::int64_t dim : dims) {
    out.push_back(dim == TensorType::kUnknownDim ? std::nullopt : Element(dim));
  }
  return out;
}

// Finds what one result of a node holds.
class Follower {
 public:
  Follower(const Graph& graph, const KnownValues& known, NodeId node)
      : graph_(graph), known_(known), node_(node), op_(graph.op(node)) {}

  [[nodiscard]] std::optional<Elements> result(std::size_t k) const {
    if (graph_.kind(node_) == NodeKind::kConst || op_ == "tf::Const") return constant();
    if (op_ == "tf::Shape" || op_ == "tf::ShapeN") return shape(k);
    if (op_ == "tf::Size" || op_ == "tf::Rank") return size();
    if (op_ == "tf::BroadcastGradientArgs") return broadcast_axes(k);
    if (op_ == "tf::Unpack") return unpack(k);
    if (op_ == "tf::Cast" || (hands_on_bytes(op_) && op_ != "tf::Bitcast")) return copy(in(k));
    if (op_ == "tf::Pack") return pack();
    if (op_ == "tf::ConcatV2") return concat();
    if (op_ == "tf::StridedSlice") return strided_slice();
    if (op_ == "tf::Slice") return slice();
    if (op_ == "tf::GatherV2") return gather();
    if (op_ == "tf::DynamicStitch") return stitch();
    if (op_ == "tf::Range") return range();
    if (op_ == "tf::Fill") return fill();
    if (is_reduction(op_)) return reduce();
    if (is_arithmetic(op_)) return arithmetic();
    return std::nullopt;
  }

 private:
  [[nodiscard]] const Elements* in(std::size_t place) const {
    return known_.find_operand(node_, place);
  }
  [[nodiscard]] std::size_t operand_count() const { return graph_.operands(node_).size(); }

  // nullptr where there is no such operand, or not even its rank is known.
  [[nodiscard]] const TensorType* type(std::size_t place) const {
    if (place >= operand_count()) return nullptr;
    const TensorId tensor = graph_.operands(node_)[place].tensor;
    if (!tensor.valid() || !graph_.type(tensor).ranked) return nullptr;
    return &graph_.type(tensor);
  }
  [[nodiscard]] bool has_rank(std::size_t place, std::size_t rank) const {
    const TensorType* found = type(place);
    return found != nullptr && found->dims.size() == rank;
  }
  // Of an operand that is a number, or has one element.
  [[nodiscard]] Element number(std::size_t place) const {
    const Elements* found = in(place);
    return found != nullptr && found->size() == 1 ? found->front() : std::nullopt;
  }

  static std::optional<Elements> copy(const Elements* from) {
    return from == nullptr ? std::nullopt : std::optional(*from);
  }

  [[nodiscard]] std::optional<Elements> constant() const {
    const Attribute* value = graph_.find_attribute(node_, "value");
    if (value == nullptr || value->is_list) return std::nullopt;
    const auto* bytes = std::get_if<Blob>(&graph_.items(*value).front());
    if (bytes == nullptr) return std::nullopt;
    const auto ints = ints_of_tensor_attr_value(graph_.text(bytes->id), kMostElements);
    return ints ? std::optional(Elements(ints->begin(), ints->end())) : std::nullopt;
  }

  [[nodiscard]] std::optional<Elements> shape(std::size_t k) const {
    const TensorType* of = type(k);
    return of == nullptr ? std::nullopt : std::optional(elements_of(of->dims));
  }

  [[nodiscard]] std::optional<Elements> size() const {
    const TensorType* of = type(0);
    if (of == nullptr) return std::nullopt;
    if (op_ == "tf::Rank") return Elements{static_cast<std::int64_t>(of->dims.size())};
    Element product = 1;
    for (const Element& dim : elements_of(of->dims)) product = combine("tf::Mul", product, dim);
    return Elements{product};
  }

  // The dimensions over which a gradient is added up, because its operand was broadcast there:
  // those where it has 1 and the other has not. (Where both have 1, adding up changes nothing.)
  [[nodiscard]] std::optional<Elements> broadcast_axes(std::size_t k) const {
    const Elements* own = in(k);
    const Elements* other = in(1 - k);
    if (own == nullptr || other == nullptr) return std::nullopt;
    const std::size_t rank = std::max(own->size(), other->size());
    const auto at = [&](const Elements& dims, std::size_t axis) -> Element {
      const std::size_t missing = rank - dims.size();
      return axis < missing ? Element(1) : dims[axis - missing];
    };
    Elements axes;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const Element dim = at(*own, axis);
      if (!dim) return std::nullopt;
      if (*dim != 1) continue;
      if (!at(*other, axis)) return std::nullopt;
      axes.emplace_back(static_cast<std::int64_t>(axis));
    }
    return axes;
  }

  [[nodiscard]] std::optional<Elements> unpack(std::size_t k) const {
    const Elements* from = in(0);
    if (from == nullptr || !has_rank(0, 1) || k >= from->size()) return std::nullopt;
    return Elements{(*from)[k]};
  }

  // One operand's elements behind the other's. One that is not known has as many as its type says.
  [[nodiscard]] std::optional<Elements> join(std::size_t count) const {
    Elements out;
    for (std::size_t i = 0; i < count; ++i) {
      const TensorType* of = type(i);
      if (of == nullptr) return std::nullopt;
      if (const Elements* known = in(i)) {
        out.insert(out.end(), known->begin(), known->end());
      } else {
        std::size_t unknown = 1;
        for (const std::int64_t dim : of->dims) {
          if (dim < 0 || dim > static_cast<std::int64_t>(kMostElements)) return std::nullopt;
          unknown *= static_cast<std::size_t>(dim);
          if (unknown > kMostElements) return std::nullopt;
        }
        out.resize(out.size() + unknown);
      }
      if (out.size() > kMostElements) return std::nullopt;
    }
    return out;
  }

  [[nodiscard]] std::optional<Elements> pack() const {
    if (int_attribute(graph_, node_, "axis", 0) != 0 && !has_rank(0, 0)) return std::nullopt;
    return join(operand_count());
  }

  [[nodiscard]] std::optional<Elements> concat() const {
    if (operand_count() < 2) return std::nullopt;
    const Element axis = number(operand_count() - 1);
    if (axis != 0 && (axis != -1 || !has_rank(0, 1))) return std::nullopt;
    return join(operand_count() - 1);
  }

  [[nodiscard]] std::optional<Elements> strided_slice() const {
    const Elements* from = in(0);
    const Element begin = number(1);
    const Element end = number(2);
    const Element stride = number(3);
    const auto mask = [&](std::string_view key) { return int_attribute(graph_, node_, key, 0); };
    if (from == nullptr || !has_rank(0, 1) || !begin || !end || !stride || *stride == 0 ||
        mask("ellipsis_mask") != 0 || mask("new_axis_mask") != 0) {
      return std::nullopt;
    }
    const auto count = static_cast<std::int64_t>(from->size());
    const auto from_front = [&](std::int64_t place) { return place < 0 ? place + count : place; };
    const auto at = [&](std::int64_t place) { return (*from)[static_cast<std::size_t>(place)]; };
    if (mask("shrink_axis_mask") != 0) {
      const std::int64_t place = from_front(*begin);
      if (place < 0 || place >= count) return std::nullopt;
      return Elements{at(place)};
    }
    const bool is_forward = *stride > 0;
    const std::int64_t least = is_forward ? 0 : -1;
    const std::int64_t most = is_forward ? count : count - 1;
    std::int64_t place = is_forward ? least : most;
    if (mask("begin_mask") == 0) place = std::clamp(from_front(*begin), least, most);
    std::int64_t stop = is_forward ? most : least;
    if (mask("end_mask") == 0) stop = std::clamp(from_front(*end), least, most);
    const std::int64_t step = std::clamp(*stride, -count - 1, count + 1);  // one of these is enough
    Elements out;
    for (; is_forward ? place < stop : place > stop; place += step) out.push_back(at(place));
    return out;
  }

  [[nodiscard]] std::optional<Elements> slice() const {
    const Elements* from = in(0);
    const Element begin = number(1);
    const Element size = number(2);
    if (from == nullptr || !has_rank(0, 1) || !begin || !size) return std::nullopt;
    const auto count = static_cast<std::int64_t>(from->size());
    if (*begin < 0 || *begin > count || *size < -1 || *size > count - *begin) return std::nullopt;
    const auto first = from->begin() + *begin;
    return Elements(first, *size == -1 ? from->end() : first + *size);
  }

  [[nodiscard]] std::optional<Elements> gather() const {
    const Elements* from = in(0);
    const Elements* places = in(1);
    if (from == nullptr || places == nullptr || !has_rank(0, 1) ||
        int_attribute(graph_, node_, "batch_dims", 0) != 0) {
      return std::nullopt;
    }
    Elements out;
    for (const Element& place : *places) {
      if (place && (*place < 0 || *place >= static_cast<std::int64_t>(from->size()))) {
        return std::nullopt;
      }
      out.push_back(place ? (*from)[static_cast<std::size_t>(*place)] : std::nullopt);
    }
    return out;
  }

  // Lists of places and, behind these, as many lists of elements; the later counts.
  [[nodiscard]] std::optional<Elements> stitch() const {
    const std::size_t lists = operand_count() / 2;
    Elements out;
    for (std::size_t i = 0; i < lists; ++i) {
      const Elements* places = in(i);
      const Elements* data = in(lists + i);
      if (places == nullptr || data == nullptr || places->size() != data->size()) {
        return std::nullopt;
      }
      for (std::size_t j = 0; j < places->size(); ++j) {
        const Element place = (*places)[j];
        if (!place || *place < 0 || *place >= static_cast<std::int64_t>(kMostElements)) {
          return std::nullopt;
        }
        const auto index = static_cast<std::size_t>(*place);
        if (index >= out.size()) out.resize(index + 1);
        out[index] = (*data)[j];
      }
    }
    return out;
  }

  [[nodiscard]] std::optional<Elements> range() const {
    const Element start = number(0);
    const Element limit = number(1);
    const Element delta = number(2);
    if (!start || !limit || !delta || *delta == 0) return std::nullopt;
    Elements out;
    Element next = start;
    while (next && (*delta > 0 ? *next < *limit : *next > *limit)) {
      if (out.size() == kMostElements) return std::nullopt;
      out.push_back(next);
      next = combine("tf::Add", next, delta);
    }
    return out;
  }

  [[nodiscard]] std::optional<Elements> fill() const {
    const Elements* dims = in(0);
    if (dims == nullptr || !has_rank(1, 0)) return std::nullopt;
    Element count = 1;
    for (const Element& dim : *dims) count = combine("tf::Mul", count, dim);
    if (!count || *count < 0 || *count > static_cast<std::int64_t>(kMostElements)) {
      return std::nullopt;
    }
    return Elements(static_cast<std::size_t>(*count), number(1));
  }

  [[nodiscard]] std::optional<Elements> reduce() const {
    const Elements* from = in(0);
    const Elements* axes = in(1);
    if (from == nullptr || axes == nullptr) return std::nullopt;
    if (axes->empty()) return *from;
    if (!has_rank(0, 1)) return std::nullopt;
    if (from->empty()) {
      if (op_ == "tf::Prod") return Elements{1};
      return op_ == "tf::Sum" ? std::optional(Elements{0}) : std::nullopt;
    }
    Element all = from->front();
    for (const Element& each : std::span(*from).subspan(1)) all = combine(op_, all, each);
    return Elements{all};
  }

  [[nodiscard]] std::optional<Elements> arithmetic() const {
    const Elements* a = in(0);
    const Elements* b = in(1);
    if (a == nullptr || b == nullptr) return std::nullopt;
    const auto is_flat = [&](std::size_t place) {
      return has_rank(place, 0) || has_rank(place, 1);
    };
    if (!is_flat(0) || !is_flat(1)) return std::nullopt;
    if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return std::nullopt;
    Elements out(a->size() == 1 ? b->size() : a->size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = combine(op_, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    }
    return out;
  }

  const Graph& graph_;
  const KnownValues& known_;
  NodeId node_;
  std::string_view op_;
};

// Whether the type has room for as many. (What is computed above follows the operators' meaning; a
// graph that says otherwise is none to draw conclusions from.)
bool has_count(const TensorType& type, std::size_t count) {
  if (!type.ranked) return true;
  std::size_t product = 1;
  for (const std::int64_t dim : type.dims) {
    if (dim == TensorType::kUnknownDim) return true;
    product *= static_cast<std::size_t>(dim);
  }
  return product == count;
}

}  // namespace

KnownValues::KnownValues(const Graph& graph) : graph_(graph), values_(graph.tensor_count()) {}

void KnownValues::follow(NodeId node) {
  std::size_t k = 0;
  for (const TensorId result : graph_.results(node)) {
    const TensorType& type = graph_.type(result);
    const std::size_t place = k++;
    if (!is_index_type(type.dtype)) continue;
    auto found = Follower(graph_, *this, node).result(place);
    if (!found || found->size() > kMostElements || !has_count(type, found->size())) continue;
    for (Element& each : *found) {
      if (each && !fits(type.dtype, *each)) each = std::nullopt;
    }
    values_[result.index()] = std::move(found);
  }
}

const Elements* KnownValues::find(TensorId tensor) const {
  const auto& value = values_[tensor.index()];
  return value ? &*value : nullptr;
}

const Elements* KnownValues::find_operand(NodeId node, std::size_t place) const {
  const auto operands = graph_.operands(node);
  if (place >= operands.size() || !operands[place].tensor.valid()) return nullptr;
  return find(operands[place].tensor);
}

bool bool_attribute(const Graph& graph, NodeId node, std::string_view key, bool otherwise) {
  const Attribute* found = graph.find_attribute(node, key);
  if (found == nullptr || found->is_list) return otherwise;
  const auto* value = std::get_if<bool>(&graph.items(*found).front());
  return value == nullptr ? otherwise : *value;
}

std::int64_t int_attribute(const Graph& graph, NodeId node, std::string_view key,
                           std::int64_t otherwise) {
  const Attribute* found = graph.find_attribute(node, key);
  if (found == nullptr || found->is_list) return otherwise;
  const auto* value = std::get_if<std::int64_t>(&graph.items(*found).front());
  return value == nullptr ? otherwise : *value;
}

}  // namespace ebb
