"""What was measured and planned in one process is known in the next."""

import json
import os
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits
from small_models import images
from torch import nn

import ebb.torch


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder that is the cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("EBB_CACHE", str(folder))
    return folder


def model():
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(6)]
    return nn.Sequential(nn.Conv2d(3, 8, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


def compiled(network=None, budget="60%"):
    network = network or model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return ebb.torch.compile(network, F.cross_entropy, optimizer, images(8, 32), budget=budget)


def measured_only():
    """Nothing to time and to plan."""
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return ebb.torch.compile(network, F.cross_entropy, optimizer, images(8, 32))


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*args)


def measured(cache):
    [path] = cache.glob("measured-*.json")
    return path


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def trained():
    network = model()
    batch = images(8, 32)
    with compiled(network) as step:
        losses = [step(*batch).item() for _ in range(3)]
    return losses, [bits(value) for value in network.state_dict().values()]


def test_the_file_says_in_words_what_it_holds_for(cache):
    quietly(compiled)
    environment = read(measured(cache))["environment"]
    assert environment["torch"] == torch.__version__.split("+")[0]
    assert environment["threads"] == str(torch.get_num_threads())
    assert environment["deterministic algorithms"] == "yes"
    assert {"Ebb", "hardware", "attention", "oneDNN enabled"} <= set(environment)


def test_the_next_step_measures_nothing(cache):
    quietly(compiled)
    file = read(measured(cache))
    assert file["operations"] and all({"requests", "seconds"} <= set(each) for each in file["operations"])
    for each in file["operations"]:
        each["seconds"] = 0.5
    measured(cache).write_text(json.dumps(file), encoding="utf-8")
    plan = quietly(compiled).report()["plan"]
    assert plan["unconstrained_seconds"] % 0.5 == 0
    assert read(measured(cache)) == file


def test_a_setting_that_kernels_look_at_is_another_environment(cache):
    quietly(measured_only)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        quietly(measured_only)
    finally:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    quietly(measured_only)
    with torch.backends.mkldnn.flags(enabled=False):
        quietly(measured_only)
    assert len(list(cache.glob("measured-*.json"))) == 4


def test_the_bits_are_the_same_with_a_cache_and_without(cache, monkeypatch):
    first = quietly(trained)
    assert quietly(trained) == first
    monkeypatch.setenv("EBB_CACHE", "off")
    assert quietly(trained) == first


def test_the_next_step_finds_its_plan(cache):
    first, again, other = quietly(compiled), quietly(compiled), quietly(compiled, None, "61%")
    known = [step.report()["plan_was_known"] for step in (first, again, other)]
    assert known == [False, True, False]
    assert again.plan == first.plan != other.plan
    assert again.program() == first.program()
    for key in ("peak_bytes", "host_bytes", "unconstrained_bytes"):
        assert again.report()[key] == first.report()[key], key
    assert {**again.report()["plan"], "evaluations": 0} == {**first.report()["plan"], "evaluations": 0}


def test_a_plan_that_is_none_is_a_warning_once_and_replaced(cache):
    step = quietly(compiled)
    [path] = cache.glob("plan-*.plan")
    assert path.read_text(encoding="utf-8") == step.plan
    path.write_text(step.plan.replace("\nstep ", "\nstep 1"), encoding="utf-8")
    with pytest.warns(UserWarning, match="cannot be used, and the step is planned again"):
        assert compiled().plan == step.plan
    assert path.read_text(encoding="utf-8") == step.plan
    assert quietly(compiled).report()["plan_was_known"]


@pytest.mark.parametrize("text", ["", "{", "null", '{"version": 99}', "\xff"])
def test_a_file_that_is_none_is_a_warning_once_and_replaced(cache, text):
    quietly(measured_only)
    path = measured(cache)
    right = {each["signature"]: each["requests"] for each in read(path)["operations"]}
    path.write_text(text, encoding="latin-1")
    with pytest.warns(UserWarning, match="cannot be used, and operations are measured again") as caught:
        measured_only()
    assert caught[0].filename == __file__
    assert {each["signature"]: each["requests"] for each in read(path)["operations"]} == right
    quietly(measured_only)


def test_no_cache_is_no_error(tmp_path, monkeypatch):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    for value in [in_the_way / "cache", "/proc/no/such", "off"]:
        monkeypatch.setenv("EBB_CACHE", str(value))
        quietly(measured_only)
    assert sorted(tmp_path.iterdir()) == [in_the_way]


PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
torch.use_deterministic_algorithms(True)
from test_cache import trained
losses, state = trained()
print(losses)
"""


def test_two_processes_at_once_do_each_other_no_harm(cache):
    folder = os.path.dirname(__file__)
    environment = {**os.environ, "EBB_CACHE": str(cache)}
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error::UserWarning", "-c", PROGRAM, folder],
            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    done = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], done
    assert done[0][0] == done[1][0] == f"{trained()[0]}\n"
    assert read(measured(cache))["operations"]
