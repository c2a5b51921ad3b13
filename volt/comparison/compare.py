"""Corpora → `Comparison`: VOLT under every rule, and other vocabularies, on the same words, with costs.

If a library is missing, or the corpus does not reach a size, the comparison continues and `problems` says so. A file
that cannot be read raises an error before any other work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from volt.choose.search import SearchResult, readable_cuts, search
from volt.choose.search import sample_cuts as long_words
from volt.choose.size_steps import SearchParameters, checked_parameters, default_sizes
from volt.choose.training_law import Training
from volt.comparison import Comparison as Comparison
from volt.comparison.libraries import Cutter, ReadFile, read_file
from volt.comparison.measures import MOST_UNKNOWN, Measures
from volt.comparison.muv_study import grid_argmax, muv_study, sample_cuts, token_table
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


@dataclass(frozen=True, slots=True, eq=False)
class _Searched:
    """A search, and three costs: of learning, of learning and search, of learning and the entropies of all sizes."""

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
    """Compare VOLT's vocabularies under every rule with other systems, on training and held-out text.

    sources: the training texts, each as NAME=FILE, as FILE, or as a NamedText of counted words
    heldout: the held-out texts, in the same forms
    systems: the systems to compare VOLT with (see volt.comparison.systems)
    sizes: the sizes to search, on all sources together (default: some twenty round ones)
    select: the rule that chooses among the sizes (see volt.choose.rules)
    n_candidates: how many merges to learn; None for as many as the rules need
    temperature: sampling temperature of the sources for learning (see `volt.mix`); measures use the original texts
    separate: whether to add a system with a separate vocabulary for each source
    samples: lines to show at every size (default: some lines of the sources)
    parameters: parameters of the search
    training: how long a model is trained, for the rule "trained"
    model: the language model whose cost per byte is measured; the rule "scaling" needs it
    report: called with the name of each phase when it starts
    max_line: the maximum number of bytes in a line; None for no limit
    Raises ConfigError, CorpusError, VocabularyError or CandidateError if an option or a file is unsuitable.

    >>> words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
    >>> compare(NamedText("en", words), systems="bpe:30")
    <Comparison: 10 systems on 1 source of 300 words, volt trained chosen, 73 tokens>
    """
    work = PhaseLog(arguments.function(report, "report"))
    specs = [parse_spec(text) for text in dict.fromkeys(_listed(systems, "systems"))]
    temperature, samples = arguments.number(temperature, "temperature"), _listed(samples, "samples")
    learned_on, held_out = as_texts(sources, "sources"), as_texts(heldout, "heldout")
    parse_rule(select := as_rule(select))
    sizes = None if sizes is None else arguments.wholes(sizes, "sizes")
    if n_candidates is not None:
        n_candidates = arguments.whole(n_candidates, "n_candidates", low=0)
    parameters, model = checked_parameters(parameters), checked_model(model, select)
    training = checked_training(training)
    search(
        learn_bpe({"low": 5, "lower": 2}, n_merges=3)
    )  # so that no system's cost includes loading compiled loops
    with work.phase("read"):
        files = {
            spec: read_file(spec.path, pattern=spec.pattern)
            for spec in specs
            if spec.path is not None
        }
    work.problems += [file.problem for file in files.values() if file.problem]
    with work.phase("count"):
        texts, held, notes = read_both(learned_on, held_out, max_line)
        work.problems += notes
    searched = partial(
        _searched,
        sizes=sizes,
        select=select,
        n_candidates=n_candidates,
        parameters=parameters,
        training=training,
        model=model,
        work=work,
    )
    result = searched(mix({text.name: text.counts for text in texts}, temperature=temperature))
    compared = [*volt_systems(result.search, cost=result.volt)]
    for spec in dict.fromkeys(spec.sized(result.search.vocabulary.size) for spec in specs):
        with work.phase("other systems", spec.text), work.tolerated(spec.text):
            compared.append(_other(result, spec, files))
    compared += _separate(texts if separate else (), searched, work)
    with work.phase("measure"):
        both = MeasuredTexts.of(texts), MeasuredTexts.of(held)
    results = tuple(_results(compared, both, work, length=parameters.length, model=model))
    work.problems += _unknown(results)
    with work.phase("study"):
        study = muv_study(result.search, parameters=parameters)
    with work.phase("samples"):
        tokens, cuts = (
            token_table(result.search),
            sample_cuts(result.search, _samples(samples, texts, result.search)),
        )
    return Comparison(
        signature=result.search.signature,
        made=made_now(work.seconds),
        corpus=corpus_facts(texts, temperature),
        heldout=corpus_facts(held, 1.0) if held else None,
        search=result.search,
        phases=work.phases,
        systems=results,
        chosen=f"volt {result.search.pick.rule}",
        study=study,
        tokens=tokens,
        samples=cuts,
        problems=tuple(work.problems),
    )


def _listed(texts: str | Iterable[str], name: str) -> list[str]:
    return [texts] if isinstance(texts, str) else arguments.texts(texts, name)


def _searched(
    counts: WordCounts,
    *,
    sizes: Sequence[int] | None,
    select: str,
    n_candidates: int | None,
    parameters: SearchParameters,
    training: Training,
    model: LanguageModel | None,
    work: PhaseLog,
    label: str = "",
) -> _Searched:
    with work.phase("learn"):
        learn = partial(learn_bpe, n_merges=n_candidates)
        if n_candidates is None:
            learn = partial(learn_enough, training=training, model=model)
        candidates, learning = measured(learn, counts)
    sizes, select, notes = _reached(candidates, sizes, select)
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


def _reached(
    candidates: Candidates, sizes: Sequence[int] | None, select: str
) -> tuple[Sequence[int] | None, str, list[str]]:
    """Return the sizes to search, the rule, and sentences on requested sizes out of reach."""
    low, high = candidates.n_atoms, candidates.n_tokens
    offer = f"this corpus offers sizes from {low:,} to {high:,}"
    fixed, notes = parse_rule(select), []
    if fixed is not None and not low <= fixed <= high:
        notes.append(f"select {select}: {offer}; {DEFAULT} chooses instead")
        select = DEFAULT
    if sizes is None or not candidates.n_merges:
        return None, select, notes
    fitting = [size for size in sizes if low <= size <= high]
    if left := len(sizes) - len(fitting):
        instead = "" if fitting else "; round sizes are searched instead"
        notes.append(f"sizes: {offer}; {left} of {len(sizes)} are skipped{instead}")
    return fitting or default_sizes(candidates), select, notes


def _other(result: _Searched, spec: Spec, files: Mapping[Spec, ReadFile]) -> System:
    candidates = result.search.candidates
    if spec.path is not None:
        return file_system(files[spec], counts=candidates.counts)
    if spec.kind == "muv-search":
        return _muv_search_system(result)
    if spec.kind != "bpe":
        return trained_system(spec.kind, spec.size or 0, counts=candidates.counts)
    if (spec.size or 0) > candidates.n_tokens:
        raise CandidateError(
            f"the corpus gives only {candidates.n_tokens:,} tokens; give more text, or ask for fewer"
        )
    note = "learning the candidates, shared with the other BPE sizes"
    return system_at(
        candidates,
        spec.size or 0,
        name=f"bpe {spec.size}",
        family="bpe",
        cost=result.learning,
        cost_note=note,
        rule="fixed",
        why="as requested",
    )


def _muv_search_system(result: _Searched) -> System:
    candidates = result.search.candidates
    pick = grid_argmax(candidates)
    if pick is None:
        raise CandidateError(
            f"the corpus gives only {candidates.n_tokens:,} tokens, which reach fewer than two sizes of the paper's "
            "grid; give more text"
        )
    return system_at(
        candidates,
        pick.size,
        name="muv-search",
        family="muv-search",
        cost=result.sweep,
        cost_note="learning the candidates; the entropies of all sizes follow from it",
        rule="muv",
        why=f"greatest Eq. 1 on the paper's grid, {pick.muv * 1e6:,.1f}·10⁻⁶ nats per character and token",
        on_edge=pick.on_edge,
        step_muv=pick.muv,
    )


def _separate(
    texts: Sequence[NamedText], searched: Callable[..., _Searched], work: PhaseLog
) -> Iterator[System]:
    result: dict[str, _Searched] = {}
    for text in texts:
        with work.tolerated(f"separate vocabularies: {text.name}"):
            result[text.name] = searched(text.counts, label=f"{text.name}: ")
    if not result or len(result) < len(texts):
        return
    systems = {
        name: next(
            one
            for one in volt_systems(each.search, cost=each.volt)
            if one.rule == each.search.pick.rule
        )
        for name, each in result.items()
    }
    rule = next(iter(systems.values())).rule
    sizes = ", ".join(f"{name} {one.size:,}" for name, one in systems.items())
    yield joined_system(
        f"volt {rule}, separate",
        systems,
        family="volt",
        rule=rule,
        cost=reduce(add, [one.volt for one in result.values()]),
        cost_note="learning and searching each source by itself",
        why=f"a vocabulary for each source: {sizes}",
        on_edge=any(one.on_edge for one in systems.values()),
    )


def _results(
    systems: Sequence[System], texts: Sequence[MeasuredTexts], work: PhaseLog, **options: Any
) -> Iterator[SystemResult]:
    cuts: dict[Cutter, list[CutTexts]] = {}
    for system in systems:
        with work.phase("measure", system.name), work.tolerated(system.name):
            if system.cut not in cuts:
                cuts = {system.cut: [some.cut(system) for some in texts]}
            yield measure_system(
                system, *cuts[system.cut], aligned=[some.aligned for some in texts], **options
            )


def _unknown(results: Sequence[SystemResult]) -> list[str]:
    systems = []
    for result in results:
        parts: dict[str, Measures | None] = {
            "the training text": result.training,
            "the held-out text": result.heldout,
        }
        for kind, by_source in (
            ("training", result.by_source),
            ("held-out", result.heldout_by_source),
        ):
            parts |= {
                f"the {kind} text of {name}": one
                for name, one in by_source.items()
                if len(by_source) > 1
            }
        unranked = {
            text: one.unknown_rate for text, one in parts.items() if one and not one.is_ranked
        }
        if unranked:
            shares = ", ".join(f"{100 * rate:.3g} % of {text}" for text, rate in unranked.items())
            systems.append(f"{result.name} ({shares})")
    if not systems:
        return []
    return [
        f"more than {100 * MOST_UNKNOWN:g} % of the pieces are unknown, so that measures there would mislead and are "
        f"left out: {'; '.join(systems)}"
    ]


def _samples(
    lines: Sequence[str], texts: Sequence[NamedText], result: SearchResult
) -> list[tuple[str, str]]:
    if lines:
        return [("sample", line) for line in lines]
    words = readable_cuts(long_words(result.candidates, result.vocabulary), result.vocabulary)
    of_texts = [(text.name, line) for text in texts for line in text.lines]
    return of_texts or [("words", " ".join(word for word, _ in words))]
