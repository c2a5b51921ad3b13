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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.choose.search import SearchResult
from volt.choose.size_steps import SizeStep
from volt.choose.vocabulary_at import vocabulary_at
from volt.comparison.cost import Cost, measured
from volt.comparison.libraries import Library, ReadFile, of_sentencepiece, of_tokenizers
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
Cutter = Callable[[Sequence[str], str], Cuts]

DEFAULT_SYSTEMS = ("muv-search", "bpe:1000", "bpe:8000", "bpe:30000", "spm-bpe", "spm-unigram", "wordpiece")
_KINDS = ("muv-search", "bpe", *TRAINERS)
_NAMES = {"spm-bpe": "sentencepiece bpe", "spm-unigram": "sentencepiece unigram", "wordpiece": "wordpiece"}


@dataclass(frozen=True, slots=True)
class Spec:
    """A system, parsed from its name.

    kind: a name in the module's list, or "file"
    size: number of tokens; None for the size of the chosen vocabulary
    path: path of a file
    pattern: the name of a published pattern, or a regular expression, for files that do not name one
    """

    kind: str
    size: int | None = None
    path: str | None = None
    pattern: str | None = None

    @property
    def text(self) -> str:
        """The name, as `parse_spec` reads it."""
        detail = self.pattern if self.path else self.size
        return (self.path or self.kind) + (f":{detail}" if detail else "")

    def sized(self, size: int) -> Spec:
        """Return the spec with this size, if it needs one and has none.

        >>> Spec("wordpiece").sized(7000).text
        'wordpiece:7000'
        """
        return replace(self, size=size) if self.size is None and self.kind in TRAINERS else self


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """A vocabulary that cuts words.

    size: number of tokens, without special and byte tokens
    tokens: the tokens that count as types, without special ones
    lengths: (n,) int64, characters
    cut: distinct words and the name of their source → Cuts into numbers of `tokens`
    cost: cost of obtaining it
    step_muv: Eq. 1 against the searched size before, if its size was searched
    sources: the names of the sources that it can cut, None for any
    Other fields: see volt.comparison.result.SystemResult.
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
        """Check whether it has a vocabulary for this source."""
        return self.sources is None or source in self.sources


def parse_spec(text: str) -> Spec:
    """Parse the name of a system. Raises ConfigError if it is neither in the module's list nor an existing file."""
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
    """Yield one system for each rule, all from one search.

    cost: cost of learning and search together
    parts: a note on what the cost includes
    """
    output: dict[int, System] = {}  # rules that pick the same size share a system
    for rule, pick in search.picks.items():
        if pick.index not in output:
            output[pick.index] = _step_system(search, search.steps[pick.index], cost, parts)
        yield replace(output[pick.index], name=f"volt {rule}", rule=rule, why=pick.why, on_edge=pick.on_edge)


def _step_system(search: SearchResult, step: SizeStep, cost: Cost, parts: str) -> System:
    with measured() as costs:
        vocabulary = vocabulary_at(search.candidates, step.size, kept=step.kept)
    note = f"{parts}; one search gives the vocabularies of all rules"
    return vocabulary_system("volt", vocabulary, family="volt", cost=cost + costs[0], cost_note=note, step_muv=step.muv)


def bpe_system(candidates: Candidates, size: int, *, name: str, cost: Cost, cost_note: str, **facts: Any) -> System:
    """Return the first `size` tokens that BPE makes, all kept.

    facts: further fields of System
    Raises CandidateError if the candidates do not reach that size.
    """
    with measured() as costs:
        vocabulary = vocabulary_at(candidates, size)
    return vocabulary_system(name, vocabulary, cost=cost + costs[0], cost_note=cost_note, **facts)


def vocabulary_system(name: str, vocabulary: Vocabulary, *, words_of: WordCounts | None = None, **facts: Any) -> System:
    """Return a system that cuts words with VOLT's `Encoder`.

    words_of: the counts whose words it will cut. If these were normalised or pre-tokenised in another way, the system
        encodes each word as a separate text, after a space if its pre-tokens hold their spaces.
    facts: further fields of System
    Raises VocabularyError if it must do so and the words were not cut at white space.

    >>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>"))
    >>> system = vocabulary_system("mine", vocabulary, family="file", cost=Cost(0.0, None), cost_note="")
    >>> system.cut(["low"], "en").ids, system.lengths
    (array([2, 3]), array([1, 1, 2, 1]))
    """
    encoder = Encoder(vocabulary)
    roles = set(vocabulary.special.roles.values())
    types = tuple(piece for piece in vocabulary.pieces if piece and piece not in roles)
    lengths = np.fromiter((_text_length(piece, vocabulary.marker) for piece in types), np.int64, len(types))
    numbers = {piece: number for number, piece in enumerate(types)}
    as_texts = words_of is not None and not _made_alike(vocabulary, words_of)
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


def _made_alike(vocabulary: Vocabulary, counts: WordCounts) -> bool:
    return (vocabulary.normalizer, vocabulary.pretokenizer) == (counts.normalizer, counts.pretokenizer)


def _text_length(piece: str, marker: str) -> int:
    """Return the number of characters of a piece without its marker; 1 for a byte token."""
    if piece in BYTE_TOKENS:
        return 1
    return max(1, len(piece.removesuffix(SUFFIX)) if marker == "suffix" else len(piece) - piece.count(PREFIX))


def file_system(file: ReadFile, *, counts: WordCounts) -> System:
    """Return the system of a file.

    counts: the counts whose words it will cut
    Raises VocabularyError if another library must cut the words and these were not cut at white space.
    """
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
        cut=_cutter(file.model), cost=file.cost, cost_note=note, rule="as given",
        why=f"{file.path}, cut by {file.model.name}",
    )  # fmt: skip


def _cutter(library: Library) -> Cutter:
    return lambda words, _source: library.cut(words)


def _no_texts(name: str, counts: WordCounts) -> VocabularyError:
    return VocabularyError(
        f"{name} reads texts; this corpus was counted by {counts.pretokenizer.name} "
        f"(normalizer {counts.normalizer.name}): count it by white space, not normalised, to compare them"
    )


def trained_system(kind: str, size: int, *, counts: WordCounts) -> System:
    """Train a vocabulary with another library, in a second process, on the words of `counts` as separate texts.

    Raises MissingLibraryError if the library is not installed.
    Raises CandidateError if the library refuses the size.
    Raises VocabularyError if the words were not cut at white space, or were normalised.
    """
    if counts.pretokenizer != PreTokenizer() or counts.normalizer != Normalizer():
        raise _no_texts(_NAMES[kind], counts)
    with scratch_folder() as folder:
        cost = train(kind, size, counts=counts, folder=folder)
        wordpiece = kind == "wordpiece"
        result = of_tokenizers(folder / WORDPIECE_FILE) if wordpiece else of_sentencepiece(folder / SENTENCEPIECE_FILE)
    repeats = "; the library takes no counts, so it reads each word as often as it occurs" * (kind == "wordpiece")
    return System(
        name=f"{_NAMES[kind]} {size}", family=_NAMES[kind], size=result.size, tokens=result.tokens,
        lengths=result.lengths, cut=_cutter(result), cost=cost,
        cost_note=f"training alone, in a process of its own{repeats}", rule="fixed",
        why="as requested" if result.size == size else f"{size:,} requested, the library gives {result.size:,}",
    )  # fmt: skip


def joined_system(name: str, systems: dict[str, System], **facts: Any) -> System:
    """Join the vocabularies of separate sources to one system, which cuts each source by its own vocabulary.

    systems: the system of each source, by name; they share no tokens
    facts: further fields of System
    """
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
