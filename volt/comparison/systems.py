"""A search, a size, a file or another library → `System`: a vocabulary that splits words.

    volt RULE           the retained tokens of the size that the rule picks, from one search
    muv-search          the BPE vocabulary with the greatest MUV (Eq. 1) among the paper's sizes
    bpe:N               the first N tokens of the same BPE
    spm-bpe:N           N tokens, trained by sentencepiece on the same words; or spm-unigram:N
    wordpiece:N         N tokens, trained by Hugging Face tokenizers on the same words
    PATH, PATH:PATTERN  a vocabulary file; PATTERN is the split pattern if the file lacks one

Without ":N" a system has the size of the chosen VOLT vocabulary. `parse_spec` parses these names;
one function for each row returns the system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import accumulate, chain
from typing import Any

import numpy as np

from volt.array_types import Flags, Longs
from volt.choose.search import SearchResult
from volt.choose.vocabulary_at import vocabulary_at
from volt.comparison.libraries import Cutter, Library, ReadFile, load_sentencepiece, load_tokenizers
from volt.comparison.library_training import SENTENCEPIECE_FILE, TRAINERS, WORDPIECE_FILE, train
from volt.comparison.measures import Cuts, flatten_cuts
from volt.comparison.time_and_memory import Cost, measure_cost
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
_VOLT_COST = (
    "learning the candidates and the transports of all sizes; one search gives the vocabularies of "
    "all rules"
)
_UNKNOWN_COST = "reading the file; the cost of training it is unknown"
_FAMILIES = {
    "spm-bpe": "sentencepiece bpe",
    "spm-unigram": "sentencepiece unigram",
    "wordpiece": "wordpiece",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """The parsed name of a system.

    kind: "file", or the name before the colon, such as "bpe"
    size: the number after the colon
    pattern: the split pattern of a file: a published pattern or a regular expression
    """

    kind: str
    size: int | None = None
    path: str | None = None
    pattern: str | None = None

    @property
    def text(self) -> str:
        name = self.path or self.kind
        detail = self.pattern if self.path else self.size
        return f"{name}:{detail}" if detail else name

    def with_size(self, size: int) -> Spec:
        """Return the name with this size, if it needs a size and has none."""
        needs_size = self.size is None and self.kind in TRAINERS
        return replace(self, size=size) if needs_size else self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class System:
    """A vocabulary, and a function that splits words.

    family: systems of one family differ in size or rule
    size: number of tokens, without special, byte and scaffolding tokens
    tokens, lengths: all tokens, scaffolding included, and their lengths in characters
    always_types: (n_tokens,) bool, False for user and byte tokens (see `measures`)
    cut: splits words of a source into indices of `tokens`
    cost, cost_note: what the vocabulary cost, and what that includes
    rule, why, on_edge: how the size was chosen, the reason, and whether it is the first or last
        size
    n_scaffolding: number of tokens that merges make but the vocabulary drops; None if unknown
    step_muv: MUV (Eq. 1) from the previous searched size to this one; None if this size was not
        searched
    sources: the names of the sources whose words `cut` can split; None for all
    """

    name: str
    family: str
    size: int
    tokens: tuple[str, ...]
    lengths: Longs
    always_types: Flags
    cut: Cutter
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
    if kind in _KINDS:
        if kind == "bpe" and not colon:
            raise ConfigError(f"system {text!r}: say how many tokens, such as bpe:8000")
        if not colon:
            return Spec(kind)
        if kind != "muv-search" and size.isdecimal() and int(size):
            return Spec(kind, int(size))
        if kind != "muv-search" and size.isdecimal():
            raise ConfigError(f"system {text!r}: the size is 0; give 1 or more")
    if exists(text):
        return Spec("file", path=text)
    if size and exists(kind):
        return Spec("file", path=kind, pattern=size)

    near = get_close_matches(kind, _KINDS, n=1)
    remedy = f"did you mean {near[0]}? Write" if near else "write"
    raise ConfigError(
        f"system {text!r}: no such system and no such file; {remedy} {', '.join(_KINDS)}:SIZE "
        "or a file"
    )


def volt_systems(search: SearchResult, *, cost: Cost) -> Iterator[System]:
    """Yield the system of each rule; rules that pick the same size share a vocabulary."""
    systems = dict[int, System]()
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
                cost_note=_VOLT_COST,
                step_muv=step.muv,
            )
        system = systems[pick.index]
        yield replace(system, name=f"volt {rule}", rule=rule, why=pick.why, on_edge=pick.on_edge)


def system_at(
    candidates: Candidates,
    size: int,
    *,
    name: str,
    cost: Cost,
    retained: Flags | None = None,
    **facts: Any,
) -> System:
    """Return the system of the first `size` tokens of the candidates.

    cost: the cost of the candidates, to which the cost of the vocabulary is added
    retained: (size,) bool, the tokens that the vocabulary keeps; by default all
    facts: other fields of `System`
    """
    vocabulary, vocabulary_cost = measure_cost(vocabulary_at, candidates, size, kept=retained)
    return vocabulary_system(name, vocabulary, cost=cost + vocabulary_cost, **facts)


def vocabulary_system(
    name: str, vocabulary: Vocabulary, *, counts: WordCounts | None = None, **facts: Any
) -> System:
    """Return a system that splits words with VOLT's `Encoder`.

    counts: the counts of the words to split. If they were normalised or split with other settings
        than the vocabulary's, each word is encoded as a line
    facts: other fields of `System`
    Raises VocabularyError if the counted words are not words of a text, but the vocabulary needs
    text.
    """
    encoder = Encoder(vocabulary)
    pretokenizer = vocabulary.pretokenizer
    roles = set(vocabulary.special.roles.values())
    pieces = (*vocabulary.pieces, *vocabulary.scaffolding)
    tokens = tuple(piece for piece in pieces if piece and piece not in roles)
    indices = {token: index for index, token in enumerate(tokens)}
    counted_tokens = {*vocabulary.tokens, *vocabulary.scaffolding}
    texts = ["?" if token in BYTE_TOKENS else token for token in tokens]

    encodes_lines = False
    if counts is not None:
        settings = counts.normalizer, counts.pretokenizer
        encodes_lines = settings != (vocabulary.normalizer, pretokenizer)
        if encodes_lines and counts.pretokenizer != PreTokenizer():
            raise VocabularyError(
                f"{name} splits text by {pretokenizer.name}, but the corpus was counted by "
                f"{counts.pretokenizer.name}; count it by white space to compare them"
            )
    # A pre-tokenizer that keeps spaces would see a word at the start of a line without its space.
    front = " " if pretokenizer.keeps_spaces and not pretokenizer.dummy_prefix else ""

    def cut(words: Sequence[str], _source: str) -> Cuts:
        lines = [front + word for word in words]
        encoded = encoder.encode_lines(lines) if encodes_lines else encoder.encode_words(words)
        return flatten_cuts([[indices.get(piece, -1) for piece in pieces] for pieces in encoded])

    return System(
        name,
        tokens=tokens,
        lengths=token_lengths(texts, marker=vocabulary.marker),
        always_types=np.array([token in counted_tokens for token in tokens], bool),
        cut=cut,
        size=vocabulary.size,
        n_scaffolding=len(vocabulary.scaffolding),
        **facts,
    )


def file_system(file: ReadFile, *, counts: WordCounts) -> System:
    """Return the system of a file. counts: the counts of the words to split"""
    facts: dict[str, Any] = {
        "family": "file",
        "cost": file.cost,
        "rule": "as given",
        "cost_note": _UNKNOWN_COST,
    }
    name = f"file {file.path}"
    model = file.model
    if isinstance(model, Vocabulary):
        return vocabulary_system(name, model, counts=counts, why=file.path, **facts)
    if counts.pretokenizer != PreTokenizer():
        raise _needs_text(model.name, counts)
    return _library_system(name, model, why=f"{file.path}, cut by {model.name}", **facts)


def _library_system(name: str, library: Library, **facts: Any) -> System:
    return System(
        name,
        size=library.size,
        tokens=library.tokens,
        lengths=library.lengths,
        always_types=library.always_types,
        cut=library.cut,
        **facts,
    )


def _needs_text(name: str, counts: WordCounts) -> VocabularyError:
    """Return the error for words that a library cannot split, because they are not from a text."""
    return VocabularyError(
        f"{name} reads texts; this corpus was counted by {counts.pretokenizer.name} (normalizer "
        f"{counts.normalizer.label}): count it by white space, not normalised, to compare them"
    )


def trained_system(kind: str, size: int, *, counts: WordCounts) -> System:
    """Train a vocabulary with another library, and return its system. kind: such as "spm-bpe"

    Raises VocabularyError for words that are not words of a text, CandidateError if the library
    fails.
    """
    family = _FAMILIES[kind]
    if counts.pretokenizer != PreTokenizer() or counts.normalizer != Normalizer():
        raise _needs_text(family, counts)
    note = "training alone, in a process of its own"
    with scratch_folder() as folder:
        cost = train(kind, size, counts=counts, folder=folder)
        if kind == "wordpiece":
            library = load_tokenizers(folder / WORDPIECE_FILE)
            note += "; the library takes no counts, so it reads each word as often as it occurs"
            note += "; its training is not reproducible: another run may give other tokens"
        else:
            library = load_sentencepiece(folder / SENTENCEPIECE_FILE)

    why = "as requested"
    if library.size != size:
        why = f"{size:,} requested, the library gives {library.size:,}"
    return _library_system(
        f"{family} {size}", library, family=family, cost=cost, rule="fixed", cost_note=note, why=why
    )


def joined_system(name: str, systems: dict[str, System], **facts: Any) -> System:
    """Join the vocabularies of several sources to one system that splits each source by its own.

    systems: source → its system. Their tokens follow each other, so equal tokens of two sources are
        two types
    """
    parts = systems.values()
    n_tokens_before = accumulate([len(system.tokens) for system in parts], initial=0)
    first_indices = dict(zip(systems, n_tokens_before, strict=False))

    def cut(words: Sequence[str], source: str) -> Cuts:
        cuts = systems[source].cut(words, source)
        shifted = cuts.ids + first_indices[source]
        return replace(cuts, ids=np.where(cuts.ids < 0, -1, shifted))

    return System(
        name,
        tokens=tuple(chain.from_iterable(system.tokens for system in parts)),
        lengths=np.concatenate([system.lengths for system in parts]),
        always_types=np.concatenate([system.always_types for system in parts]),
        cut=cut,
        size=sum(system.size for system in parts),
        n_scaffolding=sum(system.n_scaffolding or 0 for system in parts),
        sources=tuple(systems),
        **facts,
    )
