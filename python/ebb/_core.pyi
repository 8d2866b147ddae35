from collections.abc import Callable, Sequence

import ebb.error


version: str = ...

class Graph:
    """
    A computation: operations in the order in which they run. Always valid; ``str(graph)`` is its canonical text.
    """

    @property
    def name(self) -> str: ...

    @property
    def node_count(self) -> int: ...

    def summary(self) -> str:
        """
        Counts, order, memory curve, who is at the peak, the floor: for people.
        """

    def summary_json(self) -> str:
        """The same for programs: one JSON object."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

def parse(text: str) -> Graph:
    """
    The graph that a text describes; raises ebb.Error where it is wrong or breaks an invariant.
    """

def find_violations(text: str, limit: int = 10) -> list[ebb.error.Error]:
    """
    Every violation of the first invariant that has any, at most ``limit`` of them, not raised; an unreadable text is.
    """

class LmsOptions:
    """
    The parameters of the paper's driver and those that Ebb adds, by their names and with their defaults.
    """

    def __init__(self) -> None: ...

    @property
    def optimizer_scopes(self) -> list[str]: ...

    @optimizer_scopes.setter
    def optimizer_scopes(self, arg: Sequence[str], /) -> None: ...

    @property
    def starting_scope(self) -> str: ...

    @starting_scope.setter
    def starting_scope(self, arg: str, /) -> None: ...

    @property
    def starting_op_names(self) -> list[str]: ...

    @starting_op_names.setter
    def starting_op_names(self, arg: Sequence[str], /) -> None: ...

    @property
    def excl_scopes(self) -> list[str]: ...

    @excl_scopes.setter
    def excl_scopes(self, arg: Sequence[str], /) -> None: ...

    @property
    def excl_types(self) -> list[str]: ...

    @excl_types.setter
    def excl_types(self, arg: Sequence[str], /) -> None: ...

    @property
    def incl_scopes(self) -> list[str]: ...

    @incl_scopes.setter
    def incl_scopes(self, arg: Sequence[str], /) -> None: ...

    @property
    def incl_types(self) -> list[str]: ...

    @incl_types.setter
    def incl_types(self, arg: Sequence[str], /) -> None: ...

    @property
    def n_tensors(self) -> int: ...

    @n_tensors.setter
    def n_tensors(self, arg: int, /) -> None: ...

    @property
    def lb(self) -> int: ...

    @lb.setter
    def lb(self, arg: int, /) -> None: ...

    @property
    def ub(self) -> int: ...

    @ub.setter
    def ub(self, arg: int, /) -> None: ...

    @property
    def ctrld_strategy(self) -> str: ...

    @ctrld_strategy.setter
    def ctrld_strategy(self, arg: str, /) -> None: ...

    @property
    def fuse_swapins(self) -> bool: ...

    @fuse_swapins.setter
    def fuse_swapins(self, arg: bool, /) -> None: ...

    @property
    def swap_branches(self) -> bool: ...

    @swap_branches.setter
    def swap_branches(self, arg: bool, /) -> None: ...

    @property
    def branch_threshold(self) -> int: ...

    @branch_threshold.setter
    def branch_threshold(self, arg: int, /) -> None: ...

    @property
    def fuse_distance(self) -> int: ...

    @fuse_distance.setter
    def fuse_distance(self, arg: int, /) -> None: ...

    @property
    def whole_graph(self) -> bool: ...

    @whole_graph.setter
    def whole_graph(self, arg: bool, /) -> None: ...

    @property
    def alpha(self) -> int: ...

    @alpha.setter
    def alpha(self, arg: int, /) -> None: ...

    @property
    def codec(self) -> str: ...

    @codec.setter
    def codec(self, arg: str, /) -> None: ...

    @property
    def codec_on_host(self) -> bool: ...

    @codec_on_host.setter
    def codec_on_host(self, arg: bool, /) -> None: ...

    @property
    def sync(self) -> int: ...

    @sync.setter
    def sync(self, arg: int, /) -> None: ...

    @property
    def recompute_types(self) -> list[str]: ...

    @recompute_types.setter
    def recompute_types(self, arg: Sequence[str], /) -> None: ...

    @property
    def min_bytes(self) -> int:
        """A number, or a text as ``"1MiB"``."""

    @min_bytes.setter
    def min_bytes(self, arg: int | str, /) -> None: ...

class GraphDefRewritten:
    """What was done to a GraphDef."""

    @property
    def graphdef(self) -> bytes | None:
        """None when nothing was changed."""

    @property
    def was_rewritten_before(self) -> bool:
        """The graph has nodes of Ebb's: it was left alone."""

    @property
    def summary(self) -> str:
        """For people, some lines."""

    @property
    def report(self) -> str:
        """For programs: one JSON object."""

def rewrite_graphdef(graphdef: bytes, options: LmsOptions, accelerator: str = ..., host: str = ..., swap_nodes: str = ..., op_def: Callable[[str], bytes | None] | None = ...) -> GraphDefRewritten:
    """
    The paper's driver on a serialized GraphDef. ``op_def(name)`` is asked for the OpDef, serialized, of an operator that is not TensorFlow's own.
    """
