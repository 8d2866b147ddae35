// A project that has nothing of Ebb but the installed package.
#include <cstdio>

#include <ebb/graph/builder.h>
#include <ebb/graph/parse.h>
#include <ebb/graph/print.h>
#include <ebb/order/liveness.h>

int main() {
  ebb::GraphBuilder b("step");
  const ebb::TensorId x = b.input("x", ebb::f32({32, 784}));
  const ebb::TensorId w = b.param("w", ebb::f32({784, 256}));
  b.returns({b.op("aten::mm", {x, w}).makes("h", ebb::f32({32, 256}))});
  const auto graph = b.build();
  if (!graph) {
    std::puts(graph.error().message.c_str());
    return 1;
  }
  const std::string text = ebb::print(*graph);
  const auto again = ebb::parse_valid(text);
  if (!again || ebb::print(*again) != text) return 1;
  const ebb::MemoryCurve curve = ebb::memory_curve(*again, ebb::find_lives(*again));
  std::printf("%speak %s\n", text.c_str(), ebb::to_human(curve.peak).c_str());
  return curve.peak == ebb::Bytes{4 * (32 * 784 + 784 * 256 + 32 * 256)} ? 0 : 1;
}
