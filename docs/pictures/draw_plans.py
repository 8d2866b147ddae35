#!/usr/bin/env python3
"""Draws the predicted time of a step against its budget, from what `ebb plan --sweep` says: one panel a step.

    PYTHONPATH=build/bench/python build/venv/bin/python bench/capture_steps.py steps
    docs/pictures/draw_plans.py build/bench/tools/ebb/ebb "ResNet-50, batch 256=steps/resnet50.ebb" \\
        "3D U-Net, 128³, batch 1=steps/unet3d.ebb" "GPT-2 medium, batch 4=steps/gpt2.ebb" > docs/pictures/plans.svg

Takes minutes. A line ends at the least budget that was found, with a dot.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, BETWEEN = 900, 390, 66, 18, 92, 52, 26
PLOT_HEIGHT = HEIGHT - TOP - BOTTOM
TIMES = (1, 1.2, 1.5, 2, 3, 5, 10)  # that have a line, on a logarithmic scale
BUDGETS = range(100, 8, -2)
INK, PALE, GRID = "#24323d", "#5d6b76", "#e3e8ec"
# name: options, how it is drawn
MEANS = {
    "swaps and recomputing": ([], 'stroke="#1f6fa8" stroke-width="2.6"', "#1f6fa8"),
    "swaps alone": (["--no-recompute"], 'stroke="#b3432b" stroke-width="1.3" stroke-dasharray="6 3"', "#b3432b"),
    "recomputing alone": (["--no-swap"], 'stroke="#3f7d3a" stroke-width="1.3" stroke-dasharray="2 3"', "#3f7d3a"),
}
NOTHING_FITS = 4  # the status of `ebb plan` then
Line = list[tuple[float, float]]  # budget in per cent and time against that without a plan, from the least budget on


def ask(*command: str) -> dict:
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, NOTHING_FITS):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def measure(ebb: str, step: str, options: list[str]) -> Line:
    plan = [ebb, "plan", step, *options]
    sweep = ask(*plan, "--sweep", ",".join(f"{budget}%" for budget in BUDGETS))
    points = [point for point in sweep["points"] if point["feasible"]]
    missing = [point["least_budget_bytes"] for point in sweep["points"] if not point["feasible"]]
    if missing:
        least = ask(*plan, "--budget", f"{min(missing)}B")
        while not least["feasible"]:
            least = ask(*plan, "--budget", f"{least['least_budget_bytes']}B")
        points = [least, *(point for point in points if point["budget_bytes"] > least["budget_bytes"])]
    return [(100 * point["budget_bytes"] / sweep["unconstrained_bytes"],
             point["step_seconds"] / sweep["unconstrained_seconds"]) for point in points]


class Panel:
    def __init__(self, number: int, of: int) -> None:
        self.width = (WIDTH - LEFT - RIGHT - (of - 1) * BETWEEN) / of
        self.left = LEFT + number * (self.width + BETWEEN)

    def x(self, percent: float) -> float:
        return round(self.left + self.width * percent / 100, 1)

    def y(self, times: float) -> float:
        return round(TOP + PLOT_HEIGHT * (1 - math.log(times) / math.log(TIMES[-1])), 1)

    def axes(self, title: str, has_numbers: bool) -> str:
        svg = f'<text x="{self.x(0)}" y="{TOP - 14}" font-weight="bold">{escape(title)}</text>'
        for times in TIMES:
            y = self.y(times)
            svg += f'<line x1="{self.x(0)}" x2="{self.x(100)}" y1="{y}" y2="{y}" stroke="{INK if times == 1 else GRID}"/>'
            if has_numbers:
                svg += f'<text x="{self.x(0) - 8}" y="{y + 4}" text-anchor="end" fill="{PALE}">{times:g} ×</text>'
        for percent in range(0, 101, 20):
            x, base = self.x(percent), self.y(1)
            svg += f'<line x1="{x}" x2="{x}" y1="{base}" y2="{base + 4}" stroke="{INK}"/>'
            svg += f'<text x="{x}" y="{base + 18}" text-anchor="middle" fill="{PALE}">{percent}</text>'
        return svg

    def draw(self, line: Line, means: str) -> str:
        _, style, colour = MEANS[means]
        # Mostly where the other lines are not.
        side, anchor = (-7, "start") if means == "recomputing alone" else (7, "end")
        points = " ".join(f"{self.x(budget)},{self.y(times)}" for budget, times in line)
        least, slowest = self.x(line[0][0]), self.y(line[0][1])
        return (f'<polyline points="{points}" fill="none" stroke-linejoin="round" {style}/>'
                f'<circle cx="{least}" cy="{slowest}" r="3.4" fill="{colour}"/>'
                f'<text x="{least - side}" y="{slowest - 1}" text-anchor="{anchor}" fill="{colour}" '
                'stroke="#ffffff" stroke-width="3" paint-order="stroke">'
                f"{math.ceil(line[0][0])} %</text>")


def legend() -> str:
    svg, x = "", LEFT
    for name, (_, style, _) in MEANS.items():
        svg += f'<line x1="{x}" x2="{x + 34}" y1="46" y2="46" {style}/><text x="{x + 42}" y="50">{name}</text>'
        x += 66 + 7 * len(name)
    return svg + (f'<circle cx="{x + 4}" cy="46" r="3.4" fill="{INK}"/>'
                  f'<text x="{x + 16}" y="50">the least budget found</text>')


def draw(panels: dict[str, dict[str, Line]]) -> str:
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12.5" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#ffffff"/>'
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">Time of a training step against its memory budget, '
        "predicted for an H200</text>" + legend()
    )
    for number, (title, lines) in enumerate(panels.items()):
        panel = Panel(number, len(panels))
        svg += panel.axes(title, number == 0)
        both, *others = MEANS
        for means in (*others, both):
            svg += panel.draw(lines[means], means)
    middle = TOP + PLOT_HEIGHT / 2
    return svg + (
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
        "budget, in % of what the step needs without a plan</text>"
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">'
        "time of the step against that without a plan</text></svg>"
    )


def main() -> None:
    ebb, *steps = sys.argv[1:]
    panels = {}
    for step in steps:
        title, path = step.rsplit("=", 1)
        panels[title] = {means: measure(ebb, path, options) for means, (options, _, _) in MEANS.items()}
    print(draw(panels))


if __name__ == "__main__":
    main()
