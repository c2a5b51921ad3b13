"""`volt search`: a corpus → its vocabulary.

Without `-o`, an existing file is replaced only if it was made from the same corpus: either the words are equal, or the
numbers of lines and of bytes are.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.display import counted
from volt.errors import CandidateError, ConfigError, VocabularyError, VoltError, shown
from volt.urls import name_of, url_of
from volt_cli.console import Phases, prepare_kernels, print_json, say, show
from volt_cli.engine_options import Bounds, EngineOptions
from volt_cli.io import (
    check_one_for_stdout,
    check_place,
    check_places,
    count_text,
    is_stdout,
    load_model,
    report_console,
    save,
    say_written,
)
from volt_cli.options import (
    CandidateOptions,
    CountOptions,
    Json,
    Quiet,
    SizeOptions,
    SpecialOptions,
    TrainingOptions,
    TransportOptions,
    argument,
    flag,
    input_paths,
    option,
)
from volt_cli.search_sources import (
    NamedSourceOptions,
    check_alone,
    each_text,
    first_to_make,
    joint_output,
    outputs_of,
    parity_data,
    parity_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from volt.choose.scaling_law import LanguageModel
    from volt.choose.search import SearchResult
    from volt.choose.training_law import Training
    from volt.count.word_counts import WordCounts
    from volt.learn.candidates import Candidates
    from volt.learn.parity import Parity


_FINGERPRINT = re.compile(r"\|corpus:([0-9a-f]+)\|")
_REMEDY = "choose another file with -o, or replace it with --force"


def replaceable(place: Path) -> dict[str, Any]:
    """Return the provenance of the file, if there is one. Raises ConfigError if `volt search` did not write it."""
    from volt.vocabulary import Vocabulary

    if not place.is_file():
        return {}
    try:
        provenance = dict(Vocabulary.load(place).provenance)
    except VocabularyError:
        raise ConfigError(
            f"{place}: exists, but is not a vocabulary that can be read; {_REMEDY}"
        ) from None
    if not isinstance(provenance.get("signature"), str):
        raise ConfigError(f"{place}: exists, but was not made by volt search; {_REMEDY}")
    return provenance


def _refuse_other(place: Path, provenance: Mapping[str, Any], counts: WordCounts) -> None:
    fingerprint = _FINGERPRINT.search(provenance.get("signature", ""))
    same_words = fingerprint is not None and fingerprint[1] == counts.fingerprint
    same_size = counts.n_bad_lines > 0 or counts.n_bytes == provenance.get(
        "bytes"
    )  # repairs change the bytes
    if (
        provenance
        and not same_words
        and not (same_size and counts.n_lines == provenance.get("lines"))
    ):
        raise ConfigError(
            f"{place}: exists, but was made from another corpus ({provenance.get('words', '?')} words; "
            f"this one has {counts.total}); {_REMEDY}"
        )


def search(
    corpus: Annotated[
        list[str],
        argument(
            "CORPUS",
            "Files, globs, folders, or - for stdin; .gz .bz2 .xz .zst too. NAME=FILE, or NAME=FILE:N for column "
            "N, names a source. Default: stdin, unless it is a terminal.",
            default_factory=list,
            show_default=False,
        ),
    ],
    sizing: SizeOptions,
    training: TrainingOptions,
    counting: CountOptions,
    bounds: Bounds,
    naming: NamedSourceOptions,
    learning: CandidateOptions,
    special: SpecialOptions,
    transport: TransportOptions,
    engine: EngineOptions,
    out: Annotated[
        Path | None,
        option(
            "FILE",
            "Where to write; default: ./CORPUS.volt. With --per-source: a folder.",
            "-o",
            "--output",
        ),
    ] = None,
    force: Annotated[
        bool, flag("Without -o: replace a CORPUS.volt of another corpus.", "--force")
    ] = False,
    every: Annotated[
        bool,
        flag("Print all measured sizes instead of ten, and the result of each transport.", "--all"),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the vocabulary that a corpus deserves.

    Counts words, learns merge candidates, solves a transport problem per size, picks a size, and writes the vocabulary.
    Prints the size, the reason, how certain it is, ten of the measured sizes, and what every rule would pick. With
    --extend, an existing vocabulary keeps its ids, and new tokens follow.
    """
    from volt.count.file_arguments import named_files
    from volt.files.paths import check_readable

    if not corpus and sys.stdin.isatty():
        raise ConfigError(
            "CORPUS is missing: name files, or give a text on stdin, as in volt search < corpus.txt"
        )
    corpus = corpus or ["-"]
    named = named_files(corpus)
    columns = {name: file.column for name, file in named.items()}
    is_table = bool(counting.fields or counting.column or counting.word_counts)
    files = {name: input_paths([file.path]) for name, file in named.items()} or {
        "": input_paths(corpus)
    }
    if learning.file:
        check_readable(learning.file, kind=CandidateError)
    requested = parse_sizes(sizing.sizes)
    from volt.choose.rules import parse_rule
    from volt.choose.search import search as run_search
    from volt.count.counting import is_large
    from volt.count.coverage import checked_share
    from volt.count.word_counts import mix
    from volt.files.atomic import make_folder
    from volt.learn.parity import measure_parity

    bounds.budget()
    if sum(file.path == "-" for file in named.values()) > 1 or corpus.count("-") > 1:
        raise ConfigError(
            "stdin (-) can be read only once; save it as a file, and name columns of the file"
        )
    check_alone(learning, counting, special, naming)
    naming.check(named, learning.file, word_counts=counting.word_counts, coverage=learning.coverage)
    if bounds.approximate and engine.is_ray:
        raise ConfigError(
            "--approximate counts files in order, but --engine ray counts several at once; remove one"
        )
    engine.check(chain.from_iterable(files.values()))
    targets = {"": out or (joint_output(named) if named else default_output(corpus))}
    if naming.per_source:
        targets = outputs_of(named, out)
    texts = [*corpus, *(file.path for file in named.values())]
    old = load_model(learning.extend, texts=texts, option="--extend") if learning.extend else None
    tokens = old.special if old else special.tokens()
    parameters = transport.parameters()
    parse_rule(sizing.select)
    length, model = training.length(), training.model(sizing.select)
    if checked_share(learning.coverage, is_bytes=counting.cut().is_bytes) < 1 and learning.file:
        raise ConfigError(
            "--coverage works only when merges are learned; remove it, or the file of --candidates"
        )
    check_one_for_stdout(json=as_json, output=any(map(is_stdout, targets.values())))
    check_places(
        targets.values(),
        [*chain.from_iterable(files.values()), learning.file],
        model=learning.extend,
    )
    is_to_make = naming.per_source and out and url_of(out) is None and not out.exists()
    for target in [first_to_make(out)] if out and is_to_make else targets.values():
        check_place(target)
    replaced = {
        name: replaceable(target) for name, target in targets.items() if out is None and not force
    }
    if not quiet:
        naming.warn([files[name] for name in files if not (is_table or columns.get(name))])
    phases = Phases(quiet=quiet)
    if not is_table and any(map(is_large, chain.from_iterable(files.values()))):
        prepare_kernels(phases, "count")
    prepare_kernels(phases, "replay" if learning.file else "learn", *naming.jobs, "words")
    with engine.running():
        options: dict[str, Any] = {
            "normalizer": old.normalizer if old else counting.normalizer,
            "pretokenizer": old.pretokenizer if old else counting.cut(),
            "column": counting.column or None,
            "word_counts": counting.word_counts,
            "min_count": counting.min_count,
            "special": tokens,
            "memory": bounds.memory,
            "approximate": bounds.approximate,
            "keep": bounds.keep,
            "map": engine.shard_map(add_up=bounds.memory is None, quiet=quiet),
            **counting.limits,
        }
        sources = {
            name: count_text(
                paths, phases, fields=columns.get(name) or counting.fields or None, **options
            )
            for name, paths in files.items()
        }
    if naming.per_source:
        corpora = sources
    else:
        corpora = {"": mix(sources, temperature=naming.temperature) if named else sources[""]}
    for counts in corpora.values():
        bounds.check(counts)
    for name, provenance in replaced.items():
        _refuse_other(targets[name], provenance, corpora[name])

    results: dict[str, SearchResult] = {}
    for name, counts in corpora.items():
        try:
            candidates = _candidates(
                counts,
                learning,
                (length, model),
                phases,
                naming.learner(old, sources, counts, learning),
            )
            with phases.phase("search", unit="sizes") as advance:
                results[name] = run_search(
                    candidates,
                    sizes=requested,
                    select=sizing.select,
                    parameters=parameters,
                    special=None if old else tokens,
                    byte_fallback=special.byte_fallback,
                    training=length,
                    model=model,
                    multiple_of=sizing.multiple_of,
                    report=advance,
                )
        except VoltError as error:
            raise error.reworded(f"{shown(name)}: {error.message}") if name else error from error
    if naming.per_source and out:
        make_folder(out)
    with phases.phase("save"):
        for name, result in results.items():
            save(result.vocabulary, targets[name])
    if naming.per_source:
        _report_each(results, phases, targets, as_json=as_json, quiet=quiet)
        return
    [result], parity = results.values(), None
    if naming.parity:
        with phases.phase("parity"):
            parity = measure_parity(
                sources, result.candidates, size=result.best.size, unit=naming.unit
            )
    if as_json or not quiet:
        _report(result, targets[""], parity, phases, as_json=as_json, full=every)


def _report(
    result: SearchResult,
    target: Path,
    parity: Parity | None,
    phases: Phases,
    *,
    as_json: bool,
    full: bool,
) -> None:
    from volt.choose.report import as_data, as_text

    if as_json:
        data = {
            **as_data(result, seconds=phases.seconds),
            **({"parity": parity_data(parity)} if parity else {}),
        }
        print_json({**data, "output": str(target)}, indent=1)
        return
    text = as_text(result, seconds=phases.seconds, full=full, hint="--all shows all")
    show(text, *([parity_text(parity)] if parity else []), console=report_console(target))
    say_written(target, result.composition)


def _report_each(
    results: Mapping[str, SearchResult],
    phases: Phases,
    targets: Mapping[str, Path],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    from volt.choose.report import as_data

    if as_json:
        each = {
            name: {**as_data(result), "output": str(targets[name])}
            for name, result in results.items()
        }
        print_json({"sources": each, "seconds": phases.seconds}, indent=1)
    elif not quiet:
        show(each_text(results))
        for name, result in results.items():
            say_written(targets[name], result.composition)


def parse_sizes(text: str) -> range | None:
    if not text:
        return None
    parts = text.split(":")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ConfigError(
            f"--sizes {text!r}: write START:STOP:STEP in tokens, such as 1000:30000:1000"
        )
    start, stop, step = map(int, parts)
    if step < 1 or start > stop:
        raise ConfigError(
            f"--sizes {text!r}: sizes must increase; write START ≤ STOP and a STEP of at least 1"
        )
    return range(start, stop + 1, step)


def default_output(corpus: list[str]) -> Path:
    """Return the corpus's name with .volt.

    >>> str(default_output(["data/train.en.gz"])), str(default_output(["-"]))
    ('train.en.volt', 'vocabulary.volt')
    """
    name = name_of(corpus[0])
    for ending in (".gz", ".bz2", ".zst", ".xz", ".txt", ".tsv", ".jsonl", ".parquet"):
        name = name.removesuffix(ending)
    return Path(f"{name if name.strip('.-*?[]') else 'vocabulary'}.volt")


def _candidates(
    counts: WordCounts,
    requested: CandidateOptions,
    needs: tuple[Training, LanguageModel | None],
    phases: Phases,
    learn: Callable[..., Candidates],
) -> Candidates:
    from volt.choose.learning import learned_until_decided

    if requested.file:
        return _replayed(counts, requested, phases)
    with phases.phase("learn", total=requested.n_merges, unit="merges") as advance:
        if requested.n_merges is None:
            return learned_until_decided(partial(learn, report=advance), *needs)
        result = learn(requested.n_merges, report=advance)
    if result.n_merges < requested.n_merges:
        say(
            f"note: --candidates {requested.n_merges}: this corpus gives only {counted(result.n_merges, 'merge')} "
            f"whose pair occurs {counted(requested.min_pair_count, 'time')}; all of these are used"
        )
    return result


def _replayed(counts: WordCounts, requested: CandidateOptions, phases: Phases) -> Candidates:
    from volt.formats.registry import read_merges
    from volt.learn.bpe import replay_bpe

    merges = read_merges(requested.file or "")
    for note in merges.notes:
        say(f"note: {name_of(requested.candidates) or requested.candidates}: {note}")
    if merges.spells_bytes != counts.pretokenizer.is_bytes:
        units, other, remedy = ("characters", "bytes", "remove")
        if merges.spells_bytes:
            units, other, remedy = "bytes", "characters", "search with"
        raise CandidateError(
            f"{requested.candidates}: its merges join {units}, but words are counted in {other}; {remedy} --level bytes"
        )
    with phases.phase("replay", total=counts.n_words, unit="words") as advance:
        return replay_bpe(
            counts, merges.pairs, marker=requested.marker or merges.marker, report=advance
        )
