"""Texts by name → `NamedText`s: the counts of their words, and a few of their lines as samples.

A comparison has training texts and, optionally, held-out texts. `read_texts` reads both, and notes
where they do not fit each other: names without a partner, and characters that only the held-out
text has.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from volt import arguments
from volt.count.corpus import count_words
from volt.count.file_arguments import source_files
from volt.count.word_counts import WordCounts, as_counts
from volt.display import counted
from volt.errors import ConfigError
from volt.files.paths import expand, is_file
from volt.files.table_rows import TextColumns, read_lines

N_SAMPLES = 4  # lines per text, if the caller passes none
SAMPLE_LENGTHS = range(40, 161)  # characters
UNSEEN_SHARE = 0.01  # a smaller share of unseen characters in a held-out text is not reported
_SAMPLE_BLOCK = 1 << 20  # bytes at the start of a file from which samples are taken


@dataclass(frozen=True, slots=True, eq=False)
class NamedText:
    """A text with a name, such as its language.

    name: the name, which is unique within a comparison
    counts: the counts of its words; a mapping from words to counts is converted
    files: the files from which the text was read
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
        """The number of times that each character occurs in the words."""
        characters = pl.col("word").str.split("")
        table = self.counts.table.with_columns(characters).explode("word")
        sums = table.group_by("word").agg(pl.col("count").sum()).sort("word")
        return Counter(dict(sums.rows()))


Text = str | os.PathLike[str] | NamedText
Texts = Text | Iterable[Text]


def check_texts(texts: Texts, argument: str) -> list[str | NamedText]:
    """Return the texts of a caller as a list of `NamedText`s and strings such as NAME=FILE.

    texts: one text or several
    argument: name of the caller's argument, for errors
    Raises ConfigError for a value that is not a text.
    """
    is_one = isinstance(texts, str | os.PathLike | NamedText | WordCounts)
    checked: list[str | NamedText] = []
    for index, text in enumerate([texts] if is_one else arguments.several(texts, argument)):
        label = f"{argument}[{index}]"
        if isinstance(text, str | os.PathLike):
            checked.append(arguments.path(text, label))
        else:
            remedy = "give NAME=FILE, or volt.comparison.NamedText('name', counts)"
            checked.append(arguments.instance(text, NamedText, label, remedy=remedy))
    return checked


def read_texts(
    training: Sequence[str | NamedText],
    heldout: Sequence[str | NamedText],
    reading: Mapping[str, Any],
) -> tuple[tuple[NamedText, ...], tuple[NamedText, ...], list[str]]:
    """Read the training and the held-out texts. Return both, and sentences on how they differ.

    reading: fields, column, errors and max_line, as in `count_words`
    """
    training_texts = read_sources(training, reading)
    heldout_texts = read_sources(heldout, reading)
    names = [text.name for text in training_texts]
    heldout_texts, notes = match_names(names, heldout_texts)
    for text in heldout_texts:
        note = note_unseen_characters(training_texts, text)
        if note:
            notes.append(note)
    return training_texts, heldout_texts, notes


def read_sources(
    texts: Sequence[str | NamedText], reading: Mapping[str, Any]
) -> tuple[NamedText, ...]:
    """Read and count the texts that are files.

    Raises ConfigError if two texts have the same name, CorpusError if a file cannot be read.
    """
    files = iter(source_files([text for text in texts if isinstance(text, str)]).items())
    named = []
    for text in texts:
        if not isinstance(text, NamedText):
            name, file = next(files)
            options = dict(reading)
            if file.column:
                options["fields"] = file.column
            counts = count_words(file.path, **options)
            paths = tuple(expand(file.path))
            columns = TextColumns(options.get("column"), options.get("fields"))
            text = NamedText(name, counts, paths, choose_sample_lines(paths[0], columns))
        named.append(text)

    names = [text.name for text in named]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"source names {', '.join(names)} are not distinct; give each a different name"
        )
    return tuple(named)


def choose_sample_lines(path: str, columns: TextColumns) -> tuple[str, ...]:
    """Return a few evenly spaced lines of 40 to 160 characters from the start of a file.

    columns: the texts of a table
    If no line has such a length, the starts of other lines are taken; stdin and a pipe give no lines.
    """
    if not is_file(path):  # counting has read it
        return ()
    # Counting has checked the lines.
    parts = read_lines(path, columns, block_size=_SAMPLE_BLOCK, errors="replace", max_line=None)
    text = next(parts, b"").decode()
    lines = [line.strip() for line in text.split("\n")]
    fitting = [line for line in lines if len(line) in SAMPLE_LENGTHS]
    if not fitting:
        fitting = [line[: SAMPLE_LENGTHS[-1]] for line in lines if line]
    if not fitting:
        return ()
    indices = np.linspace(0, len(fitting) - 1, N_SAMPLES).astype(int)
    return tuple(dict.fromkeys(fitting[index] for index in indices))


def match_names(
    names: Sequence[str], heldout: Sequence[NamedText]
) -> tuple[tuple[NamedText, ...], list[str]]:
    """Match held-out texts to the training texts of these names.

    Return the held-out texts, and a sentence on each name without a partner. A single held-out text
    takes the name of a single training text.
    """
    if len(names) == 1 and len(heldout) == 1:
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


def note_unseen_characters(training: Sequence[NamedText], heldout: NamedText) -> str | None:
    """Return a sentence on the characters of a held-out text that no training text has.

    None if they are less than 1 % of the text.
    """
    known = set("".join(chain.from_iterable(text.counts.words for text in training)))
    counts = heldout.characters
    unseen = Counter({char: count for char, count in counts.items() if char not in known})
    share = unseen.total() / max(1, counts.total())
    if share < UNSEEN_SHARE:
        return None

    # The first word of a character's name is its script: GREEK, LATIN, CJK and so on.
    script_counts = Counter[str]()
    for character, count in unseen.items():
        script_counts[unicodedata.name(character, "UNNAMED").split()[0]] += count
    [(script, _)] = script_counts.most_common(1)
    return (
        f"held-out {heldout.name!r}: {100 * share:.1f} % of its characters ({len(unseen)} distinct, "
        f"mostly {script}) do not occur in the training text; a vocabulary without byte fallback "
        "writes them as unknown"
    )


def are_aligned(texts: Sequence[NamedText]) -> bool:
    """Check whether there are several texts with equally many lines, as translations have."""
    n_lines = {text.counts.n_lines for text in texts}
    return len(texts) > 1 and len(n_lines) == 1 and 0 not in n_lines
