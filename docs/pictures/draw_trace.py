#!/usr/bin/env python3
"""Draws a timeline that `step.trace` or `ebb run --trace` wrote: a row a lane.

    docs/pictures/draw_trace.py trace.json > docs/pictures/resnet50-bf16.svg
"""

from __future__ import annotations

import json
import sys

WIDTH, ROW, LEFT, TOP = 900, 46, 90, 12
COLOURS = {"compute": "#4878a8", "to host": "#d98032", "to device": "#5a9e5a"}


def main() -> None:
    events = json.load(open(sys.argv[1], encoding="utf-8"))["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e.get("ph") == "M" and e["name"] == "thread_name"}
    spans = [(lanes[e["tid"]], e["ts"], e["dur"]) for e in events if e.get("ph") == "X" and lanes.get(e["tid"]) in COLOURS]
    end = max(start + length for _, start, length in spans)
    scale = (WIDTH - LEFT - 10) / end
    height = TOP + ROW * len(COLOURS) + 34
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for row, (lane, colour) in enumerate(COLOURS.items()):
        y = TOP + row * ROW
        out.append(f'<text x="8" y="{y + 21}">{lane}</text>')
        for name, start, length in spans:
            if name == lane:
                x, width = LEFT + start * scale, max(length * scale, 0.3)
                out.append(
                    f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="32" fill="{colour}" '
                    'stroke="white" stroke-width="0.2"/>'
                )
    y = TOP + ROW * len(COLOURS)
    step = 20_000 if end < 250_000 else 50_000
    for tick in range(0, int(end) + 1, step):
        x = LEFT + tick * scale
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{y}" stroke="#bbb" stroke-width="0.5"/>')
        out.append(f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{tick // 1000} ms</text>')
    out.append("</svg>")
    print("\n".join(out))


if __name__ == "__main__":
    main()
