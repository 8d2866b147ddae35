"""A compiled step tells what it does, while it does it."""

import json
import os
import re
import statistics
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from small_models import Transformer, perceptron, sentences, vectors, word_loss

import ebb
import ebb.torch
from ebb.torch._stopwatch import Stopwatch


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def compiled(batch, **options):
    model = perceptron()
    return ebb.torch.compile(model, F.cross_entropy, adam(model), batch, **options)


def test_before_the_first_step_nothing_is_measured():
    report = compiled(vectors(5)).report()
    assert report["measured"] == {"steps_done": 0}
    assert "measured" not in str(report)


def test_steps_are_counted_and_those_of_the_compiled_shape_are_timed():
    step = compiled(vectors(5))
    for count in (5, 3, 5, 3, 5):
        step(*vectors(count))
    step.evaluate(*vectors(5))
    measured = step.report()["measured"]
    assert measured["steps_done"] == 5
    assert 0 < measured["step_seconds"] < 1
    assert measured["samples_per_second"] == pytest.approx(5 / measured["step_seconds"])
    assert len(step._stopwatch.seconds()) == 3


def test_eager_steps_count_too():
    step = compiled(vectors(5), other_batches="eager")
    step(*vectors(3))
    assert step.report()["measured"] == {"steps_done": 1}


def test_a_step_that_failed_does_not_count():
    step = compiled(vectors(5))
    x, y = vectors(5)
    with pytest.raises(ebb.Error):
        step(x, y + 1000)
    assert step.report()["measured"] == {"steps_done": 0}


def test_the_median_is_of_the_last_fifty():
    watch = Stopwatch(torch.device("cpu"))
    watch._seconds.extend([100.0] * 60 + [float(i) for i in range(50)])
    assert watch.median() == statistics.median(range(50))


def test_what_is_measured_stands_beside_what_was_predicted(tmp_path):
    model = Transformer(blocks=4, dropout=0.0)
    batch = sentences(32, 16, 100)
    step = ebb.torch.compile(model, word_loss, adam(model), batch, budget="60%")
    step(*batch)
    report = step.report()
    lines = str(report).splitlines()
    assert lines[-2].startswith("predicted ")
    assert lines[-1].startswith("measured ") and "of what was predicted" in lines[-1]
    assert "samples/s; 1 steps done" in lines[-1]
    report.save(tmp_path / "report.json")
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved == dict(report) and saved["plan"]["step_seconds"] > 0


@pytest.mark.parametrize("name", ["report.html", "report.HTML", "report.md"])
def test_a_report_is_saved_as_text_or_figures_and_as_nothing_else(tmp_path, name):
    report = compiled(vectors(5)).report()
    with pytest.raises(ebb.Error, match=rf"as text \(.txt\) or as figures \(.json\), and not as .*{name}"):
        report.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    for text in ("report.txt", "report"):
        report.save(str(tmp_path / text))
        assert (tmp_path / text).read_text() == str(report)
    report.save(tmp_path / "report.JSON")
    assert json.loads((tmp_path / "report.JSON").read_text()) == dict(report)


def test_a_report_is_of_one_moment():
    step = compiled(vectors(5))
    report = step.report()
    step(*vectors(5))
    assert report["measured"]["steps_done"] == 0 and step.report()["measured"]["steps_done"] == 1


def test_a_step_without_samples_has_seconds_only():
    step = ebb.torch.compile_step(lambda x: x + 1, (torch.tensor(1.0),))
    step(torch.tensor(1.0))
    assert sorted(step.report()["measured"]) == ["step_seconds", "steps_done"]


def test_nothing_lies_outside_of_the_arena_on_the_cpu():
    assert compiled(vectors(5)).memory().outside_bytes == 0


def test_a_traced_step_is_a_step_like_any_other(tmp_path):
    torch.manual_seed(0)
    step = compiled(vectors(5))
    torch.manual_seed(0)
    other = compiled(vectors(5))
    batch = vectors(5)
    assert torch.equal(step.trace(tmp_path / "trace.json", *batch), other(*batch))
    assert torch.equal(step(*batch), other(*batch))
    names = {event.get("name") for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert any("addmm" in str(name) for name in names)


def test_a_step_that_could_not_be_traced_is_not_done(tmp_path):
    step = compiled(vectors(5))
    path = tmp_path / "trace.json"
    step.trace(path, *vectors(5))
    before = path.read_text()
    for other_batches in ("compile", "eager"):
        step._other_batches = other_batches
        with pytest.raises(ebb.Error, match=r"compiled for, and not a batch of \[3, "):
            step.trace(path, *vectors(3))
    assert path.read_text() == before
    for nowhere in (tmp_path / "nowhere" / "trace.json", tmp_path):
        with pytest.raises(OSError, match=re.escape(f"'{nowhere}'")):
            step.trace(nowhere, *vectors(5))
    assert list(tmp_path.iterdir()) == [path]
    assert step.report()["measured"]["steps_done"] == 1
    step.close()
    with pytest.raises(ebb.Error, match="closed"):
        step.trace(path, *vectors(5))


def test_a_file_stays_as_it_was_when_the_step_that_is_traced_into_it_fails(tmp_path):
    step = compiled(vectors(5))
    path = tmp_path / "trace.json"
    path.write_text("old")
    x, y = vectors(5)
    with pytest.raises(ebb.Error):
        step.trace(path, x, y + 1000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    step.trace(path, x, y)
    assert json.loads(path.read_text())["traceEvents"]
    assert list(tmp_path.iterdir()) == [path]


def test_reports_are_written_through_links_and_into_pipes(tmp_path):
    report = compiled(vectors(5)).report()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "report.txt").symlink_to(tmp_path / "elsewhere" / "report.txt")
    for _ in range(2):  # into a file that is not there yet, and into one that is
        report.save(tmp_path / "report.txt")
        assert (tmp_path / "report.txt").is_symlink()
        assert (tmp_path / "elsewhere" / "report.txt").read_text() == str(report)
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    report.save(tmp_path / "pipe")
    reader.join()
    assert read == [str(report)]


def test_only_the_traced_step_is_timed_by_operation_whatever_other_threads_do(tmp_path):
    step = compiled(vectors(5))
    batch = vectors(5)
    timed = []
    runtime = step._programs.first.runtime

    class Noting:
        """The runtime, and who was timed."""

        def __getattr__(self, name):
            return getattr(runtime, name)

        def run(self, scalars, is_timed, *more):
            timed.append((threading.current_thread().name, is_timed))
            time.sleep(0.001)
            return runtime.run(scalars, is_timed, *more)

    step._programs.first.runtime = Noting()
    others = [threading.Thread(target=lambda: [step(*batch) for _ in range(30)]) for _ in range(2)]
    for thread in others:
        thread.start()
    for i in range(10):
        step.trace(tmp_path / f"{i}.json", *batch)
    for thread in others:
        thread.join()
    me = threading.current_thread().name
    assert len(timed) == 70 and all(is_timed == (name == me) for name, is_timed in timed)
