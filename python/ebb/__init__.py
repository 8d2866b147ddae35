"""Trains neural networks larger than accelerator memory, by rewriting the training graph.

Graphs are texts, one line an operation, in the order in which they run:

>>> import ebb
>>> graph = ebb.parse('''graph double {
...   input %x: f32[8]
...   %y: f32[8] = aten::add(%x, %x)
...   return %y
... }
... ''')
>>> graph.name, graph.node_count
('double', 2)
"""

from ._core import Graph, find_violations, parse
from ._core import version as __version__
from .error import Error

__all__ = ["Error", "Graph", "__version__", "find_violations", "parse"]
