// A changed graph back into the file it came from (ebb/import/tensorflow_file.h).
#pragma once

#include <string>
#include <string_view>

#include "ebb/base/result.h"
#include "ebb/import/tensorflow_file.h"

namespace ebb {

// The file with this GraphDef in place of its own. Of a binary file all other bytes stay as they
// stand, but for the lengths around the graph; a text is written anew (ebb/export/textproto.h).
// Fails (kBadInput) where the file would have more than protobuf's 2 GiB, or a text cannot say it.
[[nodiscard]] Result<std::string> with_graphdef(const TensorFlowFile& file,
                                                std::string_view graphdef);

// The whole file in the text format, whichever form it came in.
[[nodiscard]] Result<std::string> to_text(const TensorFlowFile& file);

}  // namespace ebb
