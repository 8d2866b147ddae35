// The operators of TensorFlow that the roofline knows.
#include "ebb/plan/formulas.h"

namespace ebb {
namespace {

constexpr FormulaFamily kFamilies[] = {
    {formulas::nothing,
     "Assert Bitcast BroadcastArgs BroadcastGradientArgs Const ControlTrigger "
     "DummySeedGenerator Empty EnsureShape Enter Exit ExpandDims Identity IdentityN "
     "InvertPermutation IsVariableInitialized LoopCond Merge NextIteration NoOp Placeholder "
     "PlaceholderWithDefault PreventGradient Rank ReadVariableOp RefEnter RefExit "
     "RefIdentity RefMerge RefNextIteration RefSwitch Reshape Shape ShapeN Size Squeeze "
     "StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg "
     "StopGradient Switch VarHandleOp VarIsInitializedOp Variable VariableShape VariableV2"},
    {formulas::elementwise,
     "Abs Acos Acosh Add AddN AddV2 Angle Asin Asinh Atan Atan2 Atanh AvgPool "
     "AvgPoolGrad BatchToSpaceND Betainc BiasAdd BitwiseAnd BitwiseOr "
     "BitwiseXor BroadcastTo Cast Ceil CheckNumerics CheckNumericsV2 ClipByValue Complex "
     "Concat ConcatV2 Conj Cos Cosh Cumprod Cumsum DepthToSpace Digamma Div DivNoNan Elu "
     "EluGrad Equal Erf Erfc Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Igamma "
     "Igammac Imag Inv InvGrad Invert IsFinite IsInf IsNan LRN LRNGrad LeakyRelu "
     "LeakyReluGrad LeftShift Less LessEqual Lgamma Log Log1p LogSoftmax LogicalAnd "
     "LogicalNot LogicalOr MatrixBandPart MatrixDiag MatrixDiagPartV3 MatrixDiagV3 "
     "MatrixSetDiagV3 MaxPool MaxPool3DGradGrad MaxPoolGrad "
     "MaxPoolGradGrad MaxPoolGradV2 MaxPoolGradWithArgmax MaxPoolV2 MaxPoolWithArgmax "
     "Maximum Minimum MirrorPad MirrorPadGrad Mod Mul MulNoNan Ndtri Neg NotEqual OneHot "
     "Pack Pad PadV2 ParallelConcat Polygamma Pow Real RealDiv Reciprocal ReciprocalGrad "
     "Relu Relu6 Relu6Grad ReluGrad ResizeBicubic ResizeBicubicGrad ResizeBilinear "
     "ResizeBilinearGrad ResizeNearestNeighbor ResizeNearestNeighborGrad Reverse "
     "ReverseSequence ReverseV2 RightShift Rint Roll Round Rsqrt RsqrtGrad Select SelectV2 "
     "Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Sinh Slice Softmax "
     "SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad "
     "SpaceToBatchND SpaceToDepth SparseSoftmaxCrossEntropyWithLogits Split SplitV Sqrt "
     "SqrtGrad Square SquaredDifference StridedSlice Sub Tan Tanh TanhGrad Tile TopK TopKV2 "
     "Transpose TruncateDiv TruncateMod Unpack Where Xdivy Xlog1py Xlogy Zeta"},
    {formulas::reduction,
     "All Any ArgMax ArgMin BiasAddGrad Bincount EuclideanNorm L2Loss Max Mean Min Prod Sum "
     "Unique UniqueV2 UniqueWithCounts"},
    {formulas::fill,
     "Fill LinSpace Multinomial OnesLike ParameterizedTruncatedNormal RandomGamma "
     "RandomStandardNormal RandomUniform RandomUniformInt Range StatelessRandomNormal "
     "StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformInt "
     "StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal "
     "StatelessTruncatedNormalV2 TruncatedNormal ZerosLike"},
    {formulas::add_rows, "SegmentMean SegmentSum UnsortedSegmentSum"},
    {formulas::batch_norm, "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx"},
    {formulas::batch_norm_backward,
     "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 _FusedBatchNormGradEx"},
    {formulas::gather, "Gather GatherNd GatherV2 ResourceGather ResourceGatherNd"},
    {formulas::scatter,
     "ResourceScatterAdd ResourceScatterUpdate ScatterAdd ScatterUpdate TensorScatterAdd "
     "TensorScatterSub TensorScatterUpdate"},
    {formulas::tf_apply<1>, "ApplyGradientDescent ResourceApplyGradientDescent"},
    {formulas::tf_apply<2>,
     "ApplyAdagrad ApplyAdagradV2 ApplyAddSign ApplyMomentum ApplyPowerSign "
     "ResourceApplyAdagrad ResourceApplyAdagradV2 ResourceApplyAddSign "
     "ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyPowerSign "
     "ResourceSparseApplyAdagrad ResourceSparseApplyAdagradV2 "
     "ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum SparseApplyAdagrad "
     "SparseApplyMomentum"},
    {formulas::tf_apply<3>,
     "ApplyAdaMax ApplyAdadelta ApplyAdam ApplyFtrl ApplyFtrlV2 ApplyRMSProp "
     "ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdam ResourceApplyFtrl "
     "ResourceApplyFtrlV2 ResourceApplyRMSProp ResourceSparseApplyAdadelta "
     "ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 ResourceSparseApplyRMSProp"},
    {formulas::tf_apply<4>,
     "ApplyCenteredRMSProp ResourceApplyAdamWithAmsgrad ResourceApplyCenteredRMSProp"},
    {formulas::tf_assign, "Assign AssignVariableOp"},
    {formulas::tf_assign_add, "AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp"},
    {formulas::tf_convolution, "Conv Conv2D Conv3D _FusedConv2D"},
    {formulas::tf_convolution_filter,
     "Conv2DBackpropFilter Conv3DBackpropFilter Conv3DBackpropFilterV2"},
    {formulas::tf_convolution_input,
     "Conv2DBackpropInput Conv3DBackpropInput Conv3DBackpropInputV2"},
    {formulas::tf_depthwise, "DepthwiseConv2dNative _FusedDepthwiseConv2dNative"},
    {formulas::tf_depthwise_filter, "DepthwiseConv2dNativeBackpropFilter"},
    {formulas::tf_depthwise_input, "DepthwiseConv2dNativeBackpropInput"},
    {formulas::tf_pool_3d, "AvgPool3D AvgPool3DGrad MaxPool3D MaxPool3DGrad"},
    {formulas::tf_matmul, "BatchMatMul BatchMatMulV2 BatchMatMulV3 MatMul _FusedMatMul"},
};

}  // namespace

Formula find_tensorflow_formula(std::string_view op) {
  static const FormulaTable kTable("tf::", kFamilies);
  return kTable.find(op);
}

}  // namespace ebb
