"""`Comparison`: the result of `compare`, and its JSON layout. Cut texts → `SystemResult`: a system's measures.

All reports come from one `Comparison`. `as_data` lays it out as JSON; a capital letter stands for a dataclass:

    version         1
    signature       the facts that reproduce the search
    made            Made;  corpus: CorpusFacts;  heldout: likewise, or null
    search          volt.choose.report.as_data of the joint search
    systems         [SystemResult];  chosen: the name of the system that the search's rule chose
    study           Study
    tokens          columns {token, length, count, rank, appears, peak, peak_count, scaffolding}; count and rank
                    are null for a token that the chosen vocabulary lacks, scaffolding for one that no size drops
    lengths         [{length, types, pieces}] of the chosen vocabulary
    samples         {sizes, samples: [{source, line}], cuts: [size][sample][word] → list of token number or string,
                    counts: [size] → {token number as string: count}}
    problems        sentences on parts of the comparison that failed, and why
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from operator import add
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from volt.choose.criteria import Length, source_shares
from volt.choose.language_model import LanguageModel
from volt.choose.report import as_data as search_data
from volt.choose.search import SearchResult, entropy_curve
from volt.comparison.measures import Cuts, Measures, Text, character_entropy, compared, measure
from volt.comparison.size_studies import SampleCuts, Study, TokenTable
from volt.comparison.systems import System
from volt.comparison.texts import NamedText, are_aligned
from volt.count.corpus_statistics import text_bytes
from volt.display import counted, html_note, html_page, html_table

Longs = NDArray[np.int64]
Part = tuple[Sequence[str], Text, Cuts]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One vocabulary, measured.

    size: number of tokens, without special ones
    n_scaffolding: tokens that merges make and the vocabulary drops; None for systems of other libraries
    cost_note: what seconds and memory_mb include
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
    """A source, ready to be measured: the distinct words of both texts, and their counts in each."""

    name: str
    words: tuple[str, ...]
    training: Text | None
    heldout: Text | None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTexts:
    """All sources, ready to be measured. aligned: whether all have equally many lines"""

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
    """Pair each training text with the held-out text of the same name."""
    training, other = ({source.name: source for source in some} for some in (sources, heldout))
    parts = []
    for name in dict.fromkeys((*training, *other)):
        both = [result[name].counts.words for result in (training, other) if name in result]
        words = tuple(dict.fromkeys(chain.from_iterable(both)))
        places = {word: place for place, word in enumerate(words)}
        texts = (_text(result[name], places) if name in result else None for result in (training, other))
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
    """Measure a system on all texts. cuts: the result of `cut_texts`"""
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
    result = ((part.name, part.words, getattr(part, which)) for part in texts.sources if part.name in cuts)
    return {name: (words, text, cuts[name]) for name, words, text in result if text is not None}


def _by_source(parts: dict[str, Part], system: System, texts: MeasuredTexts, *, aligned: bool) -> dict[str, Measures]:
    return compared({name: _measured([part], system, texts) for name, part in parts.items()}, aligned=aligned)


def _measured(parts: Iterable[Part], system: System, texts: MeasuredTexts) -> Measures:
    parts = list(parts)
    words = list(chain.from_iterable(words for words, _, _ in parts))
    atoms = character_entropy(words, np.concatenate([text.word_counts for _, text, _ in parts]))
    cut = [(text, cuts) for _, text, cuts in parts]
    return measure(cut, lengths=system.lengths, length=texts.length, atoms=atoms, model=texts.model)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts of a `NamedText`: its files, the numbers of what it holds, the fingerprint of its word counts."""

    name: str
    files: tuple[str, ...]
    lines: int
    words: int
    distinct_words: int
    characters: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Facts of all sources together. aligned: whether all have equally many lines"""

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
    """The date (UTC, ISO 8601), machine and versions of a comparison, and its seconds."""

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

    signature: the facts that reproduce it
    made: date, machine and versions
    corpus, heldout: the training and the held-out texts
    search: search on the training texts together
    phases: the seconds of each phase, by name
    systems: every system, measured
    chosen: the name of the system that the search's rule chose
    study: study of MUV-search
    tokens: counts and ranks of each token along the sizes
    samples: lines, cut at every searched size
    problems: sentences on parts that failed, and why

    >>> import volt
    >>> comparison = volt.compare(NamedText("en", {"low": 5, "lower": 2, "newest": 6, "widest": 3}), systems=[])
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
        """Return everything as JSON values, in the layout that the module describes."""
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
            "samples": {
                "sizes": list(self.samples.sizes),
                "samples": [{"source": source, "line": line} for source, line in self.samples.samples],
                "cuts": [[[list(word) for word in line] for line in at_size] for at_size in self.samples.cuts],
                "counts": [{str(token): n for token, n in counts.items()} for counts in self.samples.counts],
            },
            "problems": list(self.problems),
        }


def _token_columns(table: TokenTable) -> dict[str, Any]:
    return {
        "token": list(table.tokens),
        "length": table.lengths.tolist(),
        "count": [count if count >= 0 else None for count in table.counts.tolist()],
        "rank": [rank or None for rank in table.ranks.tolist()],
        "appears": table.appears.tolist(),
        "peak": table.peaks.tolist(),
        "peak_count": table.peak_counts.tolist(),
        "scaffolding": [size or None for size in table.scaffolding.tolist()],
    }


def _lengths(table: TokenTable) -> list[dict[str, int]]:
    held = table.counts >= 0
    lengths, counts = table.lengths[held], table.counts[held]
    return [
        {"length": length, "types": n_types, "pieces": int(counts[lengths == length].sum())}
        for length, n_types in enumerate(np.bincount(lengths).tolist())
        if n_types
    ]


def corpus_facts(texts: Sequence[NamedText], temperature: float) -> CorpusFacts:
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
    libraries = {}
    for library in ("numpy", "polars", "numba", "scipy", "sentencepiece", "tokenizers"):
        with suppress(PackageNotFoundError):
            libraries[library] = version(library)
    return Made(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=f"{platform.system()} {platform.machine()}",
        n_cpus=os.cpu_count() or 1,
        python=platform.python_version(),
        volt=version("volt-vocab"),
        libraries=libraries,
        seconds=seconds,
    )
