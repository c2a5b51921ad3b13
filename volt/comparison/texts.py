"""Texts by name → `NamedText`s: word counts and sample lines.

Notes say how held-out text differs from training text.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl

from volt import arguments
from volt.arguments import MAX_LINE
from volt.count.corpus import count_words
from volt.count.file_arguments import source_paths
from volt.count.word_counts import WordCounts, as_counts
from volt.display import counted
from volt.errors import ConfigError
from volt.files.blocks import read_blocks
from volt.files.paths import expand

N_SAMPLES = 4  # lines per text, if the caller passes none
SAMPLE_LENGTHS = range(40, 161)  # characters
UNSEEN_SHARE = 0.01  # of a held-out text's characters; fewer are not worth a sentence
_SAMPLE_BLOCK = 1 << 20  # bytes read for samples


@dataclass(frozen=True, slots=True, eq=False)
class NamedText:
    """A text by its name.

    name: name of the text
    counts: counts of its words, which may be a mapping
    files: the files that it was read from
    lines: a few of its lines, as samples

    >>> NamedText("en", {"low": 2, "a": 1})
    <NamedText 'en': 2 words, 3 in all, 0 files>
    """

    name: str
    counts: WordCounts
    files: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        arguments.text(self.name, "name", remedy="did you mean NamedText('name', counts)?")
        object.__setattr__(self, "counts", as_counts(self.counts))  # this dataclass is frozen

    def __repr__(self) -> str:
        name = arguments.shortened(repr(self.name))
        words = f"{counted(self.counts.n_words, 'word')}, {self.counts.total:,} in all"
        return f"<NamedText {name}: {words}, {counted(len(self.files), 'file')}>"

    @property
    def characters(self) -> Counter[str]:
        characters = pl.col("word").str.split("")
        table = self.counts.table.with_columns(characters).explode("word")
        sums = table.group_by("word").agg(pl.col("count").sum()).sort("word")
        return Counter(dict(sums.rows()))


def read_sources(
    texts: Sequence[str | NamedText], *, max_line: int | None = MAX_LINE
) -> tuple[NamedText, ...]:
    """Read and count the texts that are files.

    Raises ConfigError if two texts have the same name.
    """
    files = iter(source_paths([text for text in texts if isinstance(text, str)]).items())
    named = []
    for text in texts:
        if not isinstance(text, NamedText):
            name, path = next(files)
            counts = count_words(path, max_line=max_line)
            paths = tuple(expand(path))
            text = NamedText(name, counts, paths, sample_lines(paths[0]))
        named.append(text)

    names = [text.name for text in named]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"source names {', '.join(names)} are not distinct; give each a different name"
        )
    return tuple(named)


def sample_lines(path: str, n: int = N_SAMPLES) -> tuple[str, ...]:
    """Return a few evenly spaced lines of 40 to 160 characters from the start of a file."""
    if path == "-" or path.endswith((".parquet", ".jsonl")):
        return ()
    # Counting has checked the lines.
    blocks = read_blocks(path, block_size=_SAMPLE_BLOCK, errors="replace", max_line=None)
    text = next((block.data.decode() for block in blocks), "")
    lines = [line.strip() for line in text.split("\n")]
    fitting = [line for line in lines if len(line) in SAMPLE_LENGTHS]
    if not fitting:
        fitting = [line[:160] for line in lines if line]
    if not fitting:
        return ()
    places = np.linspace(0, len(fitting) - 1, n).astype(int)
    return tuple(dict.fromkeys(fitting[place] for place in places))


def match_names(
    names: Sequence[str], heldout: Sequence[NamedText]
) -> tuple[tuple[NamedText, ...], list[str]]:
    """Match held-out texts to sources by name.

    Return the texts, and a sentence on each name without a match.
    """
    if len(names) == 1 and len(heldout) == 1:  # a single text belongs to a single source
        return (replace(heldout[0], name=names[0]),), []

    heldout_names = [text.name for text in heldout]
    unmatched = [name for name in heldout_names if name not in names]
    notes = [
        f"held-out {name!r} has no source of its name ({', '.join(names)}): it is measured only as "
        "a whole; write NAME=FILE"
        for name in unmatched
    ]
    if len(unmatched) < len(heldout):
        for name in names:
            if name not in heldout_names:
                notes.append(f"source {name!r} has no held-out text")
    return tuple(heldout), notes


def unseen_characters(seen: Sequence[NamedText], heldout: NamedText) -> str | None:
    """Return a sentence on the characters of a held-out text that training lacks.

    None if these are rare.
    """
    known = set("".join(chain.from_iterable(text.counts.words for text in seen)))
    occurrences = heldout.characters
    unseen = Counter({char: count for char, count in occurrences.items() if char not in known})
    share = unseen.total() / max(1, occurrences.total())
    if share < UNSEEN_SHARE:
        return None

    scripts = Counter[str]()  # first words of the characters' names: GREEK, LATIN, CJK and so on
    for character, count in unseen.items():
        scripts[unicodedata.name(character, "UNNAMED").split()[0]] += count
    [(script, _)] = scripts.most_common(1)
    return (
        f"held-out {heldout.name!r}: {100 * share:.1f} % of its characters ({len(unseen)} distinct, "
        f"mostly {script}) do not occur in the training text; a vocabulary without byte fallback "
        "writes them as unknown"
    )


def are_aligned(texts: Sequence[NamedText]) -> bool:
    n_lines = {text.counts.n_lines for text in texts}
    return len(texts) > 1 and len(n_lines) == 1 and 0 not in n_lines


Text = str | os.PathLike[str] | NamedText
Texts = Text | Iterable[Text]


def as_texts(texts: Texts, name: str) -> list[str | NamedText]:
    """Return a list of one or several texts: `NamedText`s, or strings such as NAME=FILE."""
    is_one = isinstance(texts, str | os.PathLike | NamedText | WordCounts)
    checked: list[str | NamedText] = []
    for place, text in enumerate([texts] if is_one else arguments.several(texts, name)):
        label = f"{name}[{place}]"
        if isinstance(text, str | os.PathLike):
            checked.append(arguments.path(text, label))
        else:
            remedy = "give NAME=FILE, or volt.comparison.NamedText('name', counts)"
            checked.append(arguments.instance(text, NamedText, label, remedy=remedy))
    return checked


def read_both(
    training: Sequence[str | NamedText], heldout: Sequence[str | NamedText], max_line: int | None
) -> tuple[tuple[NamedText, ...], tuple[NamedText, ...], list[str]]:
    """Read training and held-out texts. Return them, and sentences on how they differ."""
    texts = read_sources(training, max_line=max_line)
    others = read_sources(heldout, max_line=max_line)
    held, notes = match_names([text.name for text in texts], others)
    for text in held:
        note = unseen_characters(texts, text)
        if note:
            notes.append(note)
    return texts, held, notes
