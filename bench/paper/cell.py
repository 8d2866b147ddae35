#!/usr/bin/env python3
"""One cell of the matrix: a network and a way to make it fit; some steps of training by each batch; what was seen.

    python3 bench/paper/cell.py '{"network": "resnet50", "side": 224, "batches": [384, 832], "limit": "16GiB",
                                  "budget": "14GiB"}'

A JSON object a batch is printed, up to the first batch that does not fit. A list of pairs of a name and a cell is done
in one process, as far as they have the same machine: TensorFlow takes a second for each GiB of pinned host memory, and
keeps it. ``front`` is ``session`` (tf_keras, TensorFlow 1 graphs and sessions, as in the paper) or ``keras`` (Keras 3 and
its own loop). With ``parameters`` the paper's class rewrites the graph, or, in Keras and where ``way`` is ``plugin``, the
plug-in does. With ``budget`` the plug-in plans; of a list of budgets, the first with which it trains counts. ``limit`` is
what TensorFlow may take of the GPU: a limit of its own allocator, or, where ``allocator`` is ``cuda_malloc_async``, which
has none, what a second process leaves free (and ``context`` bytes for CUDA itself). Images and labels are made once and
stay on the GPU, as in the benchmarks that the paper used.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

DEFAULTS: dict[str, Any] = {
    "front": "session",
    "device": "gpu",
    "limit": None,
    "allocator": "bfc",
    "context": "1GiB",
    "split": False,  # BFC: hand out no more than was asked for, which counts as taken otherwise
    "environment": {},  # read by TensorFlow
    "budget": None,
    "parameters": None,
    "way": "class",
    "options": {},  # more of enable(...), with a budget
    "measured": False,  # with a budget: plan once more, with a profile of the first plan's step
    "deterministic": False,
    "warm_up": 3,
    "steps": 6,
    "seconds": 10,  # no further step is begun after so many
    "dump": None,
}
OF_THE_PROCESS = ("device", "limit", "allocator", "context", "split", "environment", "deterministic")
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20}


def read_bytes(text: str) -> int:
    return int(float(text[:-3]) * UNITS[text[-3:]])


# Takes all of the GPU's memory but so many bytes, and keeps it until its input ends.
BALLAST = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(status):
    if status: sys.exit(f"ballast: CUDA says {status}")
device, context, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
check(cuda.cuInit(0))
check(cuda.cuDeviceGet(ctypes.byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
check(cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(free.value - int(sys.argv[1]))))
print("taken", flush=True)
sys.stdin.read()
"""


def leave_free(count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BALLAST, str(count)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "taken\n":
        raise SystemExit("the memory beyond the limit could not be taken")
    return process


def split_chunks(config: Any) -> None:
    """BFC gives a request a whole free chunk of up to twice its size while less than 128 MiB of it are too much."""
    config.gpu_options.experimental.internal_fragmentation_fraction = 1e-9


class Machine:
    """Where the network is trained: a GPU with a limit, or two logical devices of the CPU to try the program with."""

    def __init__(self, cell: dict[str, Any]) -> None:
        import tensorflow as tf

        self.is_gpu = cell["device"] == "gpu"
        self.split = cell["split"]
        if self.split:
            from tensorflow.python.eager import context

            config = tf.compat.v1.ConfigProto()
            split_chunks(config)
            context.context()._config = config  # before devices are started; there is no public way to it
        self.ballast = None
        if self.is_gpu and cell["limit"] and cell["allocator"] == "cuda_malloc_async":
            self.ballast = leave_free(read_bytes(cell["limit"]) + read_bytes(cell["context"]))
        self.limit_mb = read_bytes(cell["limit"]) >> 20 if cell["limit"] else None
        if self.is_gpu:
            gpus = tf.config.list_physical_devices("GPU")
            if not gpus:
                raise SystemExit("TensorFlow sees no GPU")
            if self.limit_mb and self.ballast is None:
                limited = tf.config.LogicalDeviceConfiguration(memory_limit=self.limit_mb)
                tf.config.set_logical_device_configuration(gpus[0], [limited])
            else:
                tf.config.experimental.set_memory_growth(gpus[0], True)
            self.name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
            self.accelerator, self.places = "/device:GPU:0", {}
        else:
            cpu = tf.config.list_physical_devices("CPU")[0]
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
            self.name, self.accelerator = "CPU", "/device:CPU:1"
            self.places = {"accelerator": "/device:CPU:1", "host": "/device:CPU:0"}
        tf.config.list_logical_devices()

    def session_config(self) -> Any:
        import tensorflow as tf

        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        if self.split:
            split_chunks(config)
        if not self.is_gpu:
            config.device_count["CPU"] = 2
        elif self.limit_mb and self.ballast is None:
            config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[self.limit_mb])
        else:
            config.gpu_options.allow_growth = True
        return config

    def forget_peak(self) -> None:
        import tensorflow as tf

        if self.is_gpu:
            tf.config.experimental.reset_memory_stats("GPU:0")

    def peak(self) -> int | None:
        import tensorflow as tf

        return tf.config.experimental.get_memory_info("GPU:0")["peak"] if self.is_gpu else None


def in_session(cell: dict[str, Any], machine: Machine, seen: dict[str, Any]) -> Iterator[Callable[[], float]]:
    """tf_keras in a TensorFlow 1 graph."""
    import tensorflow as tf
    from networks import training_graph

    import ebb.tensorflow

    tf1 = tf.compat.v1
    graph, loss, train, start = training_graph(cell["network"], cell["side"], cell["batch"], machine.accelerator)
    seen["nodes"] = len(graph.get_operations())
    if cell["parameters"] is not None and cell["way"] == "class":
        begin = time.perf_counter()
        lms = ebb.tensorflow.LMS({"optimizer"}, **machine.places, **cell["parameters"])
        seen |= {"rewrite": lms.run(graph=graph), "rewrite_seconds": time.perf_counter() - begin}
        seen["nodes_added"] = len(graph.get_operations()) - seen["nodes"]
    with tf1.Session(graph=graph, config=machine.session_config()) as session:
        session.run(start)
        yield lambda: float(session.run([loss, train])[0])
        if cell["dump"]:
            dump_session(cell["dump"], session, [loss, train])


def dump_session(prefix: str, session: Any, fetches: Any) -> None:
    """One traced step: times and memory by operation, and the graph that ran."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = tf1.RunMetadata()
    session.run(fetches, options=options, run_metadata=metadata)
    with open(f"{prefix}.metadata.pb", "wb") as file:
        file.write(metadata.SerializeToString())


def in_keras(cell: dict[str, Any], machine: Machine, seen: dict[str, Any]) -> Iterator[Callable[[], float]]:
    """Keras 3, with a loop of its own."""
    import keras
    import tensorflow as tf
    from networks import NETWORKS

    import ebb.tensorflow

    keras.utils.set_random_seed(1)
    network = NETWORKS[cell["network"]]
    of_classes = cell["network"] == "resnet50"
    with tf.device(machine.accelerator):
        shape = (cell["batch"], *network.image_shape(cell["side"]))
        model = network.build(keras, keras.Input(shape[1:], batch_size=cell["batch"]))
        images = tf.random.uniform(shape, seed=2)
        shape = (cell["batch"], *network.labels_shape(cell["side"]))
        labels = tf.random.uniform(shape, maxval=1000 if of_classes else 2, dtype=tf.int32, seed=3)
        labels = labels if of_classes else tf.cast(labels, tf.float32)
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9) if of_classes else keras.optimizers.Adam(1e-4)
        model.compile(optimizer=optimizer, loss=network.loss, jit_compile=False)

    def step() -> float:
        with tf.device(machine.accelerator):
            return float(model.train_on_batch(images, labels))

    yield step


def by_plugin(cell: dict[str, Any]) -> bool:
    return cell["front"] == "keras" or cell["way"] == "plugin"


def measure(cell: dict[str, Any], machine: Machine, profile: str | None = None) -> dict[str, Any]:
    import tensorflow as tf

    import ebb.tensorflow

    seen: dict[str, Any] = {"batch": cell["batch"], "machine": machine.name, "tensorflow": tf.__version__}
    if cell["deterministic"]:
        tf.keras.utils.set_random_seed(1)
        tf.config.experimental.enable_op_determinism()
    graphs_before = ebb.tensorflow.last_report().graphs
    if cell["budget"]:
        ebb.tensorflow.enable(budget=cell["budget"], **machine.places, **cell["options"])
    elif cell["parameters"] is not None and by_plugin(cell):
        ebb.tensorflow.enable(**machine.places, **cell["parameters"])
    else:
        ebb.tensorflow.disable()
    front = {"session": in_session, "keras": in_keras}[cell["front"]](cell, machine, seen)
    try:
        step = next(front)
        train(cell, machine, step, seen)
        if profile:
            with ebb.tensorflow.measure(profile):
                step()
        next(front, None)
    except tf.errors.OpError as error:
        seen |= what_failed(error)
    if cell["budget"] or (cell["parameters"] is not None and by_plugin(cell)):
        graphs = [each for each in ebb.tensorflow.last_report().graphs if each not in graphs_before]
        graph = max(graphs, key=lambda each: each.nodes)
        tensors = ("tensors_swapped", "bytes_swapped", "tensors_recomputed")
        memory = ("budget_bytes", "peak_bytes", "measured_bytes")
        names = ("nodes", *tensors, *memory, "step_seconds", "problem", "seconds")
        seen["ebb"] = {name: getattr(graph, name) for name in names}
        seen["ebb"] |= {name: graph.details.get(name) for name in ("swap_outs", "swap_ins")}  # of cells by parameters
        if graph.problem and seen["state"] == "trained":
            seen["state"] = "not rewritten"
    return seen


def what_failed(error: Any) -> dict[str, Any]:
    """Of an error of TensorFlow's: whether it was memory, and the line that says so, or the first."""
    lines = (error.message or "").splitlines()
    # cuDNN's workspace is no tensor: a convolution without it fails in another way.
    no_workspace = [line for line in lines if "failed to allocate the scratch space" in line]
    is_memory = bool(no_workspace) or type(error).__name__ == "ResourceExhaustedError"
    said = no_workspace or [line for line in lines if is_memory and ("allocat" in line or "OOM" in line)]
    return {"state": "out of memory" if is_memory else "failed", "error": (said or lines or [""])[0][:300]}


def measure_budgets(cell: dict[str, Any], machine: Machine, profile: str | None) -> dict[str, Any]:
    """With several, what was seen with the first that trains, or with the last; and what became of those before."""
    if not isinstance(cell["budget"], list):
        return measure(cell, machine, profile)
    before: list[dict[str, Any]] = []
    for budget in cell["budget"]:
        seen = measure(cell | {"budget": budget}, machine, profile) | {"budget": budget, "before": [*before]}
        if seen["state"] == "trained":
            break
        before.append({key: seen.get(key) for key in ("budget", "state", "error", "ebb")})
    return seen


def measure_and_print(name: str, cell: dict[str, Any], machine: Machine) -> bool:
    """Whether it was trained."""
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "profile.json")
        for is_second in [False, True] if cell["measured"] else [False]:
            begin = time.perf_counter()
            if is_second:
                cell = cell | {"options": cell["options"] | {"profile": profile}}
            seen = measure_budgets(cell, machine, profile if cell["measured"] and not is_second else None)
            seen |= {"name": name, "by_profile": is_second, "seconds": time.perf_counter() - begin}
            print(json.dumps(seen), flush=True)
            if seen["state"] != "trained":
                return False
    return True


def train(cell: dict[str, Any], machine: Machine, step: Callable[[], float], seen: dict[str, Any]) -> None:
    machine.forget_peak()  # of the cell before
    begin = time.perf_counter()
    seen["losses"] = [step().hex() for _ in range(cell["warm_up"])]
    seen |= {"warm_up_seconds": time.perf_counter() - begin, "warm_up_peak_bytes": machine.peak()}
    machine.forget_peak()  # while algorithms are chosen, convolutions take more than later
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < cell["steps"] and (len(times) < 2 or time.perf_counter() - begin < cell["seconds"]):
        since = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - since)
        seen["losses"].append(loss.hex())
    seen |= {
        "state": "trained",
        "step_seconds": times,
        "images_per_second": cell["batch"] * len(times) / sum(times),
        "peak_bytes": machine.peak(),
    }


def main() -> None:
    given = json.loads(sys.argv[1])
    cells = [(name, DEFAULTS | cell) for name, cell in (given if isinstance(given, list) else [["", given]])]
    first = cells[0][1]
    if any(cell[key] != first[key] for _, cell in cells for key in OF_THE_PROCESS):
        raise SystemExit(f"cells of one process have the same {', '.join(OF_THE_PROCESS)}")
    os.environ.update(first["environment"])
    if first["allocator"] != "bfc":
        os.environ["TF_GPU_ALLOCATOR"] = first["allocator"]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    machine = Machine(first)
    for name, cell in cells:
        for batch in cell["batches"]:
            if not measure_and_print(name, cell | {"batch": batch}, machine):
                break


if __name__ == "__main__":
    main()
