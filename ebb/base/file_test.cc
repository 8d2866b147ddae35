#include "ebb/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

namespace ebb {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ebb-file-test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST_F(FileTest, WhatIsWrittenIsRead) {
  const std::string content("a\0b\n", 4);
  ASSERT_TRUE(write_file(path("f"), content));
  EXPECT_EQ(read_file(path("f")).value(), content);
  ASSERT_TRUE(write_file(path("f"), ""));
  EXPECT_EQ(read_file(path("f")).value(), "");
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, PiecesAreWrittenOneAfterTheOther) {
  const std::string_view pieces[] = {"one", "", "two", "three"};
  ASSERT_TRUE(write_file(path("f"), pieces));
  EXPECT_EQ(read_file(path("f")).value(), "onetwothree");
}

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(FileTest, AMappedFileHasTheBytesOfTheFile) {
  ASSERT_TRUE(write_file(path("f"), "content"));
  EXPECT_EQ(text_of(MappedFile::open(path("f")).value()), "content");
  ASSERT_TRUE(write_file(path("f"), ""));
  EXPECT_TRUE(MappedFile::open(path("f")).value().bytes().empty());
}

TEST_F(FileTest, AMappedFileKeepsItsBytesWhenTheFileIsReplaced) {
  ASSERT_TRUE(write_file(path("f"), "old"));
  const auto old = MappedFile::open(path("f"));
  ASSERT_TRUE(write_file(path("f"), "a new one"));
  EXPECT_EQ(text_of(old.value()), "old");
}

TEST_F(FileTest, WhatCannotBeMappedIsNamed) {
  const auto missing = MappedFile::open(path("none"));
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("none: No such file"), std::string::npos);
  const auto folder = MappedFile::open(folder_.string());
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("not a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto pipe = MappedFile::open(path("pipe"));
  ASSERT_FALSE(pipe) << "and nobody waits for a writer";
  EXPECT_NE(pipe.error().message.find("not a regular file"), std::string::npos);
}

TEST_F(FileTest, AMissingFileIsNamed) {
  const auto content = read_file(path("none"));
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(content.error().message.find("none: No such file"), std::string::npos);
}

TEST_F(FileTest, AFolderIsNoFile) {
  EXPECT_FALSE(read_file(folder_.string()));
  EXPECT_FALSE(write_file(folder_.string(), "x"));
}

TEST_F(FileTest, AFailureLeavesNothingBehind) {
  EXPECT_FALSE(write_file(path("no/such/folder"), "x"));
  EXPECT_EQ(files(), 0U);
}

TEST_F(FileTest, SeveralAreWrittenOrNone) {
  ASSERT_TRUE(write_files(std::vector<FileContent>{{path("a"), "1"}, {path("b"), "2"}}));
  EXPECT_EQ(read_file(path("a")).value() + read_file(path("b")).value(), "12");
  const Status refused = write_files(std::vector<FileContent>{
      {path("a"), "new"}, {path("c"), "new"}, {path("no/such/folder"), "new"}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no/such/folder: No such file"), std::string::npos);
  EXPECT_EQ(read_file(path("a")).value(), "1");
  EXPECT_EQ(files(), 2U);
}

TEST_F(FileTest, NoneIsWrittenBesideAFolderOfThatName) {
  fs::create_directory(path("folder"));
  const Status refused =
      write_files(std::vector<FileContent>{{path("a"), "new"}, {path("folder"), "new"}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("folder: Is a directory"), std::string::npos);
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, PipesMayBeReadOneAfterTheOther) {
  ASSERT_EQ(::mkfifo(path("first").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(path("second").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] {
    for (const char* name : {"first", "second"}) read += read_file(path(name)).value();
  });
  EXPECT_TRUE(write_files(std::vector<FileContent>{{path("first"), "1"}, {path("second"), "2"}}));
  reader.join();
  EXPECT_EQ(read, "12");
}

TEST_F(FileTest, PermissionsAndLinksAreKept) {
  ASSERT_TRUE(write_file(path("f"), "old"));
  ASSERT_EQ(::chmod(path("f").c_str(), 0640), 0);
  fs::create_symlink("f", path("link"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("f")).value(), "new");
  EXPECT_EQ(fs::status(path("f")).permissions(), fs::perms(0640));
  EXPECT_EQ(files(), 2U);
}

TEST_F(FileTest, ALinkToNothingYetIsFollowed) {
  fs::create_symlink("target", path("link"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("target")).value(), "new");
}

TEST_F(FileTest, WhatIsNoRegularFileIsWrittenDirectly) {
  EXPECT_TRUE(write_file("/dev/null", "x"));
}

}  // namespace
}  // namespace ebb
