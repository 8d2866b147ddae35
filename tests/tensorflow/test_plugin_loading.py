"""How the plug-in comes into a process: by environment alone, early, twice, from two places.

TensorFlow reads the environment when it is imported and cannot be unloaded, so each test is a
process of its own.
"""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

TREE = pathlib.Path(os.environ["BUILD_TREE"]) / "python"
LIBRARY = TREE / "ebb" / "tensorflow" / "libebb_grappler.so"
HERE = pathlib.Path(__file__).parent


@pytest.fixture(autouse=True, scope="session")
def deterministic():
    """Not here: nothing of TensorFlow runs in this process."""


def run(program, *, is_site, **environment):
    """With the package in a site folder, whose .pth files Python reads, or in its path alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EBB_")}
    folders = [HERE] if is_site else [HERE, TREE]
    preamble = f"import site; site.addsitedir({str(TREE)!r})\n" if is_site else ""
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(program)],
        env=kept | {"PYTHONPATH": os.pathsep.join(map(str, folders))} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("ebb: ")]
    return done.stdout.splitlines(), said


# Does not know of Ebb.
TRAINING = """
    import sys
    import tensorflow as tf
    tf.config.experimental.enable_op_determinism()
    from small_step import Step, executed_graphs
    step = Step()
    executed = executed_graphs(lambda: step.train(step.batch))
    print(len(executed.ours("swap_out")))
    print(b"".join(step.bits_after()).hex())
    print("ebb" in sys.modules)
"""


def test_by_environment_alone_a_program_is_swapped_and_computes_the_same():
    [swapped, plain_bits, knows_ebb], said = run(TRAINING, is_site=True)
    assert (swapped, knows_ebb, said) == ("0", "False", [])
    devices = {"EBB_ACCELERATOR": "/device:CPU:0", "EBB_HOST": "/device:CPU:1"}
    [swapped, bits, _], said = run(TRAINING, is_site=True, **devices, EBB_N_TENSORS="3")
    assert swapped == "3"
    assert bits == plain_bits
    assert len(said) == 1 and "3 tensors swapped" in said[0]


def test_by_environment_alone_keras_leaves_xla_too():
    program = """
        import tensorflow as tf
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        print(model.jit_compile)
    """
    output, said = run(program, is_site=True, EBB_ENABLE="1")
    assert output == ["False"]
    assert said == ['ebb: jit_compile="auto" means False while Ebb is on: XLA would hide the step']


def test_a_wrong_environment_is_said_once_and_the_program_runs_without():
    [swapped, *_], said = run(TRAINING, is_site=True, EBB_NTENSORS="3", EBB_ENABLE="1")
    assert swapped == "0"
    assert said == [
        "ebb: EBB_NTENSORS in the environment is no parameter; did you mean 'EBB_N_TENSORS'?; "
        "Ebb stays off"
    ]


def test_without_a_site_folder_importing_the_package_reads_the_environment():
    program = """
        import ebb.tensorflow
        print(ebb.tensorflow.last_report().parameters["n_tensors"])
    """
    assert run(program, is_site=False, EBB_N_TENSORS="3") == (["3"], [])


def test_turned_on_first_it_leaves_devices_to_be_configured():
    program = """
        import tensorflow as tf
        tf.config.set_visible_devices([], "GPU")
        [cpu] = tf.config.list_physical_devices("CPU")
        three = [tf.config.LogicalDeviceConfiguration()] * 3
        tf.config.set_logical_device_configuration(cpu, three)
        import ebb.tensorflow
        ebb.tensorflow.enable(accelerator="/device:CPU:0", host="/device:CPU:1")
        print(len(tf.config.get_logical_device_configuration(cpu)))
        import small_step  # configures two
        print(len(tf.config.list_logical_devices("CPU")))
    """
    assert run(program, is_site=False) == (["3", "2"], [])


def test_loaded_again_by_another_name_or_from_another_place_nothing_breaks(tmp_path):
    (tmp_path / "link.so").symlink_to(LIBRARY)
    copy = tmp_path / LIBRARY.name
    copy.write_bytes(LIBRARY.read_bytes())
    program = f"""
        import ctypes
        from small_step import DEVICES, Step, executed_graphs
        from tensorflow.python.framework.load_library import load_pluggable_device_library
        import ebb.tensorflow
        ebb.tensorflow.enable(**DEVICES, n_tensors=2)
        for path in ({str(LIBRARY)!r}, {str(tmp_path / "link.so")!r}, {str(copy)!r}):
            load_pluggable_device_library(path)
            ebb.tensorflow.enable(**DEVICES, n_tensors=2)
        other = ctypes.CDLL({str(copy)!r})
        other.ebb_grappler_configure.restype = ctypes.c_char_p
        print(other.ebb_grappler_configure(b"{{}}").decode())
        step = Step()
        print(len(executed_graphs(lambda: step.train(step.batch)).ours("swap_out")))
    """
    [message, swapped], _ = run(program, is_site=False)
    assert message == f"another copy of Ebb's plug-in is loaded, '{LIBRARY}': use one of them"
    assert swapped == "2"


NO_HOST = (
    "ebb: host = '/device:CPU:7': there is no such device, but {} of type CPU; configure logical devices "
    "before Ebb is turned on, or use '/device:CPU:0'; Ebb stays off"
)
DEVICES_WITH_NO_HOST = {"EBB_ACCELERATOR": "/device:CPU:0", "EBB_HOST": "/device:CPU:7"}


def test_a_host_that_is_not_there_when_devices_are_is_said_and_the_program_runs_without():
    [swapped, *_], said = run(TRAINING, is_site=True, **DEVICES_WITH_NO_HOST)
    assert swapped == "0"
    assert said == [NO_HOST.format(2)]


@pytest.mark.parametrize("host", ["/job:localhost/device:CPU:5", "/task:1/device:CPU:1"])
def test_a_host_of_a_cluster_that_is_not_there_is_said(host):
    program = f"""
        import ebb.tensorflow
        from small_step import Step
        ebb.tensorflow.enable(accelerator="/device:CPU:0", host={host!r})
        Step().bits_after()
        print(ebb.tensorflow.last_report().parameters)
    """
    output, said = run(program, is_site=False)
    assert output == ["None"]
    assert len(said) == 1 and f"host = '{host}': there is no such device" in said[0]


def test_the_same_in_a_session():
    program = """
        import tensorflow.compat.v1 as tf
        tf.disable_eager_execution()
        w = tf.get_variable("w", initializer=tf.ones((8, 8)))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.tanh(tf.tanh(w) @ w)))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
        print("done")
    """
    assert run(program, is_site=True, **DEVICES_WITH_NO_HOST) == (["done"], [NO_HOST.format(1)])


def test_beside_another_plug_in_it_stays_off_because_tensorflow_would_end_the_process(tmp_path):
    source = tmp_path / "other.c"
    source.write_text("void TF_InitGraph(void* params, void* status) {}")
    library = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = f"import ctypes; ctypes.CDLL({str(library)!r})" + textwrap.dedent(TRAINING)
    [swapped, *_], said = run(program, is_site=True, EBB_ENABLE="1")
    assert swapped == "0"
    assert said == [
        f"ebb: another plug-in for TensorFlow's Grappler is loaded, '{library}', and TensorFlow ends the "
        "process when two are for the same device; Ebb stays off"
    ]
