"""The documents are true: their graphs are right, their codes and fields are those of the program."""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


GRAPHS = [
    pytest.param(text, id=f"{path.name}:{text.split()[1]}")
    for path in DOCUMENTS
    for text in blocks(path, "ebb")
]


@pytest.mark.parametrize("text", GRAPHS)
def test_graphs_in_documents_are_valid_and_canonical(ebb, text):
    done = ebb("verify", "-", stdin=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert ebb("convert", "-", "-", stdin=text).stdout == text


def test_there_are_graphs_in_documents():
    assert len(GRAPHS) > 10


def test_links_between_documents_lead_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def codes(text, letter):
    return set(re.findall(rf'"({letter}\d\d)"', text))


@pytest.mark.parametrize("letter", ["P", "V"])
def test_every_error_code_is_explained_and_tested(letter):
    sources = "".join(p.read_text() for p in ROOT.glob("ebb/graph/*") if "_test" not in p.name)
    used = codes(sources, letter)
    explained = set(re.findall(rf"^\| ({letter}\d\d) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert used == explained
    numbers = sorted(int(code[1:]) for code in used)
    assert numbers == list(range(1, len(numbers) + 1))
    tests = "".join(p.read_text() for p in [*ROOT.glob("tests/text/*.test"), *ROOT.glob("ebb/graph/*_test.cc")])
    for code in used:
        assert f": {code}: " in tests or f'"{code}: ' in tests or f'"{code}"' in tests, f"{code} has no test"


def test_every_difference_is_explained_and_tested():
    sources = "".join(p.read_text() for p in ROOT.glob("ebb/rewrite/proof*") if "_test" not in p.name)
    used = codes(sources, "S")
    explained = set(re.findall(r"^\| (S\d\d) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert used == explained
    tests = (ROOT / "ebb/rewrite/proof_test.cc").read_text()
    for code in used:
        assert f'"{code}: ' in tests, f"{code} has no test"


def test_every_json_field_of_show_is_documented(ebb):
    report = json.loads(ebb("show", ROOT / "examples/tiny.ebb", "--json").stdout)
    text = (ROOT / "docs/command-line.md").read_text()
    for field, value in report.items():
        assert f"`{field}`" in text
        if isinstance(value, dict):
            for inner in value:
                assert re.search(rf"\b{inner}\b", text), f"{field}.{inner}"


def test_the_readme_commands_work(tmp_path):
    (commands,) = blocks(ROOT / "README.md", "sh")
    tool = pathlib.Path(os.environ["EBB_TOOL"])
    build = tool.parents[2]
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": f"{tool.parent}:{build / 'examples'}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "resnet.ebb: valid: " in done.stdout
    assert "Floor: " in done.stdout
