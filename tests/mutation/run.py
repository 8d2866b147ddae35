#!/usr/bin/env python3
"""Switches off every condition of the verifier, the rules, the paper's driver and the proof, one at a time, and sees a test fail.

    tests/mutation/run.py build/mutation [--only PART] [--jobs N]

The build must be one with EBB_MUTATIONS (preset `mutation`). conditions.py says what the mutants are; for each of them the
suites run, the quick ones first, until one fails. A mutant that no suite notices is printed: either a test is missing, or the
condition is needless. Those that cannot be noticed stand in equivalent.txt, with the reason. The last line counts.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

import conditions

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
# Of one suite with one mutant. A condition that ends a loop may be the one that is off.
SECONDS = 60
LIMITS = ("prlimit", f"--as={8 << 30}", "--core=0")


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    command: tuple[str, ...]
    graphs: int = 0  # how many random graphs at most

    def passes(self, mutant: conditions.Mutant | None) -> bool:
        environment = dict(os.environ, EBB_GRAPHS=str(self.graphs), EBB_MUTANT=mutant.key if mutant else "", GTEST_FAIL_FAST="1")
        environment.pop("GTEST_OUTPUT", None)
        try:
            done = subprocess.run(LIMITS + self.command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def unit_suites() -> list[str]:
    """The GoogleTest suites of the unit tests beside the sources that have mutants."""
    names = set()
    for folder in ("ebb/graph", "ebb/rewrite"):
        for path in (ROOT / folder).glob("*_test.cc"):
            names |= set(re.findall(r"^TEST\((\w+),", path.read_text(), re.MULTILINE))
    return sorted(names)


def suites(build: pathlib.Path) -> list[Suite]:
    tests = build.resolve() / "tests"
    meaning = str(tests / "meaning/ebb_meaning_tests")
    unit = ":".join(f"{name}.*" for name in unit_suites())
    return [
        Suite("text", (str(tests / "text/ebb_text_tests"), "tests/text")),
        Suite("unit", (str(tests / "ebb_unit_tests"), f"--gtest_filter={unit}")),
        Suite("meaning", (meaning,), graphs=100),
    ]


def read_equivalent() -> dict[str, str]:
    """By source and condition, as in 'ebb/rewrite/swap.cc: never: a == b': why no test can see it."""
    reasons: dict[str, str] = {}
    at = None
    for line in (HERE / "equivalent.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            reasons[at] += line.strip()
        else:
            at = line.strip()
            reasons[at] = ""
    return reasons


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="", metavar="PART", help="mutants whose description has this in it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--counts", type=pathlib.Path, metavar="FILE", help="where to write 'PASSED FAILED'")
    arguments = parser.parse_args()

    begin = time.monotonic()
    paths = [line for line in (HERE / "sources.txt").read_text().split() if line.endswith(".cc")]
    everyone = [mutant for path in paths for mutant in conditions.read(ROOT, path).mutants]
    equivalent = read_equivalent()
    name = {mutant: f"{mutant.path}: {mutant.what}" for mutant in everyone}
    failures = [f"equivalent.txt has a condition that no source has: {key}" for key in sorted(equivalent.keys() - name.values())]
    failures += [f"equivalent.txt does not say why: {key}" for key, why in equivalent.items() if not why]
    mutants = [mutant for mutant in everyone if name[mutant] not in equivalent and arguments.only in str(mutant)]

    in_order = suites(arguments.build)
    for suite in in_order:
        if not suite.passes(None):
            print(f"the suite {suite.name} fails without a mutant: {' '.join(suite.command)}")
            return 1

    def notice(mutant: conditions.Mutant) -> str | None:
        return next((suite.name for suite in in_order if not suite.passes(mutant)), None)

    noticed: collections.Counter[str] = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, by in zip(mutants, pool.map(notice, mutants)):
            if by is None:
                failures.append(f"nobody notices {mutant}")
                print(failures[-1], flush=True)
            else:
                noticed[by] += 1
    for failure in failures:
        if not failure.startswith("nobody"):
            print(failure)
    counts = ", ".join(f"{noticed[suite.name]} by {suite.name}" for suite in in_order)
    print(
        f"{len(mutants)} conditions switched off: {sum(noticed.values())} noticed ({counts}), {len(failures)} failed; "
        f"{len(equivalent)} cannot be noticed; {time.monotonic() - begin:.0f} s"
    )
    if arguments.counts:
        arguments.counts.write_text(f"{sum(noticed.values())} {len(failures)}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
