"""Corpora → `Comparison`: VOLT under every rule, and other vocabularies, on the same words.

1. Count the training and held-out texts.
2. Learn and search on all training texts together; each rule's pick is a system.
3. Train or read the other systems.
4. Split every text by every system, and measure the pieces.
5. Add what the page shows: a study of MUV-search, a table of tokens, and sample lines.

If a library is missing, or the corpus does not reach a size, the comparison continues, and
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
from volt.choose.certificate import Certificate, certify
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
from volt.comparison.muv_study import grid_argmax, muv_study
from volt.comparison.page_data import cut_samples, token_table
from volt.comparison.result import corpus_facts, describe_run
from volt.comparison.system_result import CutSources, SourceWords, SystemResult, measure_system
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
from volt.comparison.texts import NamedText, Texts, check_texts, read_texts
from volt.comparison.time_and_memory import Cost, PhaseLog, Report, measure_cost
from volt.count.word_counts import WordCounts, mix
from volt.errors import CandidateError
from volt.files.blocks import Errors
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates


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
    certified: bool = False,
    samples: str | Iterable[str] = (),
    parameters: SearchParameters | None = None,
    training: Training | None = None,
    model: LanguageModel | None = None,
    report: Report | None = None,
    fields: str | int | Iterable[int] | None = None,
    column: str | None = None,
    errors: Errors = "strict",
    max_line: int | None = MAX_LINE,
) -> Comparison:
    """Compare VOLT's vocabularies under every rule with other systems.

    sources, heldout: texts, each as NAME=FILE, as FILE, or as a NamedText of counted words
    systems: the systems to compare VOLT with (see volt.comparison.systems)
    sizes: the sizes to search, on all sources together (default: some twenty round numbers)
    select: the rule that picks a size (see volt.choose.rules)
    n_candidates: number of merges to learn; None for as many as the rules need
    temperature: sampling temperature of the sources for learning (see `volt.mix`)
    separate: whether to add a system with a separate vocabulary for each source
    certified: whether to bound the pieces of any vocabulary of the chosen size (see `certify`)
    samples: lines to show at every size (default: some lines of the sources)
    parameters, training: of the search; how long a model is trained, for the rule "trained"
    model: the language model whose cost per byte is measured; the rule "scaling" needs it
    report: called with the name of each phase when it starts
    fields, column, errors, max_line: as in `count_words`; NAME=FILE:N has its own fields
    Raises ConfigError, CorpusError, VocabularyError or CandidateError for an unsuitable input.

    >>> words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
    >>> compare(NamedText("en", words), systems="bpe:30")
    <Comparison: 10 systems on 1 source of 300 words, volt trained chosen, 73 tokens>
    """
    log = PhaseLog(arguments.function(report, "report"))
    named_texts = check_texts(sources, "sources"), check_texts(heldout, "heldout")
    select = as_rule(select)
    options = _Options(
        specs=[parse_spec(name) for name in _as_list(systems, "systems")],
        samples=_as_list(samples, "samples"),
        separate=separate,
        certified=certified,
        temperature=arguments.number(temperature, "temperature"),
        sizes=None if sizes is None else arguments.wholes(sizes, "sizes"),
        select=select,
        n_candidates=n_candidates,
        parameters=checked_parameters(parameters),
        training=checked_training(training),
        model=checked_model(model, select),
        reading={"fields": fields, "column": column, "errors": errors, "max_line": max_line},
    )
    return _compare(*named_texts, options, log)


def _as_list(texts: str | Iterable[str], argument: str) -> list[str]:
    return [texts] if isinstance(texts, str) else arguments.texts(texts, argument)


@dataclass(frozen=True, slots=True)
class _Options:
    """The checked arguments of `compare`.

    specs: the parsed names of the systems
    reading: arguments of `count_words`, which checks them
    """

    specs: list[Spec]
    samples: list[str]
    separate: bool
    certified: bool
    temperature: float
    sizes: Sequence[int] | None
    select: str
    n_candidates: int | None
    parameters: SearchParameters
    training: Training
    model: LanguageModel | None
    reading: dict[str, Any]

    def __post_init__(self) -> None:
        if self.n_candidates is not None:
            arguments.whole(self.n_candidates, "n_candidates", low=0)


def _read_files(specs: Sequence[Spec], log: PhaseLog) -> dict[Spec, ReadFile]:
    # This first search loads compiled loops, so that no system's cost includes it.
    search(learn_bpe({"low": 5, "lower": 2}, n_merges=3))
    files = {}
    with log.phase("read"):
        for spec in specs:
            if spec.path is not None and spec not in files:
                files[spec] = read_file(spec.path, pattern=spec.pattern)
    log.problems += [file.problem for file in files.values() if file.problem]
    return files


def _compare(
    training_texts: Sequence[str | NamedText],
    heldout_texts: Sequence[str | NamedText],
    options: _Options,
    log: PhaseLog,
) -> Comparison:
    files = _read_files(options.specs, log)
    with log.phase("count"):
        training, heldout, notes = read_texts(training_texts, heldout_texts, options.reading)
        log.problems += notes
    counts = mix({text.name: text.counts for text in training}, temperature=options.temperature)
    costed = _search(counts, options, log)
    result = costed.search
    systems = [*volt_systems(result, cost=costed.volt_cost)]
    for spec in dict.fromkeys(spec.with_size(result.vocabulary.size) for spec in options.specs):
        with log.phase("other systems", spec.text), log.continue_after_errors(spec.text):
            system = _other_system(costed, spec, files)
            systems.append(system)
            if spec.size is not None and system.size > spec.size:
                log.problems.append(f"{spec.text}: {system.why}")
    if options.separate:
        systems += _separate_systems(training, options, log)

    with log.phase("measure"):
        texts = [SourceWords.of(training), SourceWords.of(heldout)]
    results = tuple(_measure_systems(systems, texts, options, log))
    log.problems += _warn_of_unknown_pieces(results)
    with log.phase("study"):
        study = muv_study(result, parameters=options.parameters)
    with log.phase("samples"):
        tokens = token_table(result)
        samples = cut_samples(result, _choose_samples(options.samples, training, result))
    return Comparison(
        signature=result.signature,
        made=describe_run(log.seconds),
        corpus=corpus_facts(training, options.temperature),
        heldout=corpus_facts(heldout, 1.0) if heldout else None,
        search=result,
        phases=log.phases,
        systems=results,
        chosen=f"volt {result.pick.rule}",
        study=study,
        tokens=tokens,
        samples=samples,
        problems=tuple(log.problems),
        certificate=_certify(result, options, log),
    )


def _certify(result: SearchResult, options: _Options, log: PhaseLog) -> Certificate | None:
    """Return the certificate of the chosen vocabulary, if it is requested."""
    certificate = None
    if options.certified:
        with log.phase("certify"), log.continue_after_errors("certified"):
            certificate = certify(result.vocabulary, result.candidates.counts)
    return certificate


@dataclass(frozen=True, slots=True, eq=False)
class _CostedSearch:
    """A search, and what it cost.

    learning_cost: learning the candidates
    volt_cost: learning, and searching with a transport for each size
    curve_cost: learning, and computing the entropies of all sizes
    """

    search: SearchResult
    learning_cost: Cost
    volt_cost: Cost
    curve_cost: Cost


def _search(
    counts: WordCounts, options: _Options, log: PhaseLog, *, label: str = ""
) -> _CostedSearch:
    """Learn and search. label: the start of each problem, such as a source and a colon"""
    training = options.training
    model = options.model
    with log.phase("learn"):
        if options.n_candidates is None:
            learn = partial(learn_enough, training=training, model=model)
        else:
            learn = partial(learn_bpe, n_merges=options.n_candidates)
        candidates, learning_cost = measure_cost(learn, counts)

    sizes, select, notes = _choose_reachable(candidates, options.sizes, options.select)
    log.problems += [label + note for note in notes]
    with log.phase("search"):
        result, search_cost = measure_cost(
            search,
            candidates,
            sizes=sizes,
            select=select,
            parameters=options.parameters,
            training=training,
            model=model,
        )
    _, curve_cost = measure_cost(muv_search, candidates, length=options.parameters.length)
    return _CostedSearch(
        result,
        learning_cost=learning_cost,
        volt_cost=learning_cost + search_cost,
        curve_cost=learning_cost + curve_cost,
    )


def _choose_reachable(
    candidates: Candidates, sizes: Sequence[int] | None, select: str
) -> tuple[Sequence[int] | None, str, list[str]]:
    """Return the sizes and the rule that the candidates allow, and notes on the others."""
    low = candidates.n_atoms
    high = candidates.n_tokens
    offer = f"this corpus offers sizes from {low:,} to {high:,}"
    notes = list[str]()
    fixed_size = parse_rule(select)
    if fixed_size is not None and not low <= fixed_size <= high:
        notes.append(f"select {select}: {offer}; {DEFAULT} chooses instead")
        select = DEFAULT
    if sizes is None or not candidates.n_merges:
        return None, select, notes

    reachable = [size for size in sizes if low <= size <= high]
    n_skipped = len(sizes) - len(reachable)
    if n_skipped:
        note = f"sizes: {offer}; {n_skipped} of {len(sizes)} are skipped"
        if not reachable:
            note += "; round sizes are searched instead"
        notes.append(note)
    return reachable or default_sizes(candidates), select, notes


def _other_system(costed: _CostedSearch, spec: Spec, files: Mapping[Spec, ReadFile]) -> System:
    """Return the system of a name that is not VOLT's.

    Raises CandidateError if the corpus does not reach its size, VocabularyError if it cannot split
    the corpus's words.
    """
    candidates = costed.search.candidates
    size = spec.size or 0
    shortage = f"the corpus gives only {candidates.n_tokens:,} tokens"
    if spec.path is not None:
        return file_system(files[spec], counts=candidates.counts)
    if spec.kind == "bpe":
        if size > candidates.n_tokens:
            raise CandidateError(f"{shortage}; give more text, or ask for fewer")
        return system_at(
            candidates,
            size,
            name=f"bpe {size}",
            family="bpe",
            cost=costed.learning_cost,
            cost_note="learning the candidates, shared with the other BPE sizes",
            rule="fixed",
            why="as requested",
        )
    if spec.kind != "muv-search":
        return trained_system(spec.kind, size, counts=candidates.counts)

    argmax = grid_argmax(candidates)
    if argmax is None:
        raise CandidateError(
            f"{shortage}, which reach fewer than two sizes of the paper's grid; give more text"
        )
    greatest_muv = f"{argmax.muv * 1e6:,.1f}·10⁻⁶ nats per character and token"
    return system_at(
        candidates,
        argmax.size,
        name="muv-search",
        family="muv-search",
        cost=costed.curve_cost,
        cost_note="learning the candidates; the entropies of all sizes follow from it",
        rule="muv",
        why=f"greatest Eq. 1 on the paper's grid, {greatest_muv}",
        on_edge=argmax.on_edge,
        step_muv=argmax.muv,
    )


def _separate_systems(
    texts: Sequence[NamedText], options: _Options, log: PhaseLog
) -> Iterator[System]:
    """Yield one system with a vocabulary for each source; none if the search of a source fails."""
    systems = dict[str, System]()
    costs = list[Cost]()
    for text in texts:
        with log.continue_after_errors(f"separate vocabularies: {text.name}"):
            costed = _search(text.counts, options, log, label=f"{text.name}: ")
            costs.append(costed.volt_cost)
            for system in volt_systems(costed.search, cost=costed.volt_cost):
                if system.rule == costed.search.pick.rule:
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


def _measure_systems(
    systems: Sequence[System], texts: Sequence[SourceWords], options: _Options, log: PhaseLog
) -> Iterator[SystemResult]:
    """Yield the measures of each system that can be measured.

    texts: the training and the held-out text
    """
    cutter: Cutter | None = None
    cuts: list[CutSources] = []
    for system in systems:
        with log.phase("measure", system.name), log.continue_after_errors(system.name):
            if system.cut is not cutter:  # consecutive rules with the same pick share their cuts
                cuts = [text.cut(system) for text in texts]
                cutter = system.cut
            yield measure_system(
                system,
                *cuts,
                aligned=[text.is_aligned for text in texts],
                length=options.parameters.length,
                model=options.model,
            )


def _warn_of_unknown_pieces(results: Sequence[SystemResult]) -> list[str]:
    """Return one warning on the systems that are not ranked on a text, if any."""
    systems = []
    for result in results:
        rates = [
            f"{100 * measures.unknown_rate:.3g} % of {text}"
            for text, measures in _measures_by_text(result)
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


def _measures_by_text(result: SystemResult) -> Iterator[tuple[str, Measures]]:
    """Yield a description of each text and source, with the system's measures on it."""
    yield "the training text", result.training
    if result.heldout:
        yield "the held-out text", result.heldout
    by_kind = {"training": result.by_source, "held-out": result.heldout_by_source}
    for kind, by_source in by_kind.items():
        if len(by_source) > 1:
            for name, measures in by_source.items():
                yield f"the {kind} text of {name}", measures


def _choose_samples(
    lines: Sequence[str], texts: Sequence[NamedText], result: SearchResult
) -> list[tuple[str, str]]:
    """Return the name of a text, and a line, for each sample.

    Samples are the caller's lines, otherwise lines of the texts, otherwise words.
    """
    if lines:
        return [("sample", line) for line in lines]
    samples = []
    for text in texts:
        samples += [(text.name, line) for line in text.lines]
    if samples:
        return samples
    words = readable_cuts(sample_cuts(result.candidates, result.vocabulary), result.vocabulary)
    return [("words", " ".join(word for word, _ in words))]
