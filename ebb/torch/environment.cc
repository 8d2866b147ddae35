#include "ebb/torch/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/torch/version.h"

namespace ebb::torch {
namespace {

std::string said(bool is_on) { return is_on ? "yes" : "no"; }

// Settings that have an old and a new name refuse to answer where these disagree.
template <class Ask>
std::string said_unless_unclear(Ask ask) {
  try {
    return said(ask());
  } catch (const c10::Error&) {
    return "unclear";
  }
}

// "Intel(R) oneAPI Math Kernel Library Version 2024.2\n": without the end of the line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string said(at::CuBLASReductionOption option) {
  switch (option) {
    case at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK:
      return "yes";
    case at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK:
      return "no";
    case at::CuBLASReductionOption::DisallowReducedPrecisionDisallowSplitK:
      return "no, nor split k";
  }
  return "unclear";
}

// Libraries read settings of their own there.
void add_variables(exec::Environment& environment) {
  constexpr std::array<std::string_view, 12> kPrefixes = {"ATEN_CPU_CAPABILITY=",
                                                          "CUBLAS",
                                                          "CUDA_LAUNCH_BLOCKING=",
                                                          "CUDNN_",
                                                          "DNNL_",
                                                          "KMP_",
                                                          "MKL_",
                                                          "NVIDIA_TF32_OVERRIDE=",
                                                          "OMP_",
                                                          "ONEDNN_",
                                                          "TORCH_BLAS_",
                                                          "TORCH_CUDNN_"};
  for (const char* const* entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    if (std::any_of(kPrefixes.begin(), kPrefixes.end(),
                    [&](std::string_view prefix) { return text.starts_with(prefix); })) {
      environment[fmt::format("${}", text.substr(0, equals))] = text.substr(equals + 1);
    }
  }
}

void add_gpu(exec::Environment& environment) {
  at::Context& context = at::globalContext();
  if (at::Context::hasCUDART()) {
    environment["CUDA runtime"] = std::to_string(at::Context::versionCUDART());
  }
  if (at::Context::hasCuDNN()) {
    environment["cuDNN"] = std::to_string(at::Context::versionRuntimeCuDNN());
  }
  environment["cuDNN enabled"] = said(context.userEnabledCuDNN());
  environment["cuDNN benchmark"] =
      context.benchmarkCuDNN() ? fmt::format("yes, {}", context.benchmarkLimitCuDNN()) : "no";
  environment["cuDNN deterministic"] = said(context.deterministicCuDNN());
  environment["TF32 in cuDNN"] = said_unless_unclear([&] { return context.allowTF32CuDNN(); });
  environment["TF32 in cuBLAS"] = said_unless_unclear([&] { return context.allowTF32CuBLAS(); });
  environment["reduced precision in sums of f16"] = said(context.allowFP16ReductionCuBLAS());
  environment["reduced precision in sums of bf16"] = said(context.allowBF16ReductionCuBLAS());
  environment["f16 accumulation"] = said(context.allowFP16AccumulationCuBLAS());
  environment["preferred BLAS"] = std::to_string(static_cast<int>(context.blasPreferredBackend()));
  environment["preferred linear algebra"] =
      std::to_string(static_cast<int>(context.linalgPreferredBackend()));
  if (const auto carveout = context._SMCarveout_EXPERIMENTAL()) {
    environment["multiprocessors left alone"] = std::to_string(*carveout);
  }
}

void add_attention(exec::Environment& environment) {
  at::Context& context = at::globalContext();
  std::vector<std::string_view> enabled;
  const auto add = [&](std::string_view name, bool is_on) {
    if (is_on) enabled.push_back(name);
  };
  add("flash", context.userEnabledFlashSDP());
  add("flash 3", context.userEnabledFA3SDP());
  add("memory-efficient", context.userEnabledMemEfficientSDP());
  add("math", context.userEnabledMathSDP());
  add("cuDNN", context.userEnabledCuDNNSDP());
  add("reduced precision in math", context.allowFP16BF16ReductionMathSDP());
  environment["attention"] = fmt::format("{}", fmt::join(enabled, ", "));
  std::vector<int> order;
  for (const at::SDPBackend backend : context.sDPPriorityOrder()) {
    order.push_back(static_cast<int>(backend));
  }
  environment["order of attention"] = fmt::format("{}", fmt::join(order, ", "));
}

void add_precision(exec::Environment& environment) {
  const at::Context& context = at::globalContext();
  constexpr std::array kBackends = {std::pair{"GPU", at::Float32Backend::CUDA},
                                    std::pair{"oneDNN", at::Float32Backend::MKLDNN}};
  constexpr std::array kOperators = {std::pair{"convolutions", at::Float32Op::CONV},
                                     std::pair{"recurrences", at::Float32Op::RNN},
                                     std::pair{"products", at::Float32Op::MATMUL}};
  for (const auto& [where, backend] : kBackends) {
    for (const auto& [what, op] : kOperators) {
      environment[fmt::format("precision of f32 {}, {}", what, where)] =
          at::precision2str(context.float32Precision(backend, op));
    }
  }
}

}  // namespace

exec::Environment environment_of(c10::Device device, const exec::Backend& backend) {
  const at::Context& context = at::globalContext();
  exec::Environment environment;
  environment["Ebb"] = EBB_VERSION;
  environment["torch"] = to_string(running_with());
  environment["device"] = device.is_cpu() ? "cpu" : "cuda";
  environment["hardware"] = backend.hardware();
  environment["threads"] = std::to_string(at::get_num_threads());
  environment["instructions"] = at::get_cpu_capability();
  environment["MKL"] = one_line(at::get_mkl_version());
  environment["oneDNN"] = one_line(at::get_mkldnn_version());
  environment["OpenMP"] = one_line(at::get_openmp_version());
  environment["deterministic algorithms"] = said(context.deterministicAlgorithms());
  environment["oneDNN enabled"] = said(context.userEnabledMkldnn());
  environment["oneDNN deterministic"] = said(context.deterministicMkldnn());
  environment["NNPACK enabled"] = said(context.userEnabledNNPACK());
  environment["reduced precision in sums of f16, CPU"] = said(context.allowFP16ReductionCPU());
  add_precision(environment);
  add_attention(environment);
  if (!device.is_cpu()) add_gpu(environment);
  add_variables(environment);
  return environment;
}

}  // namespace ebb::torch
