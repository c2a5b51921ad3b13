r"""Candidates and their text → candidates with *superwords*: tokens that may span several words.

    first stage     merges within words, learned from word counts (`learn_bpe`)
    second stage    further merges within *stretches*, which contain spaces: " of the", " in order to"

This is SuperBPE (Liu et al. 2025). A vocabulary of both stages is an ordinary one whose pre-tokenizer
splits lines into stretches. The text is read again:

    1  encode each stretch by the merges of the first stage, and count pairs of adjacent tokens;
       write the tokens to a temporary file, or read the text twice if the disk is full
    2  cut the stretches at pairs that occur less than c times, and count the distinct *runs* between
    3  learn merges from the runs, as from words, while the best pair occurs c times or more

Step 3 learns the merges of the whole text, in the same order and with the same counts. Encoding turns
the text between two ends of tokens into the same tokens wherever it occurs. So every occurrence of a
token consists of the same tokens of the first stage. If a merge of A and B makes a token across a
cut, the last token x of A and the first token y of B are a pair that was cut. Each occurrence of A
before B contains x before y, and no other occurrence contains this place. So A and B are together
less than c times, and are not merged before all merges of count c or more are done. Pairs that a cut
does not divide have the same counts with and without cuts.

c is estimated. If fewer merges than requested occur c times, steps 2 and 3 are repeated with a
smaller c.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, get_args

import numpy as np
from numpy.lib.format import read_array, write_array
from numpy.typing import NDArray

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.array_types import Ints, Longs
from volt.count.corpus import checked_sources
from volt.count.counting import Progress
from volt.count.texts import text_arrays
from volt.count.word_counts import WordCounts
from volt.display import counted
from volt.encode.chunks import CHUNK_SIZE, NO_BYTE_OF_TEXT, Chunk, file_chunks
from volt.encode.encoder import Encoder
from volt.errors import CandidateError, ConfigError, CorpusError, quoted, shown
from volt.files.blocks import Errors
from volt.files.loop_memory import extended
from volt.files.paths import Identity, Sources, check_files, expand, identity_of, size_of
from volt.files.table_rows import TextColumns, join_texts, text_bytes
from volt.kernels.arrays import Words, table_size
from volt.kernels.token_runs import (
    MOST,
    RunTable,
    count_pairs,
    count_runs,
    count_values,
    enter_runs,
)
from volt.learn.bpe import (
    MOST_REQUESTED,
    Replacements,
    Report,
    build_trajectory,
    check_limits,
    learn_merges,
)
from volt.learn.candidates import Candidates, Superwords, Trajectory
from volt.text.atoms import SPACE, token_lengths
from volt.text.byte_alphabet import ALPHABET
from volt.text.pretokenizer import Level, PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, ROLES, SpecialTokens
from volt.vocabulary import Vocabulary

LINES, BYTES, TOKENS = range(3)  # of the totals of a text
_FEWEST_SLOTS = 1 << 16  # of a sketch
_MOST_SLOTS = 1 << 27  # 256 MB
_BYTES_A_SLOT = 16  # bytes of text for each slot, or half as many
_CACHE_WORDS = 1 << 17  # per thread; more take memory, and hardly save time in a single reading
_LEAST_FREE = 1 << 30  # bytes of the disk that are left to others
_MOST_DIFFERENT = 0.01  # share of atoms that may differ, such as "\r" at the ends of lines
_SURPLUS = 2.0  # pairs that should occur c times, for each requested merge


def learn_superwords(
    candidates: Candidates,
    sources: Sources | None = None,
    n_superwords: int | float = 0.1,
    *,
    texts: Iterable[str] | None = None,
    transition: int | None = None,
    across: str | PreTokenizer | None = None,
    min_pair_count: int = 2,
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    errors: Errors = "strict",
    special: SpecialTokens | None = None,
    max_line: int | None = MAX_LINE,
    progress: Progress | None = None,
    report: Callable[[int], object] | None = None,
) -> Candidates:
    """Learn merges across words, after the merges of candidates. The text is read again, and its tokens
    are written to a temporary file in TMPDIR, 4 bytes each. If the disk has no room for them, the
    text is read twice.

    candidates: the result of `learn_bpe` or `replay_bpe`, whose words contain their spaces: from
        `count_words` with level="bytes", pretokenizer="metaspace", or a pattern
    sources: the files that the words were counted in
    n_superwords: how many merges to learn, or their share of all tokens, below 1; fewer if no
        remaining pair occurs `min_pair_count` times. Some of these merges are within words
    texts: instead of sources, the strings that were counted, in a list or another collection that
        can be read twice
    transition: how many merges of the candidates come first; None for all
    across: where stretches end: a pattern, or a pre-tokenizer. None is SuperBPE's pattern (numbers,
        several punctuation marks, spaces at the end of a line), and only the end of a line for
        "metaspace"
    min_pair_count: how often a pair must occur to be merged, 1 or more
    fields, column, errors, special, max_line, progress: as for `count_words`
    report: called with the number of merges done, several times a second

    Up to the transition, sizes have the counts of `candidates`, and larger sizes have the counts of
    the text split into stretches. So entropy and MUV jump after the transition; choose a size by them
    on the curve of `candidates`. Raises CorpusError if the text cannot be read, is not the text
    that was counted, or changes; CandidateError or ConfigError if nothing can be learned across
    words.

    >>> from volt import count_words, learn_bpe
    >>> texts = ["in the sea", "on the sea", "by the sea"]
    >>> words = learn_bpe(count_words(texts=texts, level="bytes"), n_merges=6)
    >>> learn_superwords(words, n_superwords=2, texts=texts).tokens[-3:]
    ('Ġsea', 'ĠtheĠsea', 'nĠtheĠsea')
    """
    candidates = arguments.instance(candidates, Candidates, "candidates")
    coarse = choose_coarse(candidates.counts.pretokenizer, across)
    _check_candidates(candidates)
    report = arguments.function(report, "report")
    _, min_pair_count = check_limits(None, min_pair_count)
    size = candidates.n_tokens
    if transition is not None:
        transition = arguments.whole(transition, "transition", low=0, high=candidates.n_merges)
        size = int(candidates.sizes_after()[transition])
    transition = candidates.merges_at(size)
    reading = {
        "columns": TextColumns(column, fields),
        "errors": arguments.choice(errors, "errors", get_args(Errors)),
        "max_line": checked_max_line(max_line),
    }
    n_merges = _number_of_merges(n_superwords, size)
    progress = arguments.function(progress, "progress")
    with closing(_KeptArrays()) as kept:
        text = _Text(sources, texts, reading, progress, kept)
        first_stage = _first_stage(candidates, transition, size, coarse, special)
        pairs = _count_pairs(first_stage, text, candidates)
        learned = _learn(first_stage, text, pairs, n_merges, min_pair_count, report)
    superwords = Superwords(transition, coarse, learned.least, text.n_reads)
    return _continue(candidates, size, superwords, pairs.token_counts, learned)


def _check_candidates(candidates: Candidates) -> None:
    """Raise CandidateError if merges across words cannot follow those of the candidates."""
    if candidates.marker != "none":
        message = (
            f"marker {candidates.marker!r} is for single words, not for superwords; learn with"
        )
        raise CandidateError(message, hint={"marker": "none"})
    if candidates.extends or candidates.parity or candidates.superwords:
        raise CandidateError(
            "the candidates extend a vocabulary, are in parity, or have superwords already; give "
            "candidates from learn_bpe"
        )
    if candidates.counts.temperature != 1:
        raise CandidateError(
            "the counts are weighted by a temperature, but superwords are counted in the text as it "
            "is; mix the sources with temperature=1"
        )


def choose_coarse(fine: PreTokenizer, across: str | PreTokenizer | None) -> PreTokenizer:
    """Return the pre-tokenizer that splits text into stretches.

    fine: splits text into words
    across: see `learn_superwords`
    Raises ConfigError if words contain no spaces, or cannot be continued in such stretches.

    >>> choose_coarse(PreTokenizer("metaspace"), None).name
    'metaspace-line'
    """
    if not fine.keeps_spaces:
        message = (
            f"words split by {shown(fine.name)!r} contain no spaces, which superwords need; count "
            "words with"
        )
        raise ConfigError(message, hint={"level": "bytes", "pretokenizer": "metaspace"})
    if isinstance(across, PreTokenizer):
        coarse = across
    elif not fine.dummy_prefix:
        level: Level = "bytes" if fine.is_bytes else "characters"
        pattern = "superbpe" if across is None else arguments.text(across, "across")
        coarse = PreTokenizer.of_pattern(pattern, level=level)
    elif across is None:
        ending = fine.name.removeprefix("unicode").removeprefix("metaspace")
        ending = ending.removeprefix("-runs").removeprefix("-line")
        coarse = PreTokenizer("metaspace-line" + ending)
    else:
        message = f"with {fine.name!r}, stretches end only at line ends; leave across out, or count words with"
        raise ConfigError(message, hint={"level": "bytes"})
    if all(len(coarse.split(f"{letter} {letter}")) > 1 for letter in "aж海"):
        pattern = across if isinstance(across, str) else coarse.name
        raise ConfigError(
            f"{quoted(pattern)} ends stretches at each space; leave across out, or give another pattern"
        )
    texts = ("a", f" é{chr(FIRST_HIDDEN)}a")  # after a line's start, a space and a user token
    if any("".join(coarse.split(text)) != "".join(fine.split(text)) for text in texts):
        raise ConfigError(
            f"{shown(coarse.name)!r} does not spell text as {shown(fine.name)!r} does; leave across out"
        )
    return coarse


def _number_of_merges(n_superwords: int | float, size: int) -> int:
    """Return how many merges to learn after the first `size` tokens."""
    remedy = "give a number of merges, or their share of all tokens: a float above 0 and below 1"
    if isinstance(n_superwords, float):
        if not 0 < n_superwords < 1:
            raise ConfigError(f"n_superwords is {n_superwords}; {remedy}")
        return max(1, round(size * n_superwords / (1 - n_superwords)))
    return arguments.whole(n_superwords, "n_superwords", low=1, high=MOST_REQUESTED, remedy=remedy)


def _first_stage(
    candidates: Candidates,
    transition: int,
    size: int,
    coarse: PreTokenizer,
    special: SpecialTokens | None,
) -> Vocabulary:
    """Return the vocabulary that turns stretches into tokens of the first stage."""
    roles: dict[str, Any] = dict.fromkeys(ROLES)
    users = replace(special or SpecialTokens(), control=(), skips=(), **roles)
    return Vocabulary(
        merges=tuple(candidates.merges[:transition]),
        tokens=candidates.tokens[:size],
        marker="none",
        normalizer=candidates.counts.normalizer,
        pretokenizer=coarse,
        special=users,
    )


# Reading


class _Text:
    """The text that was counted, which is read several times.

    n_reads: how often it was read
    """

    def __init__(
        self,
        sources: Sources | None,
        texts: Iterable[str] | None,
        reading: dict[str, Any],
        progress: Progress | None,
        kept: _KeptArrays,
    ) -> None:
        self.n_reads = 0
        self._texts = texts
        self._reading = reading
        self._progress = progress
        self._totals = np.zeros(3, np.int64)
        self._kept = kept
        if texts is None:
            paths = expand(checked_sources(sources))
            self._paths = check_files(paths, "superwords read the text twice, and only from")
        elif sources is not None or reading["columns"]:
            raise ConfigError("texts exclude sources, fields and column; remove one of them")
        elif iter(texts) is texts:
            raise ConfigError("texts can be read only once; give a list")
        self._identities = self._look()

    def _look(self) -> list[Identity]:
        if self._texts is not None:
            return []
        with suppress(OSError):  # reading raises the error
            return list(map(identity_of, self._paths))
        return []

    def stretches(self, vocabulary: Vocabulary) -> Iterator[tuple[Ints, Longs]]:
        """Yield the tokens of stretches, and where each stretch ends, of the whole text.

        vocabulary: the same for every call
        Raises CorpusError if the text has changed since it was read before.
        """
        if self.n_reads and self._kept.file:
            yield from self._kept.read()
            return
        totals = np.zeros(3, np.int64)
        encoder = Encoder(vocabulary, cache_words=_CACHE_WORDS)  # its cache ends with this reading
        for tokens, ends in encoder.encode_stretches(self._chunks(totals)):
            totals[TOKENS] += len(tokens)
            self._kept.write(tokens, ends)
            yield tokens, ends
        self.n_reads += 1
        is_same = self.n_reads == 1 or (totals == self._totals).all()
        if not is_same or self._look() != self._identities:
            raise CorpusError("the text changed while it was read; start again")
        self._totals = totals

    def check_counted(self, counts: WordCounts) -> None:
        """Raise CorpusError if the words were counted in another text."""
        n_lines, n_bytes, _ = self._totals.tolist()
        if counts.n_lines and (n_lines, n_bytes) != (counts.n_lines, counts.n_bytes):
            raise CorpusError(
                f"the text has {counted(n_lines, 'line')} and {counted(n_bytes, 'byte')}, but the "
                f"words were counted in {counted(counts.n_lines, 'line')} and "
                f"{counted(counts.n_bytes, 'byte')}; give the same text, or count again"
            )

    def _chunks(self, totals: Longs) -> Iterator[Chunk]:
        """Yield the text, and add its lines and bytes to the totals."""
        if self._texts is not None:
            errors = self._reading["errors"]
            for array, n_skipped in text_arrays(self._texts, block_size=CHUNK_SIZE, errors=errors):
                totals[LINES] += len(array) + n_skipped
                totals[BYTES] += text_bytes(array) + len(array)
                yield Chunk(join_texts(array, bytes([NO_BYTE_OF_TEXT])), NO_BYTE_OF_TEXT)
            return
        for path in self._paths:
            file_size = size_of(path)
            for chunk in file_chunks(path, **self._reading):
                block = chunk.rows.block if chunk.rows else chunk.block
                totals[LINES] += block.n_lines
                totals[BYTES] += chunk.rows.n_bytes if chunk.rows else len(block.data)
                yield chunk
                if self._progress:
                    self._progress(path, block.n_raw_bytes, file_size)


class _KeptArrays:
    """Pairs of arrays in a temporary file, which has no name and so ends with its process.

    file: None if the arrays could not all be written
    """

    def __init__(self) -> None:
        self.file: IO[bytes] | None = None
        with suppress(OSError):
            # without a buffer, which could not be written when the file is closed
            self.file = TemporaryFile(buffering=0)  # noqa: SIM115

    def write(self, tokens: Ints, ends: Longs) -> None:
        """Write two arrays, or forget all arrays if the disk has no room."""
        if self.file:
            disk = os.fstatvfs(self.file.fileno())
            try:
                write_array(self.file, tokens)
                write_array(self.file, ends)
            except OSError:
                self.close()
            if disk.f_bavail * disk.f_frsize < _LEAST_FREE:
                self.close()

    def close(self) -> None:
        """Remove the file."""
        if self.file:
            self.file.close()
        self.file = None

    def read(self) -> Iterator[tuple[Ints, Longs]]:
        """Yield all pairs of arrays."""
        assert self.file
        n_bytes = self.file.tell()
        self.file.seek(0)
        while self.file.tell() < n_bytes:
            yield read_array(self.file), read_array(self.file)


# Counting


class _Pairs(NamedTuple):
    """The counts of pairs of adjacent tokens, and of tokens.

    sketch: see volt.kernels.token_runs
    token_counts: (n_tokens,) how often each token occurs in the stretches
    """

    sketch: NDArray[np.uint16]
    token_counts: Longs

    def count_at(self, n_pairs: float, min_pair_count: int) -> int:
        """Return about how often the n_pairs most frequent pairs occur at least."""
        histogram = np.zeros(MOST + 1, np.int64)
        count_values(self.sketch, histogram)
        n_at_least = histogram[::-1].cumsum()[::-1]
        n_frequent = int((n_at_least[1:] >= n_pairs).sum())
        return max(min_pair_count, n_frequent)


def _count_pairs(first_stage: Vocabulary, text: _Text, candidates: Candidates) -> _Pairs:
    first_tokens = first_stage.tokens
    n_slots = table_size(candidates.counts.n_bytes // _BYTES_A_SLOT)
    sketch = np.zeros(min(max(n_slots, _FEWEST_SLOTS), _MOST_SLOTS), np.uint16)
    space = ALPHABET[ord(" ")] if first_stage.pretokenizer.is_bytes else SPACE
    opens_word = np.array([token.startswith(space) for token in first_tokens], np.uint8)
    pairs = _Pairs(sketch, np.zeros(len(first_tokens), np.int64))
    n_spaces = 0
    for tokens, ends in text.stretches(first_stage):
        n_spaces += count_pairs(tokens, ends, opens_word, sketch, pairs.token_counts)
    text.check_counted(candidates.counts)
    _check_atoms(candidates, pairs.token_counts)
    if not n_spaces:
        raise CandidateError(
            "no line of the text has two words with a space between them, which superwords join; "
            "give text with several words on a line, or another pattern"
        )
    return pairs


def _check_atoms(candidates: Candidates, token_counts: Longs) -> None:
    """Raise CorpusError if the atoms of a text are not about those of the counted words."""
    size = len(token_counts)
    n_merges = candidates.merges_at(size)
    counts = token_counts.tolist()
    parts = candidates.parts[:n_merges].tolist()
    results = candidates.results[:n_merges].tolist()
    for (left, right), result in zip(reversed(parts), reversed(results), strict=True):
        counts[left] += counts[result]
        counts[right] += counts[result]
        counts[result] = 0
    atom_counts = candidates.atom_counts
    n_different = np.abs(atom_counts - counts[: len(atom_counts)]).sum()
    if n_different > _MOST_DIFFERENT * atom_counts.sum():
        raise CorpusError(
            "the text has other characters than the one in which the words were counted; give the "
            "same text, or count again"
        )


class _RunCounter:
    """Counts distinct runs in a table that grows."""

    def __init__(self) -> None:
        self._n = 0
        self._table = RunTable(
            slots=np.zeros(8, np.int32),
            hashes=np.zeros(0, np.int64),
            ends=np.zeros(0, np.int64),
            counts=np.zeros(0, np.int64),
            tokens=np.zeros(0, np.int32),
        )

    @property
    def runs(self) -> Words:
        """The runs as words for learning."""
        table = self._table
        ends = table.ends[: self._n]
        n_tokens = int(ends[-1]) if self._n else 0
        return Words(table.tokens[:n_tokens], ends, table.counts[: self._n])

    def add(self, tokens: Ints, ends: Longs, sketch: NDArray[np.uint16], least: int) -> None:
        """Count the runs of stretches between pairs that occur less than `least` times."""
        self._reserve(len(tokens))
        self._n = count_runs(tokens, ends, sketch, least, self._table, self._n)

    def _reserve(self, n_tokens: int) -> None:
        """Make room for the runs of so many tokens."""
        table = self._table
        n_runs = self._n + n_tokens // 2
        if n_runs > len(table.ends):
            slots = np.zeros(table_size(2 * n_runs), np.int32)
            names = ("hashes", "ends", "counts")
            longer = {name: extended(getattr(table, name), 2 * n_runs) for name in names}
            table = table._replace(slots=slots, **longer)
            enter_runs(slots, table.hashes, self._n)
        n_tokens += len(self.runs.symbols)
        if n_tokens > len(table.tokens):
            table = table._replace(tokens=extended(table.tokens, 2 * n_tokens))
        self._table = table


# Learning


class _Learned(NamedTuple):
    """Merges of the second stage.

    parts: (n, 2) the two tokens of each merge, which makes token n_tokens + k
    replaced: (n,) how many pairs each merge replaces
    left: the count of the most frequent pair that is not merged; None if unknown
    least: c, the count below which pairs were cut
    """

    parts: Ints
    replaced: Longs
    left: int | None
    least: int


def _learn(
    first_stage: Vocabulary,
    text: _Text,
    pairs: _Pairs,
    n_merges: int,
    min_pair_count: int,
    report: Report | None,
) -> _Learned:
    """Learn merges from the runs of a text; count the runs again if they were too short."""
    surplus = _SURPLUS
    least = pairs.count_at(surplus * n_merges, min_pair_count)
    first_tokens = first_stage.tokens
    is_final = np.zeros(len(first_tokens), np.uint8)
    while True:
        counter = _RunCounter()
        for tokens, ends in text.stretches(first_stage):
            counter.add(tokens, ends, pairs.sketch, least)
        runs = counter.runs
        del counter  # its hash table takes memory
        parts, replaced, left = learn_merges(
            runs,
            first_tokens,
            is_final,
            n_merges,
            least,
            marker="none",
            report=report,
        )
        if len(parts) == n_merges or least == min_pair_count:
            break
        surplus *= 2 * n_merges / max(1, len(parts))
        fewer = pairs.count_at(surplus * n_merges, min_pair_count)
        least = max(min_pair_count, min(fewer, 3 * least // 4))
    if not len(parts):
        message = "no pair of tokens occurs often enough; give more text, or learn with"
        raise CandidateError(message, hint={"min_pair_count": 1})
    is_complete = left or least == min_pair_count
    return _Learned(parts, replaced, left if is_complete else None, least)


def _continue(
    candidates: Candidates,
    size: int,
    superwords: Superwords,
    token_counts: Longs,
    learned: _Learned,
) -> Candidates:
    """Return the candidates of both stages.

    token_counts: (size,) how often each token of the first stage occurs in the stretches
    """
    transition = superwords.transition
    tokens = list(candidates.tokens[:size])
    for left, right in learned.parts.tolist():
        tokens.append(tokens[left] + tokens[right])
    if len(set(tokens)) < len(tokens):
        raise CandidateError(
            "a merge across words makes a token that a replayed merge makes; learn merges by learn_bpe"
        )
    n_merges = len(learned.parts)
    results = np.arange(size, size + n_merges, dtype=np.int32)
    steps = np.arange(n_merges)
    changes = Replacements(steps, steps, learned.replaced)
    second = build_trajectory(token_counts, learned.parts, results, changes)
    return replace(
        candidates,
        tokens=tuple(tokens),
        lengths=token_lengths(tokens, marker="none"),
        parts=np.concatenate([candidates.parts[:transition], learned.parts]),
        results=np.concatenate([candidates.results[:transition], results]),
        trajectory=_join_trajectories(candidates, transition, token_counts, second),
        left=learned.left,
        superwords=superwords,
    )


def _join_trajectories(
    candidates: Candidates, transition: int, token_counts: Longs, second: Trajectory
) -> Trajectory:
    """Return the changes of both stages.

    The first merge of the second stage also changes the counts of tokens that are split differently
    in words and in stretches. Such a token may have two changes at this merge.
    """
    first = candidates.trajectory
    is_first = first.merges < transition
    word_counts = candidates.counts_at(len(token_counts))
    moved = np.flatnonzero(word_counts != token_counts)
    tokens = np.concatenate([first.tokens[is_first], moved, second.tokens])
    at_transition = np.full(len(moved), transition)
    merges = np.concatenate([first.merges[is_first], at_transition, second.merges + transition])
    before = np.concatenate([first.before[is_first], word_counts[moved], second.before])
    after = np.concatenate([first.after[is_first], token_counts[moved], second.after])
    order = np.lexsort((merges, tokens))  # stable
    return Trajectory(
        tokens=tokens[order].astype(np.int32),
        merges=merges[order].astype(np.int32),
        before=before[order],
        after=after[order],
    )
