#include "ebb/plan/device.h"

#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/base/file.h"

namespace ebb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string device_with(const std::string& more, const std::string& link_more = "",
                        const std::string& flops_more = "") {
  return R"({"name": "d", "memory": "16GB", "memory_bandwidth": "1TB/s",
    "flops": {"f32": "10TFLOP/s")" +
         flops_more + R"(}, "link": {"to_host": "10GB/s", "to_device": "12GB/s")" + link_more +
         "}" + more + "}";
}

std::string error_of(const std::string& json) {
  const auto device = parse_device(json);
  EXPECT_FALSE(device) << json;
  if (device) return "";
  EXPECT_EQ(device.error().kind, ErrorKind::kBadInput);
  return device.error().render("");
}

TEST(Device, KnownOnesAreFoundByName) {
  EXPECT_THAT(device_names(), ElementsAre("cpu", "h200", "p100-nvlink"));
  for (const std::string_view name : device_names()) {
    const auto device = find_device(std::string(name));
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(device->name, name);
    EXPECT_FALSE(device->note.empty()) << name << " does not say where its numbers are from";
  }
}

TEST(Device, FilesInTheRepositoryAreThoseInTheLibrary) {
  for (const std::string_view name : device_names()) {
    const auto file =
        find_device(std::string(EBB_SOURCE_DIR) + "/devices/" + std::string(name) + ".json");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(*file, find_device(std::string(name)).value());
  }
}

TEST(Device, TheH200HasTheMeasuredNumbers) {
  const Device h200 = find_device("h200").value();
  EXPECT_EQ(h200.link.to_host.bytes_per_second, 55.1e9);
  EXPECT_EQ(h200.link.to_device.bytes_per_second, 55.3e9);
  EXPECT_EQ(h200.link.to_host_both.bytes_per_second, 49.6e9);
  EXPECT_EQ(h200.memory_bandwidth.bytes_per_second, 4.3e12);
  EXPECT_EQ(h200.flops.bf16, 788e12);
  // Measured speeds of copies: 64 KiB 2.6 GB/s, 1 MiB 43, 4 MiB 53.6, 16 MiB and more 55.
  const auto speed = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) /
           static_cast<double>(copy_time(h200.link, Bytes{bytes}, CopyDirection::kToHost).count());
  };
  EXPECT_NEAR(speed(64 << 10), 2.6, 0.1);
  EXPECT_NEAR(speed(1 << 20), 43, 0.5);
  EXPECT_NEAR(speed(4 << 20), 53.6, 0.5);
  EXPECT_NEAR(speed(16 << 20), 55, 0.5);
  EXPECT_NEAR(speed(1 << 30), 55.1, 0.1);
}

TEST(Device, ThePapersP100HasFortyEachWay) {
  const Device p100 = find_device("p100-nvlink").value();
  EXPECT_EQ(p100.memory, Bytes{16'000'000'000});
  // 80 GB/s duplex: one way does not slow the other.
  for (const bool busy : {false, true}) {
    EXPECT_EQ(copy_time(p100.link, Bytes{40'000'000'000}, CopyDirection::kToHost, busy),
              std::chrono::seconds(1) + p100.link.latency);
  }
}

TEST(CopyTime, IsLatencyAndBytesOverBandwidthAndNeverTheShortest) {
  const Link link{.to_host = {1e9},
                  .to_device = {2e9},
                  .to_host_both = {0.5e9},
                  .to_device_both = {1e9},
                  .latency = Duration{100},
                  .shortest = Duration{150}};
  // 1000 bytes at 1 byte/ns, after 100 ns.
  EXPECT_EQ(copy_time(link, Bytes{1000}, CopyDirection::kToHost), Duration{1100});
  EXPECT_EQ(copy_time(link, Bytes{1000}, CopyDirection::kToDevice), Duration{600});
  EXPECT_EQ(copy_time(link, Bytes{1000}, CopyDirection::kToHost, true), Duration{2100});
  EXPECT_EQ(copy_time(link, Bytes{1000}, CopyDirection::kToDevice, true), Duration{1100});
  EXPECT_EQ(copy_time(link, Bytes{10}, CopyDirection::kToHost), Duration{150});
  EXPECT_EQ(copy_time(link, Bytes{0}, CopyDirection::kToHost), Duration{150});
}

TEST(CopyTime, IsNeverNegativeAndNeverOverflows) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-320, 308);
  std::uniform_int_distribution<std::int64_t> size(0, INT64_MAX);
  for (int i = 0; i < 20'000; ++i) {
    const Bandwidth bandwidth{std::pow(10, exponent(random))};
    const Link link{bandwidth,  bandwidth, bandwidth, bandwidth, Duration{size(random)},
                    Duration{0}};
    const Duration time = copy_time(link, Bytes{size(random)}, CopyDirection::kToHost);
    ASSERT_GE(time, Duration{0});
    ASSERT_LE(time.count(), std::int64_t{1} << 53);
  }
  const Link none{};  // a bandwidth of nothing
  EXPECT_EQ(copy_time(none, Bytes{1}, CopyDirection::kToHost).count(), std::int64_t{1} << 53);
  EXPECT_EQ(copy_time(none, Bytes{0}, CopyDirection::kToHost).count(), std::int64_t{1} << 53);
}

TEST(Device, WhatIsLeftOutHasADefault) {
  const Device device = parse_device(device_with("")).value();
  EXPECT_EQ(device.link.to_host_both, device.link.to_host);
  EXPECT_EQ(device.link.to_device_both, device.link.to_device);
  EXPECT_EQ(device.flops.bf16, 10e12);
  EXPECT_EQ(device.alignment, Bytes{512});
  EXPECT_EQ(device.launch, std::chrono::microseconds(5));
  const Device tensor_cores =
      parse_device(device_with("", "", R"(, "f32_matmul": "20TFLOP/s")")).value();
  EXPECT_EQ(tensor_cores.flops.f32_convolution, 20e12);
  EXPECT_EQ(tensor_cores.flops.f64, 10e12);
}

TEST(Device, ReadsBackWhatItWrites) {
  for (const std::string_view name : device_names()) {
    const Device device = find_device(std::string(name)).value();
    const auto again = parse_device(to_json(device));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, device);
    EXPECT_EQ(to_json(*again), to_json(device));
  }
}

TEST(Device, TheExampleInTheGuideIsRead) {
  const std::string guide = read_file(std::string(EBB_SOURCE_DIR) + "/docs/planning.md").value();
  const std::size_t begin =
      guide.find("```json\n{\n  \"name\"") + std::string_view("```json\n").size();
  const auto device = parse_device(guide.substr(begin, guide.find("```", begin) - begin));
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->name, "my-gpu");
}

TEST(Device, MistypedKeysHaveTheNearest) {
  EXPECT_EQ(error_of(device_with(R"(, "lunch": "5us")")),
            "a device has no key 'lunch'; did you mean 'launch'?");
  EXPECT_EQ(error_of(device_with("", R"(, "to_hosts": "5GB/s")")),
            "link has no key 'to_hosts'; did you mean 'to_host'?");
  EXPECT_EQ(error_of(device_with("", "", R"(, "tf32": "5GB/s")")),
            "flops has no key 'tf32'; did you mean 'f32'?");
  EXPECT_EQ(error_of(device_with(R"(, "efficiency": {"gpu": 1})")),
            "efficiency has no key 'gpu'; it has matmul, convolution, attention, memory");
}

TEST(Device, NumbersThatCannotBeAreRefusedWithKeyAndValue) {
  EXPECT_EQ(error_of(device_with("", R"(, "latency": "5")")),
            R"('link.latency' is not a text like "5us": "5")");
  EXPECT_EQ(error_of(device_with("", R"(, "latency": 5)")),
            R"('link.latency' is not a text like "5us": 5)");
  EXPECT_EQ(error_of(device_with("", R"(, "latency": "2s")")),
            R"('link.latency' is more than a second: "2s")");
  EXPECT_EQ(error_of(device_with("", R"(, "to_host_both": "11GB/s")")),
            "'link.to_host_both' is more than 'to_host', the same with the link for itself: "
            "\"11GB/s\"");
  for (const char* bandwidth : {"0GB/s", "1B/s", "9000000TB/s"}) {
    EXPECT_THAT(error_of(device_with("", fmt::format(R"(, "to_host_both": "{}")", bandwidth))),
                HasSubstr("'link.to_host_both' is no bandwidth of this world"));
  }
  for (const char* bandwidth : {R"("-5GB/s")", R"("nan")", R"("nanGB/s")", R"("")", R"("fast")",
                                "5", "null", "[]", R"("55.1Gb/s")"}) {
    EXPECT_THAT(error_of(device_with("", fmt::format(R"(, "to_host_both": {})", bandwidth))),
                HasSubstr("'link.to_host_both' is not a text like \"55.1GB/s\": "));
  }
  for (const char* rate : {"0TFLOP/s", "5FLOP/s", "9000000TFLOP/s"}) {
    EXPECT_THAT(error_of(device_with("", "", fmt::format(R"(, "bf16": "{}")", rate))),
                HasSubstr("'flops.bf16' is no rate of this world"));
  }
  for (const char* rate : {"5", "5TB/s", "-5TFLOP/s", "5TiFLOP/s", "infTFLOP/s"}) {
    EXPECT_THAT(error_of(device_with("", "", fmt::format(R"(, "bf16": "{}")", rate))),
                HasSubstr("'flops.bf16' is not a text like"));
  }
  for (const char* share : {"0", "-0.5", "1.01", "1e300", "80"}) {
    EXPECT_THAT(error_of(device_with(fmt::format(R"(, "efficiency": {{"memory": {}}})", share))),
                HasSubstr("'efficiency.memory' is not from 0.01 to 1"));
  }
  EXPECT_EQ(error_of(device_with(R"(, "efficiency": {"memory": "80%"})")),
            R"('efficiency.memory' is not a number like 0.8: "80%")");
  for (const char* alignment : {"0B", "3B", "4MiB"}) {
    EXPECT_THAT(error_of(device_with(fmt::format(R"(, "alignment": "{}")", alignment))),
                HasSubstr("'alignment' is no power of two from 1B to 2MiB"));
  }
  EXPECT_THAT(error_of(R"({"name": "d", "memory": "1B", "memory_bandwidth": "1TB/s",
                           "flops": {"f32": "1TFLOP/s"}, "link": {}})"),
              HasSubstr("'memory' is no memory of a device"));
}

TEST(Device, WhatIsMissingIsNamed) {
  EXPECT_EQ(error_of("{}"), "'name' is missing");
  EXPECT_EQ(error_of(R"({"name": "d", "memory": "1GB", "memory_bandwidth": "1TB/s",
                         "flops": {}, "link": {}})"),
            "'flops.f32' is missing");
  EXPECT_EQ(error_of(R"({"name": "d", "memory": "1GB", "memory_bandwidth": "1TB/s",
                         "flops": {"f32": "1TFLOP/s"}, "link": {"to_host": "1GB/s"}})"),
            "'link.to_device' is missing");
  EXPECT_EQ(error_of(R"({"name": "d", "memory": "1GB", "memory_bandwidth": "1TB/s",
                         "flops": {"f32": "1TFLOP/s"}, "link": "fast"})"),
            "'link' is not an object: \"fast\"");
}

TEST(Device, WhatIsNoJsonHasItsPlace) {
  EXPECT_EQ(error_of("{\n  \"name\": oops\n}"), ":2:11: what stands here is not JSON");
  EXPECT_EQ(error_of(""), ":1:1: what stands here is not JSON");
  EXPECT_EQ(error_of("[]"), "the file is a list, not an object");
  EXPECT_EQ(error_of(device_with(R"(, "name": "e")")), "the key 'name' stands twice in one object");
  EXPECT_EQ(error_of(device_with(R"(, "launch": 1e999)")), "a number in the file is too large");
}

TEST(Device, NobodyFindsWhatIsNotThere) {
  EXPECT_EQ(
      find_device("h20").error().message,
      "there is no device 'h20'; did you mean 'h200'? (known: cpu, h200, p100-nvlink, and files "
      "whose name ends in .json)");
  EXPECT_FALSE(find_device("/nowhere/h200.json"));
  const std::string path = testing::TempDir() + "ebb_device_test.json";
  ASSERT_TRUE(write_file(path, "{\"name\": 3}"));
  EXPECT_THAT(find_device(path).error().message, HasSubstr("ebb_device_test.json: 'memory' is"));
}

}  // namespace
}  // namespace ebb
