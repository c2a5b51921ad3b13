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
import polars as pl
from numpy.typing import NDArray

from volt.choose.criteria import Length, source_shares
from volt.choose.language_model import LanguageModel
from volt.choose.report import as_data as search_data
from volt.choose.search import SearchResult, entropy_curve
from volt.comparison.measures import Cuts, Measures, Text, character_entropy, compared, measure
from volt.comparison.size_studies import SampleCuts, Study
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
    """The distinct words of both texts of a source, and their counts in each."""

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
    for name in training | other:
        both = training.get(name), other.get(name)
        words = tuple(dict.fromkeys(chain.from_iterable(source.counts.words for source in both if source)))
        parts.append(MeasuredText(name, words, *(_text_of(source, words) if source else None for source in both)))
    return MeasuredTexts(tuple(parts), are_aligned(sources), are_aligned(heldout), length, model)


def _text_of(source: NamedText, words: Sequence[str]) -> Text:
    counts = dict(source.counts.table.rows())
    word_counts = np.fromiter((counts.get(word, 0) for word in words), np.int64, len(words))
    return Text(word_counts, source.n_characters, text_bytes(source.counts))


def cut_texts(system: System, texts: MeasuredTexts) -> dict[str, Cuts]:
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

    signature, made: the facts that reproduce it; date, machine and versions
    corpus, heldout: the training and the held-out texts
    search: search on the training texts together
    phases: the seconds of each phase, by name
    systems, chosen: every system, measured; the name of the one that the search's rule chose
    study: study of MUV-search
    tokens, samples: tokens along the sizes; lines, cut at every searched size
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
    tokens: pl.DataFrame = field(repr=False)
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
            "tokens": self.tokens.to_dict(as_series=False),
            "lengths": _lengths(self.tokens),
            "samples": {
                **asdict(self.samples),
                "samples": [{"source": source, "line": line} for source, line in self.samples.samples],
            },
            "problems": list(self.problems),
        }


def _lengths(table: pl.DataFrame) -> list[dict[str, int]]:
    groups = table.drop_nulls("count").group_by("length")
    return groups.agg(types=pl.len(), pieces=pl.col("count").sum()).sort("length").to_dicts()


def corpus_facts(texts: Sequence[NamedText], temperature: float) -> CorpusFacts:
    together = NamedText("all texts", reduce(add, (text.counts for text in texts)))
    sources = tuple(SourceFacts(text.name, text.files, *_facts(text)) for text in texts)
    return CorpusFacts(sources, *_facts(together), temperature, are_aligned(texts))


def _facts(text: NamedText) -> tuple[int, int, int, int, str]:
    counts = text.counts
    return counts.n_lines, counts.total, counts.n_words, text.n_characters, counts.fingerprint


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
