"""Measure how dense the code of volt/ and cli/ is, by wing.

    python experiments/density.py            a row for each wing
    python experiments/density.py --check    exit with 1 if a wing is denser than the limits

tokens a line   tokens on lines of code; docstrings and comments do not count
packed          assignments such as `a, b = x, y`, per 1,000 lines; a swap does not count
conditional     conditional expressions, per 1,000 lines
text × bool     texts times a condition, such as `", cut" * is_cut`, per 1,000 lines
over 100        lines of code of more than 100 columns, per 1,000 lines
longest         lines of the longest function
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PER_LINE = ("packed", "conditional", "text × bool", "over 100")
LIMITS = {
    "tokens a line": 8.0,
    "packed": 5.0,
    "conditional": 15.0,
    "text × bool": 0.0,
    "over 100": 10.0,
    "longest": 60.0,
}
# Most wings are denser than they should be, so that these limits only fall.
TOKENS_A_LINE = {
    "volt": 8.7,
    "batches": 8.8,
    "choose": 8.2,
    "comparison": 8.4,
    "count": 8.8,
    "encode": 9.1,
    "learn": 9.1,
    "stream": 8.9,
    "text": 9.0,
    "trial": 9.0,
    "vocabulary": 8.7,
}
EXCEPTIONS: dict[tuple[str, str], float] = {
    **{(wing, "tokens a line"): limit for wing, limit in TOKENS_A_LINE.items()},
    ("kernels", "packed"): 20.0,  # one assignment may update two states of a loop together
    ("ext", "over 100"): 12.0,
    ("stream", "longest"): 63.0,
    # Each argument of a public function takes a line or more of its docstring.
    ("count", "longest"): 83.0,
    ("choose", "longest"): 93.0,
}


def measure(source: str) -> Counter[str]:
    """Count the lines, tokens and dense expressions of a module.

    >>> counts = measure('def swap(a, b):\\n    "Swap."\\n    c, d = 1, 2 if a else 3\\n    a, b = b, a\\n')
    >>> counts["lines"], counts["packed"], counts["conditional"], counts["longest"]
    (3, 1, 1, 4)
    """
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    counts = Counter[str]()
    lines, counts["tokens"] = _lines_and_tokens(source, nodes)
    counts["lines"] = len(lines)
    texts = source.split("\n")
    counts["over 100"] = sum(len(texts[line - 1]) > 100 for line in lines)
    for node in nodes:
        counts["packed"] += _is_packed(node)
        counts["conditional"] += isinstance(node, ast.IfExp)
        counts["text × bool"] += _is_text_times_condition(node)
        if isinstance(node, ast.FunctionDef):
            counts["longest"] = max(counts["longest"], _n_lines(node))
    return counts


def _lines_and_tokens(source: str, nodes: list[ast.AST]) -> tuple[set[int], int]:
    """Return the numbers of the lines of code, and how many tokens they have."""
    docstrings = set[int]()
    for node in nodes:
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            docstrings.update(range(docstring.lineno, docstring.lineno + _n_lines(docstring)))
    lines = set[int]()
    n_tokens = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT and token.start[0] not in docstrings:
            lines.update(range(token.start[0], token.end[0] + 1))
            n_tokens += 1
    return lines, n_tokens


def _n_lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_packed(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
        return False
    names = sorted(map(ast.unparse, target.elts))
    values = sorted(map(ast.unparse, node.value.elts))
    return len(names) == len(values) and names != values


def _is_text_times_condition(node: ast.AST) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    left = node.left
    is_text = isinstance(left, ast.JoinedStr)
    if isinstance(left, ast.Constant):
        is_text = isinstance(left.value, str)
    return is_text and isinstance(node.right, ast.Compare | ast.BoolOp | ast.Call | ast.UnaryOp)


def by_wing() -> dict[str, Counter[str]]:
    """Return the counts of each wing; modules directly in volt/ form the wing `volt`."""
    wings: dict[str, Counter[str]] = defaultdict(Counter)
    for package in (ROOT / "volt", ROOT / "cli/volt_cli"):
        for path in sorted(package.rglob("*.py")):
            folder = path.relative_to(package).parts[0]
            is_wing = package.name == "volt" and folder != path.name
            counts = measure(path.read_text(encoding="utf-8"))
            total = wings[folder if is_wing else package.name]
            longest = max(total["longest"], counts["longest"])
            total.update(counts)
            total["longest"] = longest
    return wings


def rates(counts: Counter[str]) -> dict[str, float]:
    """Return the values that `LIMITS` bounds."""
    result = {"tokens a line": counts["tokens"] / counts["lines"], "longest": counts["longest"]}
    for name in PER_LINE:
        result[name] = 1000 * counts[name] / counts["lines"]
    return {name: result[name] for name in LIMITS}


def faults(wings: dict[str, Counter[str]]) -> Iterator[str]:
    """Yield a line for each wing and measure above its limit."""
    for wing, counts in wings.items():
        for name, value in rates(counts).items():
            limit = EXCEPTIONS.get((wing, name), LIMITS[name])
            if round(value, 1) > limit:
                yield f"{wing}: {name} is {value:.1f}; {limit:g} is the limit of experiments/density.py"


def main() -> None:
    wings = by_wing()
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(faults(wings)) or None)
    print(f"{'wing':12} {'tokens':>9} {' '.join(f'{name:>13}' for name in LIMITS)}")
    for wing, counts in wings.items():
        row = " ".join(f"{value:13.1f}" for value in rates(counts).values())
        print(f"{wing:12} {counts['tokens']:9,} {row}")
    print(f"{'all':12} {sum(counts['tokens'] for counts in wings.values()):9,}")


if __name__ == "__main__":
    main()
