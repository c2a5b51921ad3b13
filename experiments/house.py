"""The house: wings and their modules, the imports between them, floors and circles.

A wing is a sub-package or a module directly below a package. An arrow is an import of one wing's module by another's,
counted once however many modules share it. A floor is one more than the highest floor of what a wing imports, so the
number of floors is the longest chain. A circle is a set of modules that import each other in a loop.

    python experiments/house.py            the wings of volt and of the command line
    python experiments/house.py stream     the rooms within one wing
    python experiments/house.py --check    only what is wrong

The exit status is 1 where there is a circle, of modules or of wings. That arrows point to rows below is for
`lint-imports` to see, which knows the rows.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

import grimp
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
Arrows = Mapping[str, set[str]]


def read_imports() -> dict[str, set[str]]:
    """Every module of the two packages → the modules that it imports, within functions and for types as well."""
    sys.path[:0] = [str(ROOT), str(ROOT / "cli")]
    graph = grimp.build_graph("volt", "volt_cli", cache_dir=None)
    return {module: set(graph.find_modules_directly_imported_by(module)) for module in sorted(graph.modules)}


def wing_of(module: str, *, inside: str = "") -> str:
    """The wing that a module belongs to; inside: a wing whose rooms count as wings. Empty for what lies elsewhere.

    >>> wing_of("volt.text.markers"), wing_of("volt.stream.config.yaml", inside="volt.stream")
    ('text', 'config')
    """
    parts = module.split(".")
    if inside:
        home = inside.split(".")
        return parts[len(home)] if parts[: len(home)] == home and len(parts) > len(home) else ""
    return parts[0] if parts[0] != "volt" or len(parts) == 1 else parts[1]


def arrows_between(imports: Arrows, *, inside: str = "") -> dict[str, set[str]]:
    """Wing → the wings that it imports. A package's face imports for others, so it is no wing."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, imported in imports.items():
        wing = wing_of(module, inside=inside)
        if wing and module != "volt":
            found[wing] |= {wing_of(other, inside=inside) for other in imported} - {wing, "", "volt"}
    return dict(found)


def floors(arrows: Arrows) -> dict[str, int]:
    """The floor of each node; those of one circle stand on one floor.

    >>> floors({"top": {"middle", "ground"}, "middle": {"ground"}, "ground": set()})
    {'ground': 1, 'middle': 2, 'top': 3}
    """
    found: dict[str, int] = {}
    for circle in components(arrows):
        below = {other for node in circle for other in arrows.get(node, ())} - set(circle)
        found |= dict.fromkeys(sorted(circle), 1 + max((found[other] for other in below), default=0))
    return found


def components(arrows: Arrows) -> Iterator[list[str]]:
    """The strongly connected components, each behind those that it leads to (Tarjan's algorithm).

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
    """The sets of modules that import each other in a loop.

    >>> circles({"a": {"b"}, "b": {"a"}, "c": {"a"}})
    [['a', 'b']]
    """
    return [sorted(nodes) for nodes in components(imports) if len(nodes) > 1]


def top_of_package() -> list[str]:
    """The folders and files directly in `volt/`, its face left out."""
    entries = (ROOT / "volt").iterdir()
    return sorted(entry.name for entry in entries if entry.name not in ("__pycache__", "__init__.py", "py.typed"))


class Extent(NamedTuple):
    """How long something is: lines from the first to the last; of a function, docstring and decorators left out."""

    n_lines: int
    name: str


def extents(folders: Iterable[Path]) -> tuple[list[Extent], list[Extent]]:
    """The functions and the modules below some folders, the longest first."""
    functions, modules = list[Extent](), list[Extent]()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        modules.append(Extent(text.count("\n"), name))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                functions.append(Extent(_n_lines(node), f"{name}:{node.name}"))
    return sorted(functions, reverse=True), sorted(modules, reverse=True)


def _n_lines(function: ast.FunctionDef) -> int:
    """The lines of a function from `def` on, less its docstring's."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    n_doc = (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - n_doc


def show(console: Console, title: str, arrows: Arrows, modules: Iterable[str]) -> None:
    """Print the wings from the top floor down."""
    at, sizes = floors(arrows), defaultdict(int)
    for wing in modules:
        sizes[wing] += 1
    table = Table("floor", "wing", "modules", "imports", title=title, box=None, title_justify="left")
    for wing in sorted(at, key=lambda wing: (-at[wing], wing)):
        table.add_row(str(at[wing]), wing, str(sizes[wing]), ", ".join(sorted(arrows.get(wing, ()))))
    console.print(table)
    n_arrows = sum(map(len, arrows.values()))
    console.print(f"{len(at)} wings, {n_arrows} arrows, {max(at.values(), default=0)} floors\n")


def show_extents(console: Console) -> None:
    """Print how long functions and modules are."""
    functions, modules = extents((ROOT / "volt", ROOT / "cli"))
    middle = median(extent.n_lines for extent in functions)
    console.print(f"{len(functions)} functions, of {middle:g} lines in the middle; the longest:")
    for extent in (*functions[:5], *modules[:3]):
        console.print(f"  {extent.n_lines:4} {extent.name}")


def main() -> None:
    """Print the house, or a wing of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wing", nargs="?", help="a wing of volt whose rooms to show")
    parser.add_argument("--check", action="store_true", help="print only what is wrong")
    given = parser.parse_args()
    inside = f"volt.{given.wing}" if given.wing else ""
    imports, console = read_imports(), Console(width=160, highlight=False)
    if not any(wing_of(module, inside=inside) for module in imports):
        parser.error(f"{given.wing}: no wing of volt that holds others; choose from {', '.join(top_of_package())}")
    wings = [wing for module in imports if (wing := wing_of(module, inside=inside)) and module != "volt"]
    arrows = arrows_between(imports, inside=inside)
    found = circles(imports)
    if not given.check:
        show(console, inside or "volt, volt_cli", {wing: arrows.get(wing, set()) for wing in wings}, wings)
        console.print(f"{len(imports)} modules, {sum(map(len, imports.values()))} imports, {len(found)} circles")
        console.print(f"{len(top_of_package())} at the top of volt/: {', '.join(top_of_package())}")
        show_extents(console)
    for circle in (*found, *circles(arrows)):
        console.print("circle: " + ", ".join(circle))
    sys.exit(bool(found or circles(arrows)))


if __name__ == "__main__":
    main()
