#!/usr/bin/env python3
"""Draws the memory curves of a training step before and after rewriting, from what `ebb show --json` says.

    ebb-example resnet --batch 192 -o before.ebb && ebb rewrite before.ebb -o after.ebb
    for step in before after; do ebb show $step.ebb --json > $step.json; done
    docs/pictures/draw_memory.py "ResNet-50, batch 192: device memory over one training step" before.json after.json > memory.svg
"""

import json
import sys
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 280, 72, 16, 44, 40
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
GIB = 1 << 30
BEFORE, AFTER, FLOOR, INK = "#b9d9ee", "#2f6f9f", "#b3432b", "#24323d"


def operations_of(step: dict) -> list[int]:
    """The curve without the declarations, which stand before the first operation."""
    counts, curve = step["counts"], step["device_curve"]
    return curve[int(len(curve) * (1 - counts["operations"] / counts["nodes"])):]


def draw(title: str, before: dict, after: dict) -> str:
    top = 1.08 * before["peak_bytes"]

    def y(size: float) -> float:
        return round(TOP + PLOT_HEIGHT * (1 - size / top), 1)

    def area(curve: list[int], colour: str) -> str:
        def x(i: float) -> float:
            return round(LEFT + PLOT_WIDTH * i / len(curve), 1)

        steps = " ".join(f"{x(i)},{y(v)} {x(i + 1)},{y(v)}" for i, v in enumerate(curve))
        return f'<polygon points="{LEFT},{y(0)} {steps} {WIDTH - RIGHT},{y(0)}" fill="{colour}"/>'

    def label(row: int, colour: str, text: str) -> str:
        left, base = LEFT + 0.56 * PLOT_WIDTH, 70 + 24 * row
        return (f'<rect x="{left}" y="{base}" width="13" height="13" fill="{colour}"/>'
                f'<text x="{left + 21}" y="{base + 11}">{text}</text>')

    floor, bottom = before["floor_bytes"], y(0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>'
        + area(operations_of(before), BEFORE) + area(operations_of(after), AFTER)
        + f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(floor)}" y2="{y(floor)}" stroke="{FLOOR}" '
        'stroke-dasharray="6 4" stroke-width="1.5"/>'
        f'<text x="{WIDTH - RIGHT}" y="{y(max(floor, after["peak_bytes"])) - 8}" text-anchor="end" fill="{FLOOR}">'
        f"floor {floor / GIB:.1f} GiB: the largest single operation</text>"
        f'<text x="{LEFT - 8}" y="{y(before["peak_bytes"]) + 4}" text-anchor="end">'
        f'{before["peak_bytes"] / GIB:.1f} GiB</text>'
        f'<text x="{LEFT - 8}" y="{bottom}" text-anchor="end">0</text>'
        f'<line x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{bottom}" stroke="{INK}"/>'
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}" stroke="{INK}"/>'
        f'<text x="{LEFT}" y="{HEIGHT - 16}">first operation</text>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 16}" text-anchor="end">last operation</text>'
        + label(0, BEFORE, f'as it was: peak {before["peak_bytes"] / GIB:.1f} GiB')
        + label(1, AFTER, f'rewritten: peak {after["peak_bytes"] / GIB:.1f} GiB')
        + "</svg>"
    )


def main() -> None:
    title, *paths = sys.argv[1:]
    before, after = (json.load(open(path, encoding="utf-8")) for path in paths)
    print(draw(title, before, after))


if __name__ == "__main__":
    main()
