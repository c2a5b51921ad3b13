"""Print the house: wings and their modules, the imports between them, floors and circles.

    python experiments/house.py            the wings of volt and of the command line
    python experiments/house.py stream     the rooms within one wing
    python experiments/house.py --check    only what is wrong

A wing is a sub-package or a module directly below a package. An arrow is an import of one wing's module by another's. A
floor is one more than the highest floor of the imported wings. A circle is a set of modules that import each other; it
makes the exit status 1. `lint-imports` checks that arrows point to rows below.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
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


def wing_of(module: str, *, inside: str = "") -> str:
    """Return the wing of a module; inside: a wing whose rooms count as wings. Empty for modules elsewhere.

    >>> wing_of("volt.text.characters"), wing_of("volt.stream.config.document", inside="volt.stream")
    ('text', 'config')
    """
    parts = module.split(".")
    if inside:
        home = inside.split(".")
        return parts[len(home)] if parts[: len(home)] == home and len(parts) > len(home) else ""
    return parts[0] if parts[0] != "volt" or len(parts) == 1 else parts[1]


def arrows_between(imports: Arrows, *, inside: str = "") -> dict[str, set[str]]:
    """Return wing → imported wings. A package's face imports for others, so it is not a wing."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in imports.items():
        wing = wing_of(module, inside=inside)
        if wing and module != "volt":
            found[wing] |= {wing_of(other, inside=inside) for other in imported} - {wing, "", "volt"}
    return dict(found)


def floors(arrows: Arrows) -> dict[str, int]:
    """Return the floor of each node; the nodes of a circle share a floor.

    >>> floors({"top": {"middle", "ground"}, "middle": {"ground"}, "ground": set()})
    {'ground': 1, 'middle': 2, 'top': 3}
    """
    found: dict[str, int] = {}
    for circle in components(arrows):
        below = {other for node in circle for other in arrows.get(node, ())} - set(circle)
        found |= dict.fromkeys(sorted(circle), 1 + max((found[other] for other in below), default=0))
    return found


def components(arrows: Arrows) -> Iterator[list[str]]:
    """Return the strongly connected components, each after the components that it leads to (Tarjan's algorithm).

    >>> [sorted(nodes) for nodes in components({"a": {"b"}, "b": {"a", "c"}, "c": set()})]
    [['c'], ['a', 'b']]
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
            yield found

    for node in sorted(arrows):
        if node not in order:
            yield from visit(node)


def circles(imports: Arrows) -> list[list[str]]:
    """Return the sets of modules that import each other.

    >>> circles({"a": {"b"}, "b": {"a"}, "c": {"a"}})
    [['a', 'b']]
    """
    return [sorted(nodes) for nodes in components(imports) if len(nodes) > 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wing", nargs="?", help="a wing of volt whose rooms to show")
    parser.add_argument("--check", action="store_true", help="print only what is wrong")
    given = parser.parse_args()
    inside, imports = f"volt.{given.wing}" if given.wing else "", read_imports()
    arrows, sizes = arrows_between(imports, inside=inside), Counter(wing_of(one, inside=inside) for one in imports)
    if not arrows:
        parser.error(f"{given.wing}: volt has no wing of this name that holds modules")
    if not given.check:
        at = floors({wing: arrows.get(wing, set()) for wing in sizes if wing and wing != "volt"})
        for wing in sorted(at, key=lambda wing: (-at[wing], wing)):
            print(f"{at[wing]:2}  {wing:12} {sizes[wing]:3} modules  {', '.join(sorted(arrows.get(wing, ())))}")
        n_arrows = sum(map(len, arrows.values()))
        print(f"{len(imports)} modules, {len(at)} wings, {n_arrows} arrows, {max(at.values())} floors")
    found = [*circles(imports), *circles(arrows)]
    print(*(f"circle: {', '.join(circle)}" for circle in found), sep="\n", end="\n" * bool(found))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
