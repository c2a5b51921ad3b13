"""A search, a size, a file or another library → `System`: a vocabulary, its way of cutting words, and its cost.

    volt RULE           the kept tokens of the size that the rule picks, from one search
    muv-search          the BPE vocabulary with the greatest Eq. 1 on the paper's grid
    bpe:N               N tokens of the same BPE, all kept
    spm-bpe:N           N tokens, trained by sentencepiece on the same words; likewise spm-unigram:N
    wordpiece:N         N tokens, trained by Hugging Face tokenizers on the same words
    PATH                any vocabulary file that volt.formats, or its own library, reads
    PATH:PATTERN        a file that does not name the pattern that cuts text, such as tiktoken's with :cl100k

Without ":N" a system has the size of the chosen VOLT vocabulary.

>>> parse_spec("bpe:8000"), parse_spec("wordpiece")
(Spec(kind='bpe', size=8000, path=None, pattern=None), Spec(kind='wordpiece', size=None, path=None, pattern=None))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.choose.search import SearchResult
from volt.choose.vocabulary_at import vocabulary_at
from volt.comparison.cost import Cost, measured
from volt.comparison.libraries import Cutter, ReadFile, of_sentencepiece, of_tokenizers
from volt.comparison.measures import Cuts, cuts_of
from volt.comparison.training import SENTENCEPIECE_FILE, TRAINERS, WORDPIECE_FILE, train
from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.files.paths import exists
from volt.files.temporary import scratch_folder
from volt.learn.candidates import Candidates
from volt.text.characters import BYTE_TOKENS, PREFIX, SUFFIX
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

Longs = NDArray[np.int64]

DEFAULT_SYSTEMS = ("muv-search", "bpe:1000", "bpe:8000", "bpe:30000", "spm-bpe", "spm-unigram", "wordpiece")
_KINDS = ("muv-search", "bpe", *TRAINERS)
_NAMES = {"spm-bpe": "sentencepiece bpe", "spm-unigram": "sentencepiece unigram", "wordpiece": "wordpiece"}


@dataclass(frozen=True, slots=True)
class Spec:
    """A system, parsed from its name. pattern: a published pattern or a regular expression"""

    kind: str
    size: int | None = None
    path: str | None = None
    pattern: str | None = None

    @property
    def text(self) -> str:
        detail = self.pattern if self.path else self.size
        return (self.path or self.kind) + (f":{detail}" if detail else "")

    def sized(self, size: int) -> Spec:
        return replace(self, size=size) if self.size is None and self.kind in TRAINERS else self


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """A vocabulary that cuts words, from the source of a name, into numbers of `tokens`, which count as types.

    step_muv: Eq. 1 against the searched size before, if its size was searched
    sources: the names of the sources that it can cut, None for any
    """

    name: str
    family: str
    size: int
    tokens: tuple[str, ...] = field(repr=False)
    lengths: Longs = field(repr=False)
    cut: Cutter = field(repr=False)
    cost: Cost
    cost_note: str
    rule: str = ""
    why: str = ""
    on_edge: bool = False
    n_scaffolding: int | None = None
    step_muv: float | None = None
    sources: tuple[str, ...] | None = None

    def can_cut(self, source: str) -> bool:
        return self.sources is None or source in self.sources


def parse_spec(text: str) -> Spec:
    """Parse the name of a system. Raises ConfigError if there is no such system or file."""
    kind, colon, size = text.partition(":")
    if kind in _KINDS and not (colon and (kind == "muv-search" or not size.isdecimal() or int(size) < 1)):
        if kind == "bpe" and not size:
            raise ConfigError(f"system {text!r}: say how many tokens, such as bpe:8000")
        return Spec(kind, int(size) if size else None)
    if exists(text):
        return Spec("file", path=text)
    if size and exists(kind):
        return Spec("file", path=kind, pattern=size)
    near = get_close_matches(kind, _KINDS, n=1)
    hint = f"did you mean {near[0]}? Write" if near else "write"
    raise ConfigError(f"system {text!r}: no such system and no such file; {hint} {', '.join(_KINDS)}:SIZE or a file")


def volt_systems(search: SearchResult, *, cost: Cost, parts: str) -> Iterator[System]:
    """Yield one system for each rule, all from one search."""
    note = f"{parts}; one search gives the vocabularies of all rules"
    systems: dict[int, System] = {}  # rules that pick the same size share a system
    for rule, pick in search.picks.items():
        if pick.index not in systems:
            step = search.steps[pick.index]
            with measured() as costs:
                vocabulary = vocabulary_at(search.candidates, step.size, kept=step.kept)
            systems[pick.index] = vocabulary_system(
                "volt", vocabulary, family="volt", cost=cost + costs[0], cost_note=note, step_muv=step.muv
            )
        yield replace(systems[pick.index], name=f"volt {rule}", rule=rule, why=pick.why, on_edge=pick.on_edge)


def bpe_system(candidates: Candidates, size: int, *, name: str, cost: Cost, cost_note: str, **facts: Any) -> System:
    """Return the first `size` tokens that BPE makes, all kept. facts: further fields of System"""
    with measured() as costs:
        vocabulary = vocabulary_at(candidates, size)
    return vocabulary_system(name, vocabulary, cost=cost + costs[0], cost_note=cost_note, **facts)


def vocabulary_system(name: str, vocabulary: Vocabulary, *, words_of: WordCounts | None = None, **facts: Any) -> System:
    """Return a system that cuts words with VOLT's `Encoder`.

    words_of: the counts whose words it will cut; if their settings differ, each word is encoded as a separate text
    """
    encoder = Encoder(vocabulary)
    roles = set(vocabulary.special.roles.values())
    types = tuple(piece for piece in vocabulary.pieces if piece and piece not in roles)
    lengths = np.fromiter((_text_length(piece, vocabulary.marker) for piece in types), np.int64, len(types))
    numbers = {piece: number for number, piece in enumerate(types)}
    settings = vocabulary.normalizer, vocabulary.pretokenizer
    as_texts = words_of is not None and settings != (words_of.normalizer, words_of.pretokenizer)
    if as_texts and words_of is not None and words_of.pretokenizer != PreTokenizer():
        raise VocabularyError(
            f"{name} cuts texts by {vocabulary.pretokenizer.name}, the corpus was counted by "
            f"{words_of.pretokenizer.name}; count it by white space to compare them"
        )
    space = " " * (vocabulary.pretokenizer.keeps_spaces and not vocabulary.pretokenizer.dummy_prefix)

    def cut(words: Sequence[str], _source: str) -> Cuts:
        cuts = encoder.encode_lines([space + word for word in words]) if as_texts else encoder.encode_words(words)
        return cuts_of([[numbers.get(piece, -1) for piece in pieces] for pieces in cuts])

    return System(
        name, tokens=types, lengths=lengths, cut=cut, size=vocabulary.size, n_scaffolding=len(vocabulary.scaffolding),
        **facts,
    )  # fmt: skip


def _text_length(piece: str, marker: str) -> int:
    if piece in BYTE_TOKENS:
        return 1
    return max(1, len(piece.removesuffix(SUFFIX)) if marker == "suffix" else len(piece) - piece.count(PREFIX))


def file_system(file: ReadFile, *, counts: WordCounts) -> System:
    """Return the system of a file. counts: the words that it will cut"""
    name, note = f"file {file.path}", "reading the file; the cost of training it is unknown"
    if isinstance(file.model, Vocabulary):
        return vocabulary_system(
            name, file.model, family="file", words_of=counts, cost=file.cost, cost_note=note, rule="as given",
            why=file.path,
        )  # fmt: skip
    if counts.pretokenizer != PreTokenizer():
        raise _no_texts(file.model.name, counts)
    return System(
        name, family="file", size=file.model.size, tokens=file.model.tokens, lengths=file.model.lengths,
        cut=file.model.cut, cost=file.cost, cost_note=note, rule="as given",
        why=f"{file.path}, cut by {file.model.name}",
    )  # fmt: skip


def _no_texts(name: str, counts: WordCounts) -> VocabularyError:
    return VocabularyError(
        f"{name} reads texts; this corpus was counted by {counts.pretokenizer.name} "
        f"(normalizer {counts.normalizer.name}): count it by white space, not normalised, to compare them"
    )


def trained_system(kind: str, size: int, *, counts: WordCounts) -> System:
    """Train a vocabulary with another library, in a second process, on the words as separate texts."""
    if counts.pretokenizer != PreTokenizer() or counts.normalizer != Normalizer():
        raise _no_texts(_NAMES[kind], counts)
    with scratch_folder() as folder:
        cost = train(kind, size, counts=counts, folder=folder)
        wordpiece = kind == "wordpiece"
        result = of_tokenizers(folder / WORDPIECE_FILE) if wordpiece else of_sentencepiece(folder / SENTENCEPIECE_FILE)
    repeats = "; the library takes no counts, so it reads each word as often as it occurs" * (kind == "wordpiece")
    return System(
        name=f"{_NAMES[kind]} {size}", family=_NAMES[kind], size=result.size, tokens=result.tokens,
        lengths=result.lengths, cut=result.cut, cost=cost,
        cost_note=f"training alone, in a process of its own{repeats}", rule="fixed",
        why="as requested" if result.size == size else f"{size:,} requested, the library gives {result.size:,}",
    )  # fmt: skip


def joined_system(name: str, systems: dict[str, System], **facts: Any) -> System:
    """Join the vocabularies of sources to one system that cuts each source by its own."""
    offsets = dict(zip(systems, accumulate((len(one.tokens) for one in systems.values()), initial=0), strict=False))

    def cut(words: Sequence[str], source: str) -> Cuts:
        cuts = systems[source].cut(words, source)
        return replace(cuts, ids=np.where(cuts.ids < 0, -1, cuts.ids + offsets[source]))

    return System(
        name, tokens=tuple(chain.from_iterable(one.tokens for one in systems.values())),
        lengths=np.concatenate([one.lengths for one in systems.values()]), cut=cut,
        size=sum(one.size for one in systems.values()),
        n_scaffolding=sum(one.n_scaffolding or 0 for one in systems.values()), sources=tuple(systems), **facts,
    )  # fmt: skip
