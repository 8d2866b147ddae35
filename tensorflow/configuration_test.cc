#include "configuration.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ebb/base/file.h"

namespace ebb::grappler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(std::string_view json) {
  const auto parsed = parse_configuration(json);
  return parsed ? "no error" : parsed.error().message;
}

Result<std::optional<Configuration>> of_environment(std::vector<const char*> entries) {
  entries.push_back(nullptr);
  return configuration_of_environment(entries.data());
}

std::string environment_error(std::vector<const char*> entries) {
  const auto read = of_environment(std::move(entries));
  return read ? "no error" : read.error().message;
}

TEST(Configuration, AnEmptyObjectIsThePaperSDefaults) {
  const auto parsed = parse_configuration("{}");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->lms.n_tensors, -1);
  EXPECT_EQ(parsed->lms.lb, 1);
  EXPECT_EQ(parsed->lms.ub, 10000);
  EXPECT_EQ(parsed->lms.ctrld_strategy, "chain_rule");
  EXPECT_EQ(parsed->devices.accelerator, "/device:GPU:*");
  EXPECT_EQ(parsed->devices.host, "/device:CPU:0");
}

TEST(Configuration, EveryParameterComesBackFromItsJson) {
  const std::string no_budget = R"(,"budget":"","batch_size":0,"device":"h200","profile":"",)"
                                R"("host_budget":"","strict":false})";
  const std::string all = R"({"optimizer_scopes":["adam"],"starting_scope":"s",)"
                          R"("starting_op_names":["a","b"],"excl_scopes":["x"],)"
                          R"("incl_scopes":["y"],"excl_types":["Relu"],"incl_types":["MatMul"],)"
                          R"("n_tensors":7,"lb":3,"ub":9,"ctrld_strategy":"direct_order",)"
                          R"("fuse_swapins":true,"swap_branches":true,"branch_threshold":4,)"
                          R"("fuse_distance":5,"whole_graph":true,"alpha":6,"min_bytes":4096,)"
                          R"("sync":2,"recompute_types":["Sigmoid"],)"
                          R"("accelerator":"/device:GPU:1","host":"/device:CPU:2",)"
                          R"("swap_nodes":"copy_kernels")";
  const auto parsed = parse_configuration(all + "}");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(to_json(*parsed), all + no_budget);
}

TEST(Configuration, NoTwoParametersSetTheSame) {
  const auto defaults = nlohmann::ordered_json::parse(to_json(*parse_configuration("{}")));
  const std::string profile = testing::TempDir() + "ebb_configuration_test.json";
  ASSERT_TRUE(write_file(profile, R"({"version": 1, "device": "cpu", "operations": []})"));
  for (const auto& [name, value] : defaults.items()) {
    nlohmann::ordered_json other = value;
    if (value.is_array()) other = {"name"};
    if (value.is_boolean()) other = !value.get<bool>();
    if (value.is_number()) other = value.get<int>() + 1;
    if (name == "starting_scope") other = "scope";
    if (name == "ctrld_strategy") other = "direct_order";
    if (name == "swap_nodes") other = "copy_kernels";
    if (name == "accelerator") other = "/device:TPU:0";
    if (name == "host") other = "/device:CPU:1";
    if (name == "device") other = "cpu";
    if (name == "profile") other = profile;
    if (name == "host_budget") other = "1GiB";
    nlohmann::ordered_json given = {{name, other}};
    for (const char* beside : {"batch_size", "device", "profile", "host_budget", "strict"}) {
      if (name == beside) given["budget"] = "60%";  // they go with one
    }
    if (name == "budget") given["budget"] = other = "60%";
    const auto changed = parse_configuration(given.dump());
    ASSERT_TRUE(changed) << name;
    auto expected = defaults;
    expected.update(given);
    EXPECT_EQ(to_json(*changed), expected.dump()) << name;
  }
}

TEST(Configuration, AProfileThatCannotBeReadIsRefusedBeforeAnyGraphIsSeen) {
  EXPECT_THAT(error_of(R"({"budget": "60%", "profile": "no/such.json"})"),
              HasSubstr("profile: cannot read no/such.json: No such file"));
}

TEST(Configuration, AnUnknownParameterIsRefusedWithTheNearest) {
  EXPECT_EQ(error_of(R"({"n_tensor": 3})"),
            "there is no parameter 'n_tensor'; did you mean 'n_tensors'?");
}

TEST(Configuration, AValueOfTheWrongKindIsRefusedByName) {
  EXPECT_EQ(error_of(R"({"n_tensors": 2.5})"), "n_tensors is 2.5; it must be a whole number");
  EXPECT_THAT(error_of(R"({"n_tensors": 18446744073709551615})"), HasSubstr("whole number"));
  EXPECT_THAT(error_of(R"({"n_tensors": true})"), HasSubstr("whole number"));
  EXPECT_THAT(error_of(R"({"excl_types": "Relu"})"), HasSubstr("excl_types is \"Relu\""));
  EXPECT_THAT(error_of(R"({"excl_types": [1]})"), HasSubstr("list of texts"));
  EXPECT_THAT(error_of(R"({"fuse_swapins": 1})"), HasSubstr("true or false"));
  EXPECT_THAT(error_of(R"({"starting_scope": null})"), HasSubstr("a text"));
  EXPECT_THAT(error_of(R"({"swap_nodes": "copy"})"), HasSubstr("copy_kernels"));
  EXPECT_THAT(error_of(R"({"min_bytes": -1})"), HasSubstr("a size"));
  EXPECT_THAT(error_of(R"({"host": "/device:CPU:x"})"), HasSubstr("host"));
  EXPECT_EQ(error_of("[1]"), "a configuration is a JSON object");
  EXPECT_EQ(error_of("{"), "a configuration is a JSON object");
}

TEST(Configuration, ANumberOutOfRangeIsRefusedBeforeAnyGraphIsSeen) {
  EXPECT_THAT(error_of(R"({"lb": 0})"), HasSubstr("lb is 0"));
  EXPECT_THAT(error_of(R"({"lb": 5, "ub": 4})"), HasSubstr("lb is 5 and ub is 4"));
  EXPECT_THAT(error_of(R"({"ctrld_strategy": "chain"})"), HasSubstr("chain_rule"));
}

TEST(Configuration, ABudgetStandsAloneWithWhatGoesWithIt) {
  const auto read = parse_configuration(
      R"({"budget": "16GiB", "batch_size": 32, "device": "p100-nvlink", "host_budget": 4096})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->budget.budget, "16GiB");
  EXPECT_EQ(read->budget.batch_size, 32);
  EXPECT_EQ(read->budget.host_budget, "4096B");
  EXPECT_EQ(parse_configuration(to_json(*read))->budget.device, "p100-nvlink");
  EXPECT_THAT(error_of(R"({"budget": "16 apples"})"), HasSubstr("budget: "));
  EXPECT_THAT(error_of(R"({"budget": 1.5})"), HasSubstr("a size, as \"14GiB\""));
  EXPECT_THAT(error_of(R"({"budget": "60%", "host_budget": "lots"})"), HasSubstr("host_budget: "));
  EXPECT_THAT(error_of(R"({"budget": "60%", "device": "h2000"})"), HasSubstr("device: "));
  EXPECT_THAT(error_of(R"({"budget": "60%", "profile": 3})"), HasSubstr("a text"));
  EXPECT_THAT(error_of(R"({"budget": "60%", "batch_size": -1})"), HasSubstr("number of samples"));
  EXPECT_THAT(error_of(R"({"budget": "60%", "n_tensors": 3})"),
              HasSubstr("n_tensors and budget exclude each other"));
}

TEST(Configuration, WhatGoesWithABudgetNeedsOne) {
  for (const char* alone :
       {R"({"batch_size": 8})", R"({"device": "cpu"})", R"({"profile": "x.json"})",
        R"({"host_budget": "1GiB"})", R"({"strict": true})"}) {
    EXPECT_THAT(error_of(alone), HasSubstr("goes with a budget"));
  }
}

TEST(Environment, ABudgetIsAParameterToo) {
  const auto read = of_environment({"EBB_BUDGET=60%", "EBB_BATCH_SIZE=16"});
  ASSERT_TRUE(read) << read.error().message;
  const Configuration configuration = read->value_or(Configuration());
  EXPECT_EQ(configuration.budget.budget, "60%");
  EXPECT_EQ(configuration.budget.batch_size, 16);
  EXPECT_THAT(environment_error({"EBB_BUDGET=much"}), HasSubstr("budget: "));
}

TEST(Environment, NothingSetIsOff) {
  const auto read = of_environment({"PATH=/bin", "EBBING=1", "NOT_EBB_LB=3", "EBB_CACHE=off"});
  ASSERT_TRUE(read);
  EXPECT_FALSE(*read);
}

TEST(Environment, EnableAloneIsOnWithDefaults) {
  for (const char* on : {"EBB_ENABLE=1", "EBB_ENABLE=true", "EBB_ENABLE=ON"}) {
    const auto read = of_environment({on});
    ASSERT_TRUE(read) << on;
    EXPECT_TRUE(read->has_value()) << on;
    EXPECT_EQ(to_json(read->value_or(Configuration())), to_json(*parse_configuration("{}")));
  }
}

TEST(Environment, AnyParameterIsOnAndZeroIsOff) {
  EXPECT_TRUE(*of_environment({"EBB_LB=3"}));
  EXPECT_FALSE(*of_environment({"EBB_LB=3", "EBB_ENABLE=0"}));
}

TEST(Environment, ValuesAreReadByKind) {
  const auto read =
      of_environment({"EBB_N_TENSORS=12", "EBB_EXCL_TYPES=Relu, MatMul,", "EBB_FUSE_SWAPINS=yes",
                      "EBB_MIN_BYTES=4MiB", "EBB_CTRLD_STRATEGY=direct_order",
                      "EBB_ACCELERATOR=/device:CPU:1", "EBB_SWAP_NODES=copy_kernels"});
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(read->has_value());
  const Configuration found = read->value_or(Configuration());
  EXPECT_EQ(found.lms.n_tensors, 12);
  EXPECT_THAT(found.lms.excl_types, ElementsAre("Relu", "MatMul"));
  EXPECT_TRUE(found.lms.fuse_swapins);
  EXPECT_EQ(found.lms.min_bytes, Bytes{4 << 20});
  EXPECT_EQ(found.lms.ctrld_strategy, "direct_order");
  EXPECT_EQ(found.devices.accelerator, "/device:CPU:1");
  EXPECT_EQ(found.swap_nodes, SwapNodes::kCopyKernels);
}

TEST(Configuration, TheHostIsAnotherDeviceThanTheAcceleratorAndHasHostMemory) {
  EXPECT_THAT(error_of(R"({"accelerator": "/device:CPU:0"})"), HasSubstr("are the same device"));
  EXPECT_TRUE(parse_configuration(R"({"accelerator": "/device:CPU:*"})"));
  EXPECT_THAT(error_of(R"({"host": "/device:GPU:0"})"), HasSubstr("no device with host memory"));
  EXPECT_THAT(error_of(R"({"host": "/device:CPU:*"})"), HasSubstr("no device with host memory"));
  EXPECT_THAT(error_of(R"({"host": "/device:CPU:01"})"), HasSubstr("no device with host memory"));
}

TEST(Environment, AnUnknownNameIsRefusedWithTheNearest) {
  EXPECT_EQ(environment_error({"EBB_NTENSORS=3"}),
            "EBB_NTENSORS in the environment is no parameter; did you mean 'EBB_N_TENSORS'?");
  EXPECT_EQ(environment_error({"EBB_ENABLED=1"}),
            "EBB_ENABLED in the environment is no parameter; did you mean 'EBB_ENABLE'?");
}

TEST(Environment, ABadValueIsRefusedWithTheVariable) {
  EXPECT_EQ(environment_error({"EBB_LB=three"}), "EBB_LB is \"three\"; it must be a whole number");
  EXPECT_EQ(environment_error({"EBB_LB="}), "EBB_LB is \"\"; it must be a whole number");
  EXPECT_EQ(environment_error({"EBB_ENABLE=maybe"}), "EBB_ENABLE is 'maybe'; it must be 1 or 0");
  EXPECT_THAT(environment_error({"EBB_FUSE_SWAPINS=maybe"}), HasSubstr("true or false"));
  EXPECT_THAT(environment_error({"EBB_LB=0"}), HasSubstr("lb is 0"));
}

}  // namespace
}  // namespace ebb::grappler
