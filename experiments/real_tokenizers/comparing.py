"""A file, its original and texts → in how many lines VOLT's ids differ, with the smallest line that shows it.

>>> smallest("xxaxx", lambda text: "a" in text)
'a'
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import volt
from experiments.real_tokenizers.finding import Found
from experiments.real_tokenizers.originals import NoOriginalError, Original, Rows, load
from volt.errors import VoltError
from volt.text.byte_alphabet import to_bytes

N_TRIES = 400  # encodings of a line that is made smaller
PART = 2_000  # lines that the original encodes at once, so that its objects do not fill the memory


@dataclass(frozen=True, slots=True)
class Difference:
    """A line whose ids differ. line: its number, from 1; text: the smallest part of it that still differs."""

    text_name: str
    line: int
    text: str
    ours: list[int]
    theirs: list[int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing one file with its original.

    library: the original's name and version; "" without an original
    refused: why VOLT cannot read the file, or why there is no original; "" if both read it
    is_refusal: whether VOLT refused the file
    n_pieces: the number of ids whose piece differs from the original's
    n_lines, n_differing: name of a text → its lines, and those with different ids
    first: the first difference of each text that has one
    signature: VOLT's fingerprint of the vocabulary
    """

    found: Found
    library: str = ""
    refused: str = ""
    is_refusal: bool = False
    n_pieces: int = 0
    n_lines: dict[str, int] | None = None
    n_differing: dict[str, int] | None = None
    first: tuple[Difference, ...] = ()
    signature: str = ""

    @property
    def is_exact(self) -> bool:
        """True if all ids of all lines and all pieces are equal."""
        return (
            self.n_differing is not None
            and not any(self.n_differing.values())
            and not self.n_pieces
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """Both sides of a file, ready to encode."""

    original: Original
    vocabulary: volt.Vocabulary


def read(found: Found) -> tuple[Pair | None, Comparison]:
    """Load a file with VOLT and with its own library; without a pair, the comparison has the reason."""
    try:
        original = load(found)
    except NoOriginalError as error:
        return None, Comparison(found, refused=f"no original: {error}")
    try:
        vocabulary = read_with_volt(found.path, original.pattern)
    except (VoltError, RecursionError, MemoryError) as error:
        return None, Comparison(found, original.library, _one_line(error), is_refusal=True)
    except Exception as error:  # a fault of VOLT is what this looks for
        return None, Comparison(
            found, original.library, f"FAULT {type(error).__name__}: {error}", is_refusal=True
        )
    return Pair(original, vocabulary), Comparison(
        found, original.library, signature=vocabulary.fingerprint
    )


def read_with_volt(path: Path, pattern: str | None) -> volt.Vocabulary:
    """Read a tokenizer file with VOLT, with a pattern if its format needs one."""
    options: dict[str, Any] = {}
    if pattern is not None and "pattern" in inspect.signature(volt.read_vocabulary).parameters:
        options["pattern"] = pattern
    return volt.read_vocabulary(path, **options)


def compare(found: Found, texts: dict[str, list[str]], pair: Pair, read: Comparison) -> Comparison:
    """Encode texts with both sides, and compare the ids line by line."""
    encoder, n_differing, first = volt.Encoder(pair.vocabulary), {}, []

    def ours(lines: Sequence[str]) -> Rows:
        encoded = encoder.encode_batch(lines, n_threads=1)
        return [ids.tolist() for ids in np.split(encoded.ids, encoded.offsets[1:-1])]

    for name, lines in texts.items():
        differing = differing_lines(lines, ours, pair.original.encode)
        n_differing[name] = len(differing)
        if differing:
            first.append(difference(name, lines, differing, ours, pair.original.encode))
    n_lines = {name: len(lines) for name, lines in texts.items()}
    return replace(
        read,
        n_pieces=other_pieces(pair),
        n_lines=n_lines,
        n_differing=n_differing,
        first=tuple(first),
    )


def other_pieces(pair: Pair) -> int:
    """Count the ids whose piece differs between VOLT and the original, or is missing in VOLT.

    Pieces are compared as text, because libraries mark bytes, spaces and ends of words differently.
    """
    theirs, ours = pair.original.pieces(), pair.vocabulary
    spelled = ours.pieces
    return sum(
        number >= len(spelled) or not _alike(spelled[number], ours.kinds[number], piece)
        for number, piece in theirs.items()
        if piece
    )


def _alike(ours: str, kind: str, theirs: bytes | str) -> bool:
    if isinstance(theirs, str):
        return ours == theirs
    return kind == "token" and to_bytes(ours) == theirs


def differing_lines(
    lines: Sequence[str],
    ours: Callable[[Sequence[str]], Rows],
    theirs: Callable[[Sequence[str]], Rows],
) -> list[int]:
    """Return the indices, from 0, of the lines whose ids differ."""
    rows = ours(lines)
    found = []
    for start in range(0, len(lines), PART):
        others = theirs(lines[start : start + PART])
        found += [start + n for n, other in enumerate(others) if rows[start + n] != other]
    return found


def difference(
    name: str,
    lines: Sequence[str],
    differing: Sequence[int],
    ours: Callable[[Sequence[str]], Rows],
    theirs: Callable[[Sequence[str]], Rows],
) -> Difference:
    """Return the shortest of the first 100 differing lines, reduced to a small part that still differs."""
    number = min(differing[:100], key=lambda number: len(lines[number]))
    text = smallest(lines[number], lambda text: ours([text]) != theirs([text]))
    return Difference(name, number + 1, text, ours([text])[0], theirs([text])[0])


def smallest(text: str, differs: Callable[[str], bool]) -> str:
    """Remove parts of a text while it still differs, in at most N_TRIES encodings."""
    n_left, size = N_TRIES, max(1, len(text) // 2)
    while n_left > 0:
        start, shrunk = 0, False
        while start < len(text) and n_left > 0:
            rest, n_left = text[:start] + text[start + size :], n_left - 1
            if differs(rest):
                text, shrunk = rest, True
            else:
                start += size
        if size == 1 and not shrunk:
            break
        size = size if shrunk else max(1, size // 2)
    return text


def _one_line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\S*/(?=[^/\s]+)", "", str(error), count=1))
