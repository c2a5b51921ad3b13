"""Print the imports between wings, and check that neither modules nor wings import each other in a circle.

    python experiments/house.py            every wing of volt and of the command line → its imports
    python experiments/house.py --check    only circles, which make the exit status 1

A wing is a sub-package or a module directly below a package. `lint-imports` checks that wings import from rows below.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
Arrows = Mapping[str, set[str]]


def read_imports() -> dict[str, set[str]]:
    """Return every module of the two packages → its imports, within functions and for types as well."""
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]
    graph = grimp.build_graph("volt", "volt_cli", cache_dir=None)
    return {module: set(graph.find_modules_directly_imported_by(module)) for module in sorted(graph.modules)}


def wing_of(module: str) -> str:
    """Return the wing of a module.

    >>> wing_of("volt.text.markers"), wing_of("volt_cli.start")
    ('text', 'volt_cli')
    """
    parts = module.split(".")
    return parts[0] if parts[0] != "volt" or len(parts) == 1 else parts[1]


def wings_of(imports: Arrows) -> dict[str, set[str]]:
    """Return wing → imported wings. A package's face imports for others, so it is not a wing."""
    wings: dict[str, set[str]] = defaultdict(set)
    for module, imported in imports.items():
        if module != "volt":
            wings[wing_of(module)] |= {wing_of(other) for other in imported} - {wing_of(module), "volt"}
    return dict(wings)


def circles(arrows: Arrows) -> Iterator[list[str]]:
    """Return the sets of nodes that lead to each other (Tarjan's algorithm).

    >>> [sorted(nodes) for nodes in circles({"a": {"b"}, "b": {"a", "c"}, "c": set()})]
    [['a', 'b']]
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        order[node] = low[node] = len(order)
        open_.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in order:
                yield from visit(other)
                low[node] = min(low[node], low[other])
            elif other in open_:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = open_.index(node)
            found, open_[at:] = open_[at:], []
            if len(found) > 1:
                yield found

    for node in sorted(arrows):
        if node not in order:
            yield from visit(node)


if __name__ == "__main__":
    imports = read_imports()
    wings = wings_of(imports)
    if "--check" not in sys.argv[1:]:
        print(*(f"{wing:12} {', '.join(sorted(others))}" for wing, others in sorted(wings.items())), sep="\n")
    if found := [*circles(imports), *circles(wings)]:
        sys.exit("\n".join(f"circle: {', '.join(sorted(nodes))}" for nodes in found))
