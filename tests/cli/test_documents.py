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


def rewrites(path):
    """In documents, a block of decisions, or of options of `ebb rewrite`, stands below the graph that it is about and right
    above what comes of it: a graph, the decisions that were chosen, or the refusal."""
    text = path.read_text()
    found = list(re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    graph = None
    for above, block, below in zip([None, *found], found, [*found[1:], None]):
        if block[1] == "ebb" and (above is None or above[1] not in ("decisions", "rewrite")):
            graph = block[2]
        if block[1] in ("decisions", "rewrite"):
            line = text.count("\n", 0, block.start()) + 1
            yield pytest.param(graph, block[1], block[2], below[1], below[2], id=f"{path.name}:{line}")


@pytest.mark.parametrize("before, how, what, kind, after", [each for path in DOCUMENTS for each in rewrites(path)])
def test_rewrites_in_documents_give_what_stands_below_them(ebb, tmp_path, before, how, what, kind, after):
    assert kind in ("ebb", "chosen", "refused")
    graph, plan, out = tmp_path / "before.ebb", tmp_path / "my.plan", tmp_path / "after.ebb"
    graph.write_text(before)
    options = what.split() if how == "rewrite" else ["--n-tensors", "0"]
    done = ebb("rewrite", graph, "-o", out, "--save-plan", plan, *options)
    assert done.returncode == 0, done.stderr
    if how == "decisions":
        out.unlink()
        plan.write_text(plan.read_text().removesuffix("end\n") + what + "end\n")
        done = ebb("apply", graph, plan, "-o", out)
    if kind == "refused":
        assert (done.returncode, out.exists()) == (3, False)
        assert after.strip() in done.stderr
        return
    assert done.returncode == 0, done.stderr
    if kind == "chosen":
        assert plan.read_text().split("\n", 2)[2] == after + "end\n"
    else:
        assert out.read_text() == after
    assert ebb("verify", graph, out, "--allow-lossy").returncode == 0


def nameless(reason):
    """What a refusal says, whatever it is about: %a and 'b' are any names, `codec bits` is any codec."""
    reason = re.sub(r"'[^']*'", "'_'", reason)
    reason = re.sub(r"%\S+?(?=[,;:]? |[,;:]?$)", "%_", reason)
    reason = re.sub(r"\((?:in (?:branch|frame) '_'|outside every scope)\)", "(_)", reason)
    reason = re.sub(r"\bcodec \w+", "codec _", reason)
    reason = re.sub(r"operand \d of \S+(?: with \w+ = 0)?", "operand N of OP", reason)
    reason = re.sub(r"\btakes [^,]+(?:, [^,]+)*, not \w+$", "takes TYPES, not TYPE", reason)
    reason = re.sub(r"\bnot [a-z]\w*\[.*$", "not TYPE", reason)
    return reason


def test_rules_quote_every_refusal_and_none_that_does_not_happen():
    happen = set()
    for path in ROOT.glob("tests/text/*.test"):
        happen |= {
            (rule, nameless(reason))
            for rule, reason in re.findall(
                r"^R\d\d: rule (\w+) does not apply to [^:]+: (.*)$", path.read_text(), re.MULTILINE)
        }
    assert len(happen) > 40
    text = (ROOT / "docs/rules.md").read_text()
    quoted = {nameless(each) for each in re.findall(r"`([^`]+)` \|$", text, re.MULTILINE)}
    assert {reason for _, reason in happen} - quoted == set(), "is not in docs/rules.md"
    missing = {q for q in quoted if " " in q and not q.startswith("rule ")} - {reason for _, reason in happen}
    assert missing == set(), "never happens in tests/text"


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


def test_every_refusal_of_a_graphdef_is_explained_and_tested():
    folders = [*ROOT.glob("ebb/import/*"), *ROOT.glob("ebb/export/*")]
    used = codes("".join(p.read_text() for p in folders if "_test" not in p.name), "G")
    explained = set(re.findall(r"^\| (G\d\d) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert used == explained
    tests = "".join(p.read_text() for p in folders if "_test" in p.name)
    # G08 takes a file of gigabytes; G12 is TensorFlow's own functions (tests/tensorflow/test_functions.py).
    assert {code for code in used if f"{code}" not in tests} <= {"G08", "G12"}


@pytest.mark.parametrize("letter", ["R", "L"])
def test_every_refusal_is_explained_and_tested(letter):
    sources = "".join(p.read_text() for p in ROOT.glob("ebb/rewrite/*") if "_test" not in p.name)
    used = codes(sources, letter)
    explained = set(re.findall(rf"^\| ({letter}\d\d) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert used == explained
    tests = "".join(p.read_text() for p in [*ROOT.glob("tests/text/*.test"), *ROOT.glob("ebb/rewrite/*_test.cc")])
    for code in used:
        assert f"{code}: " in tests, f"{code} has no test"


def test_every_difference_is_explained_and_tested():
    sources = "".join(p.read_text() for p in ROOT.glob("ebb/rewrite/proof*") if "_test" not in p.name)
    used = codes(sources, "S")
    explained = set(re.findall(r"^\| (S\d\d) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert used == explained
    tests = "".join(p.read_text() for p in ROOT.glob("ebb/rewrite/proof*_test.cc"))
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
    assert done.returncode == 0, done.stderr
    # What `ebb plan`, `ebb apply` and `ebb rewrite` did, and no error.
    assert re.match(r"memory: .*\n(.*\n){3}Applied .*\nSwapped: ", done.stderr), done.stderr
    assert "fits.ebb: the same computation as resnet.ebb: " in done.stdout
    assert "Floor: " in done.stdout


def test_every_fuzzer_has_a_row():
    fuzzers = {path.name.removesuffix("_fuzz.cc") for path in ROOT.glob("tests/fuzz/*_fuzz.cc")}
    table = (ROOT / "docs/testing.md").read_text().split("| fuzzer |")[1]
    assert fuzzers == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
