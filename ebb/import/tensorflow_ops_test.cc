#include "ebb/import/tensorflow_ops.h"

#include <set>

#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include "ebb/import/graphdef_for_tests.h"
#include "ebb/import/tensorflow_types.h"

namespace ebb {
namespace {

const TensorFlowOp& known(std::string_view name) {
  const TensorFlowOp* op = find_tensorflow_op(name);
  EXPECT_NE(op, nullptr) << name;
  static const TensorFlowOp kNone;
  return op == nullptr ? kNone : *op;
}

TEST(TensorFlowOps, EveryLineOfTheTableIsReadAndFoundUnderItsName) {
  std::set<std::string_view> seen;
  for (const std::string_view name : tensorflow_op_names()) {
    EXPECT_EQ(known(name).name, name);
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  EXPECT_GT(seen.size(), 1500U);
  EXPECT_EQ(find_tensorflow_op("NoSuchOperator"), nullptr);
  EXPECT_EQ(find_tensorflow_op(""), nullptr);
}

TEST(TensorFlowOps, EveryArgumentHasATypeOrAnAttributeThatSaysIt) {
  for (const std::string_view name : tensorflow_op_names()) {
    const TensorFlowOp& op = known(name);
    for (const auto* args : {&op.operands, &op.results}) {
      for (const TensorFlowArg& arg : *args) {
        EXPECT_FALSE(arg.name.empty()) << name;
        EXPECT_EQ((arg.type != 0) + !arg.type_attribute.empty() + !arg.list_attribute.empty(), 1)
            << name << " " << arg.name;
      }
    }
    for (const HostRule& rule : op.host_rules) {
      EXPECT_FALSE(rule.conditions.empty()) << name;
      EXPECT_TRUE(std::any_of(op.results.begin(), op.results.end(),
                              [&](const TensorFlowArg& arg) { return arg.name == rule.result; }))
          << name << " " << rule.result;
    }
  }
}

TEST(TensorFlowOps, OperandsAndResultsAreThoseOfTheDeclaration) {
  const TensorFlowOp& matmul = known("MatMul");
  ASSERT_EQ(matmul.operands.size(), 2U);
  EXPECT_EQ(matmul.operands[1].type_attribute, "T");
  EXPECT_FALSE(matmul.is_stateful);
  EXPECT_TRUE(matmul.has_gpu_kernel);

  EXPECT_EQ(known("AddN").operands[0].count_attribute, "N");
  EXPECT_EQ(known("PartitionedCall").results[0].list_attribute, "Tout");
  EXPECT_TRUE(known("VariableV2").results[0].is_reference);
  EXPECT_TRUE(known("Assign").operands[0].is_reference);
  EXPECT_EQ(known("VarHandleOp").results[0].type, find_tensorflow_type("resource"));
  EXPECT_TRUE(known("ReadVariableOp").is_stateful);
  EXPECT_FALSE(known("AccumulateNV2").has_gpu_kernel);
}

TEST(TensorFlowOps, HostMemoryIsThatOfTheKernels) {
  EXPECT_TRUE(known("Shape").results[0].is_on_host);
  EXPECT_FALSE(known("Merge").results[0].is_on_host);
  EXPECT_TRUE(known("Merge").results[1].is_on_host);
  const TensorFlowOp& add = known("AddV2");
  ASSERT_EQ(add.host_rules.size(), 1U);
  EXPECT_EQ(add.host_rules[0].conditions[0].first, "T");
  EXPECT_EQ(add.host_rules[0].conditions[0].second, std::vector<int>{for_tests::kInt32});
}

TEST(TensorFlowOps, DefaultsStandForMissingAttributes) {
  const TensorFlowOp& argmax = known("ArgMax");
  const auto& defaults = argmax.defaults;
  EXPECT_NE(std::find(defaults.begin(), defaults.end(),
                      std::pair<std::string, std::int64_t>("output_type", 9)),
            defaults.end());
}

TEST(TensorFlowOps, RandomOnesAreThoseThatDrawWithoutAHandle) {
  EXPECT_TRUE(is_random(known("RandomUniform")));
  EXPECT_TRUE(is_random(known("TruncatedNormal")));
  EXPECT_TRUE(is_random(known("Multinomial")));
  EXPECT_FALSE(is_random(known("StatelessRandomUniform")));
  EXPECT_FALSE(is_random(known("MatMul")));
  EXPECT_FALSE(is_random(known("RandomDataset")));
  EXPECT_FALSE(is_random(known("RandomShuffleQueueV2")));
}

std::string op_def() {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_string(1, "Custom");
  {
    protozero::pbf_writer arg(writer, 2);
    arg.add_string(1, "x");
    arg.add_string(4, "T");
    arg.add_int64(5, 1);  // a number where a text belongs: not a field of ours
  }
  {
    protozero::pbf_writer arg(writer, 3);
    arg.add_string(1, "y");
    arg.add_string(6, "Tout");
  }
  for (const auto& [name, value] :
       for_tests::Attributes{{"T", for_tests::type_of(2)}, {"Tout", for_tests::types_of({1, 3})}}) {
    protozero::pbf_writer attribute(writer, 4);
    attribute.add_string(1, name);
    attribute.add_string(3, value);
  }
  writer.add_bool(17, true);
  writer.add_bool(99, true);
  return out;
}

TEST(TensorFlowOps, AnOpDefIsReadWithItsDefaults) {
  const TensorFlowOp op = read_op_def(op_def()).value_or(TensorFlowOp());
  ASSERT_EQ(op.name, "Custom");
  EXPECT_TRUE(op.is_stateful);
  EXPECT_EQ(op.operands[0].type_attribute, "T");
  EXPECT_EQ(op.operands[0].count_attribute, "");
  EXPECT_EQ(op.results[0].list_attribute, "Tout");
  EXPECT_EQ(op.defaults[0], (std::pair<std::string, std::int64_t>("T", 2)));
  EXPECT_EQ(op.list_defaults[0].second, (std::vector<int>{1, 3}));
}

TEST(TensorFlowOps, BytesThatAreNoOpDefAreNone) {
  const std::string bytes = op_def();
  EXPECT_FALSE(read_op_def(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(read_op_def("\x0b"));
}

}  // namespace
}  // namespace ebb
