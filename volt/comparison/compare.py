"""Corpora → `Comparison`: VOLT under every rule and other vocabularies on the same words, with the cost of each.

A missing library, or a size that the corpus does not reach, does not end a comparison: `problems` holds a sentence on
it. A file that cannot be read raises an error before any other work. Where VOLT cannot encode as a file's own library
does, that library cuts the words, and `problems` says so.

>>> from volt.count.word_counts import WordCounts
>>> words = {f"{a}{b}{c}{d}": 5 for a in "lst" for b in "aeiou" for c in "nrdw" for d in ("", "er", "est")}
>>> comparison = compare([NamedText("en", WordCounts.from_pairs(words))], systems=["bpe:30", "bpe:9000"])
>>> [system.name for system in comparison.systems][:2]
['volt balanced', 'volt utility']
>>> comparison.systems[-1].name, comparison.problems[-1]
('bpe 30', 'bpe:9000: the corpus gives only 223 tokens; give more text, or ask for fewer')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from operator import add

from volt import arguments
from volt.choose.exact_curve import learn_enough, muv_search
from volt.choose.language_model import LanguageModel, checked_model
from volt.choose.rules import DEFAULT, as_rule, parse_rule
from volt.choose.search import SearchResult, readable_cuts, search
from volt.choose.search import sample_cuts as long_words
from volt.choose.size_steps import SearchParameters, default_sizes
from volt.comparison import Comparison as Comparison
from volt.comparison.cost import Cost, PhaseLog, Report, measured
from volt.comparison.libraries import ReadFile, read_file
from volt.comparison.measures import MOST_UNKNOWN, Cuts, Measures
from volt.comparison.result import SystemResult as SystemResult
from volt.comparison.result import corpus_facts, cut_texts, made_now, measure_system, measured_texts
from volt.comparison.size_studies import Study, grid_argmax, muv_study, sample_cuts, token_table
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
from volt.comparison.texts import NamedText, Texts, as_texts, read_both
from volt.count.word_counts import WordCounts, mix
from volt.errors import CandidateError
from volt.files.limits import MAX_LINE
from volt.learn.bpe import learn_bpe
from volt.learn.candidates import Candidates


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of `compare`."""

    sizes: Sequence[int] | None = None
    select: str = DEFAULT
    n_candidates: int | None = None
    parameters: SearchParameters = field(default_factory=SearchParameters)
    model: LanguageModel | None = None

    @classmethod
    def of(
        cls, sizes: Iterable[int] | None, select: str | int, n_candidates: int | None,
        parameters: SearchParameters | None, model: LanguageModel | None,
    ) -> _Options:  # fmt: skip
        """Return the options after validation."""
        parse_rule(select := as_rule(select))
        remedy = "give volt.SearchParameters(epsilon=0.5), say"
        result = arguments.instance(parameters or SearchParameters(), SearchParameters, "parameters", remedy=remedy)
        wanted = None if sizes is None else arguments.wholes(sizes, "sizes")
        n_merges = None if n_candidates is None else arguments.whole(n_candidates, "n_candidates", low=0)
        return cls(wanted, select, n_merges, result, checked_model(model, select))


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A search, and the costs of learning its candidates, of searching, and of the sweep's entropies."""

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
    n_candidates: how many merges to learn, at most what the corpus offers; None for as many as the rules need
    temperature: rescales the sources for learning; measures use the original texts
    separate: whether to add a system with a separate vocabulary for each source
    samples: lines to show at every size (default: some lines of the sources)
    parameters: parameters of the search
    model: the language model whose cost per byte is measured; the rule "scaling" needs it
    report: called with the name of each phase when it starts
    max_line: the most bytes of a line of text; None for no limit
    Raises ConfigError if an option is wrong.
    Raises CorpusError if a text cannot be read.
    Raises VocabularyError if a file among the systems cannot be read.
    Raises CandidateError if the sources hold no pair of characters to merge.

    >>> words = {f"{a}{b}{c}": 5 for a in "lst" for b in "aeiou" for c in ("n", "r", "ner", "rest")}
    >>> compare(NamedText("en", WordCounts.from_pairs(words)), systems="bpe:30")
    <Comparison: 9 systems on 1 source of 300 words, volt balanced chosen, 73 tokens>
    """
    work = PhaseLog(arguments.function(report, "report"))
    specs = [parse_spec(text) for text in dict.fromkeys(_listed(systems, "systems"))]
    temperature, samples = arguments.number(temperature, "temperature"), _listed(samples, "samples")
    training, held_out = as_texts(sources, "sources"), as_texts(heldout, "heldout")
    options = _Options.of(sizes, select, n_candidates, parameters, model)
    _load_kernels()
    files = _files_read(specs, work)
    with work.phase("count"):
        texts, held, notes = read_both(training, held_out, max_line)
        work.problems += notes
    result = _searched(mix({text.name: text.counts for text in texts}, temperature=temperature), options, work)
    output = [
        *_volt(result),
        *_others(result, specs, files, work),
        *_separate(texts if separate else (), options, work),
    ]
    results = tuple(_results(output, texts, held, options, work))
    work.problems += chain.from_iterable(map(_unknown, results))
    study = _study(result, options, work)
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


def _load_kernels() -> None:
    """Run a tiny search, so that no system's cost includes loading the compiled loops."""
    tiny = learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3)
    search(tiny)


def _files_read(specs: Sequence[Spec], work: PhaseLog) -> dict[Spec, ReadFile]:
    """Return the files among the systems. Raises VocabularyError if one cannot be read."""
    with work.phase("read"):
        files = {spec: read_file(spec.path, pattern=spec.pattern) for spec in specs if spec.path is not None}
    work.problems += [file.problem for file in files.values() if file.problem]
    return files


def _searched(counts: WordCounts, options: _Options, work: PhaseLog, *, label: str = "") -> _Found:
    """Learn and search. Sizes or a rule that the corpus does not reach are left out and reported as problems."""
    with work.phase("learn"), measured() as learning:
        n_merges = options.n_candidates
        candidates = learn_enough(counts, model=options.model) if n_merges is None else learn_bpe(counts, n_merges)
    sizes, select, notes = _reached(candidates, options)
    work.problems += [label + note for note in notes]
    with work.phase("search"), measured() as searching:
        result = search(candidates, sizes=sizes, select=select, parameters=options.parameters, model=options.model)
    with measured() as sweep:
        muv_search(candidates, length=options.parameters.length)
    return _Found(result, learning[0], searching[0], sweep[0])


def _reached(candidates: Candidates, options: _Options) -> tuple[Sequence[int] | None, str, list[str]]:
    """Return the sizes and the rule that the candidates reach, and sentences on those that they do not reach."""
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
        notes.append(f"sizes: {offer}; {left} of {len(options.sizes)} are left out{instead}")
    return fitting or default_sizes(candidates), select, notes


def _volt(result: _Found) -> Iterator[System]:
    parts = "learning the candidates and the transports of all sizes"
    return volt_systems(result.search, cost=result.learning + result.searching, parts=parts)


def _others(result: _Found, specs: Sequence[Spec], files: Mapping[Spec, ReadFile], work: PhaseLog) -> Iterator[System]:
    """Yield the requested systems that can be obtained."""
    for spec in dict.fromkeys(spec.sized(result.search.vocabulary.size) for spec in specs):
        with work.phase("other systems", spec.text), work.tolerated(spec.text):
            yield _other(result, spec, files)


def _other(result: _Found, spec: Spec, files: Mapping[Spec, ReadFile]) -> System:
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


def _muv_search_system(result: _Found) -> System:
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
    """Yield one system with a vocabulary for each source, unless a source has none."""
    result = {}
    for text in texts:
        with work.tolerated(f"separate vocabularies: {text.name}"):
            result[text.name] = _searched(text.counts, options, work, label=f"{text.name}: ")
    if result and len(result) == len(texts):
        yield _joined(result)


def _joined(result: dict[str, _Found]) -> System:
    searches = [one.search for one in result.values()]
    systems = {name: _chosen(one) for name, one in result.items()}
    sizes = ", ".join(f"{name} {one.size:,}" for name, one in systems.items())
    rule = searches[0].pick.rule
    return joined_system(
        f"volt {rule}, separate", systems, family="volt", rule=rule,
        cost=reduce(add, [one.learning + one.searching for one in result.values()]),
        cost_note="learning and searching each source by itself",
        why=f"a vocabulary for each source: {sizes}", on_edge=any(one.pick.on_edge for one in searches),
    )  # fmt: skip


def _chosen(result: _Found) -> System:
    name = f"volt {result.search.pick.rule}"
    return next(system for system in _volt(result) if system.name == name)


def _results(
    systems: Sequence[System], texts: Sequence[NamedText], held: Sequence[NamedText], options: _Options, work: PhaseLog
) -> Iterator[SystemResult]:
    """Yield the measures of every system on training and held-out texts. Systems with one cutter share the cuts."""
    with work.phase("measure"):
        both = measured_texts(texts, held, length=options.parameters.length, model=options.model)
    cuts: dict[Cutter, dict[str, Cuts]] = {}
    for system in systems:
        with work.phase("measure", system.name), work.tolerated(system.name):
            if system.cut not in cuts:
                cuts = {system.cut: cut_texts(system, both)}
            yield measure_system(system, both, cuts=cuts[system.cut])


def _unknown(result: SystemResult) -> Iterator[str]:
    """Yield a sentence on each text with too many unknown pieces to rank the system."""
    parts: dict[str, Measures | None] = {"the training text": result.training, "the held-out text": result.heldout}
    for kind, by_source in (("training", result.by_source), ("held-out", result.heldout_by_source)):
        parts |= {f"the {kind} text of {name}": one for name, one in by_source.items() if len(by_source) > 1}
    for text, one in parts.items():
        if one and not one.is_ranked:
            yield (
                f"{result.name}: {100 * one.unknown_rate:.3g} % of the pieces of {text} are unknown; its measures "
                f"there would mislead and are left out, as above {100 * MOST_UNKNOWN:g} %"
            )


def _study(result: _Found, options: _Options, work: PhaseLog) -> Study:
    with work.phase("study"):
        return muv_study(
            result.search, parameters=options.parameters, volt_cost=result.learning + result.searching,
            sweep_cost=result.learning + result.sweep,
        )  # fmt: skip


def _samples(inputs: Sequence[str], texts: Sequence[NamedText], result: SearchResult) -> list[tuple[str, str]]:
    """Return the lines that are given, or else some lines of the texts, or else long words."""
    if inputs:
        return [("sample", line) for line in inputs]
    lines = [(text.name, line) for text in texts for line in text.lines]
    words = readable_cuts(long_words(result.candidates, result.vocabulary), result.vocabulary)
    return lines or [("words", " ".join(word for word, _ in words))]
