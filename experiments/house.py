"""Measure the structure of the two packages: size by wing, floors, modules with one importer, circles of imports.

    python experiments/house.py            this checkout
    python experiments/house.py FOLDER     another checkout
    python experiments/house.py --check    exit with 1 for a circle, or many modules with one importer

A wing is a sub-package or a module directly below a package. Its floor is the longest chain of wings below it.
`lint-imports` checks that wings import from rows below.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import grimp

SKIPPED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
COLUMNS = ("modules", "functions", "code", "docstrings", "words")
REGISTRIES = {  # import or name plug-ins, a module each
    "volt_cli.__main__",
    "volt_cli.app",
    "volt_cli.start",
    "volt_cli.stream.commands",
    "volt.formats.registry",
    "volt.stream.transforms.registry",
}
MOST_ALONE = 15  # modules with one importer; of these, volt.kernels.compiling loads numba
Arrows = Mapping[str, set[str]]


def read_imports(root: Path) -> dict[str, set[str]]:
    """Return every module of the two packages → its imports, within functions and for types as well."""
    sys.path[:0] = [str(root), str(root / "cli")]
    graph = grimp.build_graph("volt", "volt_cli", cache_dir=None)
    return {
        module: set(graph.find_modules_directly_imported_by(module))
        for module in sorted(graph.modules)
    }


def wing_of(module: str) -> str:
    """Return the wing of a module.

    >>> wing_of("volt.text.atoms"), wing_of("volt_cli.start")
    ('text', 'volt_cli')
    """
    parts = module.split(".")
    return parts[0] if parts[0] != "volt" or len(parts) == 1 else parts[1]


def wings_of(imports: Arrows) -> dict[str, set[str]]:
    """Return wing → imported wings. A package's face imports for others, so it is not a wing."""
    wings: dict[str, set[str]] = defaultdict(set)
    for module, imported in imports.items():
        if module != "volt":
            wings[wing_of(module)] |= {wing_of(other) for other in imported} - {
                wing_of(module),
                "volt",
            }
    return dict(wings)


def measure(source: str) -> Counter[str]:
    """Return the numbers of functions, lines of code, lines of docstrings and words of docstrings of a module.

    >>> measure('def double(x):\\n    "Return 2x."\\n    return 2 * x  # exactly\\n')["code"]
    2
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    documented = [node for node in nodes if ast.get_docstring(node)]
    docstrings = {line for node in documented for line in _lines(node.body[0])}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in SKIPPED
        for line in range(token.start[0], token.end[0] + 1)
    }
    return Counter(
        functions=sum(isinstance(node, ast.FunctionDef) for node in nodes),
        code=len(lines - docstrings),
        docstrings=len(docstrings),
        words=sum(len((ast.get_docstring(node) or "").split()) for node in documented),
    )


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def sizes(root: Path, modules: Mapping[str, set[str]]) -> dict[str, Counter[str]]:
    """Return wing → its measures and its number of modules."""
    wings: dict[str, Counter[str]] = defaultdict(Counter)
    for module in modules:
        wings[wing_of(module)] += measure(
            path_of(root, module).read_text(encoding="utf-8")
        ) + Counter(modules=1)
    return wings


def path_of(root: Path, module: str) -> Path:
    """Return the file of a module."""
    path = root / ("cli" if module.startswith("volt_cli") else "") / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def only_importers(root: Path, imports: Arrows) -> dict[str, str]:
    """Return module → importer, where one module of its package is all that imports it; no plug-ins, no programs."""
    importers: dict[str, set[str]] = defaultdict(set)
    plug_ins = {
        name for registry in REGISTRIES & {*imports} for name in _names(path_of(root, registry))
    }
    for module, imported in imports.items():
        for other in imported:
            importers[other].add(module)
    alone = {module: next(iter(others)) for module, others in importers.items() if len(others) == 1}
    return {
        module: other
        for module, other in alone.items()
        if module.rpartition(".")[0] == other.rpartition(".")[0]
        and not ({module, module.rpartition(".")[2]} & plug_ins or other in REGISTRIES)
        and "__main__" not in path_of(root, module).read_text(encoding="utf-8")
    }


def _names(path: Path) -> set[str]:
    """Return the modules that a registry names, as "noise.Typos" does."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    texts = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {*texts, *(text.partition(".")[0] for text in texts)}


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
            nodes, open_[at:] = open_[at:], []
            if len(nodes) > 1:
                yield nodes

    for node in sorted(arrows):
        if node not in order:
            yield from visit(node)


def show(root: Path, imports: Arrows, wings: Arrows) -> None:
    """Print a row for each wing, and the totals."""

    @cache
    def floor(wing: str) -> int:
        return 1 + max(map(floor, wings.get(wing, ())), default=-1)

    measured = sizes(root, imports)
    print(f"{'wing':12} floor {' '.join(f'{column:>10}' for column in COLUMNS)}  imports")
    for wing in sorted(measured, key=lambda wing: (-floor(wing), wing)):
        row = " ".join(f"{measured[wing][column]:10,}" for column in COLUMNS)
        print(f"{wing:12} {floor(wing):5} {row}  {', '.join(sorted(wings.get(wing, ())))}")
    total = sum(measured.values(), Counter())
    print(f"{'all':12} {'':5} {' '.join(f'{total[column]:10,}' for column in COLUMNS)}")
    alone = only_importers(root, imports)
    print(
        f"\n{len(alone)} modules with one importer:",
        *(f"{a} ← {b}" for a, b in sorted(alone.items())),
        sep="\n  ",
    )
    for folder in ("tests", "experiments"):
        texts = [path.read_text(encoding="utf-8") for path in sorted((root / folder).rglob("*.py"))]
        lines = sum(text.count("\n") for text in texts)
        print(
            f"{folder}: {lines:,} lines, {sum(measure(text)['code'] for text in texts):,} of code"
        )


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    root = Path(*arguments[:1] or [Path(__file__).parent.parent]).resolve()
    imports = read_imports(root)
    wings = wings_of(imports)
    if "--check" not in sys.argv[1:]:
        show(root, imports, wings)
    elif len(alone := only_importers(root, imports)) > MOST_ALONE:
        sys.exit(
            f"{len(alone)} modules with one importer; {MOST_ALONE} are the most: {', '.join(sorted(alone))}"
        )
    if nodes := [
        *circles(imports),
        *circles({wing: others for wing, others in wings.items() if wing != "volt"}),
    ]:
        sys.exit("\n".join(f"circle: {', '.join(sorted(each))}" for each in nodes))
