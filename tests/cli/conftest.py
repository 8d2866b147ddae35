"""What the command-line tests share: `ebb` runs the tool and gives back what it said."""

import os
import subprocess

import pytest

os.environ["EBB_CACHE"] = "off"  # not the user's


@pytest.fixture
def ebb(tmp_path):
    """Runs the tool in an empty folder: `ebb("show", "-", stdin=text).returncode == 0`. Bytes in, bytes out."""

    def run(*args, stdin=""):
        return subprocess.run(
            [os.environ["EBB_TOOL"], *map(str, args)],
            input=stdin, capture_output=True, text=isinstance(stdin, str), cwd=tmp_path, timeout=600, check=False,
        )

    return run
