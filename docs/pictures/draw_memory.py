#!/usr/bin/env python3
"""Draws the memory curve of a training step: ebb show IN --json | draw_memory.py TITLE > picture.svg"""

import json
import sys
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 280, 64, 16, 44, 40
GIB = 1 << 30


def main() -> None:
    step = json.load(sys.stdin)
    curve, peak = step["device_curve"], step["peak_bytes"]
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    # Parameters are declared before the first operation; the picture begins there.
    operations = step["counts"]["operations"] / step["counts"]["nodes"]
    curve = curve[int(len(curve) * (1 - operations)):]

    def x(i: float) -> float:
        return round(LEFT + plot_width * i / len(curve), 1)

    def y(size: float) -> float:
        return round(TOP + plot_height * (1 - size / (1.08 * peak)), 1)

    points = " ".join(f"{x(i)},{y(v)} {x(i + 1)},{y(v)}" for i, v in enumerate(curve))
    always, floor = step["at_peak"]["parameter_bytes"], step["floor_bytes"]
    legend = LEFT + 0.6 * plot_width
    at = x(curve.index(max(curve)) + 0.5)
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13" fill="#24323d">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(sys.argv[1])}</text>'
        f'<polygon points="{x(0)},{y(0)} {points} {x(len(curve))},{y(0)}" fill="#9ecae8"/>'
        f'<rect x="{LEFT}" y="{y(always)}" width="{plot_width}" height="{y(0) - y(always)}" fill="#4a7fa5"/>'
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(floor)}" y2="{y(floor)}" stroke="#b3432b" '
        'stroke-dasharray="6 4" stroke-width="1.5"/>'
        f'<text x="{WIDTH - RIGHT}" y="{y(floor) - 6}" text-anchor="end" fill="#b3432b">'
        f"floor {floor / GIB:.2f} GiB: the largest single operation</text>"
        f'<text x="{at}" y="{y(peak) - 8}" text-anchor="middle">peak {peak / GIB:.1f} GiB</text>'
        f'<text x="{LEFT - 8}" y="{y(peak) + 4}" text-anchor="end">{peak / GIB:.1f} GiB</text>'
        f'<text x="{LEFT - 8}" y="{y(0)}" text-anchor="end">0</text>'
        f'<line x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{y(0)}" stroke="#24323d"/>'
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(0)}" y2="{y(0)}" stroke="#24323d"/>'
        f'<text x="{LEFT}" y="{HEIGHT - 16}">first operation</text>'
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 16}" text-anchor="end">last operation</text>'
        f'<rect x="{legend}" y="70" width="12" height="12" fill="#9ecae8"/>'
        f'<text x="{legend + 20}" y="81">activations, gradients, workspaces</text>'
        f'<rect x="{legend}" y="92" width="12" height="12" fill="#4a7fa5"/>'
        f'<text x="{legend + 20}" y="103">parameters and optimizer state</text></svg>'
    )


if __name__ == "__main__":
    main()
