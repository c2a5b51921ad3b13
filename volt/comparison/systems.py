"""A search, a size, a file or another library → `System`: a vocabulary, how it splits words, and its cost.

    volt RULE           the kept tokens of the size that the rule picks, from one search
    muv-search          the BPE vocabulary with the greatest MUV (Eq. 1) on the paper's grid of sizes
    bpe:N               the first N tokens of the same BPE
    spm-bpe:N           N tokens, trained by sentencepiece on the same words; likewise spm-unigram:N
    wordpiece:N         N tokens, trained by Hugging Face tokenizers on the same words
    PATH, PATH:PATTERN  a vocabulary file; PATTERN is the split pattern if the file lacks one

Without ":N" a system has the size of the chosen VOLT vocabulary.
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
from volt.comparison.libraries import Cutter, Library, ReadFile, of_sentencepiece, of_tokenizers
from volt.comparison.library_training import SENTENCEPIECE_FILE, TRAINERS, WORDPIECE_FILE, train
from volt.comparison.measures import Cuts, cuts_of
from volt.comparison.time_and_memory import Cost, measured
from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.files.paths import exists
from volt.files.temporary import scratch_folder
from volt.learn.candidates import Candidates
from volt.text.atoms import token_lengths
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

DEFAULT_SYSTEMS = (
    "muv-search",
    "bpe:1000",
    "bpe:8000",
    "bpe:30000",
    "spm-bpe",
    "spm-unigram",
    "wordpiece",
)
_KINDS = ("muv-search", "bpe", *TRAINERS)
_UNKNOWN_COST = "reading the file; the cost of training it is unknown"
_NAMES = {
    "spm-bpe": "sentencepiece bpe",
    "spm-unigram": "sentencepiece unigram",
    "wordpiece": "wordpiece",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """The parsed name of a system. pattern: the split pattern of a file: a published pattern or a regular expression"""

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
    """A vocabulary, and `cut`, a function of words and their source that splits the words into indices of `tokens`.

    tokens, lengths: all tokens, scaffolding included, and their lengths in characters
    always: (n_tokens,) bool, False for user and byte tokens, which are types only of a text in which they occur
    step_muv: MUV (Eq. 1) from the previous searched size to this one; None if this size was not searched
    sources: the names of the sources whose words `cut` can split; None for all
    """

    name: str
    family: str
    size: int
    tokens: tuple[str, ...] = field(repr=False)
    lengths: Longs = field(repr=False)
    always: Flags = field(repr=False)
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
    if kind in _KINDS and not (
        colon and (kind == "muv-search" or not size.isdecimal() or int(size) < 1)
    ):
        if kind == "bpe" and not size:
            raise ConfigError(f"system {text!r}: say how many tokens, such as bpe:8000")
        return Spec(kind, int(size) if size else None)
    if exists(text):
        return Spec("file", path=text)
    if size and exists(kind):
        return Spec("file", path=kind, pattern=size)
    near = get_close_matches(kind, _KINDS, n=1)
    hint = f"did you mean {near[0]}? Write" if near else "write"
    raise ConfigError(
        f"system {text!r}: no such system and no such file; {hint} {', '.join(_KINDS)}:SIZE or a file"
    )


def volt_systems(search: SearchResult, *, cost: Cost) -> Iterator[System]:
    note = "learning the candidates and the transports of all sizes; one search gives the vocabularies of all rules"
    systems: dict[int, System] = {}  # rules that pick the same size share a system
    for rule, pick in search.picks.items():
        if pick.index not in systems:
            step = search.steps[pick.index]
            systems[pick.index] = system_at(
                search.candidates,
                step.size,
                retained=step.kept,
                name="volt",
                family="volt",
                cost=cost,
                cost_note=note,
                step_muv=step.muv,
            )
        yield replace(
            systems[pick.index], name=f"volt {rule}", rule=rule, why=pick.why, on_edge=pick.on_edge
        )


def system_at(
    candidates: Candidates,
    size: int,
    *,
    name: str,
    cost: Cost,
    retained: NDArray[np.bool_] | None = None,
    **facts: Any,
) -> System:
    """Return the vocabulary of a size as a system. retained: (size,) bool, by default all tokens"""
    vocabulary, own_cost = measured(vocabulary_at, candidates, size, kept=retained)
    return vocabulary_system(name, vocabulary, cost=cost + own_cost, **facts)


def vocabulary_system(
    name: str, vocabulary: Vocabulary, *, words_of: WordCounts | None = None, **facts: Any
) -> System:
    """Return a system that splits words with VOLT's `Encoder`.

    words_of: the counts of the words to split. If they were normalised or split with other settings than the
        vocabulary's, each word is encoded as a line
    """
    encoder = Encoder(vocabulary)
    roles = set(vocabulary.special.roles.values())
    own = {*vocabulary.tokens, *vocabulary.scaffolding}
    types = tuple(
        piece
        for piece in (*vocabulary.pieces, *vocabulary.scaffolding)
        if piece and piece not in roles
    )
    lengths = token_lengths(
        ["?" if piece in BYTE_TOKENS else piece for piece in types], marker=vocabulary.marker
    )
    numbers = {piece: number for number, piece in enumerate(types)}
    settings = vocabulary.normalizer, vocabulary.pretokenizer
    as_texts = words_of is not None and settings != (words_of.normalizer, words_of.pretokenizer)
    if as_texts and words_of is not None and words_of.pretokenizer != PreTokenizer():
        raise VocabularyError(
            f"{name} splits text by {vocabulary.pretokenizer.name}, but the corpus was counted by "
            f"{words_of.pretokenizer.name}; count it by white space to compare them"
        )
    space = " " * (
        vocabulary.pretokenizer.keeps_spaces and not vocabulary.pretokenizer.dummy_prefix
    )

    def cut(words: Sequence[str], _source: str) -> Cuts:
        cuts = (
            encoder.encode_lines([space + word for word in words])
            if as_texts
            else encoder.encode_words(words)
        )
        return cuts_of([[numbers.get(piece, -1) for piece in pieces] for pieces in cuts])

    return System(
        name,
        tokens=types,
        lengths=lengths,
        always=np.array([piece in own for piece in types], bool),
        cut=cut,
        size=vocabulary.size,
        n_scaffolding=len(vocabulary.scaffolding),
        **facts,
    )


def file_system(file: ReadFile, *, counts: WordCounts) -> System:
    """Return the system of a file. counts: the words to split"""
    facts: dict[str, Any] = {
        "family": "file",
        "cost": file.cost,
        "rule": "as given",
        "cost_note": _UNKNOWN_COST,
    }
    name, model = f"file {file.path}", file.model
    if isinstance(model, Vocabulary):
        return vocabulary_system(name, model, words_of=counts, why=file.path, **facts)
    if counts.pretokenizer != PreTokenizer():
        raise _no_texts(model.name, counts)
    return _library_system(name, model, why=f"{file.path}, cut by {model.name}", **facts)


def _library_system(name: str, library: Library, **facts: Any) -> System:
    return System(
        name,
        size=library.size,
        tokens=library.tokens,
        lengths=library.lengths,
        always=library.always,
        cut=library.cut,
        **facts,
    )


def _no_texts(name: str, counts: WordCounts) -> VocabularyError:
    return VocabularyError(
        f"{name} reads texts; this corpus was counted by {counts.pretokenizer.name} "
        f"(normalizer {counts.normalizer.name}): count it by white space, not normalised, to compare them"
    )


def trained_system(kind: str, size: int, *, counts: WordCounts) -> System:
    if counts.pretokenizer != PreTokenizer() or counts.normalizer != Normalizer():
        raise _no_texts(_NAMES[kind], counts)
    with scratch_folder() as folder:
        cost = train(kind, size, counts=counts, folder=folder)
        is_wordpiece = kind == "wordpiece"
        result = (
            of_tokenizers(folder / WORDPIECE_FILE)
            if is_wordpiece
            else of_sentencepiece(folder / SENTENCEPIECE_FILE)
        )
    repeats = (
        "; the library takes no counts, so it reads each word as often as it occurs" * is_wordpiece
    )
    return _library_system(
        f"{_NAMES[kind]} {size}",
        result,
        family=_NAMES[kind],
        cost=cost,
        rule="fixed",
        cost_note=f"training alone, in a process of its own{repeats}",
        why="as requested"
        if result.size == size
        else f"{size:,} requested, the library gives {result.size:,}",
    )


def joined_system(name: str, systems: dict[str, System], **facts: Any) -> System:
    """Join the vocabularies of sources to one system that splits each source by its own vocabulary."""
    offsets = dict(
        zip(
            systems,
            accumulate((len(one.tokens) for one in systems.values()), initial=0),
            strict=False,
        )
    )

    def cut(words: Sequence[str], source: str) -> Cuts:
        cuts = systems[source].cut(words, source)
        return replace(cuts, ids=np.where(cuts.ids < 0, -1, cuts.ids + offsets[source]))

    return System(
        name,
        tokens=tuple(chain.from_iterable(one.tokens for one in systems.values())),
        lengths=np.concatenate([one.lengths for one in systems.values()]),
        always=np.concatenate([one.always for one in systems.values()]),
        cut=cut,
        size=sum(one.size for one in systems.values()),
        n_scaffolding=sum(one.n_scaffolding or 0 for one in systems.values()),
        sources=tuple(systems),
        **facts,
    )
