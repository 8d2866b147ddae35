#!/usr/bin/env python3
"""Draws the speed of training against the batch, from what bench/paper/run.py wrote: one panel a network.

    docs/pictures/draw_throughput.py paper.json > docs/pictures/throughput.svg

A mark is a batch that trained. It is hollow where the next batch did not; the legend says which that was, and why.
"""

from __future__ import annotations

import math
import pathlib
import sys
from html import escape

from draw_plans import GRID, INK, PALE

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "paper"))
from results import Cell, batches_of, describe, describe_options, machines, read, size  # noqa: E402 (found by the line above)

WIDTH, LEFT, RIGHT, TOP, PLOT_HEIGHT, BETWEEN = 900, 66, 18, 72, 250, 74
LEGEND_TOP, ROW, BOTTOM = TOP + PLOT_HEIGHT + 66, 18, 16
BLUE, RED, ORANGE, GREEN = "#1f6fa8", "#b3432b", "#d98032", "#3f7d3a"
TICK_ROOM = 25  # between the middles of two numbers of three digits
CIRCLE = "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z"
SQUARE = "M-3.2 -3.2h6.4v6.4h-6.4z"
DIAMOND = "M0 -4.7l4.7 4.7l-4.7 4.7l-4.7 -4.7z"
THIN, THICK = 'stroke-width="1.3"', 'stroke-width="2.6"'
DASHED, DOTTED = f'{THIN} stroke-dasharray="6 3"', f'{THIN} stroke-dasharray="2 3"'
Style = tuple[str, str, str]  # colour, line, mark
PANELS: dict[tuple[str, str], dict[str, Style]] = {  # title and unit: cells
    ("ResNet-50 224²", "images/s"): {
        "resnet50-no-limit": (INK, THIN, CIRCLE),
        "resnet50-plain": (GREEN, THIN, CIRCLE),
        "resnet50-budget": (BLUE, THICK, CIRCLE),
        "resnet50-copy-kernels-budget": (BLUE, THIN, SQUARE),
        "resnet50-all-lb1": (RED, THIN, CIRCLE),
        "resnet50-all-lb5": (ORANGE, THIN, CIRCLE),
        "resnet50-200-lb1": (RED, DASHED, SQUARE),
        "resnet50-200-lb5": (ORANGE, DASHED, SQUARE),
        "resnet50-100-lb1": (RED, DOTTED, DIAMOND),
        "resnet50-100-lb5": (ORANGE, DOTTED, DIAMOND),
        "resnet50-all-direct": (GREEN, DASHED, SQUARE),
    },
    ("3D U-Net 128³", "volumes/s"): {
        "unet3d-plain": (GREEN, THIN, CIRCLE),
        "unet3d-budget": (BLUE, THICK, CIRCLE),
        "unet3d-all": (RED, THIN, CIRCLE),
        "unet3d-all-lb5": (ORANGE, THIN, CIRCLE),
        "unet3d-all-branches": (RED, DASHED, SQUARE),
    },
}


def name_of(cell: Cell) -> str:
    if cell.parameters is not None:
        return f"by parameters: {describe(cell.parameters)}"
    if cell.settings.get("budget"):
        options = describe_options(cell.settings)
        return f"by budget, {size(cell.settings['budget'])}" + (f", {options}" if options else "")
    return f"plain, in {size(cell.settings['limit'])}" if cell.settings.get("limit") else "without limit"


def tick_step(top: float) -> float:
    """1, 2 or 5 times a power of ten, for six lines at most."""
    power = 10 ** math.floor(math.log10(top / 6))
    return next(times * power for times in (1, 2, 5, 10) if top <= 6 * times * power)


def draw_mark(x: float, y: float, colour: str, shape: str, is_hollow: bool) -> str:
    paint = f'fill="{"#ffffff" if is_hollow else colour}" stroke="{colour}" stroke-width="1.5"'
    return f'<path transform="translate({x:.1f} {y:.1f})" d="{shape}" {paint}/>'


class Panel:
    def __init__(self, number: int, cells: list[Cell]) -> None:
        self.width = (WIDTH - LEFT - RIGHT - (len(PANELS) - 1) * BETWEEN) / len(PANELS)
        self.left = LEFT + number * (self.width + BETWEEN)
        self.batches = batches_of(cells)
        fastest = max((seen["images_per_second"] for cell in cells for seen in cell.trained), default=1)
        self.step = tick_step(fastest)
        self.lines = math.ceil(fastest / self.step)

    def x(self, batch: float) -> float:
        return round(self.left + (self.width - 12) * batch / self.batches[-1], 1)

    def y(self, speed: float) -> float:
        return round(TOP + PLOT_HEIGHT * (1 - speed / (self.step * self.lines)), 1)

    def axes(self, title: str, unit: str) -> str:
        right, base, middle = self.left + self.width, self.y(0), self.left + self.width / 2
        svg = f'<text x="{self.left:.1f}" y="{TOP - 16}" font-weight="bold">{escape(title)}</text>'
        for number in range(self.lines + 1):
            y, colour = self.y(number * self.step), GRID if number else INK
            svg += f'<line x1="{self.left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="{colour}"/>'
            svg += (f'<text x="{self.left - 8:.1f}" y="{y + 4}" text-anchor="end" fill="{PALE}">'
                    f"{number * self.step:g}</text>")
        last = -math.inf
        for x, batch in ((self.x(batch), batch) for batch in self.batches):
            svg += f'<line x1="{x}" x2="{x}" y1="{base}" y2="{base + 4}" stroke="{INK}"/>'
            if x - last >= TICK_ROOM:
                svg += f'<text x="{x}" y="{base + 18}" text-anchor="middle" fill="{PALE}">{batch}</text>'
                last = x
        return svg + (f'<text x="{middle:.1f}" y="{base + 38}" text-anchor="middle">batch</text>'
                      f'<text transform="translate({self.left - 50:.1f} {TOP + PLOT_HEIGHT / 2}) rotate(-90)" '
                      f'text-anchor="middle">{unit}</text>')

    def draw(self, cell: Cell, style: Style) -> str:
        colour, line, shape = style
        points = [(self.x(seen["batch"]), self.y(seen["images_per_second"])) for seen in cell.trained]
        corners = " ".join(f"{x},{y}" for x, y in points)
        svg = f'<polyline points="{corners}" fill="none" stroke-linejoin="round" stroke="{colour}" {line}/>'
        for number, (x, y) in enumerate(points, start=1):
            svg += draw_mark(x, y, colour, shape, cell.end is not None and number == len(points))
        return svg

    def legend(self, row: int, cell: Cell, style: Style) -> str:
        colour, line, shape = style
        y = LEGEND_TOP + ROW * row
        svg = f'<line x1="{self.left:.1f}" x2="{self.left + 34:.1f}" y1="{y}" y2="{y}" stroke="{colour}" {line}/>'
        if cell.trained:
            svg += draw_mark(self.left + 17, y, colour, shape, cell.end is not None)
        remark = f"; {cell.end}" if cell.end else "" if cell.batches else "; not measured"
        return svg + (f'<text x="{self.left + 42:.1f}" y="{y + 4}">{escape(name_of(cell))}'
                      f'<tspan fill="{PALE}">{escape(remark)}</tspan></text>')

    def key(self, row: int) -> str:
        y = LEGEND_TOP + ROW * row
        return (draw_mark(self.left + 17, y, INK, CIRCLE, True)
                + f'<text x="{self.left + 42:.1f}" y="{y + 4}">hollow: the next batch did not train</text>')


def draw(cells: dict[str, Cell]) -> str:
    height = LEGEND_TOP + ROW * max(map(len, PANELS.values())) + BOTTOM
    where = machines(cells)
    heading = "Speed of training against the batch" + (f": {where}" if where else "")
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12.5" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>'
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(heading)}</text>'
    )
    for number, ((title, unit), styles) in enumerate(PANELS.items()):
        styles = {name: style for name, style in styles.items() if name in cells}  # one is in old files only
        panel = Panel(number, [cells[name] for name in styles])
        svg += panel.axes(title, unit)
        for name, style in reversed(styles.items()):  # the first on top
            svg += panel.draw(cells[name], style)
        for row, (name, style) in enumerate(styles.items()):
            svg += panel.legend(row, cells[name], style)
        if number == len(PANELS) - 1:
            svg += panel.key(len(styles) + 1)
    return svg + "</svg>"


def main() -> None:
    print(draw(read(sys.argv[1])))


if __name__ == "__main__":
    main()
