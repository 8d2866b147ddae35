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
