"""Sources and held-out texts → distinct words, each cut once per system → `SystemResult`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from volt.choose.criteria import Length, source_shares
from volt.comparison.measures import Cuts, Measures, Text, character_entropy, compared, measure
from volt.comparison.named_texts import NamedText, are_aligned
from volt.comparison.systems import System

Longs = NDArray[np.int64]
Part = tuple[Sequence[str], Text, Cuts]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One vocabulary, measured.

    name: "volt knee", "muv-search", "bpe 8000", "sentencepiece unigram 8000", "wordpiece 8000", "file PATH" …
    family: volt, muv-search, bpe, sentencepiece bpe, sentencepiece unigram, wordpiece, file
    size: tokens, special ones not counted;  rule, why, on_edge: how the size was chosen
    n_scaffolding: tokens that merges make and the vocabulary does not keep (None where the notion has no meaning)
    seconds: wall time to obtain it from the counted words;  memory_mb: greatest resident memory above that before
    cost_note: what these two cover, above all what is shared with other rows
    shares: of each source in the vocabulary: the mean, over the tokens used, of the source's part of a token's count
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
    """A source's words, training and held-out together, and their counts in either; None: it has no such text."""

    name: str
    words: tuple[str, ...]
    training: Text | None
    heldout: Text | None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTexts:
    """All texts. aligned, heldout_aligned: whether the sources have equally many lines, so that pieces compare."""

    sources: tuple[MeasuredText, ...]
    aligned: bool
    heldout_aligned: bool
    length: Length = "type"


def measured_texts(
    sources: Sequence[NamedText], heldout: Sequence[NamedText], *, length: Length = "type"
) -> MeasuredTexts:
    """Put each source beside the held-out text of its name.

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
    return MeasuredTexts(tuple(parts), are_aligned(sources), are_aligned(heldout), length)


def _text(source: NamedText, places: dict[str, int]) -> Text:
    counts = np.zeros(len(places), np.int64)
    counts[[places[word] for word in source.counts.words]] = source.counts.counts
    return Text(counts, source.n_characters, source.counts.n_lines)


def cut_texts(system: System, texts: MeasuredTexts) -> dict[str, Cuts]:
    """Every distinct word of each source that the system has a vocabulary for, cut once."""
    return {part.name: system.cut(part.words, part.name) for part in texts.sources if system.can_cut(part.name)}


def measure_system(system: System, texts: MeasuredTexts, *, cuts: dict[str, Cuts]) -> SystemResult:
    """Measure a system on what `cut_texts` found."""
    training: dict[str, Part] = {
        part.name: (part.words, part.training, cuts[part.name]) for part in texts.sources if part.training is not None
    }
    heldout: dict[str, Part] = {
        part.name: (part.words, part.heldout, cuts[part.name])
        for part in texts.sources
        if part.heldout is not None and part.name in cuts
    }
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
        training=replace(whole, muv=system.step_muv),
        heldout=_measured(heldout.values(), system, texts) if heldout else None,
        by_source=_by_source(training, system, texts, aligned=texts.aligned),
        heldout_by_source=_by_source(heldout, system, texts, aligned=texts.heldout_aligned),
        shares=dict(zip(training, source_shares(counts).tolist(), strict=True)),
    )


def _by_source(parts: dict[str, Part], system: System, texts: MeasuredTexts, *, aligned: bool) -> dict[str, Measures]:
    return compared({name: _measured([part], system, texts) for name, part in parts.items()}, aligned=aligned)


def _measured(parts: Iterable[Part], system: System, texts: MeasuredTexts) -> Measures:
    parts = list(parts)
    words = list(chain.from_iterable(words for words, _, _ in parts))
    atoms = character_entropy(words, np.concatenate([text.word_counts for _, text, _ in parts]))
    return measure([(text, cuts) for _, text, cuts in parts], lengths=system.lengths, length=texts.length, atoms=atoms)
