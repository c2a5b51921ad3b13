"""Corpora → `Comparison`: VOLT under every rule beside other vocabularies, on the same words, with what each costs.

What cannot be made (a missing library, a size that the corpus does not reach, a damaged file) is told in `problems`,
and the rest is made all the same.

>>> from volt.count.word_counts import WordCounts
>>> words = {f"{a}{b}{c}{d}": 5 for a in "lst" for b in "aeiou" for c in "nrdw" for d in ("", "er", "est")}
>>> comparison = compare([NamedText("en", WordCounts.from_pairs(words))], systems=["bpe:30", "bpe:9000"])
>>> [system.name for system in comparison.systems][:2], comparison.systems[-1].name, comparison.problems[-1]
(['volt knee', 'volt muv'], 'bpe 30', 'bpe:9000: the corpus gives only 223 tokens; give more text, or ask for fewer')
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import add

from volt.choose.report import sample_cuts as long_words
from volt.choose.rules import parse_rule
from volt.choose.search import SearchResult, default_sizes, search
from volt.choose.size_steps import Parameters
from volt.choose.sweep import muv_search
from volt.comparison import Comparison as Comparison
from volt.comparison.cost import Cost, measured
from volt.comparison.measures import Cuts
from volt.comparison.measuring import MeasuredTexts, cut_texts, measure_system, measured_texts
from volt.comparison.measuring import SystemResult as SystemResult
from volt.comparison.muv_study import grid_argmax, muv_study
from volt.comparison.named_texts import NamedText, match_names, read_sources, unseen_characters
from volt.comparison.result import corpus_facts, made_now
from volt.comparison.systems import (
    DEFAULT_SYSTEMS,
    Cutter,
    Spec,
    System,
    bpe_system,
    file_system,
    joined_system,
    parse_spec,
    trained_system,
    volt_systems,
)
from volt.comparison.token_table import sample_cuts, token_table
from volt.count.word_counts import WordCounts, mix
from volt.errors import CandidateError, ConfigError, VoltError
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates

N_CANDIDATES = 30_000
Report = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class _Options:
    """How to compare; see `compare`."""

    sizes: Sequence[int] | None = None
    select: str = "knee"
    n_candidates: int = N_CANDIDATES
    parameters: Parameters = field(default_factory=Parameters)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A search, and what its parts cost."""

    search: SearchResult
    learning: Cost
    searching: Cost
    sweep: Cost


class _Work:
    """What a comparison notes on its way: the seconds of each phase, and what could not be made."""

    def __init__(self, report: Report | None) -> None:
        self.phases: dict[str, float] = {}
        self.problems: list[str] = []
        self._report, self._start = report or (lambda _: None), time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._start

    @contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """Time a phase; one of the same name adds up."""
        self._report(f"{name} {detail}".strip())
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def tolerated(self, what: str) -> Iterator[None]:
        """Note an error as a problem, and go on."""
        try:
            yield
        except VoltError as error:
            self.problems.append(f"{what}: {error}")


def compare(
    sources: Sequence[str | NamedText],
    *,
    heldout: Sequence[str | NamedText] = (),
    systems: Sequence[str] = DEFAULT_SYSTEMS,
    sizes: Sequence[int] | None = None,
    select: str = "knee",
    n_candidates: int = N_CANDIDATES,
    temperature: float = 1.0,
    separate: bool = False,
    samples: Sequence[str] = (),
    parameters: Parameters | None = None,
    report: Report | None = None,
) -> Comparison:
    """Compare VOLT's vocabularies under every rule with other systems, on training and held-out text.

    sources, heldout: NAME=FILE or FILE (see volt.comparison.named_texts), or NamedTexts
        already counted; sizes are searched jointly
    systems: what stands beside VOLT (see volt.comparison.systems)
    n_candidates: merges to learn, fewer where there are no more
    temperature: rescales the sources for learning only, measures are of the texts as they are
    separate: also a vocabulary of its own for each source;  samples: lines to show at every size (default: some of the
    sources');  report: called with what is being done
    Raises ConfigError if an option is wrong, CorpusError if a text cannot be read, CandidateError if it has no pairs.
    """
    work = _Work(report)
    specs = [parse_spec(text) for text in dict.fromkeys(systems)]
    options = _Options(sizes, select, n_candidates, parameters or Parameters())
    parse_rule(select)
    with work.phase("count"):
        read, held = _read(sources), _read(heldout)
        held, notes = match_names([source.name for source in read], held)
        work.problems += [*notes, *filter(None, (unseen_characters(read, text) for text in held))]
    found = _searched(mix({source.name: source.counts for source in read}, temperature=temperature), options, work)
    made = [*_volt(found), *_others(found, specs, work)]
    if separate:
        made += _separate(read, options, work)
    with work.phase("measure"):
        texts = measured_texts(read, held, length=options.parameters.length)
    results = list(_results(made, texts, work))
    with work.phase("study"):
        study = muv_study(
            found.search, parameters=options.parameters, volt_cost=found.learning + found.searching,
            sweep_cost=found.learning + found.sweep,
        )  # fmt: skip
    with work.phase("samples"):
        tokens = token_table(found.search)
        cuts = sample_cuts(found.search, _samples(samples, read, found.search))
    names = ",".join(source.name for source in read)
    return Comparison(
        signature=f"{found.search.signature}|sources:{names}|temperature:{temperature:g}",
        made=made_now(work.seconds), corpus=corpus_facts(read, temperature),
        heldout=corpus_facts(held, 1.0) if held else None,
        search=found.search, phases=work.phases, systems=tuple(results), chosen=f"volt {found.search.pick.rule}",
        study=study, tokens=tokens, samples=cuts, problems=tuple(work.problems),
    )  # fmt: skip


def _read(texts: Sequence[str | NamedText]) -> tuple[NamedText, ...]:
    """Sources by name; raises ConfigError if a name comes twice."""
    files = iter(read_sources([text for text in texts if isinstance(text, str)]))
    found = tuple(text if isinstance(text, NamedText) else next(files) for text in texts)
    names = [source.name for source in found]
    if len(set(names)) < len(names):
        raise ConfigError(f"source names {', '.join(names)} are not distinct; give each a name of its own")
    return found


def _searched(counts: WordCounts, options: _Options, work: _Work, *, label: str = "") -> _Found:
    """Learn and search; sizes and a rule that the corpus does not reach are told and left out."""
    _load_kernels()
    with work.phase("learn"), measured() as learning:
        candidates = learn_bpe(counts, options.n_candidates)
    sizes, select, notes = _reached(candidates, options)
    work.problems += [label + note for note in notes]
    with work.phase("search"), measured() as searching:
        found = search(candidates, sizes=sizes, select=select, parameters=options.parameters)
    with measured() as sweep:
        muv_search(candidates, length=options.parameters.length)
    return _Found(found, learning[0], searching[0], sweep[0])


@cache
def _load_kernels() -> None:
    """Load what is compiled, so that no system's cost holds it."""
    tiny = learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3)
    search(tiny, select="knee")


def _reached(candidates: Candidates, options: _Options) -> tuple[Sequence[int] | None, str, list[str]]:
    """The sizes and the rule, as far as the candidates reach, and what to say about those they do not."""
    low, high = candidates.n_atoms, candidates.n_tokens
    offer = f"this corpus offers sizes from {low:,} to {high:,}"
    fixed, select, notes = parse_rule(options.select), options.select, []
    if fixed is not None and not low <= fixed <= high:
        notes.append(f"select {select}: {offer}; knee chooses instead")
        select = "knee"
    if options.sizes is None or not candidates.n_merges:
        return None, select, notes
    fitting = [size for size in options.sizes if low <= size <= high]
    if left := len(options.sizes) - len(fitting):
        instead = "" if fitting else "; round sizes are searched instead"
        notes.append(f"sizes: {offer}; {left} of {len(options.sizes)} are left out{instead}")
    return fitting or default_sizes(candidates), select, notes


def _volt(found: _Found) -> Iterator[System]:
    parts = "learning the candidates and the transports of all sizes"
    return iter(volt_systems(found.search, cost=found.learning + found.searching, parts=parts))


def _others(found: _Found, specs: Sequence[Spec], work: _Work) -> Iterator[System]:
    """The systems that were asked for, as far as they can be made."""
    for spec in dict.fromkeys(spec.sized(found.search.vocabulary.size) for spec in specs):
        with work.phase("other systems", spec.text), work.tolerated(spec.text):
            yield _other(found, spec)


def _other(found: _Found, spec: Spec) -> System:
    candidates = found.search.candidates
    if spec.path is not None:
        return file_system(spec.path, counts=candidates.counts)
    if spec.kind == "muv-search":
        return _muv_search_system(found)
    if spec.kind != "bpe":
        return trained_system(spec.kind, spec.size or 0, counts=candidates.counts)
    if (spec.size or 0) > candidates.n_tokens:
        raise CandidateError(f"the corpus gives only {candidates.n_tokens:,} tokens; give more text, or ask for fewer")
    note = "learning the candidates, shared with the other BPE sizes"
    return bpe_system(
        candidates, spec.size or 0, name=f"bpe {spec.size}", family="bpe", cost=found.learning, cost_note=note,
        rule="fixed", why="as asked",
    )  # fmt: skip


def _muv_search_system(found: _Found) -> System:
    candidates = found.search.candidates
    pick = grid_argmax(candidates)
    if pick is None:
        raise CandidateError(f"{candidates.n_tokens:,} tokens reach fewer than two sizes of the paper's grid")
    return bpe_system(
        candidates, pick.size, name="muv-search", family="muv-search", cost=found.learning + found.sweep,
        cost_note="learning the candidates; the entropies of all sizes follow from it", rule="muv",
        why=f"greatest Eq. 1 on the paper's grid, {pick.muv:.2e} nats per character and token", on_edge=pick.on_edge,
        step_muv=pick.muv,
    )  # fmt: skip


def _separate(sources: Sequence[NamedText], options: _Options, work: _Work) -> list[System]:
    """One system in which each source has a vocabulary of its own, found in the same way."""
    found = {}
    for source in sources:
        with work.tolerated(f"separate vocabularies: {source.name}"):
            found[source.name] = _searched(source.counts, options, work, label=f"{source.name}: ")
    if len(found) == len(sources):
        parts = "learning and searching each source by itself"
        costs = [one.learning + one.searching for one in found.values()]
        systems = {name: _chosen(one) for name, one in found.items()}
        sizes = ", ".join(f"{name} {one.size:,}" for name, one in systems.items())
        rule = next(iter(found.values())).search.pick.rule
        why, edge = f"a vocabulary for each source: {sizes}", any(one.search.pick.on_edge for one in found.values())
        joined = joined_system(
            f"volt {rule}, separate", systems, family="volt", cost=reduce(add, costs), cost_note=parts, rule=rule,
            why=why, on_edge=edge,
        )  # fmt: skip
        return [joined]
    return []


def _chosen(found: _Found) -> System:
    name = f"volt {found.search.pick.rule}"
    return next(system for system in _volt(found) if system.name == name)


def _results(systems: Sequence[System], texts: MeasuredTexts, work: _Work) -> Iterator[SystemResult]:
    cuts: dict[Cutter, dict[str, Cuts]] = {}
    for system in systems:
        with work.phase("measure", system.name), work.tolerated(system.name):
            if system.cut not in cuts:
                cuts = {system.cut: cut_texts(system, texts)}
            yield measure_system(system, texts, cuts=cuts[system.cut])


def _samples(given: Sequence[str], sources: Sequence[NamedText], result: SearchResult) -> list[tuple[str, str]]:
    """Lines as given, or some of the sources', or words if there are no lines."""
    if given:
        return [("sample", line) for line in given]
    lines = [(source.name, line) for source in sources for line in source.lines]
    return lines or [("words", " ".join(word for word, _ in long_words(result)))]
