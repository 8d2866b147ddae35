#!/usr/bin/env python3
"""Trains models of torchvision and, where installed, of Hugging Face's transformers: eagerly and by Ebb in half of the
memory that a step needs. Says of each whether the bits are the same, or why Ebb refuses it; undecided is what has other
bits each time when it is trained eagerly, or ends in NaN (bf16 convolutions of volumes on the CPU leave parts of a
gradient unwritten). By hand; takes minutes.

    PYTHONPATH=build/ci/python build/venv/bin/python tests/torch/zoo.py [--only REGEX] [--json FILE]

Status 1 where bits differ or something else than an ebb.Error ends a step.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import os
import pathlib
import re
import sys
import tempfile
import time
import warnings

import torch
import torch.nn.functional as F
import torchvision
from own_process import in_own_process
from same_bits import bits, differences

import ebb
import ebb.torch
from ebb.torch._step_function import step_function

STEPS = 3
vision = torchvision.models


def image(pixels=64, count=8, classes=10):
    return torch.randn(count, 3, pixels, pixels), torch.randint(0, classes, (count,))


def classifier(name, pixels=64, count=8, **options):
    def make():
        return vision.get_model(name, weights=None, num_classes=10, **options), F.cross_entropy, image(pixels, count)

    return make


def auxiliary_loss(output, target):
    return F.cross_entropy(output.logits, target) + 0.4 * F.cross_entropy(output.aux_logits, target)


def two_auxiliary_losses(output, target):
    losses = [F.cross_entropy(each, target) for each in output]
    return losses[0] + 0.3 * (losses[1] + losses[2])


def segmenter(name):
    def make():
        model = vision.get_model(name, weights=None, weights_backbone=None, num_classes=5)
        batch = torch.randn(2, 3, 64, 64), torch.randint(0, 5, (2, 64, 64))
        return model, lambda output, target: F.cross_entropy(output["out"], target), batch

    return make


def video(name, frames=8, pixels=32, **options):
    def make():
        model = vision.get_model(name, weights=None, num_classes=10, **options)
        return model, F.cross_entropy, (torch.randn(2, 3, frames, pixels, pixels), torch.randint(0, 10, (2,)))

    return make


def flow(name):
    def make():
        frames = torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)
        return vision.get_model(name, weights=None), many_l1, (frames, torch.randn(1, 2, 128, 128))

    return make


def many_l1(flows, target):
    return sum((each - target).abs().mean() for each in flows)


def detector(name):
    def make():
        model = vision.get_model(name, weights=None, weights_backbone=None, num_classes=5)
        boxes = torch.tensor([[4.0, 4.0, 40.0, 40.0], [10.0, 20.0, 50.0, 60.0]])
        targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in range(2)]
        return model, lambda losses: sum(losses.values()), (([torch.rand(3, 64, 64) for _ in range(2)], targets),)

    return make


VISION = {
    **{
        name: classifier(name)
        for name in [
            "alexnet", "vgg11_bn", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "squeezenet1_1",
            "densenet121", "mobilenet_v2", "mobilenet_v3_large", "shufflenet_v2_x1_0", "mnasnet1_0", "efficientnet_b0",
            "efficientnet_v2_s", "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny", "swin_t", "swin_v2_t",
        ]
    },
    "vit_b_16": classifier("vit_b_16", image_size=64),
    "maxvit_t": classifier("maxvit_t", 224, 2),
    "googlenet": lambda: (
        vision.googlenet(weights=None, num_classes=10, init_weights=False), two_auxiliary_losses, image(96)),
    "inception_v3": lambda: (
        vision.inception_v3(weights=None, num_classes=10, init_weights=False), auxiliary_loss, image(299, 2)),
    **{name: segmenter(name) for name in ["fcn_resnet50", "deeplabv3_resnet50", "lraspp_mobilenet_v3_large"]},
    **{name: video(name) for name in ["r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t"]},
    "s3d": video("s3d", 16, 224),
    "mvit_v1_b": video("mvit_v1_b", 16, 224),
    "raft_small": flow("raft_small"),
    **{name: detector(name) for name in ["ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_320_fpn", "fcos_resnet50_fpn"]},
}  # fmt: skip

SMALL = {
    "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 200,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def words(count=4, length=24):
    tokens = torch.randint(3, 200, (count, length))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}


def language_model(kind, auto="AutoModelForCausalLM", batch=words, **options):
    def make():
        import transformers

        config = transformers.AutoConfig.for_model(kind, **{**SMALL, **options})
        return getattr(transformers, auto).from_config(config), None, batch()

    return make


def classified():
    return {**words(), "labels": torch.randint(0, 2, (4,))}


def pictures(pixels=32):
    return lambda: {"pixel_values": torch.randn(4, 3, pixels, pixels), "labels": torch.randint(0, 2, (4,))}


def speech():
    return {"input_features": torch.randn(2, 80, 64), "labels": torch.randint(3, 200, (2, 12))}


def sound():
    return {"input_values": torch.randn(2, 4000), "labels": torch.randint(3, 30, (2, 4))}


EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LANGUAGE = {
    "gpt2": language_model("gpt2", n_embd=64, n_layer=3, n_head=4, n_positions=64),
    "gpt_neo": language_model("gpt_neo", num_layers=3, num_heads=4, attention_types=[[["global", "local", "global"], 1]]),
    "gpt_neox": language_model("gpt_neox"),
    "gptj": language_model("gptj", n_embd=64, n_layer=3, n_head=4, n_positions=64, rotary_dim=8),
    "opt": language_model("opt", ffn_dim=128, word_embed_proj_dim=64),
    "bloom": language_model("bloom", n_layer=3, n_head=4),
    "llama": language_model("llama", num_key_value_heads=2),
    "mistral": language_model("mistral", num_key_value_heads=2),
    "qwen2": language_model("qwen2", num_key_value_heads=2),
    "qwen3": language_model("qwen3", num_key_value_heads=2, head_dim=16),
    "gemma2": language_model("gemma2", num_key_value_heads=2, head_dim=16),
    "phi": language_model("phi"),
    "phi3": language_model("phi3", num_key_value_heads=2),
    "falcon": language_model("falcon"),
    "mixtral": language_model("mixtral", num_key_value_heads=2, **EXPERTS),
    "qwen2_moe": language_model("qwen2_moe", num_key_value_heads=2, shared_expert_intermediate_size=32, **EXPERTS),
    "mamba": language_model("mamba", state_size=8),
    "rwkv": language_model("rwkv", attention_hidden_size=64),
    "bert": language_model("bert", "AutoModelForMaskedLM"),
    "roberta": language_model("roberta", "AutoModelForSequenceClassification", classified),
    "albert": language_model("albert", "AutoModelForMaskedLM", embedding_size=32),
    "electra": language_model("electra", "AutoModelForSequenceClassification", classified, embedding_size=32),
    "distilbert": language_model("distilbert", "AutoModelForMaskedLM", dim=64, n_layers=3, n_heads=4, hidden_dim=128),
    "deberta-v2": language_model("deberta-v2", "AutoModelForMaskedLM"),
    "modernbert": language_model("modernbert", "AutoModelForMaskedLM"),
    "longformer": language_model("longformer", "AutoModelForMaskedLM", attention_window=8),
    "t5": language_model("t5", "AutoModelForSeq2SeqLM", d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0),
    "bart": language_model("bart", "AutoModelForSeq2SeqLM", d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128),
    "vit": language_model("vit", "AutoModelForImageClassification", pictures(), image_size=32, patch_size=8),
    "beit": language_model("beit", "AutoModelForImageClassification", pictures(), image_size=32, patch_size=8),
    "swin": language_model("swin", "AutoModelForImageClassification", pictures(64), image_size=64, patch_size=4, embed_dim=24, depths=[1, 1], num_heads=[2, 4], num_attention_heads=[2, 4], window_size=4),
    "whisper": language_model("whisper", "AutoModelForSpeechSeq2Seq", speech, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=32, max_target_positions=32, decoder_start_token_id=1),
    "wav2vec2": language_model("wav2vec2", "AutoModelForCTC", sound, mask_time_prob=0.0, conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4),
}  # fmt: skip


def compile_small(model, loss_fn, optimizer, batch, budget, **options):
    """In the budget, or in the least that is found."""
    try:
        return ebb.torch.compile(model, loss_fn, optimizer, batch, budget=budget, **options)
    except ebb.Error as error:
        least = re.search(r"least budget found is (\w+)", error.message)
        if error.kind != "infeasible" or not least:
            raise
        return ebb.torch.compile(model, loss_fn, optimizer, batch, budget=least[1], **options)


def losses_of(step, batch):
    torch.manual_seed(1)
    return [bits(step(**batch) if isinstance(batch, dict) else step(*batch)).hex() for _ in range(STEPS)]


def train(make, budget, **options):
    torch.manual_seed(0)
    model, loss_fn, batch = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    twin, third = copy.deepcopy(model), copy.deepcopy(model)
    twin_optimizer = torch.optim.SGD(twin.parameters(), lr=1e-3, momentum=0.9)
    eager = losses_of(step_function(model, loss_fn, optimizer, **options), batch)
    with compile_small(twin, loss_fn, twin_optimizer, batch, budget, **options) as step:
        report = step.report()
        losses = losses_of(step, batch)
    wrong = differences(model, optimizer, twin, twin_optimizer)
    plan = report.get("plan") or {}
    outcome, why = "same bits", ""
    if losses != eager or wrong:
        third_optimizer = torch.optim.SGD(third.parameters(), lr=1e-3, momentum=0.9)
        again = losses_of(step_function(third, loss_fn, third_optimizer, **options), batch)
        repeats = again == eager and not differences(model, optimizer, third, third_optimizer)
        # Deterministic algorithms fill new memory with NaN: kernels that leave parts of it as it was are seen by that.
        is_number = not any(parameter.isnan().any() for parameter in model.parameters())
        outcome = "OTHER BITS" if repeats and is_number else "undecided"
        why = f"losses {eager} {losses}; {wrong[:3]}"
    return {
        "outcome": outcome,
        "why": why,
        "unconstrained_bytes": report["unconstrained_bytes"],
        "budget_bytes": report["budget_bytes"],
        "swapped": plan.get("tensors_swapped", 0),
        "recomputed": plan.get("tensors_recomputed", 0),
    }


def tried(make, budget, options):
    warnings.simplefilter("ignore")
    torch.use_deterministic_algorithms(True, warn_only=True)  # or eager has other bits than eager
    begin = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["EBB_CACHE"] = cache
            result = train(make, budget, **options)
    except ebb.Error as error:
        result = {"outcome": "refused", "why": f"{error.kind}: {error.message}"}
    except Exception as error:  # whatever a model may throw
        result = {"outcome": "FAILED", "why": f"{type(error).__name__}: {error}"}
    return {**result, "seconds": round(time.monotonic() - begin, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name has this in it")
    parser.add_argument("--budget", default="50%", help="of each; where that is too little, the least that is found")
    parser.add_argument("--bf16", action="store_true", help="with autocast to bfloat16")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all of it here")
    options = parser.parse_args()
    models = dict(VISION)
    try:
        import transformers

        transformers.logging.set_verbosity_error()
        models |= LANGUAGE
    except ImportError:
        print("transformers is not installed: models of torchvision alone")
    results = {}
    for name, make in models.items():
        if not re.search(options.only, name):
            continue
        precision = {"autocast": torch.bfloat16} if options.bf16 else {}
        done, why = in_own_process(functools.partial(tried, make, options.budget, precision), limit=300)
        done = results[name] = done or {"outcome": "FAILED", "why": why}
        share = f"{100 * done['budget_bytes'] / done['unconstrained_bytes']:3.0f} %" if "budget_bytes" in done else ""
        moved = f"{done['swapped']} swapped, {done['recomputed']} recomputed" if share else done["why"]
        print(f"{name:40} {done['outcome']:10} {share:6} {moved}", flush=True)
    counts = {outcome: sum(each["outcome"] == outcome for each in results.values()) for outcome in ("same bits", "undecided", "refused", "OTHER BITS", "FAILED")}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if counts["OTHER BITS"] or counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
