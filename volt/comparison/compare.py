"""Corpora → `Comparison`: VOLT under every rule and other vocabularies on the same words, with the cost of each.

A missing library, or a size that the corpus does not reach, does not end a comparison: a sentence in `problems`
reports it. A file that cannot be read raises an error before any other work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from volt import arguments
from volt.choose.exact_curve import muv_search
from volt.choose.language_model import LanguageModel
from volt.choose.learning import learn_enough
from volt.choose.rules import DEFAULT, as_rule, checked_model, parse_rule
from volt.choose.search import SearchResult, readable_cuts, search
from volt.choose.search import sample_cuts as long_words
from volt.choose.size_steps import SearchParameters, checked_parameters, default_sizes
from volt.comparison import Comparison as Comparison
from volt.comparison.cost import Cost, PhaseLog, Report, measured
from volt.comparison.libraries import Cutter, ReadFile, read_file
from volt.comparison.measures import MOST_UNKNOWN, Cuts, Measures
from volt.comparison.result import SystemResult as SystemResult
from volt.comparison.result import corpus_facts, cut_texts, made_now, measure_system, measured_texts
from volt.comparison.size_studies import grid_argmax, muv_study, sample_cuts, token_table
from volt.comparison.systems import (
    DEFAULT_SYSTEMS,
    Spec,
    System,
    bpe_system,
    file_system,
    joined_system,
    parse_spec,
    trained_system,
    volt_systems,
)
from volt.comparison.texts import NamedText, Texts, as_texts, read_both
from volt.count.word_counts import WordCounts, mix
from volt.errors import CandidateError
from volt.files.limits import MAX_LINE
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates


@dataclass(frozen=True, slots=True)
class _Options:
    sizes: Sequence[int] | None
    select: str
    n_candidates: int | None
    parameters: SearchParameters
    model: LanguageModel | None

    @classmethod
    def of(
        cls, sizes: Iterable[int] | None, select: str | int, n_candidates: int | None,
        parameters: SearchParameters | None, model: LanguageModel | None,
    ) -> _Options:  # fmt: skip
        parse_rule(select := as_rule(select))
        whole_sizes = None if sizes is None else arguments.wholes(sizes, "sizes")
        n_merges = None if n_candidates is None else arguments.whole(n_candidates, "n_candidates", low=0)
        return cls(whole_sizes, select, n_merges, checked_parameters(parameters), checked_model(model, select))


@dataclass(frozen=True, slots=True, eq=False)
class _Searched:
    """A search, and what its parts cost."""

    search: SearchResult
    learning: Cost
    searching: Cost
    sweep: Cost


def compare(
    sources: Texts,
    *,
    heldout: Texts = (),
    systems: str | Iterable[str] = DEFAULT_SYSTEMS,
    sizes: Iterable[int] | None = None,
    select: str | int = DEFAULT,
    n_candidates: int | None = None,
    temperature: float = 1.0,
    separate: bool = False,
    samples: str | Iterable[str] = (),
    parameters: SearchParameters | None = None,
    model: LanguageModel | None = None,
    report: Report | None = None,
    max_line: int | None = MAX_LINE,
) -> Comparison:
    """Compare VOLT's vocabularies under every rule with other systems, on training and held-out text.

    sources: the training texts, each as NAME=FILE, as FILE, or as a NamedText, which holds counted words
    heldout: the held-out texts, in the same forms
    systems: the systems to compare VOLT with (see volt.comparison.systems)
    sizes: the sizes to search, on all sources together (default: some twenty round ones)
    select: the rule that chooses among the sizes (see volt.choose.rules)
    n_candidates: how many merges to learn; None for as many as the rules need
    temperature: rescales the sources for learning; measures use the original texts
    separate: whether to add a system with a separate vocabulary for each source
    samples: lines to show at every size (default: some lines of the sources)
    parameters: parameters of the search
    model: the language model whose cost per byte is measured; the rule "scaling" needs it
    report: called with the name of each phase when it starts
    max_line: the maximum number of bytes in a line; None for no limit
    Raises ConfigError, CorpusError, VocabularyError or CandidateError if an option or a file does not suit.

    >>> words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
    >>> compare(NamedText("en", words), systems="bpe:30")
    <Comparison: 9 systems on 1 source of 300 words, volt balanced chosen, 73 tokens>
    """
    work = PhaseLog(arguments.function(report, "report"))
    specs = [parse_spec(text) for text in dict.fromkeys(_listed(systems, "systems"))]
    temperature, samples = arguments.number(temperature, "temperature"), _listed(samples, "samples")
    training, held_out = as_texts(sources, "sources"), as_texts(heldout, "heldout")
    options = _Options.of(sizes, select, n_candidates, parameters, model)
    search(learn_bpe({"low": 5, "lower": 2}, n_merges=3))  # so that no system's cost includes loading compiled loops
    with work.phase("read"):
        files = {spec: read_file(spec.path, pattern=spec.pattern) for spec in specs if spec.path is not None}
    work.problems += [file.problem for file in files.values() if file.problem]
    with work.phase("count"):
        texts, held, notes = read_both(training, held_out, max_line)
        work.problems += notes
    result = _searched(mix({text.name: text.counts for text in texts}, temperature=temperature), options, work)
    compared = [*_volt(result)]
    for spec in dict.fromkeys(spec.sized(result.search.vocabulary.size) for spec in specs):
        with work.phase("other systems", spec.text), work.tolerated(spec.text):
            compared.append(_other(result, spec, files))
    compared += _separate(texts if separate else (), options, work)
    results = tuple(_results(compared, texts, held, options, work))
    work.problems += _unknown(results)
    with work.phase("study"):
        volt_cost, sweep_cost = result.learning + result.searching, result.learning + result.sweep
        study = muv_study(result.search, parameters=options.parameters, volt_cost=volt_cost, sweep_cost=sweep_cost)
    with work.phase("samples"):
        tokens, cuts = token_table(result.search), sample_cuts(result.search, _samples(samples, texts, result.search))
    return Comparison(
        signature=result.search.signature,
        made=made_now(work.seconds), corpus=corpus_facts(texts, temperature),
        heldout=corpus_facts(held, 1.0) if held else None,
        search=result.search, phases=work.phases, systems=results, chosen=f"volt {result.search.pick.rule}",
        study=study, tokens=tokens, samples=cuts, problems=tuple(work.problems),
    )  # fmt: skip


def _listed(texts: str | Iterable[str], name: str) -> list[str]:
    return [texts] if isinstance(texts, str) else arguments.texts(texts, name)


def _searched(counts: WordCounts, options: _Options, work: PhaseLog, *, label: str = "") -> _Searched:
    with work.phase("learn"), measured() as learning:
        n_merges = options.n_candidates
        candidates = learn_enough(counts, model=options.model) if n_merges is None else learn_bpe(counts, n_merges)
    sizes, select, notes = _reached(candidates, options)
    work.problems += [label + note for note in notes]
    with work.phase("search"), measured() as searching:
        result = search(candidates, sizes=sizes, select=select, parameters=options.parameters, model=options.model)
    with measured() as sweep:
        muv_search(candidates, length=options.parameters.length)
    return _Searched(result, learning[0], searching[0], sweep[0])


def _reached(candidates: Candidates, options: _Options) -> tuple[Sequence[int] | None, str, list[str]]:
    low, high = candidates.n_atoms, candidates.n_tokens
    offer = f"this corpus offers sizes from {low:,} to {high:,}"
    fixed, select, notes = parse_rule(options.select), options.select, []
    if fixed is not None and not low <= fixed <= high:
        notes.append(f"select {select}: {offer}; {DEFAULT} chooses instead")
        select = DEFAULT
    if options.sizes is None or not candidates.n_merges:
        return None, select, notes
    fitting = [size for size in options.sizes if low <= size <= high]
    if left := len(options.sizes) - len(fitting):
        instead = "" if fitting else "; round sizes are searched instead"
        notes.append(f"sizes: {offer}; {left} of {len(options.sizes)} are skipped{instead}")
    return fitting or default_sizes(candidates), select, notes


def _volt(result: _Searched) -> Iterator[System]:
    parts = "learning the candidates and the transports of all sizes"
    return volt_systems(result.search, cost=result.learning + result.searching, parts=parts)


def _other(result: _Searched, spec: Spec, files: Mapping[Spec, ReadFile]) -> System:
    candidates = result.search.candidates
    if spec.path is not None:
        return file_system(files[spec], counts=candidates.counts)
    if spec.kind == "muv-search":
        return _muv_search_system(result)
    if spec.kind != "bpe":
        return trained_system(spec.kind, spec.size or 0, counts=candidates.counts)
    if (spec.size or 0) > candidates.n_tokens:
        raise CandidateError(f"the corpus gives only {candidates.n_tokens:,} tokens; give more text, or ask for fewer")
    note = "learning the candidates, shared with the other BPE sizes"
    return bpe_system(
        candidates, spec.size or 0, name=f"bpe {spec.size}", family="bpe", cost=result.learning, cost_note=note,
        rule="fixed", why="as requested",
    )  # fmt: skip


def _muv_search_system(result: _Searched) -> System:
    candidates = result.search.candidates
    pick = grid_argmax(candidates)
    if pick is None:
        raise CandidateError(
            f"the corpus gives only {candidates.n_tokens:,} tokens, which reach fewer than two sizes of the paper's "
            "grid; give more text"
        )
    return bpe_system(
        candidates, pick.size, name="muv-search", family="muv-search", cost=result.learning + result.sweep,
        cost_note="learning the candidates; the entropies of all sizes follow from it", rule="muv",
        why=f"greatest Eq. 1 on the paper's grid, {pick.muv * 1e6:,.1f}·10⁻⁶ nats per character and token",
        on_edge=pick.on_edge, step_muv=pick.muv,
    )  # fmt: skip


def _separate(texts: Sequence[NamedText], options: _Options, work: PhaseLog) -> Iterator[System]:
    result: dict[str, _Searched] = {}
    for text in texts:
        with work.tolerated(f"separate vocabularies: {text.name}"):
            result[text.name] = _searched(text.counts, options, work, label=f"{text.name}: ")
    if not result or len(result) < len(texts):
        return
    picks = {name: one.search.pick for name, one in result.items()}
    rule = next(iter(picks.values())).rule
    systems = {
        name: next(system for system in _volt(one) if system.name == f"volt {picks[name].rule}")
        for name, one in result.items()
    }
    sizes = ", ".join(f"{name} {one.size:,}" for name, one in systems.items())
    yield joined_system(
        f"volt {rule}, separate", systems, family="volt", rule=rule,
        cost=reduce(add, [one.learning + one.searching for one in result.values()]),
        cost_note="learning and searching each source by itself",
        why=f"a vocabulary for each source: {sizes}", on_edge=any(pick.on_edge for pick in picks.values()),
    )  # fmt: skip


def _results(
    systems: Sequence[System], texts: Sequence[NamedText], held: Sequence[NamedText], options: _Options, work: PhaseLog
) -> Iterator[SystemResult]:
    with work.phase("measure"):
        both = measured_texts(texts, held, length=options.parameters.length, model=options.model)
    cuts: dict[Cutter, dict[str, Cuts]] = {}
    for system in systems:
        with work.phase("measure", system.name), work.tolerated(system.name):
            if system.cut not in cuts:
                cuts = {system.cut: cut_texts(system, both)}
            yield measure_system(system, both, cuts=cuts[system.cut])


def _unknown(results: Sequence[SystemResult]) -> list[str]:
    """Return a sentence that names the systems with too many unknown pieces; or none."""
    systems = []
    for result in results:
        parts: dict[str, Measures | None] = {"the training text": result.training, "the held-out text": result.heldout}
        for kind, by_source in (("training", result.by_source), ("held-out", result.heldout_by_source)):
            parts |= {f"the {kind} text of {name}": one for name, one in by_source.items() if len(by_source) > 1}
        unranked = {text: one.unknown_rate for text, one in parts.items() if one and not one.is_ranked}
        if unranked:
            shares = ", ".join(f"{100 * rate:.3g} % of {text}" for text, rate in unranked.items())
            systems.append(f"{result.name} ({shares})")
    if not systems:
        return []
    return [
        f"more than {100 * MOST_UNKNOWN:g} % of the pieces are unknown, so that measures there would mislead and are "
        f"left out: {'; '.join(systems)}"
    ]


def _samples(lines: Sequence[str], texts: Sequence[NamedText], result: SearchResult) -> list[tuple[str, str]]:
    if lines:
        return [("sample", line) for line in lines]
    words = readable_cuts(long_words(result.candidates, result.vocabulary), result.vocabulary)
    of_texts = [(text.name, line) for text in texts for line in text.lines]
    return of_texts or [("words", " ".join(word for word, _ in words))]
