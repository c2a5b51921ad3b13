"""Training and held-out texts, cut by a system → `SystemResult`: its measures on each text and each source.

Every distinct word of a source is cut once per system, for the training and the held-out text together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from volt.choose.criteria import Length, source_shares
from volt.choose.scaling import LanguageModel
from volt.comparison.measures import Cuts, Measures, Text, character_entropy, compared, measure
from volt.comparison.named_texts import NamedText, are_aligned
from volt.comparison.systems import System
from volt.count.text_bytes import text_bytes

Longs = NDArray[np.int64]
Part = tuple[Sequence[str], Text, Cuts]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One vocabulary, measured.

    name: "volt knee", "muv-search", "bpe 8000", "sentencepiece unigram 8000", "wordpiece 8000", "file PATH" …
    family: volt, muv-search, bpe, sentencepiece bpe, sentencepiece unigram, wordpiece, file
    size: tokens, special ones not counted
    rule: how the size was chosen
    why: the reason for the size
    on_edge: whether the size is the first or the last that could be chosen
    n_scaffolding: tokens that merges make and the vocabulary does not keep, None where other libraries merge
    seconds: wall time to obtain the vocabulary from the counted words
    memory_mb: greatest resident memory above that before, in 10⁶ bytes
    cost_note: what seconds and memory include, above all what other systems share
    training, heldout: measures of all sources together, None where there is no held-out text
    by_source, heldout_by_source: measures of each source
    shares: each source's share of the vocabulary: its part of a token's count, a mean over the tokens used
    """

    name: str
    family: str
    size: int
    rule: str
    why: str
    on_edge: bool
    n_scaffolding: int | None
    seconds: float | None
    memory_mb: float | None
    cost_note: str
    training: Measures
    heldout: Measures | None
    by_source: dict[str, Measures]
    heldout_by_source: dict[str, Measures]
    shares: dict[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredText:
    """A source, ready to be measured.

    words: the distinct words of its training and its held-out text
    training, heldout: the counts of these words in either text, None where the source has no such text
    """

    name: str
    words: tuple[str, ...]
    training: Text | None
    heldout: Text | None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTexts:
    """All sources, ready to be measured.

    aligned, heldout_aligned: whether all sources have as many lines, so that their pieces can be compared
    length: what the mean length of Eq. 2 is taken over
    model: the language model whose cost per byte is measured, if any
    """

    sources: tuple[MeasuredText, ...]
    aligned: bool
    heldout_aligned: bool
    length: Length = "type"
    model: LanguageModel | None = None


def measured_texts(
    sources: Sequence[NamedText],
    heldout: Sequence[NamedText],
    *,
    length: Length = "type",
    model: LanguageModel | None = None,
) -> MeasuredTexts:
    """Put each training text beside the held-out text of the same name.

    >>> from volt.count.word_counts import WordCounts
    >>> source = NamedText("en", WordCounts.from_pairs({"low": 2}))
    >>> texts = measured_texts([source], [NamedText("en", WordCounts.from_pairs({"lower": 1}))])
    >>> texts.sources[0].words, texts.sources[0].heldout.word_counts
    (('low', 'lower'), array([0, 1]))
    """
    training, other = ({source.name: source for source in some} for some in (sources, heldout))
    parts = []
    for name in dict.fromkeys((*training, *other)):
        both = [found[name].counts.words for found in (training, other) if name in found]
        words = tuple(dict.fromkeys(chain.from_iterable(both)))
        places = {word: place for place, word in enumerate(words)}
        texts = (_text(found[name], places) if name in found else None for found in (training, other))
        parts.append(MeasuredText(name, words, *texts))
    return MeasuredTexts(tuple(parts), are_aligned(sources), are_aligned(heldout), length, model)


def _text(source: NamedText, places: dict[str, int]) -> Text:
    counts = np.zeros(len(places), np.int64)
    counts[[places[word] for word in source.counts.words]] = source.counts.counts
    return Text(counts, source.n_characters, text_bytes(source.counts), source.counts.n_lines)


def cut_texts(system: System, texts: MeasuredTexts) -> dict[str, Cuts]:
    """Cut every distinct word of each source for which the system has a vocabulary."""
    return {part.name: system.cut(part.words, part.name) for part in texts.sources if system.can_cut(part.name)}


def measure_system(system: System, texts: MeasuredTexts, *, cuts: dict[str, Cuts]) -> SystemResult:
    """Measure a system on all texts. cuts: those that `cut_texts` found."""
    training, heldout = _parts(texts, cuts, "training"), _parts(texts, cuts, "heldout")
    counts = np.array([cut.token_counts(text.word_counts, len(system.tokens)) for _, text, cut in training.values()])
    whole = _measured(training.values(), system, texts)
    return SystemResult(
        name=system.name,
        family=system.family,
        size=system.size,
        rule=system.rule,
        why=system.why,
        on_edge=system.on_edge,
        n_scaffolding=system.n_scaffolding,
        seconds=system.cost.seconds,
        memory_mb=system.cost.memory_mb,
        cost_note=system.cost_note,
        training=replace(whole, muv=system.step_muv if whole.is_ranked else None),
        heldout=_measured(heldout.values(), system, texts) if heldout else None,
        by_source=_by_source(training, system, texts, aligned=texts.aligned),
        heldout_by_source=_by_source(heldout, system, texts, aligned=texts.heldout_aligned),
        shares=dict(zip(training, source_shares(counts).tolist(), strict=True)),
    )


def _parts(texts: MeasuredTexts, cuts: dict[str, Cuts], which: Literal["training", "heldout"]) -> dict[str, Part]:
    """The words, counts and cuts of each source that has such a text and was cut."""
    found = ((part.name, part.words, getattr(part, which)) for part in texts.sources if part.name in cuts)
    return {name: (words, text, cuts[name]) for name, words, text in found if text is not None}


def _by_source(parts: dict[str, Part], system: System, texts: MeasuredTexts, *, aligned: bool) -> dict[str, Measures]:
    return compared({name: _measured([part], system, texts) for name, part in parts.items()}, aligned=aligned)


def _measured(parts: Iterable[Part], system: System, texts: MeasuredTexts) -> Measures:
    parts = list(parts)
    words = list(chain.from_iterable(words for words, _, _ in parts))
    atoms = character_entropy(words, np.concatenate([text.word_counts for _, text, _ in parts]))
    cut = [(text, cuts) for _, text, cuts in parts]
    return measure(cut, lengths=system.lengths, length=texts.length, atoms=atoms, model=texts.model)
