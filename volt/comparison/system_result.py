"""A `System` and the texts of a comparison → `SystemResult`: its measures on each text and source.

A text is either the training text or the held-out text; each consists of sources, such as
languages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from volt.choose.criteria import Length, source_shares
from volt.choose.scaling_law import LanguageModel
from volt.comparison.measures import Cuts, Measures, TextCounts, add_parities, measure
from volt.comparison.systems import System
from volt.comparison.texts import NamedText, are_aligned
from volt.count.corpus_statistics import text_bytes

CutSources = dict[str, tuple[TextCounts, Cuts]]  # source → its counts, and the pieces of its words
# The fields of a System that a SystemResult has, too.
_COPIED_FIELDS = (
    "name",
    "family",
    "size",
    "rule",
    "why",
    "on_edge",
    "n_scaffolding",
    "cost_note",
)


@dataclass(frozen=True, slots=True)
class SystemResult:
    """The measures of one vocabulary.

    size: number of tokens, without special ones
    n_scaffolding: number of tokens that merges make but the vocabulary drops; None for systems of
        other libraries
    seconds, memory_mb: what learning the vocabulary cost
    cost_note: what `seconds` and `memory_mb` include
    training, heldout: measures on all sources together; heldout is None without held-out text
    by_source, heldout_by_source: source → measures on its text
    shares: source → the share of a token's occurrences that are in this source, averaged over the
        used tokens
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
class SourceWords:
    """The training or held-out text.

    sources: source → its distinct words, and their counts
    is_aligned: whether there are several sources with equally many lines
    """

    sources: dict[str, tuple[list[str], TextCounts]]
    is_aligned: bool

    @classmethod
    def of(cls, texts: Sequence[NamedText]) -> SourceWords:
        sources = {}
        for text in texts:
            counts = text.counts
            word_counts = counts.counts.astype(np.int64)
            text_counts = TextCounts(word_counts, text.characters, text_bytes(counts))
            sources[text.name] = (counts.words, text_counts)
        return cls(sources, are_aligned(texts))

    def cut(self, system: System) -> CutSources:
        """Split the words of the sources that a system can split."""
        return {
            source: (counts, system.cut(words, source))
            for source, (words, counts) in self.sources.items()
            if system.can_cut(source)
        }


def measure_system(
    system: System,
    training: CutSources,
    heldout: CutSources,
    *,
    aligned: Sequence[bool],
    length: Length,
    model: LanguageModel | None,
) -> SystemResult:
    """Measure a system on all texts.

    training, heldout: the sources, split by the system
    aligned: whether the training sources are aligned, and whether the held-out sources are
    length: the mean length in Eq. 2: by type or by occurrence
    model: the language model whose cost per byte is measured
    """
    measure_parts = partial(
        measure,
        lengths=system.lengths,
        always_types=system.always_types,
        length=length,
        model=model,
    )
    by_source = []
    for sources, is_aligned in zip((training, heldout), aligned, strict=True):
        measures = {name: measure_parts([part]) for name, part in sources.items()}
        by_source.append(add_parities(measures, aligned=is_aligned))
    whole = measure_parts(list(training.values()))
    n_tokens = len(system.tokens)
    counts = [cuts.token_counts(text.word_counts, n_tokens) for text, cuts in training.values()]
    shares = source_shares(np.array(counts)).tolist()
    return SystemResult(
        **{name: getattr(system, name) for name in _COPIED_FIELDS},
        seconds=system.cost.seconds,
        memory_mb=system.cost.memory_mb,
        training=replace(whole, muv=system.step_muv if whole.is_ranked else None),
        heldout=measure_parts(list(heldout.values())) if heldout else None,
        by_source=by_source[0],
        heldout_by_source=by_source[1],
        shares=dict(zip(training, shares, strict=True)),
    )
