"""Corpora → `Comparison`: VOLT under every rule, and other vocabularies, on the same words.

If a library is missing, or the corpus does not reach a size, the comparison continues and
`problems` says so. A file that cannot be read raises an error before any other work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

from volt import arguments
from volt.arguments import MAX_LINE
from volt.choose.exact_curve import muv_search
from volt.choose.learning import learn_enough
from volt.choose.rules import DEFAULT, as_rule, checked_model, checked_training, parse_rule
from volt.choose.scaling_law import LanguageModel
from volt.choose.search import SearchResult, readable_cuts, sample_cuts, search
from volt.choose.size_steps import SearchParameters, checked_parameters, default_sizes
from volt.choose.training_law import Training
from volt.comparison import Comparison as Comparison
from volt.comparison.libraries import Cutter, ReadFile, read_file
from volt.comparison.measures import MOST_UNKNOWN, Measures
from volt.comparison.muv_study import cut_samples, grid_argmax, muv_study, token_table
from volt.comparison.result import CutTexts, MeasuredTexts, corpus_facts, made_now, measure_system
from volt.comparison.result import SystemResult as SystemResult
from volt.comparison.systems import (
    DEFAULT_SYSTEMS,
    Spec,
    System,
    file_system,
    joined_system,
    parse_spec,
    system_at,
    trained_system,
    volt_systems,
)
from volt.comparison.texts import NamedText, Texts, as_texts, read_both
from volt.comparison.time_and_memory import Cost, PhaseLog, Report, measured
from volt.count.word_counts import WordCounts, mix
from volt.errors import CandidateError
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates


@dataclass(frozen=True, slots=True)
class _Options:
    """The checked options of a comparison."""

    specs: list[Spec]
    samples: list[str]
    separate: bool
    temperature: float
    sizes: Sequence[int] | None
    select: str
    n_candidates: int | None
    parameters: SearchParameters
    training: Training
    model: LanguageModel | None


@dataclass(frozen=True, slots=True, eq=False)
class _Searched:
    """A search and its costs.

    learning: of learning the candidates
    volt: of learning and search
    sweep: of learning and the entropies of all sizes
    """

    search: SearchResult
    learning: Cost
    volt: Cost
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
    training: Training | None = None,
    model: LanguageModel | None = None,
    report: Report | None = None,
    max_line: int | None = MAX_LINE,
) -> Comparison:
    """Compare VOLT's vocabularies under every rule with other systems.

    sources, heldout: texts, each as NAME=FILE, as FILE, or as a NamedText of counted words
    systems: the systems to compare VOLT with (see volt.comparison.systems)
    sizes: the sizes to search, on all sources together (default: some twenty round ones)
    select: the rule that picks a size (see volt.choose.rules)
    n_candidates: how many merges to learn; None for as many as the rules need
    temperature: sampling temperature of the sources for learning (see `volt.mix`)
    separate: whether to add a system with a separate vocabulary for each source
    samples: lines to show at every size (default: some lines of the sources)
    parameters: parameters of the search
    training: how long a model is trained, for the rule "trained"
    model: the language model whose cost per byte is measured; the rule "scaling" needs it
    report: called with the name of each phase when it starts
    max_line: the maximum number of bytes in a line; None for no limit
    Raises ConfigError, CorpusError, VocabularyError or CandidateError for an unsuitable input.

    >>> words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
    >>> compare(NamedText("en", words), systems="bpe:30")
    <Comparison: 10 systems on 1 source of 300 words, volt trained chosen, 73 tokens>
    """
    work = PhaseLog(arguments.function(report, "report"))
    named = as_texts(sources, "sources"), as_texts(heldout, "heldout")
    select = as_rule(select)
    if n_candidates is not None:
        n_candidates = arguments.whole(n_candidates, "n_candidates", low=0)
    options = _Options(
        specs=[parse_spec(text) for text in _listed(systems, "systems")],
        samples=_listed(samples, "samples"),
        separate=separate,
        temperature=arguments.number(temperature, "temperature"),
        sizes=None if sizes is None else arguments.wholes(sizes, "sizes"),
        select=select,
        n_candidates=n_candidates,
        parameters=checked_parameters(parameters),
        training=checked_training(training),
        model=checked_model(model, select),
    )
    files = _read_files(options.specs, work)
    with work.phase("count"):
        texts, held, notes = read_both(*named, max_line)
        work.problems += notes
    return _compare(texts, held, files, options, work)


def _listed(texts: str | Iterable[str], name: str) -> list[str]:
    return [texts] if isinstance(texts, str) else arguments.texts(texts, name)


def _read_files(specs: Sequence[Spec], work: PhaseLog) -> dict[Spec, ReadFile]:
    # This first search loads compiled loops, so that no system's cost includes it.
    search(learn_bpe({"low": 5, "lower": 2}, n_merges=3))
    files = {}
    with work.phase("read"):
        for spec in specs:
            if spec.path is not None and spec not in files:
                files[spec] = read_file(spec.path, pattern=spec.pattern)
    work.problems += [file.problem for file in files.values() if file.problem]
    return files


def _compare(
    texts: Sequence[NamedText],
    heldout: Sequence[NamedText],
    files: Mapping[Spec, ReadFile],
    options: _Options,
    work: PhaseLog,
) -> Comparison:
    mixed = mix({text.name: text.counts for text in texts}, temperature=options.temperature)
    searched = _search(mixed, options, work)
    result = searched.search
    systems = [*volt_systems(result, cost=searched.volt)]
    for spec in dict.fromkeys(spec.sized(result.vocabulary.size) for spec in options.specs):
        with work.phase("other systems", spec.text), work.tolerated(spec.text):
            systems.append(_other_system(searched, spec, files))
    if options.separate:
        systems += _separate_systems(texts, options, work)

    with work.phase("measure"):
        parts = [MeasuredTexts.of(texts), MeasuredTexts.of(heldout)]
    length = options.parameters.length
    results = tuple(_results(systems, parts, work, length=length, model=options.model))
    work.problems += _unknown_warnings(results)
    with work.phase("study"):
        study = muv_study(result, parameters=options.parameters)
    with work.phase("samples"):
        tokens = token_table(result)
        cuts = cut_samples(result, _samples(options.samples, texts, result))
    return Comparison(
        signature=result.signature,
        made=made_now(work.seconds),
        corpus=corpus_facts(texts, options.temperature),
        heldout=corpus_facts(heldout, 1.0) if heldout else None,
        search=result,
        phases=work.phases,
        systems=results,
        chosen=f"volt {result.pick.rule}",
        study=study,
        tokens=tokens,
        samples=cuts,
        problems=tuple(work.problems),
    )


def _search(counts: WordCounts, options: _Options, work: PhaseLog, *, label: str = "") -> _Searched:
    """Learn and search, and measure the costs. label: in front of problems"""
    training = options.training
    model = options.model
    parameters = options.parameters
    with work.phase("learn"):
        if options.n_candidates is None:
            learn = partial(learn_enough, training=training, model=model)
        else:
            learn = partial(learn_bpe, n_merges=options.n_candidates)
        candidates, learning = measured(learn, counts)

    sizes, select, notes = _reachable(candidates, options.sizes, options.select)
    work.problems += [label + note for note in notes]
    with work.phase("search"):
        result, searching = measured(
            search,
            candidates,
            sizes=sizes,
            select=select,
            parameters=parameters,
            training=training,
            model=model,
        )
    _, sweep = measured(muv_search, candidates, length=parameters.length)
    return _Searched(result, learning, learning + searching, learning + sweep)


def _reachable(
    candidates: Candidates, sizes: Sequence[int] | None, select: str
) -> tuple[Sequence[int] | None, str, list[str]]:
    """Return the sizes to search, the rule, and sentences on requested sizes out of reach."""
    low = candidates.n_atoms
    high = candidates.n_tokens
    offer = f"this corpus offers sizes from {low:,} to {high:,}"
    notes = list[str]()
    fixed = parse_rule(select)
    if fixed is not None and not low <= fixed <= high:
        notes.append(f"select {select}: {offer}; {DEFAULT} chooses instead")
        select = DEFAULT
    if sizes is None or not candidates.n_merges:
        return None, select, notes

    fitting = [size for size in sizes if low <= size <= high]
    n_skipped = len(sizes) - len(fitting)
    if n_skipped:
        instead = "" if fitting else "; round sizes are searched instead"
        notes.append(f"sizes: {offer}; {n_skipped} of {len(sizes)} are skipped{instead}")
    return fitting or default_sizes(candidates), select, notes


def _other_system(searched: _Searched, spec: Spec, files: Mapping[Spec, ReadFile]) -> System:
    candidates = searched.search.candidates
    size = spec.size or 0
    reach = f"the corpus gives only {candidates.n_tokens:,} tokens"
    if spec.path is not None:
        return file_system(files[spec], counts=candidates.counts)
    if spec.kind == "bpe":
        if size > candidates.n_tokens:
            raise CandidateError(f"{reach}; give more text, or ask for fewer")
        return system_at(
            candidates,
            size,
            name=f"bpe {size}",
            family="bpe",
            cost=searched.learning,
            cost_note="learning the candidates, shared with the other BPE sizes",
            rule="fixed",
            why="as requested",
        )
    if spec.kind != "muv-search":
        return trained_system(spec.kind, size, counts=candidates.counts)

    argmax = grid_argmax(candidates)
    if argmax is None:
        raise CandidateError(
            f"{reach}, which reach fewer than two sizes of the paper's grid; give more text"
        )
    greatest = f"{argmax.muv * 1e6:,.1f}·10⁻⁶ nats per character and token"
    return system_at(
        candidates,
        argmax.size,
        name="muv-search",
        family="muv-search",
        cost=searched.sweep,
        cost_note="learning the candidates; the entropies of all sizes follow from it",
        rule="muv",
        why=f"greatest Eq. 1 on the paper's grid, {greatest}",
        on_edge=argmax.on_edge,
        step_muv=argmax.muv,
    )


def _separate_systems(
    texts: Sequence[NamedText], options: _Options, work: PhaseLog
) -> Iterator[System]:
    """Yield the system of a vocabulary for each source, if every source has one."""
    systems = dict[str, System]()
    costs = list[Cost]()
    for text in texts:
        with work.tolerated(f"separate vocabularies: {text.name}"):
            searched = _search(text.counts, options, work, label=f"{text.name}: ")
            costs.append(searched.volt)
            for system in volt_systems(searched.search, cost=searched.volt):
                if system.rule == searched.search.pick.rule:
                    systems[text.name] = system
    if not systems or len(systems) < len(texts):
        return

    rule = next(iter(systems.values())).rule
    sizes = ", ".join(f"{name} {system.size:,}" for name, system in systems.items())
    yield joined_system(
        f"volt {rule}, separate",
        systems,
        family="volt",
        rule=rule,
        cost=reduce(add, costs),
        cost_note="learning and searching each source by itself",
        why=f"a vocabulary for each source: {sizes}",
        on_edge=any(system.on_edge for system in systems.values()),
    )


def _results(
    systems: Sequence[System], parts: Sequence[MeasuredTexts], work: PhaseLog, **options: Any
) -> Iterator[SystemResult]:
    """Measure each system. parts: the training texts and the held-out ones"""
    aligned = [texts.aligned for texts in parts]
    cuts: dict[Cutter, list[CutTexts]] = {}
    for system in systems:
        with work.phase("measure", system.name), work.tolerated(system.name):
            if system.cut not in cuts:  # systems of one size share their cuts
                cuts = {system.cut: [texts.cut(system) for texts in parts]}
            yield measure_system(system, *cuts[system.cut], aligned=aligned, **options)


def _unknown_warnings(results: Sequence[SystemResult]) -> list[str]:
    systems = []
    for result in results:
        rates = [
            f"{100 * measures.unknown_rate:.3g} % of {text}"
            for text, measures in _texts_of(result)
            if not measures.is_ranked
        ]
        if rates:
            systems.append(f"{result.name} ({', '.join(rates)})")
    if not systems:
        return []
    return [
        f"more than {100 * MOST_UNKNOWN:g} % of the pieces are unknown, so that measures there "
        f"would mislead and are left out: {'; '.join(systems)}"
    ]


def _texts_of(result: SystemResult) -> Iterator[tuple[str, Measures]]:
    """Yield the names of all texts and sources, with the system's measures."""
    yield "the training text", result.training
    if result.heldout:
        yield "the held-out text", result.heldout
    for kind, by_source in (
        ("training", result.by_source),
        ("held-out", result.heldout_by_source),
    ):
        if len(by_source) > 1:
            for name, measures in by_source.items():
                yield f"the {kind} text of {name}", measures


def _samples(
    lines: Sequence[str], texts: Sequence[NamedText], result: SearchResult
) -> list[tuple[str, str]]:
    """Return sample lines and the names of their texts: `lines`, lines of the texts, or words."""
    if lines:
        return [("sample", line) for line in lines]
    samples = []
    for text in texts:
        samples += [(text.name, line) for line in text.lines]
    if samples:
        return samples
    words = readable_cuts(sample_cuts(result.candidates, result.vocabulary), result.vocabulary)
    return [("words", " ".join(word for word, _ in words))]
