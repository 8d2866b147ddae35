// ebb-example: writes the training step of a well-known architecture as .ebb text.
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ebb/base/file.h"
#include "ebb/graph/print.h"
#include "examples/limits.h"
#include "examples/models.h"

namespace ebb::examples {
namespace {

constexpr const char* kMlpExamples = R"(Examples:
  ebb-example mlp --layers 8 --width 8192 -o mlp.ebb
  ebb-example mlp --loss mse --outputs 1 --batch 65536)";
constexpr const char* kResnetExamples = R"(Examples:
  ebb-example resnet --batch 256 | ebb show -
  ebb-example resnet --blocks 3,4,23,3 -o resnet101.ebb
  ebb-example resnet --nodes 1000000 --image 32 -o large.ebb)";
constexpr const char* kUnetExamples = R"(Examples:
  ebb-example unet --size 512 --batch 16 -o unet.ebb
  ebb-example unet --dimensions 3 --size 128 --channels 32 --batch 4 -o unet3d.ebb)";
constexpr const char* kTransformerExamples = R"(Examples:
  ebb-example transformer --batch 8 -o gpt2.ebb
  ebb-example transformer --layers 24 --width 1024 --heads 16 -o gpt2-medium.ebb)";
constexpr const char* kFooter = R"(Examples:
  ebb-example resnet --batch 256 | ebb show -
  ebb-example transformer --layers 24 --width 1024 --heads 16 -o gpt2-medium.ebb
  ebb-example mlp --nodes 100000 -o large.ebb

'ebb-example MODEL --help' lists the options of a model.

Exit status: 0 done; 1 a bug; 2 wrong usage; 3 sizes or a file that cannot be.)";

// What the command line says. Only the options of the model named are of interest.
struct Request {
  MlpOptions mlp;
  ResnetOptions resnet;
  UnetOptions unet;
  TransformerOptions transformer;
  std::string loss = "cross-entropy";
  std::optional<std::int64_t> nodes;  // when not as deep as the options say
  std::string output = "-";
  std::function<Result<Graph>()> build;
};

// A subcommand with what all models have in common.
CLI::App& add_model(CLI::App& app, Request& request, const std::string& name,
                    const std::string& description, std::int64_t& batch, bool& update_early) {
  CLI::App& model = *app.add_subcommand(name, description);
  model.option_defaults()->always_capture_default();
  model.add_option("-o,--output", request.output, "File to write; - is standard output");
  model.add_option("--batch", batch, "Samples in one step");
  model.add_flag("--update-early", update_early,
                 "Update each weight right after its gradient, not all after the backward pass");
  return model;
}

void add_nodes(CLI::App& model, Request& request, CLI::Option* depth) {
  model.add_option("--nodes", request.nodes, "Be as deep as makes a graph of about so many nodes")
      ->excludes(depth);
}

// So many nodes may take more layers than there may be, and nobody gave those.
Status check_depth(const Request& request, std::int64_t depth, std::string_view layers) {
  if (!request.nodes || depth <= kMostLayers) return {};
  return fail(ErrorKind::kUsage, fmt::format("--nodes is {}, which takes {} {}; at most {} can be",
                                             *request.nodes, depth, layers, kMostLayers));
}

void add_mlp(CLI::App& app, Request& request) {
  MlpOptions& options = request.mlp;
  CLI::App& model = add_model(app, request, "mlp", "Multi-layer perceptron, trained by SGD",
                              options.batch, options.update_early);
  CLI::Option* layers = model.add_option("--layers", options.layers, "Linear layers");
  model.add_option("--width", options.width, "Neurons of a hidden layer");
  model.add_option("--inputs", options.inputs, "Numbers in a sample");
  model.add_option("--outputs", options.outputs, "Classes, or numbers to predict");
  model.add_option("--loss", request.loss, "What is minimized")
      ->check(CLI::IsMember({"cross-entropy", "mse"}));
  add_nodes(model, request, layers);
  model.footer(kMlpExamples);
  model.callback([&request, &options] {
    options.loss = request.loss == "mse" ? Loss::kMeanSquare : Loss::kCrossEntropy;
    request.build = [&request, &options]() -> Result<Graph> {
      if (request.nodes) {
        options = mlp_of_size(static_cast<std::size_t>(*request.nodes), options);
      }
      if (Status ok = check_depth(request, options.layers, "layers"); !ok) return fail(ok.error());
      return mlp(options);
    };
  });
}

void add_resnet(CLI::App& app, Request& request) {
  ResnetOptions& options = request.resnet;
  CLI::App& model = add_model(app, request, "resnet",
                              "Residual network (ResNet-50), trained by SGD with momentum",
                              options.batch, options.update_early);
  CLI::Option* blocks =
      model.add_option("--blocks", options.blocks, "Bottleneck blocks of each stage, as 3,4,6,3")
          ->delimiter(',')
          ->allow_extra_args(false);
  model.add_option("--channels", options.channels, "Channels inside the first stage's blocks");
  model.add_option("--image", options.image, "Height and width of an image");
  model.add_option("--classes", options.classes, "Classes to tell apart");
  add_nodes(model, request, blocks);
  model.footer(kResnetExamples);
  model.callback([&request, &options] {
    request.build = [&request, &options]() -> Result<Graph> {
      if (request.nodes) {
        options = resnet_of_size(static_cast<std::size_t>(*request.nodes), options);
        const auto depth =
            std::accumulate(options.blocks.begin(), options.blocks.end(), std::int64_t{0});
        if (Status ok = check_depth(request, depth, "blocks"); !ok) return fail(ok.error());
      }
      return resnet(options);
    };
  });
}

void add_unet(CLI::App& app, Request& request) {
  UnetOptions& options = request.unet;
  CLI::App& model = add_model(app, request, "unet", "U-Net for images or volumes, trained by Adam",
                              options.batch, options.update_early);
  model.add_option("--dimensions", options.dimensions, "2: images; 3: volumes");
  model.add_option("--depth", options.depth, "How often the size is halved");
  model.add_option("--convolutions", options.convolutions, "Convolutions in a row at each level");
  model.add_option("--channels", options.channels, "Channels of the first level");
  model.add_option("--size", options.size, "Length of each side of an image");
  model.add_option("--inputs", options.inputs, "Channels of an image");
  model.add_option("--classes", options.classes, "Classes to tell apart");
  model.add_flag("!--no-batch-norm", options.batch_norm, "Convolutions with bias, no batch norm");
  model.footer(kUnetExamples);
  model.callback([&request, &options] { request.build = [&options] { return unet(options); }; });
}

void add_transformer(CLI::App& app, Request& request) {
  TransformerOptions& options = request.transformer;
  CLI::App& model = add_model(app, request, "transformer", "Transformer (GPT-2), trained by Adam",
                              options.batch, options.update_early);
  CLI::Option* layers = model.add_option("--layers", options.layers, "Blocks");
  model.add_option("--width", options.width, "Numbers for a token");
  model.add_option("--heads", options.heads, "Attention heads of a block");
  model.add_option("--sequence", options.sequence, "Tokens of a sample");
  model.add_option("--vocabulary", options.vocabulary, "Distinct tokens");
  model.add_option("--dropout", options.dropout, "Probability that a number is dropped");
  model.add_flag("!--no-bias", options.bias, "Linear layers and layer norms without bias");
  add_nodes(model, request, layers);
  model.footer(kTransformerExamples);
  model.callback([&request, &options] {
    request.build = [&request, &options]() -> Result<Graph> {
      if (request.nodes) {
        options = transformer_of_size(static_cast<std::size_t>(*request.nodes), options);
      }
      if (Status ok = check_depth(request, options.layers, "layers"); !ok) return fail(ok.error());
      return transformer(options);
    };
  });
}

Status write_model(const Request& request) {
  if (!request.build) {
    return fail(ErrorKind::kUsage, "name a model: mlp, resnet, unet or transformer");
  }
  if (auto status = check_range({{"--nodes", request.nodes.value_or(1)}}); !status) return status;
  const Result<Graph> graph = request.build();
  if (!graph) return fail(graph.error());
  return write_file(request.output, print(*graph));
}

int run(int argc, char** argv) {
  Request request;
  CLI::App app("Writes the training step of a well-known architecture as a graph in text form.",
               "ebb-example");
  app.require_subcommand(0, 1);
  app.get_formatter()->label("SUBCOMMAND", "MODEL");
  app.footer(kFooter);
  add_mlp(app, request);
  add_resnet(app, request);
  add_unet(app, request);
  add_transformer(app, request);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ErrorKind::kUsage);
  }
  if (const Status status = write_model(request); !status) {
    write_to_stderr(fmt::format("ebb-example: {}\n", status.error().render("")));
    return static_cast<int>(status.error().kind);
  }
  return 0;
}

}  // namespace
}  // namespace ebb::examples

int main(int argc, char** argv) {
  try {
    return ebb::examples::run(argc, argv);
  } catch (const std::bad_alloc&) {
    ebb::write_to_stderr(
        fmt::format("ebb-example: the graph does not fit in memory; make it smaller\n"));
    return static_cast<int>(ebb::ErrorKind::kBadInput);
  } catch (const std::exception& error) {
    ebb::write_to_stderr(fmt::format("ebb-example: this is a bug: {}\n", error.what()));
    return 1;
  }
}
