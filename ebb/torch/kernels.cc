#include "ebb/torch/kernels.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/TensorBase.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "ebb/base/check.h"
#include "ebb/torch/allocator.h"
#include "ebb/torch/call.h"
#include "ebb/torch/dtype.h"
#include "ebb/torch/gpu.h"
#include "ebb/torch/no_fill.h"

namespace ebb::torch {
namespace {

std::vector<std::int64_t> strides_of(const TensorType& type) {
  return type.strides.empty() ? row_major_strides(type.dims) : type.strides;
}

c10::TensorOptions options_of(const TensorType& type, c10::Device device) {
  const auto dtype = to_torch(type.dtype);
  EBB_CHECK(dtype.has_value(), "{} has no bytes", to_text(type));
  return c10::TensorOptions().dtype(dtype).device(device);
}

// Whether an operator on a GPU has this result on the host.
bool is_on_host(const Graph& graph, TensorId tensor, c10::Device device) {
  struct HostResults {
    std::string_view op;
    std::size_t first;  // and those behind it
  };
  constexpr std::array kOperators = {
      HostResults{"aten::_scaled_dot_product_efficient_attention", 2},
      HostResults{"aten::_efficient_attention_forward", 2},
  };
  if (device.is_cpu()) return false;
  const NodeId node = graph.producer(tensor);
  if (!graph.is_op(node)) return false;
  const std::size_t index = tensor.index() - graph.results(node)[0].index();
  return std::any_of(kOperators.begin(), kOperators.end(), [&](const HostResults& known) {
    return graph.op(node) == known.op && index >= known.first && graph.type(tensor).dims.empty();
  });
}

// The tensors of one call, in their places. As in an eager step, one tensor of the graph is one
// tensor here, and those that share bytes share a storage: operators look at both.
class InPlaces {
 public:
  InPlaces(const Graph& graph, exec::Places places, c10::Device device)
      : graph_(graph), places_(places), device_(device) {}

  at::Tensor tensor(TensorId id) {
    for (const auto& [known, tensor] : tensors_) {
      if (known == id) return tensor;
    }
    const TensorType& type = graph_.type(id);
    const caffe2::TypeMeta dtype = options_of(type, device_).dtype();
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        storage(graph_.storage(id)),
        c10::DispatchKeySet(device_.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA),
        dtype);
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
    const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(place, device_),
                               /*allocator=*/nullptr, /*resizable=*/false);
    storages_.emplace_back(id, storage);
    return storage;
  }

  const Graph& graph_;
  exec::Places places_;
  c10::Device device_;
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
  explicit KeepGenerator(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
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
Status check_returned(const Graph& graph, NodeId node, c10::Device device,
                      const std::vector<TensorId>& expected,
                      const std::vector<at::Tensor>& returned) {
  if (returned.size() != expected.size()) {
    return fail(ErrorKind::kBadInput,
                fmt::format("{} returned {} tensors, and the graph has {}", graph.op(node),
                            returned.size(), expected.size()));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorType& type = graph.type(expected[i]);
    const at::Tensor& tensor = returned[i];
    const bool is_elsewhere =
        tensor.is_cpu() != (device.is_cpu() || is_on_host(graph, expected[i], device));
    if (is_elsewhere) {
      return fail(
          ErrorKind::kBadInput,
          fmt::format("{} returned %{} on {}, which a step on {} cannot have", graph.op(node),
                      graph.name(expected[i]), tensor.device().str(), device.str()));
    }
    if (to_torch(type.dtype) != tensor.scalar_type() ||
        tensor.sizes() != at::IntArrayRef(type.dims)) {
      return fail(ErrorKind::kBadInput,
                  fmt::format("{} returned {} where the graph has %{}: {}", graph.op(node),
                              shape_text(tensor), graph.name(expected[i]), to_text(type)));
    }
  }
  return {};
}

// Whether the same bytes are the same elements with these strides. Where there is one element or
// none in a direction, it does not matter how far the next one is.
bool has_elements_of(const at::Tensor& tensor, at::IntArrayRef strides) {
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const auto dim = static_cast<std::int64_t>(i);
    if (tensor.size(dim) > 1 && tensor.stride(dim) != strides[i]) return tensor.numel() == 0;
  }
  return true;
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
    }
    Status ok = scalar_.valid() || places_.empty() ? Status() : settle();
    call_.clear();
    return ok;
  }

 private:
  // Results that were not made in their places are copied there.
  Status settle() {
    const std::vector<at::Tensor> returned = call_.returned_tensors();
    EBB_CHECK(returned.size() == places_.size(), "{} results instead of {}", returned.size(),
              places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (returned[i].const_data_ptr() != places_[i].const_data_ptr()) {
        places_[i].copy_(returned[i]);
      } else if (!has_elements_of(returned[i], places_[i].strides())) {
        return fail(ErrorKind::kBadInput,
                    fmt::format("it made a result with strides [{}], and with [{}] when it was "
                                "measured; one that lies according to its values cannot run in a "
                                "step: let it end with .contiguous()",
                                fmt::join(returned[i].strides(), ","),
                                fmt::join(places_[i].strides(), ",")));
      }
    }
    return {};
  }

  Call call_;
  bool grad_mode_;
  ScalarId scalar_;
  std::vector<at::Tensor> places_;  // of the results that the operator returns
};

// The operator's operands, alone in the world: all of one number, each tensor of the graph once.
class Alone {
 public:
  Alone(const Graph& graph, c10::Device device, int fill)
      : graph_(graph), device_(device), fill_(fill) {}

  at::Tensor tensor(TensorId id) {
    for (const auto& [known, tensor] : made_) {
      if (known == id) return tensor;
    }
    const TensorType& type = graph_.type(id);
    const c10::Device device =
        is_on_host(graph_, id, device_) ? c10::Device(c10::DeviceType::CPU) : device_;
    at::Tensor tensor =
        at::empty_strided(type.dims, strides_of(type), options_of(type, device)).fill_(fill_);
    made_.emplace_back(id, tensor);
    return tensor;
  }

 private:
  const Graph& graph_;
  c10::Device device_;
  int fill_;
  std::vector<std::pair<TensorId, at::Tensor>> made_;
};

Recipe recipe_of(const Graph& graph, NodeId node, const std::vector<Recording::Entry>& entries,
                 const std::vector<TensorId>& expected, const std::vector<at::Tensor>& returned) {
  const auto number_of = [&](TensorId result) {
    return static_cast<std::int32_t>(result.index() - graph.results(node)[0].index());
  };
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
      if (returned[i].storage_offset() == 0 &&
          has_elements_of(returned[i], strides_of(graph.type(expected[i])))) {
        request.result = number_of(expected[i]);
      }
      break;
    }
    recipe.requests.push_back(request);
  }
  for (std::size_t i = 0; i < returned.size(); ++i) {
    const at::IntArrayRef strides = returned[i].strides();  // all: they choose among kernels
    if (strides == at::IntArrayRef(strides_of(graph.type(expected[i])))) continue;
    recipe.otherwise.push_back({number_of(expected[i]), strides.vec()});
  }
  return recipe;
}

exec::MemoryKind memory_of(c10::Device device) {
  return device.is_cpu() ? exec::MemoryKind::kHost : exec::MemoryKind::kGpu;
}

// PyTorch's allocator on the CPU throws the same error for everything.
ErrorKind kind_of(const c10::Error& error) {
  const bool is_short =
      error.msg().find("DefaultCPUAllocator: can't allocate memory") != std::string::npos;
  return is_short ? ErrorKind::kInfeasible : ErrorKind::kBadInput;
}

// Calls the operator with operands all of one number; what `look` makes of it.
template <class T>
Result<T> try_on(const Graph& graph, NodeId node, c10::Device device, int fill,
                 const std::function<Result<T>(Call&)>& look) {
  Alone alone(graph, device, fill);
  try {
    auto call = Call::make(graph, node, device, [&](TensorId id) { return alone.tensor(id); });
    if (!call) return fail(call.error());
    call->run();  // once for what libraries set up in a first call
    call->clear();
    return look(*call);
  } catch (const c10::OutOfMemoryError& error) {
    return fail(ErrorKind::kInfeasible, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return fail(kind_of(error), error.what_without_backtrace());
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    return fail(ErrorKind::kBadInput, error.what());
  }
}

// The same in surroundings as of a step.
template <class T>
Result<T> try_out(const Graph& graph, NodeId node, c10::Device device,
                  const std::function<Result<T>(Call&)>& look) {
  const KeepGenerator keep(device);
  const NoFill no_fill;  // as when it runs: filling allocates too
  const PlainDispatch plain(wants_grad_mode(graph, node));
  // Zeros are valid indices and labels; what does not like them (probabilities) gets ones.
  Result<T> on_zeros = try_on<T>(graph, node, device, 0, look);
  if (on_zeros) return on_zeros;
  Result<T> on_ones = try_on<T>(graph, node, device, 1, look);
  return on_ones ? on_ones : on_zeros;
}

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

}  // namespace

TorchKernels::TorchKernels(c10::Device device) : device_(device) {
  install_allocator();
  if (!device.is_cpu()) install_gpu_allocator();
}

exec::MemoryKind TorchKernels::memory() const { return memory_of(device_); }

Result<Recipe> TorchKernels::measure(const Graph& graph, NodeId node) {
  const std::vector<TensorId> expected = own_results(graph, node);
  return try_out<Recipe>(graph, node, device_, [&](Call& call) -> Result<Recipe> {
    Recording recording(memory_of(device_));
    call.run();
    const std::vector<Recording::Entry> entries = recording.finish();
    if (graph.scalar_result(node).valid()) return Recipe{};
    const std::vector<at::Tensor> returned = call.returned_tensors();
    if (Status ok = check_returned(graph, node, device_, expected, returned); !ok)
      return fail(ok.error());
    return recipe_of(graph, node, entries, expected, returned);
  });
}

// Some short calls one after the other, as in a step: on a GPU the next one is put into the stream
// while the one before runs.
Result<Duration> TorchKernels::time(const Graph& graph, NodeId node) {
  return try_out<Duration>(graph, node, device_, [&](Call& call) -> Result<Duration> {
    using Clock = std::chrono::steady_clock;
    const auto seconds_of = [&](int calls) {
      wait_for(device_);
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i) {
        call.run();
        call.clear();
      }
      wait_for(device_);
      return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
    };
    constexpr double kLongEnough = 0.004;
    constexpr int kMost = 20;
    const double once = seconds_of(1);
    const int calls = std::clamp(static_cast<int>(kLongEnough / std::max(once, 1e-7)), 1, kMost);
    const double again = seconds_of(calls);
    return Duration(std::llround(std::min(once, again) * 1e9));
  });
}

at::Tensor TorchKernels::host_value(const Graph& graph, TensorId tensor) {
  at::Tensor& value = host_values_[tensor.index()];
  if (!value.defined()) {
    value = at::empty({}, options_of(graph.type(tensor), c10::Device(c10::DeviceType::CPU)));
  }
  return value;
}

Status TorchKernels::warm_up(const Graph& graph, NodeId node) {
  // Trying it out begins with a call.
  return try_out<bool>(graph, node, device_, [](Call&) -> Result<bool> { return true; })
      .map([](bool) {});
}

Result<std::unique_ptr<exec::Kernel>> TorchKernels::bind(const Graph& graph, NodeId node,
                                                         exec::Places places) {
  InPlaces in_places(graph, places, device_);
  const auto tensor_of = [&](TensorId id) {
    return is_on_host(graph, id, device_) ? host_value(graph, id) : in_places.tensor(id);
  };
  auto call = Call::make(graph, node, device_, tensor_of);
  if (!call) return fail(call.error());
  std::vector<at::Tensor> results;
  for (const TensorId result : own_results(graph, node)) results.push_back(tensor_of(result));
  return std::make_unique<TorchKernel>(*std::move(call), wants_grad_mode(graph, node),
                                       graph.scalar_result(node), std::move(results));
}

}  // namespace ebb::torch
