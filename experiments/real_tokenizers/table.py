"""Results of all files → Markdown tables of results, differences and versions."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence

import volt
from experiments.real_tokenizers.comparing import Comparison, Difference

N_SHOWN = 12  # ids of a difference


def report(done: Sequence[Comparison]) -> str:
    """All tables, with the versions above them."""
    libraries = sorted({part for one in done for part in one.library.split(", ") if part})
    parts = [
        f"VOLT {volt.__version__}, {', '.join(libraries)}, Python {platform.python_version()}",
        table(("file", "kind", "result", "signature"), (_result(one) for one in done)),
    ]
    differences = [row for one in done for row in _differences(one)]
    if differences:
        parts.append(
            table(("file", "text", "line", "smallest text", "VOLT", "original"), differences)
        )
    n_exact = sum(one.is_exact for one in done)
    parts.append(
        f"{n_exact} of {len(done)} files exact, {sum(one.is_refusal for one in done)} refused"
    )
    return "\n\n".join(parts) + "\n"


def summary(one: Comparison) -> str:
    """One file in one line."""
    return f"{one.found.name}: {result(one)}"


def result(one: Comparison) -> str:
    """Exact, refused with the reason, or the number of lines that differ.

    >>> from pathlib import Path
    >>> from experiments.real_tokenizers.finding import Found
    >>> found = Found("a", Path("a"), "tiktoken")
    >>> result(Comparison(found, n_lines={"code": 5}, n_differing={"code": 2}))
    'code 2 of 5'
    """
    if one.refused:
        return f"refused: {one.refused}" if one.is_refusal else one.refused
    if one.is_exact:
        return "exact"
    counts = one.n_differing or {}
    parts = [f"{name} {n:,} of {(one.n_lines or {})[name]:,}" for name, n in counts.items() if n]
    return ", ".join(parts + [f"{one.n_pieces:,} ids have another piece"] * bool(one.n_pieces))


def _result(one: Comparison) -> tuple[str, ...]:
    return one.found.name, one.found.kind, result(one), one.signature


def _differences(one: Comparison) -> Iterator[tuple[str, ...]]:
    for found in one.first:
        ours, theirs = _ids(found)
        yield one.found.name, found.text_name, f"{found.line}", ascii(found.text), ours, theirs


def _ids(found: Difference) -> tuple[str, str]:
    """The ids of both sides from the first that differs."""
    pairs = zip(found.ours, found.theirs, strict=False)
    start = next((n for n, (ours, theirs) in enumerate(pairs) if ours != theirs), 0)
    both = ([*side[start : start + N_SHOWN]] for side in (found.ours, found.theirs))
    ours, theirs = (" ".join(map(str, side)) for side in both)
    return ours, theirs


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of texts.

    >>> print(table(["a", "n"], [["x", "1|2"]]))
    | a | n |
    |---|---|
    | x | 1\\|2 |
    """
    lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    body = [headings, *lines]
    text = [f"| {' | '.join(line)} |" for line in body]
    return "\n".join([text[0], f"|{'---|' * len(headings)}", *text[1:]])
