#!/usr/bin/env python3
"""Finds the conditions in our C++ sources, and writes sources in which each of them can be switched off.

    conditions.py SOURCE            lists the mutants of a source, one a line
    conditions.py SOURCE OUT        writes the source with all its mutants built in, all of them asleep

One mutant is awake when the environment says so: EBB_MUTANT=ebb/rewrite/swap.cc#3. A mutant removes exactly one condition:

    if (a) return refuse(...);      'a' is never true: the refusal is gone
    if (a) continue;                'a' is always true: nothing is looked at any more (also break, return, return {})
    a && b,  a || b                 one side is gone, wherever this decides: in an if, a return, a bool
    i < n                           i <= n, and the other way round, where numbers are the matter (COUNTING below)
    + 1, bounds_.lb, bounds_.ub     one less, one less, one more, likewise

This knows as much C++ as clang-format leaves room for, and no more: comments and literals are blanked out, brackets are
matched. What it misreads does not compile. Loop conditions are left alone, apart from counting: without them loops do not end.
"""

import dataclasses
import pathlib
import re
import sys

# Where the bounds of a comparison are conditions in their own right: levels of the paper's driver.
COUNTING = re.compile(r"ebb/rewrite/lms(_triggers)?\.cc$")

OPEN, CLOSE = "([{", ")]}"
LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>\w*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL
)
DECLARATION = re.compile(r"^\s*(?:const )?[\w:<>]+\s*[*&]?\s*(\w+) = ")
LEAVES = re.compile(r"(continue|break|return|return \{\}|return true|return std::nullopt);")
RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str  # from the root of the repository
    number: int  # in its source
    line: int
    what: str  # "never: type.residence == Residence::kHost"

    @property
    def key(self) -> str:
        return f"{self.path}#{self.number}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class Source:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        # The same length, with nothing in it that only looks like code: comments are blanks, literals are not.
        self.code = LITERAL.sub(
            lambda match: re.sub(r"[^\n]", " " if match.group().startswith("/") else "@", match.group()), text
        )
        self.code = re.sub(r"^#.*$", lambda match: " " * len(match.group()), self.code, flags=re.MULTILINE)
        self.counts = COUNTING.search(path) is not None
        self.mutants: list[Mutant] = []
        self.insertions: list[tuple[int, int, str]] = []  # where, in which order there, what

    def find(self) -> None:
        for match in re.finditer(r"\bif \(", self.code):
            self.find_in_if(match.end() - 1)
        for match in re.finditer(r"\breturn (?!\{)|\bbool \w+ =\s", self.code):
            begin, end = match.end(), self.end_of(match.end(), ";")
            if len(self.split(begin, end)) > 1:
                self.find_in(begin, end)
            else:
                self.find_counting(begin, end)
        for match in re.finditer(r"\bfor \(", self.code):
            first = self.end_of(match.end(), ";)")
            if self.code[first] == ";":
                for begin, end in self.pieces(first + 1, self.end_of(first + 1, ";")):
                    self.find_counting(begin, end)
        if self.counts:
            for match in re.finditer(r"(?<= \+ )1\b(?!')|\bbounds_\.[lu]b\b", self.code):
                more = "+ 1" if match.group().endswith("ub") else "- 1"
                number = self.add(match.start(), f"{more}: {self.line_at(match.start())}")
                self.wrap(match.start(), match.end(), f"(ebb_is_awake({number}) ? ", f" {more} : ", ")")

    def find_in_if(self, bracket: int) -> None:
        close = self.match(bracket)
        begin, end = bracket + 1, close
        semicolon = self.end_of(begin, ";)")
        if semicolon < close:
            begin = semicolon + 1
        declared = DECLARATION.match(self.code[begin:end])
        if declared:
            number = self.add(begin, f"never: {self.words(begin, end)}")
            name = declared.group(1)
            self.insertions.append((end, 0, f"; !ebb_is_awake({number}) && static_cast<bool>({name})"))
            return
        body = re.sub(r"^\s*\{?\s*", "", self.code[close + 1 : close + 200])
        self.find_in(begin, end, always=LEAVES.match(body) is not None)

    def find_in(self, begin: int, end: int, always: bool | None = None) -> None:
        """Conditions in an expression that decides; `always`: what a single one becomes, if that is a mutant."""
        begin, end = self.trimmed(begin, end)
        parts = self.split(begin, end)
        if len(parts) > 1:
            connective = self.code[parts[0][1] : parts[1][0]].strip()
            for part in parts:
                self.find_in(*part, always=connective == "&&")
            return
        inner = self.code[begin:end].lstrip("!")
        bracket = end - len(inner)
        if inner.startswith("(") and self.match(bracket) == end - 1 and len(self.split(bracket + 1, end - 1)) > 1:
            self.find_in(bracket + 1, end - 1)
            return
        if always is None:
            return
        number = self.add(begin, f"{'always' if always else 'never'}: {self.words(begin, end)}")
        value = "true" if always else "false"
        self.insertions.append((begin, -end, f"(ebb_is_awake({number}) ? {value} : static_cast<bool>("))
        self.insertions.append((end, -begin, "))"))
        self.find_counting(begin, end)

    def find_counting(self, begin: int, end: int) -> None:
        begin, end = self.trimmed(begin, end)
        # A number that changes while it is compared is a loop's.
        if not self.counts or re.search(r"\{|\.size\(\)|--|\+\+", self.code[begin:end]):
            return
        found = [at for at in self.top_level(begin, end) if re.match(r" (<|>)=? ", self.code[at - 1 : at + 3])]
        if len(found) != 1:
            return
        old = self.code[found[0] : found[0] + 2].strip()
        text = f"{self.text[begin : found[0]]}{RELATIONS[old]}{self.text[found[0] + len(old) : end]}"
        number = self.add(begin, f"{RELATIONS[old]}: {self.words(begin, end)}")
        self.insertions.append((begin, -end + 1, f"(ebb_is_awake({number}) ? ({text}) : ("))
        self.insertions.append((end, -begin - 1, "))"))

    def wrap(self, begin: int, end: int, before: str, between: str, after: str) -> None:
        self.insertions.append((begin, -end, f"{before}{self.text[begin:end]}{between}"))
        self.insertions.append((end, -begin, after))

    def add(self, at: int, what: str) -> int:
        line = self.text.count("\n", 0, at) + 1
        self.mutants.append(Mutant(self.path, len(self.mutants), line, what))
        return len(self.mutants) - 1

    # --- Text.

    def line_at(self, at: int) -> str:
        return self.text[self.text.rfind("\n", 0, at) + 1 : self.text.find("\n", at)].strip()

    def words(self, begin: int, end: int) -> str:
        return " ".join(self.text[begin:end].split())

    def trimmed(self, begin: int, end: int) -> tuple[int, int]:
        while self.code[begin].isspace():
            begin += 1
        while self.code[end - 1].isspace():
            end -= 1
        return begin, end

    # --- Brackets.

    def match(self, bracket: int) -> int:
        depth = 0
        for at in range(bracket, len(self.code)):
            depth += self.code[at] in OPEN
            depth -= self.code[at] in CLOSE
            if depth == 0:
                return at
        raise SyntaxError(f"{self.path}: a bracket is never closed: {self.line_at(bracket)}")

    def top_level(self, begin: int, end: int):
        at = begin
        while at < end:
            if self.code[at] in OPEN:
                at = self.match(at)
            else:
                yield at
            at += 1

    def end_of(self, begin: int, ends: str) -> int:
        """The first of these characters outside of brackets that open after `begin`."""
        at = begin
        while self.code[at] not in ends:
            at = self.match(at) + 1 if self.code[at] in OPEN else at + 1
        return at

    def pieces(self, begin: int, end: int) -> list[tuple[int, int]]:
        begin, end = self.trimmed(begin, end) if self.code[begin:end].strip() else (begin, begin)
        return self.split(begin, end)

    def split(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The sides of || at this level, or of &&; one piece where there are none, or where ?: decides."""
        places = list(self.top_level(begin, end))
        if any(self.code[at] == "?" for at in places):
            return [(begin, end)]
        for connective in ("||", "&&"):
            cuts = [at for at in places if self.code.startswith(f" {connective}", at - 1) and self.code[at + 2].isspace()]
            if cuts:
                begins = [begin] + [cut + 2 for cut in cuts]
                return [self.trimmed(*piece) for piece in zip(begins, [*cuts, end])]
        return [(begin, end)]

    # --- The source with its mutants.

    def instrumented(self) -> str:
        out = [PREAMBLE.format(path=self.path), f'#line 1 "{self.path}"\n']
        last = 0
        for at, _, text in sorted(self.insertions, key=lambda each: each[:2]):
            out += [self.text[last:at], text]
            last = at
        return "".join([*out, self.text[last:]])


PREAMBLE = """\
#include <cstdlib>
#include <string>

namespace {{
// The number of the mutant that is awake in this file; -1: none.
[[maybe_unused]] int ebb_awake() {{
  const char* const named = std::getenv("EBB_MUTANT");
  const std::string name = named == nullptr ? "" : named;
  const std::string here = "{path}#";
  return name.rfind(here, 0) == 0 ? std::atoi(name.c_str() + here.size()) : -1;
}}
[[maybe_unused]] bool ebb_is_awake(int mutant) {{
  static const int awake = ebb_awake();
  return mutant == awake;
}}
}}  // namespace
"""


def read(root: pathlib.Path, path: str) -> Source:
    source = Source(path, (root / path).read_text())
    source.find()
    return source


def main(path: str, out: str | None = None) -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    source = read(root, pathlib.Path(path).resolve().relative_to(root).as_posix())
    if out is None:
        print("\n".join(map(str, source.mutants)))
    else:
        pathlib.Path(out).write_text(source.instrumented())


if __name__ == "__main__":
    main(*sys.argv[1:])
