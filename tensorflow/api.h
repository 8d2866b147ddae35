// The functions of TensorFlow's C ABI that the plug-in calls, found in the process that loaded it.
//
// The plug-in links nothing of TensorFlow: it is loaded by it, so the library that calls us has the
// functions, whatever its name is in that version. One that a version does not have is a reason to
// do nothing, and no reason for the loader to fail.
#pragma once

#include "ebb/base/result.h"
#include "tensorflow/c/experimental/grappler/grappler.h"

namespace ebb::grappler {

// Every function once: the members of TensorFlowApi, and what find_tensorflow looks for.
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): names that are declarations and texts at once
#define EBB_TENSORFLOW_FUNCTIONS(function)                                                       \
  function(TF_NewStatus) function(TF_DeleteStatus) function(TF_SetStatus) function(TF_GetCode)   \
      function(TF_Message) function(TF_NewBuffer) function(TF_DeleteBuffer)                      \
          function(TF_NewGraphProperties) function(TF_DeleteGraphProperties)                     \
              function(TF_InferStatically) function(TF_GetOutputPropertiesListSize)              \
                  function(TF_GetOutputPropertiesList) function(TF_NewFunctionLibraryDefinition) \
                      function(TF_DeleteFunctionLibraryDefinition) function(TF_LookUpOpDef)      \
                          function(TF_GetNodesToPreserveListSize)                                \
                              function(TF_GetNodesToPreserveList)

struct TensorFlowApi {
#define EBB_DECLARE(name) decltype(&::name) name = nullptr;
  EBB_TENSORFLOW_FUNCTIONS(EBB_DECLARE)
#undef EBB_DECLARE
};

// From the library that holds `address`, a function of TensorFlow's (a return address will do), or
// from what that library depends on.
[[nodiscard]] Result<TensorFlowApi> find_tensorflow(const void* address);

}  // namespace ebb::grappler
