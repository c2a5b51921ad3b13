"""`Comparison`: the result of `compare`. A system → `SystemResult`: its measures on all texts.

`as_data` lays it out as JSON; a capitalised name stands for a dataclass:

    version         1
    signature       the facts that reproduce the search
    made            {date, machine, n_cpus, python, volt, libraries, seconds};  corpus: CorpusFacts
    heldout         CorpusFacts, or null
    search          volt.choose.report.as_data of the joint search
    systems         [SystemResult];  chosen: the name of the system that the search's rule chose
    study           Study
    tokens          columns {token, length, count, rank, appears, peak, peak_count, scaffolding};
                    count and rank are null if the chosen vocabulary lacks a token; scaffolding is
                    null if no size drops the token
    lengths         [{length, types, pieces}] of the chosen vocabulary
    samples         {sizes, samples: [{source, line}],
                    cuts: [size][sample][word] → list of token number or string,
                    counts: [size] → {token number as string: count}}
    problems        sentences on parts of the comparison that failed, and why
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial, reduce
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from operator import add
from typing import Any

import numpy as np
import polars as pl

from volt.choose.criteria import Length, source_shares
from volt.choose.report import as_data as search_data
from volt.choose.scaling_law import LanguageModel
from volt.choose.search import SearchResult, entropy_curve
from volt.comparison.measures import Cuts, Measures, Text, compared, measure
from volt.comparison.muv_study import SampleCuts, Study
from volt.comparison.systems import System
from volt.comparison.texts import NamedText, are_aligned
from volt.count.corpus_statistics import text_bytes
from volt.display import counted, html_note, html_page, html_table


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One vocabulary, measured.

    size: number of tokens, without special ones
    n_scaffolding: number of tokens that merges make but the vocabulary drops; None for systems of
        other libraries
    cost_note: what `seconds` and `memory_mb` include
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


CutTexts = dict[str, tuple[Text, Cuts]]  # by name
# The fields that are copied from a System.
_FACTS = "name", "family", "size", "rule", "why", "on_edge", "n_scaffolding", "cost_note"


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTexts:
    """The training or held-out texts, by name: their distinct words, and the words' counts.

    aligned: whether all have equally many lines
    """

    words: dict[str, list[str]]
    counts: dict[str, Text]
    aligned: bool

    @classmethod
    def of(cls, texts: Sequence[NamedText]) -> MeasuredTexts:
        words = {text.name: text.counts.words for text in texts}
        counts = {}
        for text in texts:
            word_counts = text.counts.counts.astype(np.int64)
            counts[text.name] = Text(word_counts, text.characters, text_bytes(text.counts))
        return cls(words, counts, are_aligned(texts))

    def cut(self, system: System) -> CutTexts:
        """Return the texts that a system can split, with their pieces."""
        return {
            name: (text, system.cut(self.words[name], name))
            for name, text in self.counts.items()
            if system.can_cut(name)
        }


def measure_system(
    system: System,
    training: CutTexts,
    heldout: CutTexts,
    *,
    aligned: Sequence[bool],
    length: Length,
    model: LanguageModel | None,
) -> SystemResult:
    """Measure a system on all texts.

    aligned: whether all training texts, and all held-out texts, are aligned
    """
    measured = partial(
        measure, lengths=system.lengths, always=system.always, length=length, model=model
    )
    whole = measured(list(training.values()))
    by_source = [
        compared({name: measured([part]) for name, part in parts.items()}, aligned=is_aligned)
        for parts, is_aligned in zip((training, heldout), aligned, strict=True)
    ]
    n_types = len(system.tokens)
    counts = [cuts.token_counts(text.word_counts, n_types) for text, cuts in training.values()]
    shares = source_shares(np.array(counts)).tolist()
    return SystemResult(
        **{name: getattr(system, name) for name in _FACTS},
        seconds=system.cost.seconds,
        memory_mb=system.cost.memory_mb,
        training=replace(whole, muv=system.step_muv if whole.is_ranked else None),
        heldout=measured(list(heldout.values())) if heldout else None,
        by_source=by_source[0],
        heldout_by_source=by_source[1],
        shares=dict(zip(training, shares, strict=True)),
    )


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


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Everything that a report of a comparison shows.

    signature: the facts that reproduce it
    made: date, machine and versions
    corpus, heldout: facts of the training and the held-out texts
    search: the search on all training texts together
    phases: the seconds of each phase, by name
    systems: every system, measured
    chosen: the name of the system that the search's rule chose
    study: study of MUV-search
    tokens: a table of all candidate tokens
    samples: sample lines, split at every searched size
    problems: sentences that say what failed, and why

    >>> import volt
    >>> text = NamedText("en", {"low": 5, "lower": 2, "newest": 6, "widest": 3})
    >>> comparison = volt.compare(text, systems=[])
    >>> comparison.chosen, comparison.as_data()["corpus"]["words"]
    ('volt trained', 16)
    """

    signature: str
    made: dict[str, Any]
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
        facts = [self.corpus, self.heldout] if self.heldout else [self.corpus]
        sources = chain.from_iterable(each.sources for each in facts)
        return tuple(file for source in sources for file in source.files)

    def __repr__(self) -> str:
        systems = counted(len(self.systems), "system")
        sources = counted(len(self.corpus.sources), "source")
        words = counted(self.corpus.words, "word")
        tokens = counted(self.search.vocabulary.size, "token")
        return f"<Comparison: {systems} on {sources} of {words}, {self.chosen} chosen, {tokens}>"

    def _repr_html_(self) -> str:
        rows = []
        for system in self.systems:
            fertility = (system.heldout or system.training).fertility
            shown = "–" if fertility is None else f"{fertility:.3f}"
            rows.append((system.name, system.size, shown, system.why))
        names = [system.name for system in self.systems]
        strong = names.index(self.chosen) if self.chosen in names else -1
        text = "held-out" if self.heldout else "training"
        heads = ["system", "tokens", f"pieces per {text} word", "why"]
        return html_page(
            f"{self.chosen} is chosen, on {counted(self.corpus.words, 'word')}",
            html_table(heads, rows, strong=strong),
            entropy_curve(self.search.steps, self.search.pick),
            *map(html_note, (*self.problems, *self.search.warnings)),
        )

    def as_data(self) -> dict[str, Any]:
        """Return everything as JSON values, as the module describes."""
        samples = asdict(self.samples)
        samples["samples"] = [
            {"source": source, "line": line} for source, line in self.samples.samples
        ]
        groups = self.tokens.drop_nulls("count").group_by("length")
        lengths = groups.agg(types=pl.len(), pieces=pl.col("count").sum()).sort("length")
        return {
            "version": 1,
            "signature": self.signature,
            "made": self.made,
            "corpus": asdict(self.corpus),
            "heldout": asdict(self.heldout) if self.heldout else None,
            "search": search_data(self.search, seconds=self.phases),
            "systems": [asdict(system) for system in self.systems],
            "chosen": self.chosen,
            "study": asdict(self.study),
            "tokens": self.tokens.to_dict(as_series=False),
            "lengths": lengths.to_dicts(),
            "samples": samples,
            "problems": list(self.problems),
        }


def corpus_facts(texts: Sequence[NamedText], temperature: float) -> CorpusFacts:
    together = NamedText("all texts", reduce(add, (text.counts for text in texts)))
    sources = tuple(SourceFacts(text.name, text.files, *_facts(text)) for text in texts)
    return CorpusFacts(sources, *_facts(together), temperature, are_aligned(texts))


def _facts(text: NamedText) -> tuple[int, int, int, int, str]:
    counts = text.counts
    return counts.n_lines, counts.total, counts.n_words, text.characters.total(), counts.fingerprint


def made_now(seconds: float) -> dict[str, Any]:
    """Return the date (UTC, ISO 8601), machine, versions and seconds of a comparison."""
    libraries = {}
    for library in ("numpy", "polars", "numba", "scipy", "sentencepiece", "tokenizers"):
        with suppress(PackageNotFoundError):
            libraries[library] = version(library)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}",
        "n_cpus": os.cpu_count() or 1,
        "python": platform.python_version(),
        "volt": version("volt-vocab"),
        "libraries": libraries,
        "seconds": seconds,
    }
