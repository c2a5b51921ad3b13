"""`volt search`: a corpus → its vocabulary.

Without `-o`, a vocabulary at the default place is replaced if it comes from the same corpus; otherwise the search is
refused, so that another corpus of the same name loses nothing. A corpus is recognised by its words or, because options
change the words, by its number of lines and bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.display import counted
from volt.errors import CandidateError, ConfigError, VocabularyError, VoltError, shown
from volt.urls import name_of, url_of
from volt_cli.console import Phases, prepare_kernels, print_json, say, show
from volt_cli.engines import Bounds, EngineOptions
from volt_cli.inputs import readable_sources
from volt_cli.io import (
    check_one_for_stdout,
    check_place,
    check_places,
    console_beside,
    is_stdout,
    save,
    say_written,
)
from volt_cli.options import (
    CandidateOptions,
    CountOptions,
    Json,
    ModelOptions,
    Quiet,
    SizeOptions,
    SpecialOptions,
    TransportOptions,
)
from volt_cli.remedies import in_options
from volt_cli.search_sources import (
    NamedSourceOptions,
    check_alone,
    each_text,
    extended_model,
    extending_learner,
    first_to_make,
    joint_output,
    outputs_of,
    parity_data,
    parity_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from volt.choose.language_model import LanguageModel
    from volt.choose.search import SearchResult
    from volt.count.named_files import NamedFile
    from volt.count.word_counts import WordCounts
    from volt.learn.candidates import Candidates
    from volt.learn.parity import Parity
    from volt.text.special_tokens import SpecialTokens
    from volt.vocabulary import Vocabulary

    Learner = Callable[..., Candidates]


_FINGERPRINT = re.compile(r"\|corpus:([0-9a-f]+)\|")
_REMEDY = "name a place with -o, or replace it with --force"


@dataclass(frozen=True, slots=True)
class Standing:
    """A vocabulary that a search has written. provenance: what it says of its corpus."""

    place: Path
    provenance: dict[str, Any]

    def refuse_other(self, counts: WordCounts) -> None:
        """Raise ConfigError if it was made from another corpus than these counts."""
        values = self.provenance
        result = _FINGERPRINT.search(values["signature"])
        same_words = result is not None and result[1] == counts.fingerprint
        same_size = counts.n_bad_lines > 0 or counts.n_bytes == values.get("bytes")  # replaced lines have other bytes
        if not same_words and not (same_size and counts.n_lines == values.get("lines")):
            raise ConfigError(
                f"{self.place}: exists, and was made from another corpus ({values.get('words', '?')} words; "
                f"this one has {counts.total}); {_REMEDY}"
            )


def standing(place: Path) -> Standing | None:
    """Return the vocabulary at a place, None if there is no file. Raises ConfigError if it is not from a search.

    >>> standing(Path("/nowhere/corpus.volt")) is None
    True
    """
    from volt.vocabulary import Vocabulary

    if not place.is_file():
        return None
    try:
        provenance = dict(Vocabulary.load(place).provenance)
    except VocabularyError:
        raise ConfigError(f"{place}: exists, and is no vocabulary that can be read; {_REMEDY}") from None
    if not isinstance(provenance.get("signature"), str):
        raise ConfigError(f"{place}: exists, and was not made by volt search; {_REMEDY}")
    return Standing(place, provenance)


def search(
    corpus: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            callback=readable_sources,
            default_factory=list,
            show_default=False,
            help="Files, globs, folders, or - for stdin; .gz .bz2 .xz .zst too. NAME=FILE, or NAME=FILE:N for column "
            "N, names a source. Default: stdin, unless it is a terminal.",
        ),
    ],
    sizing: SizeOptions,
    modelling: ModelOptions,
    counting: CountOptions,
    bounds: Bounds,
    naming: NamedSourceOptions,
    learning: CandidateOptions,
    special: SpecialOptions,
    transport: TransportOptions,
    engine: EngineOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write; default: CORPUS.volt, here. With --per-source a folder.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Without -o: replace a CORPUS.volt that is of another corpus.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Print all sizes that were measured, not ten, and what each transport found.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the vocabulary that a corpus deserves.

    Counts words, learns merge candidates, solves a transport problem per size, picks a size, writes the vocabulary, and
    prints the size, why and how sure that is, ten of the sizes measured, and what every rule would pick. With
    --extend, a vocabulary grows: its ids stay, and new tokens come after them.
    """
    requested = parse_sizes(sizing.sizes)
    from volt.choose.rules import checked_model, parse_rule
    from volt.choose.search import search as run_search
    from volt.count.counting import is_large
    from volt.count.named_files import named_files
    from volt.files.atomic import make_folder
    from volt.files.paths import expand

    bounds.budget()
    named = named_files(corpus)
    if sum(file.path == "-" for file in named.values()) > 1 or corpus.count("-") > 1:
        raise ConfigError("stdin, -, can be read only once; write its lines to a file, and name columns of that")
    check_alone(learning, counting, special, naming)
    naming.check(named, learning.file, word_counts=counting.word_counts, coverage=learning.coverage)
    files = {name: expand(file.path) for name, file in named.items()} or {"": expand(corpus)}
    if bounds.approximate and engine.is_ray:
        raise ConfigError("--approximate takes files in their order, and --engine ray counts several; leave out one")
    engine.check(chain.from_iterable(files.values()))
    targets = outputs_of(named, out) if naming.per_source else {"": out or _default_output(corpus, named)}
    old = extended_model(learning.extend, [*corpus, *(file.path for file in named.values())])
    tokens = old.special if old else special.tokens()
    parameters = transport.parameters()
    parse_rule(sizing.select)
    model = checked_model(modelling.model(), sizing.select)
    _check_coverage(learning, counting)
    check_one_for_stdout(json=as_json, output=any(map(is_stdout, targets.values())))
    check_places(targets.values(), [*chain.from_iterable(files.values()), learning.file], model=learning.extend)
    for target in [first_to_make(out)] if naming.per_source and out and _is_to_make(out) else targets.values():
        check_place(target)
    replaced = {name: standing(target) for name, target in targets.items() if out is None and not force}
    if not quiet:
        naming.warn({name: files[name] for name in files if not (counting.is_table or _column(named, name))})
    phases = Phases(quiet=quiet)
    if not counting.is_table and any(map(is_large, chain.from_iterable(files.values()))):
        prepare_kernels(phases, "count")
    prepare_kernels(phases, "replay" if learning.file else "learn", *naming.jobs, "words")
    with engine.running():
        sources = {
            name: _count(files[name], _column(named, name), counting, bounds, old, tokens, phases, engine)
            for name in files
        }
    corpora = sources if naming.per_source else {"": _joined(sources, naming) if named else sources[""]}
    for counts in corpora.values():
        bounds.check(counts)
    for name, other in replaced.items():
        if other:
            other.refuse_other(corpora[name])

    def search_counts(counts: WordCounts) -> SearchResult:
        learn = (
            extending_learner(old, counts, learning)
            if old
            else naming.learner(sources, counts, coverage=learning.coverage)
        )
        candidates = _candidates(counts, learning, model, phases, learn)
        with phases.phase("search", unit="sizes") as advance:
            return run_search(
                candidates, sizes=requested, select=sizing.select, parameters=parameters,
                special=None if old else tokens, byte_fallback=special.byte_fallback, model=model,
                multiple_of=sizing.multiple_of, report=advance,
            )  # fmt: skip

    results = {name: _in_options(_of_source(name, partial(search_counts, counts))) for name, counts in corpora.items()}
    if naming.per_source and out:
        make_folder(out)
    with phases.phase("save"):
        for name, result in results.items():
            save(result.vocabulary, targets[name])
    if naming.per_source:
        _report_each(results, phases, targets, as_json=as_json, quiet=quiet)
        return
    parity = _parity(results[""], sources, naming, phases) if naming.parity else None
    if as_json:
        _print_json(results[""], phases, targets[""], parity)
    elif not quiet:
        _print_report(results[""], phases, targets[""], parity, full=every)


def _of_source(name: str, search: Callable[[], SearchResult]) -> SearchResult:
    """Return the result of searching a source. Errors name the source if it has a name."""
    try:
        return search()
    except VoltError as error:
        raise type(error)(f"{shown(name)}: {error}") if name else error from error


def _in_options(result: SearchResult) -> SearchResult:
    return replace(result, warnings=tuple(map(in_options, result.warnings)))


def _default_output(corpus: list[str], named: Collection[str]) -> Path:
    return joint_output(named) if named else default_output(corpus)


def _column(named: Mapping[str, NamedFile], name: str) -> int | None:
    return named[name].column if name in named else None


def _joined(sources: Mapping[str, WordCounts], naming: NamedSourceOptions) -> WordCounts:
    from volt.count.word_counts import mix

    return mix(sources, temperature=naming.temperature)


def _parity(
    result: SearchResult, sources: Mapping[str, WordCounts], naming: NamedSourceOptions, phases: Phases
) -> Parity:
    from volt.learn.parity import measure_parity

    with phases.phase("parity"):
        return measure_parity(sources, result.candidates, size=result.best.size, unit=naming.unit)


def _print_json(result: SearchResult, phases: Phases, target: Path, parity: Parity | None) -> None:
    from volt.choose.report import as_data

    data = {**as_data(result, seconds=phases.seconds), **({"parity": parity_data(parity)} if parity else {})}
    print_json({**data, "output": str(target)}, indent=1)


def _print_report(result: SearchResult, phases: Phases, target: Path, parity: Parity | None, *, full: bool) -> None:
    from volt.choose.report import as_text

    neighbours = [parity_text(parity)] if parity else []
    show(
        as_text(result, seconds=phases.seconds, full=full, hint="--all shows all"),
        *neighbours,
        console=console_beside(target),
    )
    say_written(target, result.composition)


def _report_each(
    results: Mapping[str, SearchResult], phases: Phases, targets: Mapping[str, Path], *, as_json: bool, quiet: bool
) -> None:
    from volt.choose.report import as_data

    if as_json:
        each = {name: {**as_data(result), "output": str(targets[name])} for name, result in results.items()}
        print_json({"sources": each, "seconds": phases.seconds}, indent=1)
    elif not quiet:
        show(each_text(results))
        for name, result in results.items():
            say_written(targets[name], result.composition)


def _check_coverage(learning: CandidateOptions, counting: CountOptions) -> None:
    """Raise ConfigError if the share is out of range, or if nothing is learned to leave characters out of."""
    from volt.count.corpus_statistics import checked_share

    if checked_share(learning.coverage, is_bytes=counting.cut().is_bytes) < 1 and learning.file:
        raise ConfigError("--coverage is for learning, and merges of a file bring their own characters; leave out one")


def parse_sizes(text: str) -> range | None:
    """START:STOP:STEP, STOP included; None for an empty text. Raises ConfigError if it is malformed.

    >>> list(parse_sizes("1000:3000:1000"))
    [1000, 2000, 3000]
    """
    if not text:
        return None
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--sizes {text!r}: write START:STOP:STEP in tokens, such as 1000:30000:1000")
    start, stop, step = map(int, parts)
    if step < 1 or start > stop:
        raise ConfigError(f"--sizes {text!r}: sizes must increase; write START ≤ STOP and a STEP of at least 1")
    return range(start, stop + 1, step)


def _is_to_make(folder: Path) -> bool:
    """Check whether a folder is not there; behind a URL there is none to make."""
    return url_of(folder) is None and not folder.exists()


def default_output(corpus: list[str]) -> Path:
    """Return the corpus's name with .volt, in the current folder.

    >>> str(default_output(["data/train.en.gz"])), str(default_output(["-"]))
    ('train.en.volt', 'vocabulary.volt')
    """
    name = name_of(corpus[0])
    for ending in (".gz", ".bz2", ".zst", ".xz", ".txt", ".tsv", ".jsonl", ".parquet"):
        name = name.removesuffix(ending)
    return Path(f"{name if name.strip('.-*?[]') else 'vocabulary'}.volt")


def _count(
    files: list[str], column: int | None, requested: CountOptions, bounds: Bounds, old: Vocabulary | None,
    special: SpecialTokens, phases: Phases, engine: EngineOptions,
) -> WordCounts:  # fmt: skip
    """Return the words of files, or of one column of them. old: a vocabulary that makes words as it does"""
    from volt.count.corpus import count_words
    from volt.files.limits import parse_max_line

    with phases.phase("count", unit="B") as advance:
        return count_words(
            files, normalizer=old.normalizer if old else requested.normalizer,
            pretokenizer=old.pretokenizer if old else requested.cut(),
            fields=column or requested.fields or None, column=requested.column or None,
            word_counts=requested.word_counts, errors=requested.encoding_errors, min_count=requested.min_count,
            special=special,
            max_line=parse_max_line(requested.max_line), memory=bounds.memory, approximate=bounds.approximate,
            progress=lambda path, done, total: advance(done, total), map=engine.shard_map(add_up=bounds.memory is None),
        )  # fmt: skip


def _candidates(
    counts: WordCounts, requested: CandidateOptions, model: LanguageModel | None, phases: Phases, learn: Learner
) -> Candidates:
    """Learned merges, as many as are asked for or as the rules need, or those of a file."""
    from volt.choose.exact_curve import learned_until_decided

    if requested.file:
        return _replayed(counts, requested, phases)
    learn = partial(learn, marker=requested.marker, min_pair_count=requested.min_pair_count)
    with phases.phase("learn", total=requested.n_merges, unit="merges") as advance:
        if requested.n_merges is None:
            return learned_until_decided(partial(learn, report=advance), model)
        result = learn(requested.n_merges, report=advance)
    if result.n_merges < requested.n_merges:
        say(
            f"note: --candidates {requested.n_merges}: this corpus gives only {counted(result.n_merges, 'merge')} "
            f"whose pair occurs {counted(requested.min_pair_count, 'time')}; all of them are taken"
        )
    return result


def _replayed(counts: WordCounts, requested: CandidateOptions, phases: Phases) -> Candidates:
    from volt.formats.registry import read_merges
    from volt.learn.bpe import replay_bpe

    merges = read_merges(requested.file or "")
    for note in merges.notes:
        say(f"note: {name_of(requested.candidates) or requested.candidates}: {note}")
    _check_level(requested.candidates, merges.spells_bytes, counts.pretokenizer.is_bytes)
    with phases.phase("replay", total=counts.n_words, unit="words") as advance:
        return replay_bpe(counts, merges.pairs, marker=requested.marker or merges.marker, report=advance)


def _check_level(path: str | Path, spells_bytes: bool, counts_bytes: bool) -> None:
    """Raise CandidateError if merges over bytes meet a corpus of characters, or the other way round."""
    if spells_bytes and not counts_bytes:
        raise CandidateError(
            f"{path}: its merges are over bytes, like those of GPT-2, and words are counted in characters; search with "
            "--level bytes"
        )
    if counts_bytes and not spells_bytes:
        raise CandidateError(
            f"{path}: its merges are over characters, and words are counted in bytes; leave out --level bytes"
        )
