#include "ebb/torch/kernels.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/TensorBase.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/torch/allocator.h"
#include "ebb/torch/call.h"
#include "ebb/torch/dtype.h"
#include "ebb/torch/no_fill.h"

namespace ebb::torch {
namespace {

std::vector<std::int64_t> strides_of(const TensorType& type) {
  return type.strides.empty() ? row_major_strides(type.dims) : type.strides;
}

c10::TensorOptions options_of(const TensorType& type) {
  const auto dtype = to_torch(type.dtype);
  EBB_CHECK(dtype.has_value(), "{} has no bytes", to_text(type));
  return c10::TensorOptions().dtype(dtype).device(c10::DeviceType::CPU);
}

// The tensors of one call, in their places. As in an eager step, one tensor of the graph is one
// tensor here, and those that share bytes share a storage: operators look at both.
class InPlaces {
 public:
  InPlaces(const Graph& graph, exec::Places places) : graph_(graph), places_(places) {}

  at::Tensor tensor(TensorId id) {
    for (const auto& [known, tensor] : tensors_) {
      if (known == id) return tensor;
    }
    const TensorType& type = graph_.type(id);
    const caffe2::TypeMeta dtype = options_of(type).dtype();
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        storage(graph_.storage(id)), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
    const std::int64_t offset =
        graph_.offset(id).count / static_cast<std::int64_t>(dtype.itemsize());
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(type.dims, strides_of(type), offset);
    tensors_.emplace_back(id, tensor);
    return tensor;
  }

 private:
  c10::Storage storage(StorageId id) {
    for (const auto& [known, storage] : storages_) {
      if (known == id) return storage;
    }
    std::byte* place = places_[graph_.root(id).index()];
    const auto bytes = static_cast<std::size_t>(graph_.size(id).value_or(Bytes{}).count);
    const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                               c10::DataPtr(place, c10::Device(c10::DeviceType::CPU)),
                               /*allocator=*/nullptr, /*resizable=*/false);
    storages_.emplace_back(id, storage);
    return storage;
  }

  const Graph& graph_;
  exec::Places places_;
  std::vector<std::pair<TensorId, at::Tensor>> tensors_;
  std::vector<std::pair<StorageId, c10::Storage>> storages_;
};

// What an eager step has switched off or done already by the time a kernel runs: autograd,
// automatic casts, and Python's dispatch modes, which must not be called without Python's lock.
class PlainDispatch {
 public:
  explicit PlainDispatch(bool grad_mode)
      : grad_mode_(grad_mode),
        no_casts_(c10::autocast_dispatch_keyset),
        no_python_(c10::python_ks) {}

 private:
  c10::AutoGradMode grad_mode_;
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard no_casts_;
  c10::impl::ExcludeDispatchKeyGuard no_python_;
};

// A few kernels ask whether gradients are wanted, and keep what backward needs if so.
bool wants_grad_mode(const Graph& graph, NodeId node) {
  const Attribute* grad = graph.find_attribute(node, "ebb.grad");
  return grad != nullptr && !grad->is_list && graph.items(*grad).front() == Value(true);
}

// Puts the default generator back to what it was.
class KeepGenerator {
 public:
  KeepGenerator() : generator_(at::globalContext().defaultGenerator(c10::DeviceType::CPU)) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  KeepGenerator(const KeepGenerator&) = delete;
  KeepGenerator& operator=(const KeepGenerator&) = delete;
  ~KeepGenerator() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// The node's results that have bytes of their own: those the operator returns.
std::vector<TensorId> own_results(const Graph& graph, NodeId node) {
  std::vector<TensorId> own;
  for (const TensorId result : graph.results(node)) {
    if (graph.root(graph.storage(result)) == result) own.push_back(result);
  }
  return own;
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("{}[{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ","));
}

// Whether what the operator returned is what the graph says; strides may differ, which costs a
// copy.
Status check_returned(const Graph& graph, NodeId node, const std::vector<TensorId>& expected,
                      const std::vector<at::Tensor>& returned) {
  if (returned.size() != expected.size()) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{} returned {} tensors, and the graph has {}", graph.op(node),
                            returned.size(), expected.size()));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorType& type = graph.type(expected[i]);
    const at::Tensor& tensor = returned[i];
    if (to_torch(type.dtype) != tensor.scalar_type() ||
        tensor.sizes() != at::IntArrayRef(type.dims)) {
      return fail(ErrorKind::kBadInput,
                  fmt::format("{} returned {} where the graph has %{}: {}", graph.op(node),
                              shape_text(tensor), graph.name(expected[i]), to_text(type)));
    }
  }
  return {};
}

bool lies_as(const at::Tensor& tensor, const TensorType& type) {
  return tensor.strides() == at::IntArrayRef(strides_of(type)) && tensor.storage_offset() == 0;
}

class TorchKernel final : public exec::Kernel {
 public:
  TorchKernel(Call call, bool grad_mode, ScalarId scalar, std::vector<at::Tensor> places)
      : call_(std::move(call)),
        grad_mode_(grad_mode),
        scalar_(scalar),
        places_(std::move(places)) {}

  Status run(exec::Scalars& scalars) override {
    const PlainDispatch plain(grad_mode_);
    call_.set_scalars(scalars);
    try {
      call_.run();
    } catch (const c10::Error& error) {
      call_.clear();
      return fail(ErrorKind::kBadInput, error.what_without_backtrace());
    }
    if (scalar_.valid()) {
      const c10::Scalar number = call_.returned().toScalar();
      scalars.set(scalar_, number.isFloatingPoint() ? exec::Number(number.toDouble())
                           : number.isBoolean()     ? exec::Number(number.toBool())
                                                    : exec::Number(number.toLong()));
    } else if (!places_.empty()) {
      settle();
    }
    call_.clear();
    return {};
  }

 private:
  // Results that were not made in their places are copied there.
  void settle() {
    const std::vector<at::Tensor> returned = call_.returned_tensors();
    EBB_CHECK(returned.size() == places_.size(), "{} results instead of {}", returned.size(),
              places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (returned[i].const_data_ptr() != places_[i].const_data_ptr())
        places_[i].copy_(returned[i]);
    }
  }

  Call call_;
  bool grad_mode_;
  ScalarId scalar_;
  std::vector<at::Tensor> places_;  // of the results that the operator returns
};

// The operator's operands, alone in the world: all of one number, each tensor of the graph once.
class Alone {
 public:
  Alone(const Graph& graph, int fill) : graph_(graph), fill_(fill) {}

  at::Tensor tensor(TensorId id) {
    for (const auto& [known, tensor] : made_) {
      if (known == id) return tensor;
    }
    const TensorType& type = graph_.type(id);
    at::Tensor tensor =
        at::empty_strided(type.dims, strides_of(type), options_of(type)).fill_(fill_);
    made_.emplace_back(id, tensor);
    return tensor;
  }

 private:
  const Graph& graph_;
  int fill_;
  std::vector<std::pair<TensorId, at::Tensor>> made_;
};

Recipe recipe_of(const Graph& graph, NodeId node, const std::vector<Recording::Entry>& entries,
                 const std::vector<TensorId>& expected, const std::vector<at::Tensor>& returned) {
  Recipe recipe;
  recipe.requests.reserve(entries.size());
  for (const Recording::Entry& entry : entries) {
    Request request{.size = Bytes{static_cast<std::int64_t>(entry.bytes)},
                    .result = entry.freed ? Request::kTemporary : Request::kKept,
                    .freed_after = static_cast<std::uint32_t>(entry.freed ? entry.freed_after
                                                                          : entries.size())};
    for (std::size_t i = 0; i < returned.size() && !entry.freed; ++i) {
      if (returned[i].storage().data() != entry.data) continue;
      // One that lies otherwise than the graph says is a temporary, and copied from.
      request.result = Request::kTemporary;
      if (lies_as(returned[i], graph.type(expected[i]))) {
        request.result =
            static_cast<std::int32_t>(expected[i].index() - graph.results(node)[0].index());
      }
      break;
    }
    recipe.requests.push_back(request);
  }
  return recipe;
}

Result<Recipe> measure_on(const Graph& graph, NodeId node, int fill) {
  Alone alone(graph, fill);
  auto call = Call::make(graph, node, [&](TensorId id) { return alone.tensor(id); });
  if (!call) return fail(call.error());
  const std::vector<TensorId> expected = own_results(graph, node);
  try {
    call->run();  // once for what libraries set up in a first call
    call->clear();
    Recording recording;
    call->run();
    const std::vector<Recording::Entry> entries = recording.finish();
    if (graph.scalar_result(node).valid()) return Recipe{};
    const std::vector<at::Tensor> returned = call->returned_tensors();
    if (Status ok = check_returned(graph, node, expected, returned); !ok) return fail(ok.error());
    return recipe_of(graph, node, entries, expected, returned);
  } catch (const c10::Error& error) {
    return fail(ErrorKind::kBadInput, error.what_without_backtrace());
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    return fail(ErrorKind::kBadInput, error.what());
  }
}

}  // namespace

TorchKernels::TorchKernels() { install_allocator(); }

Result<Recipe> TorchKernels::measure(const Graph& graph, NodeId node) {
  const KeepGenerator keep;
  const NoFill no_fill;  // as when it runs: filling allocates too
  const PlainDispatch plain(wants_grad_mode(graph, node));
  // Zeros are valid indices and labels; what does not like them (probabilities) gets ones.
  Result<Recipe> recipe = measure_on(graph, node, 0);
  if (recipe) return recipe;
  Result<Recipe> on_ones = measure_on(graph, node, 1);
  return on_ones ? on_ones : recipe;
}

Result<std::unique_ptr<exec::Kernel>> TorchKernels::bind(const Graph& graph, NodeId node,
                                                         exec::Places places) {
  InPlaces in_places(graph, places);
  const auto tensor_of = [&](TensorId id) { return in_places.tensor(id); };
  auto call = Call::make(graph, node, tensor_of);
  if (!call) return fail(call.error());
  std::vector<at::Tensor> results;
  for (const TensorId result : own_results(graph, node)) results.push_back(tensor_of(result));
  return std::make_unique<TorchKernel>(*std::move(call), wants_grad_mode(graph, node),
                                       graph.scalar_result(node), std::move(results));
}

}  // namespace ebb::torch
