"""A step that takes much longer than predicted is planned again, once, and computes the same bits."""

import copy
import json
import os
import pathlib
import signal
import subprocess
import warnings

import pytest
import torch
import torch.nn.functional as F
from same_bits import differences
from small_models import images
from torch import nn

import ebb.torch
from ebb.torch._program import view
from ebb.torch._progress import Progress
from ebb.torch._step_function import Task

STEPS = 7
BATCH = (8, 48)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("EBB_CACHE", str(folder))
    return folder


def trainer():
    """What takes long is the forward pass, so that computing again is far worse than copying, whatever else runs."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.MaxPool2d(5, 1, 2)) for _ in range(6)]
    model = nn.Sequential(nn.Conv2d(3, 16, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def compiled(model, optimizer, budget="50%"):
    return ebb.torch.compile(model, F.cross_entropy, optimizer, images(*BATCH), budget=budget)


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*args)


def file_of(cache):
    [path] = cache.glob("measured-*.json")
    return path, json.loads(path.read_text(encoding="utf-8"))


def lie_about_times(cache):
    """As if no operation took any: to compute again looks better than to copy."""
    path, file = file_of(cache)
    for each in file["operations"]:
        each["seconds"] = 1e-8
    path.write_text(json.dumps(file), encoding="utf-8")
    for plan in cache.glob("plan-*.plan"):
        plan.unlink()


def eager_losses(model, optimizer, batches):
    task = Task(model, F.cross_entropy, optimizer)
    return [task.step(*batch).item() for batch in batches]


def test_a_wrong_profile_leads_to_a_new_plan_and_the_same_bits(cache):
    model, optimizer = trainer()
    quietly(compiled, *copy.deepcopy((model, optimizer))).close()
    lie_about_times(cache)
    eager_model, eager_optimizer = copy.deepcopy((model, optimizer))
    batches = [images(*BATCH) for _ in range(STEPS)]
    with compiled(model, optimizer) as step:
        before = step.plan, step.program(), step.report()
        assert "recompute" in before[0]
        with pytest.warns(UserWarning, match=r"the step took .*, predicted were .*; planned again") as caught:
            losses = [step(*batch).item() for batch in batches]
        [warning] = [each for each in caught if "planned again" in str(each.message)]
        assert warning.filename == __file__
        replanned = step.report()["replanned"]
        assert replanned["used"]
        assert replanned["measured_seconds"] > 1.15 * replanned["predicted_seconds"]
        assert replanned["new_seconds"] <= 0.95 * replanned["old_seconds"]
        assert replanned["predicted_seconds"] == before[2]["plan"]["step_seconds"]
        assert replanned["new_seconds"] == step.report()["plan"]["step_seconds"]
        assert (step.plan, step.program()) != before[:2]
        assert step.memory().peak_bytes <= step.memory().budget_bytes
    assert losses == eager_losses(eager_model, eager_optimizer, batches)
    assert not differences(eager_model, eager_optimizer, model, optimizer)
    _, file = file_of(cache)
    assert all(each["seconds"] > 1e-7 for each in file["operations"]), "the next process knows better"


def test_programs_that_share_the_arena_go_on_beside_a_new_plan(cache):
    model, optimizer = trainer()
    quietly(compiled, *copy.deepcopy((model, optimizer))).close()
    lie_about_times(cache)
    eager_model, eager_optimizer = copy.deepcopy((model, optimizer))
    task = Task(eager_model, F.cross_entropy, eager_optimizer)
    with compiled(model, optimizer) as step, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(STEPS):
            whole, partial = images(*BATCH), images(BATCH[0] - 1, BATCH[1])
            for batch in (whole, partial):
                assert torch.equal(step(*batch), task.step(*batch))
            eager_model.eval()
            with torch.no_grad():
                assert torch.equal(step.evaluate(*whole), F.cross_entropy(eager_model(whole[0]), whole[1]))
            eager_model.train()
        assert step.report()["replanned"]["used"]
        programs = [step._programs.first, *(program for _, program in step._programs._others)]
        assert [program.generation for program in programs] == [program.runtime.generation for program in programs]
    assert not differences(eager_model, eager_optimizer, model, optimizer)


def test_a_step_that_is_no_slower_than_predicted_keeps_its_plan(cache):
    model, optimizer = trainer()
    quietly(compiled, *copy.deepcopy((model, optimizer))).close()
    path, file = file_of(cache)
    for each in file["operations"]:
        each["seconds"] *= 100
    path.write_text(json.dumps(file), encoding="utf-8")
    with compiled(model, optimizer) as step:
        plan = step.plan
        for _ in range(STEPS):
            quietly(step, *images(*BATCH))
        assert "replanned" not in step.report()
        assert step.plan == plan


def test_progress_is_told_of_planning_again(cache, monkeypatch):
    model, optimizer = trainer()
    quietly(compiled, *copy.deepcopy((model, optimizer))).close()
    lie_about_times(cache)
    with compiled(model, optimizer) as step:
        told = set()
        monkeypatch.setattr(Progress, "__call__", lambda self, what, done, total: told.add(what))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it may use the new plan, or not
            for _ in range(STEPS):
                step(*images(*BATCH))
    assert told == {"timing operations again", "planning again"}


@pytest.mark.parametrize("stage", ["timing operations again", "planning again"])
def test_ctrl_c_while_it_is_planned_again_leaves_a_step_that_was_done_and_its_plan(cache, monkeypatch, stage):
    model, optimizer = trainer()
    quietly(compiled, *copy.deepcopy((model, optimizer))).close()
    lie_about_times(cache)
    eager_model, eager_optimizer = copy.deepcopy((model, optimizer))
    batches = [images(*BATCH) for _ in range(STEPS)]

    def told(self, what, done, total):
        if what == stage:
            signal.raise_signal(signal.SIGINT)

    with compiled(model, optimizer) as step:
        monkeypatch.setattr(Progress, "__call__", told)
        plan, program = step.plan, step.program()
        interrupted = 0
        for batch in batches:
            try:
                quietly(step, *batch)
            except KeyboardInterrupt:
                interrupted += 1
        assert interrupted == 1
        assert (step.plan, step.program()) == (plan, program)
        assert "replanned" not in step.report()
    eager_losses(eager_model, eager_optimizer, batches)
    assert not differences(eager_model, eager_optimizer, model, optimizer)


def test_times_that_the_caller_asks_for_are_of_the_program_that_ran(cache):
    model, optimizer = trainer()
    quietly(compiled, *copy.deepcopy((model, optimizer))).close()
    lie_about_times(cache)
    batch = images(*BATCH)
    with compiled(model, optimizer) as step:
        runtime = step._programs.first.runtime

        def run(**options):
            for name, tensor in zip(step.captured.inputs, batch, strict=True):
                view(runtime, name).copy_(tensor)
            runtime.run(step.captured.scalar_values(), **options)

        for _ in range(STEPS):
            run(is_timed=True)
            assert "aten::convolution" in runtime.trace()
        assert runtime.generation == 0
        for _ in range(4):
            run()
            with pytest.raises(ebb.Error, match="was not timed"):
                runtime.trace()
        assert runtime.generation == 1
        run(is_timed=True)
        assert "aten::convolution" in runtime.trace()


TOOL = pathlib.Path(os.environ.get("EBB_TOOL", "nowhere"))


@pytest.mark.skipif(not TOOL.with_name("ebb-run").exists(), reason="built without the command line tool")
def test_ebb_run_plans_again_too(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    cache = tmp_path / "cache"
    model, optimizer = trainer()
    ebb.torch.capture(model, F.cross_entropy, optimizer, images(*BATCH)).save(tmp_path / "step.ebb")

    def run(*args, value=cache):
        done = subprocess.run(
            [TOOL, "run", tmp_path / "step.ebb", "--json", *args],
            env={**environment, "EBB_CACHE": str(value)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return [each["outputs"] for each in json.loads(done.stdout)["steps"]], done.stderr

    as_it_is, _ = run("--steps", str(STEPS), "--no-cache")
    assert not cache.exists()
    run("--budget", "50%")
    lie_about_times(cache)
    outputs, said = run("--budget", "50%", "--steps", str(STEPS))
    assert said.startswith("ebb: note: the step took ") and said.count("\n") == 1
    assert outputs == as_it_is
