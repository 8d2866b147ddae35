"""One case of bench/torch_budget.py, a process of its own: settings in as JSON, figures out, one JSON object a line."""

from __future__ import annotations

import dataclasses
import gc
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch_budget_workloads import WORKLOADS, Batch, Settings, Workload

import ebb.torch
from ebb.torch._step_function import step_function

COMPARED_STEPS = 3


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


# The machine.


def synchronize(settings: Settings) -> None:
    if settings["device"] != "cpu":
        torch.cuda.synchronize()


def memory_now(settings: Settings) -> dict[str, int]:
    """Bytes: of this process on the host; on the device what everybody has, and what of it is PyTorch's allocator's."""
    synchronize(settings)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    now = {"host_resident": pages * 4096}
    if settings["device"] != "cpu":
        free, total = torch.cuda.mem_get_info()
        now |= {"device_used": total - free, "torch_reserved": torch.cuda.memory_reserved()}
    return now


def give_back(settings: Settings) -> None:
    gc.collect()
    if settings["device"] != "cpu":
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()  # which PyTorch keeps otherwise
        torch.cuda.empty_cache()


def timed_steps(settings: Settings, step: Callable[[], Any]) -> tuple[list[float], float]:
    """Seconds of each step, between marks in the device's own time; the mean of all by the clock on the wall."""
    count = settings["steps"]
    for _ in range(settings["warm_up"]):
        step()
    synchronize(settings)
    begin = time.perf_counter()
    if settings["device"] == "cpu":
        marks = [begin]
        for _ in range(count):
            step()
            marks.append(time.perf_counter())
        seconds = [after - before for before, after in zip(marks, marks[1:], strict=False)]
    else:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            step()
            event.record()
        synchronize(settings)
        seconds = [before.elapsed_time(after) / 1e3 for before, after in zip(events, events[1:], strict=False)]
    return seconds, (time.perf_counter() - begin) / count


@contextmanager
def profiled(settings: Settings) -> Iterator[None]:
    if settings["device"] == "cpu" or not settings["profile_run"]:
        yield
        return
    torch.cuda.profiler.start()
    try:
        yield
    finally:
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


# Eager and Ebb, from the same beginning.


@dataclasses.dataclass
class Beginning:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Batch


def begin(work: Workload, count: int) -> Beginning:
    torch.manual_seed(0)
    model = work.model()
    return Beginning(model, work.optimizer(model), work.batch(count))


@dataclasses.dataclass
class Trained:
    """After the first steps."""

    losses: list[torch.Tensor]
    state: dict[str, torch.Tensor]


def first_steps(beginning: Beginning, step: Callable[..., torch.Tensor]) -> Trained:
    torch.manual_seed(1)
    losses = [step(*beginning.batch).detach().cpu() for _ in range(COMPARED_STEPS)]
    state = {name: tensor.cpu().clone() for name, tensor in beginning.model.state_dict().items()}
    return Trained(losses, state)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    def raw(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.contiguous().view(-1).view(torch.uint8)

    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(raw(one), raw(other))


def autocast_of(settings: Settings) -> torch.dtype | None:
    return getattr(torch, settings["autocast"]) if settings["autocast"] else None


def tell_speed(who: str, settings: Settings, work: Workload, seconds: list[float], on_the_wall: float) -> None:
    median = statistics.median(seconds)
    tell(**{
        "unit": work.unit,
        f"{who}_step_seconds": median,
        f"{who}_wall_seconds": on_the_wall,
        f"{who}_slowest_seconds": max(seconds),
        f"{who}_per_second": settings["batch"] / median,
    })


def eager(settings: Settings, work: Workload) -> tuple[Trained, float] | None:
    """What it came to, and the time of a step; None where it does not fit."""
    on_gpu = settings["device"] != "cpu"
    try:
        beginning = begin(work, settings["batch"])
        train = step_function(beginning.model, work.loss, beginning.optimizer, autocast=autocast_of(settings))
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        trained = first_steps(beginning, train)
        seconds, on_the_wall = timed_steps(settings, lambda: train(*beginning.batch))
    except torch.OutOfMemoryError as error:
        tell(eager_error="out of memory", eager_error_text=str(error))
        return None
    if on_gpu:
        tell(eager_peak_bytes=torch.cuda.max_memory_allocated(), eager_reserved_bytes=torch.cuda.max_memory_reserved())
    tell_speed("eager", settings, work, seconds, on_the_wall)
    return trained, statistics.median(seconds)


def compiled(settings: Settings, work: Workload, beginning: Beginning) -> Any:
    if settings["device"] != "cpu":
        torch.cuda.reset_peak_memory_stats()
    begin_seconds = time.perf_counter()
    step = ebb.torch.compile(
        beginning.model,
        work.loss,
        beginning.optimizer,
        beginning.batch,
        budget=settings["budget"],
        autocast=autocast_of(settings),
    )
    synchronize(settings)
    tell(compile_seconds=time.perf_counter() - begin_seconds)
    if settings["device"] != "cpu":
        tell(torch_peak_bytes_in_compile=torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()
    memory = step.memory()
    tell(
        arena_bytes=memory.peak_bytes,
        budget_bytes=memory.budget_bytes,
        state_bytes=memory.state_bytes,
        bound_bytes=memory.bound_bytes,
        host_bytes=memory.host_bytes,
        batch_bytes=sum(tensor.nbytes for tensor in beginning.batch),
    )
    return step


def tell_report(settings: Settings, step: Any) -> None:
    """Its numbers, the lengths of its lists, and one level of what is within; in full where a folder was named.

    After the steps: the first of them may have led to another plan.
    """
    report = json.loads(step.report().to_json())
    if settings["reports"]:
        path = pathlib.Path(settings["reports"]) / f"{settings['case']}.json"
        path.write_text(json.dumps(report, indent=1) + "\n")
        predicted = step._programs.first.runtime.predicted_trace()
        path.with_name(f"{settings['case']}.predicted.json").write_text(predicted)
        path.with_suffix(".ebb").write_text(step.captured.text)
    numbers: dict[str, Any] = {}
    for key, value in report.items():
        if isinstance(value, (int, float, str)):
            numbers[key] = value
        elif isinstance(value, list):
            numbers[key] = len(value)
        elif isinstance(value, dict):
            numbers[key] = {inner: part for inner, part in value.items() if isinstance(part, (int, float, str))}
    tell(report=numbers)
    if "step_seconds" in numbers.get("plan", {}):
        tell(predicted_step_seconds=numbers["plan"]["step_seconds"])


@contextmanager
def reported(settings: Settings, step: Any) -> Iterator[None]:
    """Around the steps: what was planned is told where one of them fails, too."""
    try:
        yield
    finally:
        tell_report(settings, step)


def tell_memory(settings: Settings, step: Any, before: dict[str, int]) -> None:
    """`before`: when nothing of Ebb's was there yet."""
    after = memory_now(settings)
    tell(memory_before=before, memory_after=after)
    if "device_used" in after:
        memory = step.memory()
        arena = memory.budget_bytes if step.plan else memory.peak_bytes  # one that was planned takes the whole budget
        # The context, the libraries' own memory, the user's batch and whatever PyTorch's allocator holds for him.
        tell(
            outside_bytes=after["device_used"] - arena,
            ebb_device_bytes=after["device_used"] - before["device_used"],
            torch_peak_bytes_in_steps=torch.cuda.max_memory_allocated(),
        )


def speed(settings: Settings, work: Workload) -> None:
    expected = eager(settings, work) if settings["eager"] and not settings["profile_run"] else None
    give_back(settings)
    before = memory_now(settings)
    beginning = begin(work, settings["batch"])
    step = compiled(settings, work, beginning)
    with reported(settings, step):
        trained = first_steps(beginning, step)
        if expected:
            state = expected[0].state
            other = [name for name in state if not same_bits(state[name], trained.state[name])]
            tell(
                losses_equal=[same_bits(a, b) for a, b in zip(expected[0].losses, trained.losses, strict=True)],
                state_equal=not other,
                state_other=len(other),
            )
        tell(losses=[loss.item() for loss in trained.losses])
        with profiled(settings):
            seconds, on_the_wall = timed_steps(settings, lambda: step(*beginning.batch))
            if settings["reports"]:
                step.trace(pathlib.Path(settings["reports"]) / f"{settings['case']}.trace.json", *beginning.batch)
        tell_speed("ebb", settings, work, seconds, on_the_wall)
        if expected:
            tell(ratio=expected[1] / statistics.median(seconds))
        if settings["profile_run"]:
            tell(step_seconds=seconds)
    tell_memory(settings, step, before)


def largest_batch(settings: Settings, work: Workload) -> None:
    if not hasattr(ebb.torch, "largest_batch"):
        raise ebb.Error("this version of Ebb has no largest_batch")
    torch.manual_seed(0)
    model = work.model()
    options = {"autocast": autocast_of(settings)} if settings["autocast"] else {}
    begin_seconds = time.perf_counter()
    found = ebb.torch.largest_batch(
        work.batch, model, work.loss, work.optimizer(model), budget=settings["budget"], **options
    )
    tell(largest_batch=int(found), search_seconds=time.perf_counter() - begin_seconds)
    del model
    give_back(settings)
    speed(settings | {"batch": int(found), "eager": False}, work)


def growth(settings: Settings, work: Workload) -> None:
    early, late = settings["growth_steps"]
    before = memory_now(settings)
    beginning = begin(work, settings["batch"])
    step = compiled(settings, work, beginning)
    with reported(settings, step):
        for _ in range(early):
            step(*beginning.batch)
        at_first = memory_now(settings)
        tell(memory_early=at_first)
        rest = settings | {"warm_up": 0, "steps": late - early}
        seconds, on_the_wall = timed_steps(rest, lambda: step(*beginning.batch))
        at_last = memory_now(settings)
        tell(growth_bytes={key: at_last[key] - count for key, count in at_first.items()})
        tell_speed("ebb", settings, work, seconds, on_the_wall)
    tell_memory(settings, step, before)


KINDS = {"speed": speed, "largest_batch": largest_batch, "growth": growth}


def main() -> int:
    settings = json.loads(sys.argv[1])
    torch.set_float32_matmul_precision("high")  # TF32
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = settings["cudnn_benchmark"]
    if settings["deterministic"]:
        torch.use_deterministic_algorithms(True)  # not as a warning: attention would stay as it is then
        torch.utils.deterministic.fill_uninitialized_memory = False
    tell(torch=torch.__version__, ebb=ebb.__version__)
    if settings["device"] != "cpu":
        torch.cuda.init()
        tell(gpu=torch.cuda.get_device_name(), device_used_at_start=memory_now(settings)["device_used"])
    try:
        KINDS[settings["kind"]](settings, WORKLOADS[settings["workload"]](settings))
    except Exception as error:
        tell(error=f"{type(error).__name__}: {error}")
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
