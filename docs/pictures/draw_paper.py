"""Draws figure4.svg and triggers.svg, the pictures of docs/paper.md: python3 docs/pictures/draw_paper.py"""

import math
import pathlib

RADIUS = 15
STYLE = """
  text { font: 13px sans-serif; fill: #222; text-anchor: middle }
  .small { font-size: 11px; fill: #666 }
  .title { font-size: 13px; font-weight: bold }
  .edge { stroke: #444; fill: none; stroke-width: 1.3; marker-end: url(#head) }
  .new { stroke: #0b66c3; stroke-width: 2 }
  .control { stroke: #b3540c; stroke-dasharray: 5 4 }
  .device { fill: white; stroke: #444; stroke-width: 1.3 }
  .host { fill: #dfe8f2; stroke: #0b66c3; stroke-width: 1.3 }
  .trigger { fill: #fbe9dc; stroke: #b3540c; stroke-width: 1.6 }
"""
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="#444"/></marker>'
)


class Picture:
    def __init__(self, width, height, title):
        self.size = (width, height)
        self.title = title
        self.parts = []

    def node(self, x, y, name, kind="device", order=None, below=False):
        self.parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{RADIUS}"/>')
        self.text(x, y + 4, name)
        if order is not None:
            self.text(x, y + (RADIUS + 14 if below else -RADIUS - 6), order, "small")

    def edge(self, start, end, kind="", bend=0):
        (x1, y1), (x2, y2) = start, end
        length = math.hypot(x2 - x1, y2 - y1)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        middle = ((x1 + x2) / 2 - uy * bend, (y1 + y2) / 2 + ux * bend)

        def towards(x, y):
            distance = math.hypot(middle[0] - x, middle[1] - y)
            reach = (RADIUS + 1) / distance
            return f"{x + (middle[0] - x) * reach:.1f} {y + (middle[1] - y) * reach:.1f}"

        curve = f"M{towards(x1, y1)} Q{middle[0]:.1f} {middle[1]:.1f} {towards(x2, y2)}"
        self.parts.append(f'<path class="edge {kind}" d="{curve}"/>')

    def text(self, x, y, text, kind=""):
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}">{text}</text>')

    def write(self, name):
        width, height = self.size
        body = "\n".join(self.parts)
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" aria-label="{self.title}">\n<style>{STYLE}</style>\n<defs>{HEAD}</defs>\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
        )
        (pathlib.Path(__file__).parent / name).write_text(svg)


def figure4():
    picture = Picture(780, 480, "Figure 4 of the paper, step by step")

    def panel(left, top, title, copies):
        f1, f4 = (left + 25, top + 65), (left + 25, top + 150)
        far = left + (95 if copies == 0 else 165 if copies == 1 else 235)
        f2, f3 = (far, top + 65), (far, top + 150)
        picture.text(left + (far - left) / 2 + 15, top + 22, title, "title")
        picture.edge(f1, f4)
        picture.node(*f1, "f₁", order=10)
        picture.node(*f4, "f₄", order=11, below=True)
        picture.node(*f2, "f₂", order=25)
        picture.node(*f3, "f₃", order=18, below=True)
        return f1, f2, f3

    f1, f2, f3 = panel(20, 0, "original", 0)
    picture.edge(f1, f2, "new")
    picture.edge(f1, f3, "new")

    f1, f2, f3 = panel(190, 0, "swap out (equation 2)", 1)
    id1, id2 = (f1[0] + 70, f2[1]), (f1[0] + 70, f3[1])
    for at, name, below, reader in ((id1, "id₁", False, f2), (id2, "id₂", True, f3)):
        picture.edge(f1, at, "new")
        picture.edge(at, reader, "new")
        picture.node(*at, name, "host", 11, below)

    def swap_ins(left, top, title, fused_out, fused_in):
        f1, f2, f3 = panel(left, top, title, 2)
        fi, fj = (f2[0] + 62, f2[1] + 42), (f3[0] + 62, f3[1] + 42)
        outs = [(f1[0] + 70, f2[1]), (f1[0] + 70, f3[1])]
        ins = [(f1[0] + 140, f2[1]), (f1[0] + 140, f3[1])]
        if fused_in:
            outs, ins = outs[:1], ins[1:]
            picture.edge(f1, outs[0], "new")
            picture.edge(outs[0], ins[0], "new")
            picture.edge(ins[0], f2, "new")
            picture.edge(ins[0], f3, "new")
            picture.node(*outs[0], "id₁", "host", 11)
            picture.node(*ins[0], "id₄", "host", 16, True)
            picture.edge(fj, ins[0], "control", -22)
            picture.node(*fj, "fⱼ", "trigger", 15, True)
            return
        if fused_out:
            outs[1] = outs[0]
        for at, name, below in zip(outs, ("id₁", "id₂"), (False, True)):
            if not (fused_out and below):
                picture.edge(f1, at, "new")
                picture.node(*at, name, "host", 11, below)
        for out, back, reader, name, order, below in zip(
            outs, ins, (f2, f3), ("id₃", "id₄"), (21, 16), (False, True)
        ):
            picture.edge(out, back, "new")
            picture.edge(back, reader, "new")
            picture.node(*back, name, "host", order, below)
        picture.edge(fi, ins[0], "control", -14)
        picture.edge(fj, ins[1], "control", -22)
        picture.node(*fi, "fᵢ", "trigger", 20)
        picture.node(*fj, "fⱼ", "trigger", 15, True)

    swap_ins(440, 0, "swap-ins, and when (4.2.1, 4.3)", False, False)
    swap_ins(60, 235, "swap-outs fused (4.2.2)", True, False)
    swap_ins(440, 235, "swap-ins fused (4.2.3)", True, True)
    picture.text(390, 472, "white: on the device; blue: copies through the host; orange: triggers and their control edges; "
                 "numbers: γ", "small")
    picture.write("figure4.svg")


def triggers():
    picture = Picture(670, 260, "How the two strategies find a trigger")
    xs = [90 + 120 * i for i in range(5)]
    forward = list(zip(("u", "p", "q", "r", "l"), xs))
    top, bottom = 80, 180
    backward = [("∇l", xs[4]), ("∇r", xs[3]), ("∇q", xs[2]), ("∇p", xs[1]), ("s", xs[0] + 60), ("∇u", xs[0])]
    for (_, a), (_, b) in zip(forward, forward[1:]):
        picture.edge((a, top), (b, top))
    picture.edge((xs[4], top), (xs[4], bottom))
    for (_, a), (_, b) in zip(backward, backward[1:]):
        picture.edge((a, bottom), (b, bottom))
    for x in xs[1:4]:
        picture.edge((x, top), (x, bottom))
    picture.edge((xs[0], top), (xs[0], bottom), "new")
    for level, (name, x) in enumerate(forward):
        picture.node(x, top, name)
        picture.text(x, top - 26, f"level {level}", "small")
    for distance, (name, x) in enumerate(reversed(backward)):
        picture.node(x, bottom, name, "trigger" if name in ("∇p", "s") else "device")
        picture.text(x, bottom + 34, distance, "small")
    picture.text(xs[0] - 42, bottom + 34, "distance", "small")
    picture.text(330, 24, "%u is swapped for its reader ∇u (blue); lb = 1", "title")
    picture.text(330, bottom + 62, "chain_rule: level 1 is p, whose backward reader is ∇p.    "
                 "direct_order: at distance 1 stands s.")
    picture.write("triggers.svg")


figure4()
triggers()
