// The CUDA runtime made of threads keeps CUDA's contract, or tests on it say nothing about a GPU.
#include "tests/exec/threaded_cuda.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace ebb::threaded_cuda {
namespace {

class ThreadedCuda : public testing::Test {
 protected:
  void SetUp() override {
    make_trouble({});
    for (cudaStream_t& stream : streams_) {
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    }
    for (cudaEvent_t& event : events_) {
      ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    }
  }
  void TearDown() override {
    StreamWorkers::get().wait_for_all();
    for (cudaEvent_t event : events_) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    for (cudaStream_t stream : streams_) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_TRUE(StreamWorkers::get().take_races().empty());
    EXPECT_TRUE(StreamWorkers::get().take_faults().empty());
  }

  // Work that is not done before it is let go.
  void hold(cudaStream_t stream) {
    ASSERT_EQ(launch(stream, {.name = "held",
                              .touches = {},
                              .run =
                                  [this] {
                                    while (!is_let_go_) std::this_thread::yield();
                                  }}),
              cudaSuccess);
  }
  void count(cudaStream_t stream) {
    ASSERT_EQ(launch(stream, {.name = "counted", .touches = {}, .run = [this] { ++counted_; }}),
              cudaSuccess);
  }
  // Whether nothing more is counted for a while.
  [[nodiscard]] bool stays_at(int counted) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return counted_ == counted;
  }
  void join(cudaStream_t first, cudaStream_t then, cudaEvent_t event) {
    ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(then, event, 0), cudaSuccess);
  }
  void begin_capture() {
    ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  }

  std::array<cudaStream_t, 3> streams_{};
  std::array<cudaEvent_t, 2> events_{};
  std::atomic<bool> is_let_go_ = false;
  std::atomic<int> counted_ = 0;
};

TEST_F(ThreadedCuda, StreamsRunSideBySideAndKeepTheirOrder) {
  hold(streams_[0]);
  count(streams_[0]);
  count(streams_[1]);
  EXPECT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  EXPECT_TRUE(stays_at(1));
  is_let_go_ = true;
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(counted_, 2);
}

TEST_F(ThreadedCuda, AnEventThatWasNeverRecordedIsComplete) {
  EXPECT_EQ(cudaStreamWaitEvent(streams_[0], events_[0], 0), cudaSuccess);
  count(streams_[0]);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(counted_, 1);
}

TEST_F(ThreadedCuda, AWaitIsForTheRecordOfItsTime) {
  ASSERT_EQ(cudaEventRecord(events_[0], streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(streams_[1], events_[0], 0), cudaSuccess);
  hold(streams_[0]);
  ASSERT_EQ(cudaEventRecord(events_[0], streams_[0]), cudaSuccess);
  count(streams_[1]);
  ASSERT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(streams_[2], events_[0], 0), cudaSuccess);
  count(streams_[2]);
  EXPECT_TRUE(stays_at(1));
  is_let_go_ = true;
}

TEST_F(ThreadedCuda, WhatIsCapturedRunsWhenItIsLaunchedAndEachTime) {
  begin_capture();
  count(streams_[0]);
  join(streams_[0], streams_[1], events_[0]);
  count(streams_[1]);
  count(streams_[2]);  // no part of it
  ASSERT_EQ(cudaStreamSynchronize(streams_[2]), cudaSuccess);
  EXPECT_TRUE(stays_at(1));
  join(streams_[1], streams_[0], events_[1]);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_TRUE(stays_at(1));
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(cudaGraphLaunch(executable, streams_[2]), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(streams_[2]), cudaSuccess);
    EXPECT_EQ(counted_, 1 + 2 * i);
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(ThreadedCuda, ACaptureWithAStreamThatIsNotJoinedIsAnError) {
  begin_capture();
  count(streams_[0]);
  join(streams_[0], streams_[1], events_[0]);
  count(streams_[1]);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  count(streams_[1]);
  EXPECT_EQ(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  EXPECT_EQ(counted_, 1) << "nobody captures any more";
}

TEST_F(ThreadedCuda, ACaptureThatWaitsForWorkOutsideOrIsWaitedForIsAnError) {
  for (const bool waits : {true, false}) {
    ASSERT_EQ(cudaEventRecord(events_[0], streams_[1]), cudaSuccess);
    begin_capture();
    EXPECT_EQ(waits ? cudaStreamWaitEvent(streams_[0], events_[0], 0)
                    : cudaStreamSynchronize(streams_[0]),
              waits ? cudaErrorStreamCaptureIsolation : cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaEventRecord(events_[1], streams_[0]), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  }
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(ThreadedCuda, WhatWaitsForTheDeviceIsNoPartOfACapture) {
  begin_capture();
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
  std::thread([] {  // of another thread, though
    void* of_other = nullptr;
    EXPECT_EQ(cudaMalloc(&of_other, 16), cudaSuccess);
    EXPECT_EQ(cudaFree(of_other), cudaSuccess);
  })
      .join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace ebb::threaded_cuda
