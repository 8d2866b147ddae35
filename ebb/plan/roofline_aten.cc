// The operators of PyTorch that the roofline knows, without their overloads.
#include "ebb/plan/formulas.h"

namespace ebb {
namespace {

constexpr FormulaFamily kFamilies[] = {
    {formulas::nothing,
     "_assert_async _assert_tensor_metadata _conj _neg_view _reshape_alias _unsafe_view "
     "alias as_strided chunk detach diagonal empty empty_like empty_permuted empty_strided "
     "expand expand_as flatten imag lift_fresh movedim narrow new_empty new_empty_strided "
     "permute ravel real record_stream select slice split split_with_sizes squeeze swapaxes "
     "swapdims sym_numel sym_size t transpose unbind unflatten unfold unsqueeze view view_as "
     "view_as_complex view_as_real"},
    {formulas::elementwise,
     "_adaptive_avg_pool2d _adaptive_avg_pool3d _amp_foreach_non_finite_check_and_unscale "
     "_amp_update_scale _fused_adagrad _fused_adam _fused_adamw _fused_dropout _fused_sgd "
     "_log_softmax _log_softmax_backward_data _masked_softmax _masked_softmax_backward "
     "_safe_softmax _softmax _softmax_backward_data _thnn_fused_gru_cell "
     "_thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward "
     "_thnn_fused_lstm_cell_backward_impl _to_copy _weight_norm_interface "
     "_weight_norm_interface_backward abs acos acosh adaptive_avg_pool1d adaptive_max_pool1d "
     "adaptive_max_pool2d adaptive_max_pool3d add addcdiv addcmul angle as_strided_copy "
     "as_strided_scatter asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d "
     "binary_cross_entropy_backward bitwise_and bitwise_left_shift bitwise_not bitwise_or "
     "bitwise_right_shift bitwise_xor bucketize cat ceil celu channel_shuffle clamp "
     "clamp_max clamp_min clone col2im complex conj_physical constant_pad_nd copysign "
     "cos cosh cumprod cumsum deg2rad diagonal_backward diagonal_scatter digamma div elu "
     "elu_backward eq erf erfc erfinv exp exp2 expand_like expm1 flip floor floor_divide "
     "fmax fmin fmod frac fractional_max_pool2d fractional_max_pool3d ge gelu gelu_backward "
     "glu glu_backward grid_sampler_2d grid_sampler_3d gt hardshrink hardshrink_backward "
     "hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh "
     "hardtanh_backward heaviside huber_loss_backward hypot im2col isfinite isinf isnan "
     "isneginf isposinf kthvalue le leaky_relu leaky_relu_backward lerp lgamma "
     "lift_fresh_copy log log10 log1p log2 log_sigmoid_backward log_sigmoid_forward "
     "log_softmax logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit "
     "logit_backward lt masked_fill masked_scatter masked_select max_pool1d max_pool2d "
     "max_pool2d_with_indices max_pool3d max_pool3d_with_indices maximum minimum mish "
     "mish_backward mse_loss_backward mul mvlgamma nan_to_num native_dropout "
     "native_dropout_backward ne neg nextafter pixel_shuffle pixel_unshuffle polar pow "
     "rad2deg reciprocal reflection_pad1d reflection_pad1d_backward reflection_pad2d "
     "reflection_pad2d_backward reflection_pad3d reflection_pad3d_backward relu remainder "
     "repeat repeat_interleave replication_pad1d replication_pad1d_backward "
     "replication_pad2d replication_pad2d_backward replication_pad3d "
     "replication_pad3d_backward roll rot90 round rrelu_with_noise rrelu_with_noise_backward "
     "rsqrt rsub searchsorted select_backward select_scatter selu sgn sigmoid "
     "sigmoid_backward sign signbit silu silu_backward sin sinc sinh slice_backward "
     "slice_scatter smooth_l1_loss_backward soft_margin_loss_backward softmax softplus "
     "softplus_backward softshrink softshrink_backward sort special_entr sqrt square stack "
     "sub tan tanh tanh_backward threshold threshold_backward topk tril triu trunc "
     "unfold_backward upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d "
     "upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward "
     "upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d "
     "upsample_nearest2d_backward upsample_nearest3d upsample_nearest3d_backward "
     "upsample_trilinear3d upsample_trilinear3d_backward where xlogy"},
    {formulas::reduction,
     "_local_scalar_dense _unique2 all amax amin aminmax any argmax argmin "
     "binary_cross_entropy bincount count_nonzero dist histc huber_loss kl_div l1_loss "
     "linalg_vector_norm logcumsumexp logsumexp max mean median min mode mse_loss nansum "
     "nonzero norm prod renorm smooth_l1_loss soft_margin_loss std std_mean sum trace "
     "unique_dim var var_mean"},
    {formulas::fill,
     "arange bernoulli cauchy exponential eye fill full full_like geometric linspace "
     "log_normal logspace new_full new_ones new_zeros normal normal_functional ones "
     "ones_like rand rand_like randint randint_like randn randn_like random randperm "
     "scalar_tensor tril_indices triu_indices uniform zero zeros zeros_like"},
    {formulas::add_rows,
     "_embedding_bag_dense_backward embedding_backward embedding_dense_backward"},
    {formulas::addmm, "_addmm_activation addmm addmv"},
    {formulas::attention,
     "_scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention "
     "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention "
     "_scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_fused_attention_overrideable scaled_dot_product_attention"},
    {formulas::attention_backward,
     "_scaled_dot_product_cudnn_attention_backward "
     "_scaled_dot_product_efficient_attention_backward "
     "_scaled_dot_product_flash_attention_backward "
     "_scaled_dot_product_flash_attention_for_cpu_backward "
     "_scaled_dot_product_fused_attention_overrideable_backward"},
    {formulas::baddbmm, "baddbmm"},
    {formulas::batch_norm,
     "_batch_norm_with_update _batch_norm_with_update_functional _native_batch_norm_legit "
     "_native_batch_norm_legit_functional batch_norm cudnn_batch_norm group_norm "
     "instance_norm miopen_batch_norm native_batch_norm native_group_norm"},
    {formulas::batch_norm_backward,
     "batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward "
     "native_batch_norm_backward native_group_norm_backward"},
    {formulas::bmm, "bmm dot linear matmul mv vdot"},
    {formulas::copy_into, "copy"},
    {formulas::rnn, "_cudnn_rnn"},
    {formulas::rnn_backward, "_cudnn_rnn_backward"},
    {formulas::rnn_layer, "mkldnn_rnn_layer"},
    {formulas::rnn_layer_backward, "mkldnn_rnn_layer_backward"},
    {formulas::convolution,
     "_conv_depthwise2d _convolution conv1d conv2d conv3d convolution "
     "convolution_overrideable cudnn_convolution mkldnn_convolution"},
    {formulas::convolution_backward, "convolution_backward"},
    {formulas::gather, "_unsafe_index embedding gather index index_select take take_along_dim"},
    {formulas::layer_norm,
     "_batch_norm_no_update _fused_rms_norm _native_batch_norm_legit_no_training layer_norm "
     "native_layer_norm rms_norm"},
    {formulas::layer_norm_backward, "_fused_rms_norm_backward native_layer_norm_backward"},
    {formulas::mm, "_int_mm _scaled_mm mm mm_nt mm_tn"},
    {formulas::nll_loss, "nll_loss nll_loss2d_forward nll_loss_forward"},
    {formulas::nll_loss_backward, "nll_loss2d_backward nll_loss_backward"},
    {formulas::pool_backward,
     "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
     "adaptive_max_pool2d_backward adaptive_max_pool3d_backward avg_pool2d_backward "
     "avg_pool3d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward"},
    {formulas::scatter,
     "_index_put_impl _unsafe_index_put index_add index_copy index_fill index_put "
     "index_reduce scatter scatter_add scatter_reduce"},
};

}  // namespace

Formula find_aten_formula(std::string_view op) {
  static const FormulaTable kTable("aten::", kFamilies);
  op = op.substr(0, op.find('.'));
  // Lists of tensors, each element by element.
  if (op.starts_with("aten::_foreach_")) return formulas::elementwise;
  const Formula formula = kTable.find(op);
  // `add_` moves what `add` moves.
  return formula == nullptr && op.ends_with('_') ? kTable.find(op.substr(0, op.size() - 1))
                                                 : formula;
}

}  // namespace ebb
