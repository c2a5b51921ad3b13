"""`Comparison`: the result of `compare`, with all that its reports show.

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
    certificate     volt.choose.certificate.Certificate, or null
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from operator import add
from typing import Any

import polars as pl

from volt.choose.certificate import Certificate
from volt.choose.report import as_data as search_data
from volt.choose.search import SearchResult, entropy_curve
from volt.comparison.muv_study import Study
from volt.comparison.page_data import SampleCuts
from volt.comparison.system_result import SystemResult
from volt.comparison.texts import NamedText, are_aligned
from volt.display import counted, html_note, html_page, html_table

# Libraries whose versions a comparison records.
_LIBRARIES = ("numpy", "polars", "numba", "scipy", "sentencepiece", "tokenizers")


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts of one source. lines, words, characters: their numbers, repetitions included"""

    name: str
    files: tuple[str, ...]
    lines: int
    words: int
    distinct_words: int
    characters: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Facts of all sources together.

    temperature: sampling temperature of the sources for learning
    aligned: whether there are several sources with equally many lines
    """

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

    signature: the facts that reproduce the search
    made: date, machine, versions and seconds (see `describe_run`)
    corpus, heldout: facts of the training and the held-out texts
    search: the search on all training texts together
    phases: phase → its seconds
    systems: the measures of every system
    chosen: the name of the system that the search's rule chose
    study: study of MUV-search
    tokens: a table of all candidate tokens
    samples: sample lines, split at every searched size
    problems: sentences that say what failed, and why
    certificate: a bound on the pieces of the training text, with any vocabulary of the chosen size

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
    certificate: Certificate | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all texts."""
        facts = filter(None, (self.corpus, self.heldout))
        sources = chain.from_iterable(corpus.sources for corpus in facts)
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
            measures = system.heldout or system.training
            fertility = "–"
            if measures.fertility is not None:
                fertility = f"{measures.fertility:.3f}"
            rows.append((system.name, system.size, fertility, system.why))
        names = [system.name for system in self.systems]
        strong = names.index(self.chosen) if self.chosen in names else None
        text = "held-out" if self.heldout else "training"
        heads = ["system", "tokens", f"pieces per {text} word", "why"]
        return html_page(
            f"{self.chosen} is chosen, on {counted(self.corpus.words, 'word')}",
            html_table(heads, rows, strong=strong),
            entropy_curve(self.search.steps, self.search.pick),
            *map(html_note, (*self.problems, *self.search.warnings)),
        )

    def as_data(self, *, reword: Callable[[str], str] = str) -> dict[str, Any]:
        """Return everything as JSON values, as the module describes.

        reword: called with each sentence that may name an argument of the library
        """
        samples = asdict(self.samples)
        samples["samples"] = [
            {"source": source, "line": line} for source, line in self.samples.samples
        ]
        groups = self.tokens.drop_nulls("count").group_by("length")
        lengths = groups.agg(types=pl.len(), pieces=pl.col("count").sum()).sort("length")
        search = search_data(self.search, seconds=self.phases)
        systems = [asdict(system) for system in self.systems]
        for facts in (search["pick"], *search["picks"].values(), *systems):
            facts["why"] = reword(facts["why"])
        for name in ("answer", "warnings"):
            search[name] = [*map(reword, search[name])]
        return {
            "version": 1,
            "signature": self.signature,
            "made": self.made,
            "corpus": asdict(self.corpus),
            "heldout": asdict(self.heldout) if self.heldout else None,
            "search": search,
            "systems": systems,
            "chosen": self.chosen,
            "study": asdict(self.study),
            "tokens": self.tokens.to_dict(as_series=False),
            "lengths": lengths.to_dicts(),
            "samples": samples,
            "problems": [*map(reword, self.problems)],
            "certificate": self.certificate.data if self.certificate else None,
        }


def corpus_facts(texts: Sequence[NamedText], temperature: float) -> CorpusFacts:
    together = NamedText("all texts", reduce(add, (text.counts for text in texts)))
    sources = tuple(SourceFacts(text.name, text.files, **_facts(text)) for text in texts)
    return CorpusFacts(
        sources, **_facts(together), temperature=temperature, aligned=are_aligned(texts)
    )


def _facts(text: NamedText) -> dict[str, Any]:
    """Return the facts that a source and a corpus have in common."""
    counts = text.counts
    return {
        "lines": counts.n_lines,
        "words": counts.total,
        "distinct_words": counts.n_words,
        "characters": text.characters.total(),
        "fingerprint": counts.fingerprint,
    }


def describe_run(seconds: float) -> dict[str, Any]:
    """Return the date (UTC, ISO 8601), machine, versions and seconds of a comparison."""
    libraries = {}
    for library in _LIBRARIES:
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
