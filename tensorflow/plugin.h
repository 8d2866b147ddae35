// The plug-in itself: what it was told to do, and what it did to each graph that Grappler showed
// it.
//
// Grappler calls from any thread, and twice for a graph, once after each time that its own
// optimizers have gone over it; where a graph has nodes on CPU and GPU, each time for both. Ebb
// works the second time: an optimizer that comes later might fuse what is not swapped and leave
// what is, and so change bits. What Ebb has rewritten is left alone from then on. Whatever goes
// wrong, the answer is "nothing was done": the original graph runs, and the reason is printed once
// and kept in the report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api.h"
#include "configuration.h"
#include "scan.h"

namespace ebb::grappler {

// One graph's way through TensorFlow's optimizer.
struct Passes {
  int count = 0;
  Scan scan;  // of the first one, if there was something to do; otherwise of no nodes
};

class Plugin {
 public:
  // The one of this process; it is never destroyed, because threads of TensorFlow may outlive main.
  static Plugin& instance();

  // Takes TensorFlow's functions and reads the environment. The answer is the type of the devices
  // to be registered for, a text that stays: CPU at the first call, GPU at the second; or one that
  // no machine has, when functions are missing, and for every further call, because TensorFlow ends
  // the process when a second optimizer is registered for a type.
  const char* load(const void* address_in_tensorflow);
  [[nodiscard]] bool is_loaded() const;

  [[nodiscard]] Status configure(std::string_view json);  // and turns it on
  void disable();
  void forget_reports();
  // One JSON object: configuration (null when off), calls, graphs, which are numbered as they come.
  [[nodiscard]] std::string report() const;
  // The number of the last graph that came into the report, 0 before the first: whether there are
  // new ones without reading it.
  [[nodiscard]] std::uint64_t last_number() const;
  // A profile out of what TensorFlow took for operations of steps that were planned:
  // {"operations": [{"name": "conv1/Conv2D", "seconds": 5e-6, "workspace": null}]}. kUsage where
  // nothing of them was.
  [[nodiscard]] Result<std::string> profile(std::string_view measured) const;

  void set_status(TF_Status* status, TF_Code code, const char* message) const {
    api_->TF_SetStatus(status, code, message);
  }
  // The rewritten GraphDef; nullopt when nothing was done. Does not throw.
  std::optional<std::string> optimize(Passes& passes, const TF_Buffer* graph,
                                      const TF_GrapplerItem* item) noexcept;
  // No more passes will come.
  void end(const Passes& passes) noexcept;

 private:
  // Bounded: a program may trace functions without end.
  static constexpr std::size_t kKeptReports = 128;
  static constexpr std::size_t kKeptGraphs = 4;
  static constexpr std::size_t kKeptMessages = 1024;

  struct GraphReport {
    std::uint64_t number = 0;  // no other graph of this process has it
    Scan scan;
    std::string rewrite;  // the JSON object of rewrite_graphdef; empty when it came to nothing
    std::string problem;  // why it runs as it was
    bool is_changed = false;
    double seconds = 0;
    double shape_seconds = 0;  // of those, TensorFlow's inference of shapes
  };

  std::optional<std::string> rewrite(const Configuration& configuration, Passes& passes,
                                     const TF_Buffer* graph, const TF_GrapplerItem* item,
                                     GraphReport& report);
  // Of a graph in which there may be something to do.
  std::optional<std::string> rewrite_scanned(const Configuration& configuration,
                                             const TF_Buffer* graph, const TF_GrapplerItem* item,
                                             GraphReport& report);
  void say_what_was_done(const GraphReport& report);
  void keep(GraphReport report);
  void keep(std::shared_ptr<const Graph> planned);
  // Whether this very graph was the last that was left as it was.
  bool was_left_alone(std::size_t number) const;
  void say_once(const std::string& message);

  std::optional<TensorFlowApi> api_;  // set before anything is registered, and then no more
  mutable std::mutex mutex_;          // guards what follows
  int loads_ = 0;
  std::string why_not_ = "TensorFlow has not loaded Ebb's plug-in";  // when there is no api_
  std::shared_ptr<const Configuration> configuration_;               // null when off
  std::size_t last_unchanged_ = 0;  // a number of the graph that was last left as it was
  std::deque<GraphReport> reports_;
  std::uint64_t last_number_ = 0;                     // stays when reports are forgotten
  std::deque<std::shared_ptr<const Graph>> planned_;  // by a budget, the last ones
  std::set<std::string, std::less<>> said_;
  std::uint64_t calls_ = 0;
  std::uint64_t calls_without_backward_ = 0;
};

}  // namespace ebb::grappler
