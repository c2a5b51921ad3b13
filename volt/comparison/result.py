"""`Comparison`: what `compare` found, and its JSON layout.

The terminal, the Markdown, the JSON and the HTML page all come from one `Comparison`. `as_data` lays it out as JSON:

    version         1
    signature       what reproduces the search
    made            {date (UTC, ISO), machine, n_cpus, python, volt, libraries: {name: version}, seconds: total}
    corpus          {sources: [{name, files, lines, words, distinct_words, characters, fingerprint}], lines, words,
                    distinct_words, characters, fingerprint, temperature, aligned (all sources have as many lines)}
    heldout         the same, or null
    search          volt.choose.report.as_data of the joint search: {signature, fingerprint, best, pick, picks: {rule:
                    {rule, index, size, why, on_edge}}, steps: [{size, n_kept, entropy, transport_entropy, muv,
                    transport_muv, n_pieces, f95, renyi, tokens_per_byte, serving_flops_per_byte, …}], vocabulary,
                    warnings, cuts, seconds: {phase: s}}
    systems         [{name, family, size, rule, why, on_edge, n_scaffolding, seconds, memory_mb, cost_note,
                    training: Measures, heldout: Measures | null, by_source: {source: Measures},
                    heldout_by_source: {source: Measures}, shares: {source: share of the vocabulary}}]
    chosen          the name of the system that the search's rule chose, such as "volt knee"
    study           {grid: [GridRow], argmaxes: [Argmax], curve: Curve (columns), costs: [CostRow], warnings}
    tokens          columns {token, length, count, rank, appears, peak, peak_count, scaffolding}; count and rank
                    are null for a token that the chosen vocabulary lacks, scaffolding for one that no size drops
    lengths         [{length, types, pieces}] of the chosen vocabulary: its tokens by length, and their occurrences
    samples         {sizes, samples: [{source, line}], cuts: [size][sample][word] → list of token number or string,
                    counts: [size] → {token number as string: count}}
    problems        sentences on what could not be made, and why

Measures, Curve, GridRow, Argmax, CostRow: the fields of the dataclasses of these names in volt.comparison.measures and
volt.comparison.muv_study, spelled the same.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from operator import add
from typing import Any

import numpy as np

from volt.choose.notebook import entropy_curve
from volt.choose.report import as_data as search_data
from volt.choose.search import SearchResult
from volt.comparison.measuring import SystemResult
from volt.comparison.muv_study import Study
from volt.comparison.named_texts import NamedText, are_aligned
from volt.comparison.token_table import SampleCuts, TokenTable
from volt.display import counted, html_note, html_page, html_table

_LIBRARIES = ("numpy", "polars", "numba", "scipy", "sentencepiece", "tokenizers")


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What is known of a `NamedText`.

    files: the files that it was read from
    lines, words, distinct_words, characters: how many it has
    fingerprint: of its word counts
    """

    name: str
    files: tuple[str, ...]
    lines: int
    words: int
    distinct_words: int
    characters: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """All sources together.

    lines, words, distinct_words, characters: how many they have
    fingerprint: of the word counts of all
    temperature: what rescaled them for learning
    aligned: whether all have as many lines
    """

    sources: tuple[SourceFacts, ...]
    lines: int
    words: int
    distinct_words: int
    characters: int
    fingerprint: str
    temperature: float
    aligned: bool


@dataclass(frozen=True, slots=True)
class Made:
    """When, where and with what a comparison was made.

    date: UTC, ISO 8601
    seconds: wall time of all of it
    """

    date: str
    machine: str
    n_cpus: int
    python: str
    volt: str
    libraries: dict[str, str]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Everything that a report of a comparison shows.

    signature: what reproduces it
    made: when, where and with what
    corpus, heldout: the training and the held-out texts
    search: of the training texts together
    phases: the seconds of each phase, by name
    systems: every system, measured
    chosen: the name of the system that the search's rule chose
    study: of MUV-search
    tokens: what becomes of each token along the sizes
    samples: lines, cut at every searched size
    problems: sentences on what could not be made, and why

    `volt.compare` makes one.

    >>> import volt
    >>> counts = volt.WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3})
    >>> comparison = volt.compare(NamedText("en", counts), systems=[])
    >>> comparison.chosen, comparison.as_data()["corpus"]["words"]
    ('volt balanced', 16)
    """

    signature: str
    made: Made
    corpus: CorpusFacts
    heldout: CorpusFacts | None
    search: SearchResult = field(repr=False)
    phases: dict[str, float]
    systems: tuple[SystemResult, ...]
    chosen: str
    study: Study = field(repr=False)
    tokens: TokenTable = field(repr=False)
    samples: SampleCuts = field(repr=False)
    problems: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all texts."""
        texts = (*self.corpus.sources, *(self.heldout.sources if self.heldout else ()))
        return tuple(file for text in texts for file in text.files)

    def __repr__(self) -> str:
        sources = f"{counted(len(self.corpus.sources), 'source')} of {counted(self.corpus.words, 'word')}"
        chosen = f"{self.chosen} chosen, {counted(self.search.vocabulary.size, 'token')}"
        return f"<Comparison: {counted(len(self.systems), 'system')} on {sources}, {chosen}>"

    def _repr_html_(self) -> str:
        rows = [
            (system.name, system.size, "–" if fertility is None else f"{fertility:.3f}", system.why)
            for system in self.systems
            for fertility in [(system.heldout or system.training).fertility]
        ]
        names = [system.name for system in self.systems]
        text = "held-out" if self.heldout else "training"
        return html_page(
            f"{self.chosen} is chosen, on {counted(self.corpus.words, 'word')}",
            html_table(
                ["system", "tokens", f"pieces per {text} word", "why"], rows,
                strong=names.index(self.chosen) if self.chosen in names else -1,
            ),
            entropy_curve(self.search.steps, self.search.pick),
            *map(html_note, (*self.problems, *self.search.warnings)),
        )  # fmt: skip

    def as_data(self) -> dict[str, Any]:
        """Everything as JSON values, in the layout that the module describes."""
        return {
            "version": 1,
            "signature": self.signature,
            "made": asdict(self.made),
            "corpus": asdict(self.corpus),
            "heldout": asdict(self.heldout) if self.heldout else None,
            "search": search_data(self.search, seconds=self.phases),
            "systems": [asdict(system) for system in self.systems],
            "chosen": self.chosen,
            "study": asdict(self.study),
            "tokens": _token_columns(self.tokens),
            "lengths": _lengths(self.tokens),
            "samples": _samples(self.samples),
            "problems": list(self.problems),
        }


def _token_columns(table: TokenTable) -> dict[str, Any]:
    held = (table.counts >= 0).tolist()
    return {
        "token": list(table.tokens),
        "length": table.lengths.tolist(),
        "count": [count if here else None for count, here in zip(table.counts.tolist(), held, strict=True)],
        "rank": [rank if here else None for rank, here in zip(table.ranks.tolist(), held, strict=True)],
        "appears": table.appears.tolist(),
        "peak": table.peaks.tolist(),
        "peak_count": table.peak_counts.tolist(),
        "scaffolding": [size or None for size in table.scaffolding.tolist()],
    }


def _lengths(table: TokenTable) -> list[dict[str, int]]:
    held = table.counts >= 0
    lengths, counts = table.lengths[held], table.counts[held]
    types = np.bincount(lengths).tolist()
    pieces = [int(counts[lengths == length].sum()) for length in range(len(types))]
    return [
        {"length": length, "types": n_types, "pieces": pieces[length]}
        for length, n_types in enumerate(types)
        if n_types
    ]


def _samples(samples: SampleCuts) -> dict[str, Any]:
    return {
        "sizes": list(samples.sizes),
        "samples": [{"source": source, "line": line} for source, line in samples.samples],
        "cuts": [[[list(word) for word in line] for line in at_size] for at_size in samples.cuts],
        "counts": [{str(token): count for token, count in counts.items()} for counts in samples.counts],
    }


def corpus_facts(texts: Sequence[NamedText], temperature: float) -> CorpusFacts:
    """What is known of these texts, each and together. temperature: what rescaled them for learning."""
    counts = reduce(add, (text.counts for text in texts))
    parts = tuple(
        SourceFacts(
            text.name, text.files, text.counts.n_lines, text.counts.total, text.counts.n_words,
            text.n_characters, text.counts.fingerprint,
        )
        for text in texts
    )  # fmt: skip
    return CorpusFacts(
        parts, counts.n_lines, counts.total, counts.n_words, sum(part.characters for part in parts),
        counts.fingerprint, temperature, are_aligned(texts),
    )  # fmt: skip


def made_now(seconds: float) -> Made:
    """The record of this machine, this moment and the libraries here. seconds: wall time of the comparison."""
    return Made(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=f"{platform.system()} {platform.machine()}",
        n_cpus=os.cpu_count() or 1,
        python=platform.python_version(),
        volt=version("volt-vocab"),
        libraries=dict(_versions()),
        seconds=seconds,
    )


def _versions() -> Iterator[tuple[str, str]]:
    for library in _LIBRARIES:
        try:
            yield library, version(library)
        except PackageNotFoundError:
            continue
