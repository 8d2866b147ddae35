#include "ebb/import/tensorflow_device.h"

#include <gtest/gtest.h>

namespace ebb {
namespace {

bool is_match(std::string_view pattern, std::string_view device) {
  return matches(read_device(pattern), read_device(device));
}

TEST(TensorFlowDevice, EverySpellingOfADeviceIsRead) {
  for (const std::string_view text : {"/gpu:1", "/GPU:1", "/device:GPU:1", "/device:gpu:1",
                                      "/job:worker/replica:0/task:3/device:GPU:1"}) {
    const DeviceName name = read_device(text);
    EXPECT_EQ(name.type, "GPU") << text;
    EXPECT_EQ(name.number, "1") << text;
  }
  EXPECT_EQ(read_device("/job:worker/task:3").type, "");
  EXPECT_EQ(read_device("/job:worker/task:3").task, "3");
  EXPECT_EQ(read_device("").type, "");
  EXPECT_EQ(read_device("///").type, "");
}

TEST(TensorFlowDevice, APatternMeansWhatItSays) {
  EXPECT_TRUE(is_match("/device:GPU:*", "/job:a/replica:0/task:0/device:GPU:7"));
  EXPECT_TRUE(is_match("/gpu:0", "/device:GPU:0"));
  EXPECT_TRUE(is_match("/device:GPU", "/gpu:3"));
  EXPECT_TRUE(is_match("/job:a/device:GPU:*", "/job:a/device:GPU:0"));
  EXPECT_FALSE(is_match("/job:a/device:GPU:*", "/job:b/device:GPU:0"));
  EXPECT_FALSE(is_match("/gpu:0", "/gpu:1"));
  EXPECT_FALSE(is_match("/device:GPU:*", "/device:CPU:0"));
  EXPECT_FALSE(is_match("/device:GPU:*", "/job:a"));
  EXPECT_FALSE(is_match("/device:GPU:*", ""));
}

TEST(TensorFlowDevice, TheHostIsOnTheMachineOfTheAccelerator) {
  EXPECT_EQ(device_beside("/job:a/replica:0/task:1/device:GPU:3", "/device:CPU:0"),
            "/job:a/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(device_beside("", "/cpu:1"), "/device:CPU:1");
  EXPECT_EQ(device_beside("/job:a/device:GPU:0", "/job:b/device:CPU:*"), "/job:b/device:CPU:0");
}

TEST(TensorFlowDevice, WhatIsNoDeviceIsAUsageError) {
  for (const std::string_view text : {"", "/job:a", "/device:GPU:x", "/device:", "/de vice:0"}) {
    const auto checked = check_device_pattern(text, "accelerator");
    ASSERT_FALSE(checked) << text;
    EXPECT_EQ(checked.error().kind, ErrorKind::kUsage);
    EXPECT_NE(checked.error().message.find("accelerator"), std::string::npos);
  }
  EXPECT_TRUE(check_device_pattern("/device:GPU:*", "accelerator"));
  EXPECT_TRUE(check_device_pattern("/gpu:0", "accelerator"));
}

TEST(TensorFlowDevice, NothingIsSwappedToWhereItComesFrom) {
  const auto same = check_are_apart("/cpu:0", "/device:CPU:0");
  ASSERT_FALSE(same);
  EXPECT_EQ(same.error().kind, ErrorKind::kUsage);
  EXPECT_NE(same.error().message.find("name the second as the host"), std::string::npos);
  EXPECT_TRUE(check_are_apart("/device:GPU:*", "/device:CPU:0"));
  EXPECT_TRUE(check_are_apart("/device:CPU:0", "/device:CPU:1"));
  EXPECT_TRUE(check_are_apart("/device:CPU:*", "/device:CPU:1"));  // whatever else there is
}

}  // namespace
}  // namespace ebb
