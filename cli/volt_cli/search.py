"""`volt search`: from a corpus to its vocabulary."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import CandidateError, ConfigError
from volt_cli.console import Phases, prepare_kernels, print_json, say, show
from volt_cli.inputs import readable_sources
from volt_cli.options import CandidateOptions, CountOptions, Json, Quiet, SizeOptions, SpecialOptions, TransportOptions
from volt_cli.places import (
    check_one_for_stdout,
    check_place,
    check_places,
    console_beside,
    is_stdout,
    save,
    say_written,
)
from volt_cli.sources import SourceOptions, each_text, joint_output, outputs_of, parity_data, parity_text
from volt_cli.standing import standing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from volt.choose.search import SearchResult
    from volt.count.names import NamedFile
    from volt.count.word_counts import WordCounts
    from volt.learn.candidates import Candidates
    from volt.learn.parity import Parity
    from volt.text.special_tokens import SpecialTokens

    Learner = Callable[..., Candidates]

N_CANDIDATES = 30_000


def search(
    corpus: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            callback=readable_sources,
            help="Files, globs, folders, or - for stdin; .gz .bz2 .xz .zst too. NAME=FILE, or NAME=FILE:N for column "
            "N, names a source.",
        ),
    ],
    sizing: SizeOptions,
    counting: CountOptions,
    naming: SourceOptions,
    learning: CandidateOptions,
    special: SpecialOptions,
    transport: TransportOptions,
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
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the vocabulary that a corpus deserves.

    Counts words, learns merge candidates, solves a transport problem per size, picks a size, writes the vocabulary, and
    prints the sizes with what every rule would pick and why.
    """
    asked = parse_sizes(sizing.sizes)
    from volt.choose.rules import parse_rule
    from volt.choose.search import search as run_search
    from volt.count.names import named_files
    from volt.files.paths import expand
    from volt.text.special_tokens import SpecialTokens

    named = named_files(corpus)
    naming.check(named, learning.file, word_counts=counting.word_counts)
    files = {name: expand(file.path) for name, file in named.items()} or {"": expand(corpus)}
    targets = outputs_of(named, out) if naming.per_source else {"": out or _default_output(corpus, named)}
    tokens = SpecialTokens(special.unk, special.bos, special.eos, special.pad, tuple(special.special or ()))
    parameters, fixed = transport.parameters(), parse_rule(sizing.select)
    check_one_for_stdout(json=as_json, output=any(map(is_stdout, targets.values())))
    check_places(targets.values(), [*chain.from_iterable(files.values()), learning.file])
    if naming.per_source and out:
        out.mkdir(parents=True, exist_ok=True)
    for target in targets.values():
        check_place(target)
    replaced = {name: standing(target) for name, target in targets.items() if out is None and not force}
    if not quiet:
        naming.warn({name: files[name] for name in files if not (counting.is_table or _column(named, name))})
    phases = Phases(quiet=quiet)
    prepare_kernels(phases, "replay" if learning.file else "learn", *naming.jobs, "words")
    sources = {name: _count(files[name], _column(named, name), counting, tokens, phases) for name in files}
    counted = sources if naming.per_source else {"": _joined(sources, naming) if named else sources[""]}
    for name, other in replaced.items():
        if other:
            other.refuse_other(counted[name])

    def found(counts: WordCounts) -> SearchResult:
        candidates = _candidates(counts, learning, phases, naming.learner(sources, counts))
        with phases.phase("search", unit="sizes") as advance:
            grid = _grid(candidates, asked, fixed)
            advance(0, len(grid))
            return run_search(
                candidates, sizes=grid, select=sizing.select, parameters=parameters, special=tokens,
                byte_fallback=special.byte_fallback, report=advance,
            )  # fmt: skip

    results = {name: found(counts) for name, counts in counted.items()}
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
        _print_report(results[""], phases, targets[""], parity)


def _default_output(corpus: list[str], named: Collection[str]) -> Path:
    return joint_output(named) if named else default_output(corpus)


def _column(named: Mapping[str, NamedFile], name: str) -> int | None:
    """The column of a source that was given with its name."""
    return named[name].column if name in named else None


def _joined(sources: Mapping[str, WordCounts], naming: SourceOptions) -> WordCounts:
    from volt.count.word_counts import mix

    return mix(sources, temperature=naming.temperature)


def _parity(result: SearchResult, sources: Mapping[str, WordCounts], naming: SourceOptions, phases: Phases) -> Parity:
    from volt.learn.parity import measure_parity

    with phases.phase("parity"):
        return measure_parity(sources, result.candidates, size=result.best.size, unit=naming.unit)


def _grid(candidates: Candidates, asked: range | None, fixed: int | None) -> Sequence[int]:
    """The sizes to search."""
    from volt.choose.search import checked_sizes, default_sizes

    return checked_sizes(candidates, asked or default_sizes(candidates), fixed=fixed)


def _print_json(result: SearchResult, phases: Phases, target: Path, parity: Parity | None) -> None:
    from volt.choose.report import as_data

    data = {**as_data(result, seconds=phases.seconds), **({"parity": parity_data(parity)} if parity else {})}
    print_json({**data, "output": str(target)}, indent=1)


def _print_report(result: SearchResult, phases: Phases, target: Path, parity: Parity | None) -> None:
    from volt.choose.report import as_text

    beside = [parity_text(parity)] if parity else []
    show(as_text(result, seconds=phases.seconds), *beside, console=console_beside(target))
    say_written(target, f"{result.vocabulary.size:,} tokens, {len(result.vocabulary.merges):,} merges")


def _report_each(
    results: Mapping[str, SearchResult], phases: Phases, targets: Mapping[str, Path], *, as_json: bool, quiet: bool
) -> None:
    """Print what was picked for each source."""
    from volt.choose.report import as_data

    if as_json:
        each = {name: {**as_data(result), "output": str(targets[name])} for name, result in results.items()}
        print_json({"sources": each, "seconds": phases.seconds}, indent=1)
    elif not quiet:
        show(each_text(results))
        for name, result in results.items():
            say_written(targets[name], f"{result.vocabulary.size:,} tokens")


def _at_level(level: str, pretokenizer: str) -> str:
    """The pre-tokeniser that a level asks for. Raises ConfigError if the two contradict each other."""
    if level == "characters":
        return pretokenizer
    if pretokenizer not in ("whitespace", "gpt2", "bytes"):
        raise ConfigError("--level bytes cuts with GPT-2's pattern; leave --pretokenizer out")
    return "bytes"


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


def default_output(corpus: list[str]) -> Path:
    """The corpus's name with .volt, in the current folder.

    >>> str(default_output(["data/train.en.gz"])), str(default_output(["-"]))
    ('train.en.volt', 'vocabulary.volt')
    """
    name = Path(corpus[0]).name
    for ending in (".gz", ".bz2", ".zst", ".xz", ".txt", ".tsv", ".jsonl", ".parquet"):
        name = name.removesuffix(ending)
    return Path(f"{name if name.strip('.-*?[]') else 'vocabulary'}.volt")


def _count(
    files: list[str], column: int | None, asked: CountOptions, special: SpecialTokens, phases: Phases
) -> WordCounts:
    """The words of files, or of one column of them."""
    from volt.count.corpus import count_words
    from volt.files.long_lines import parse_max_line

    with phases.phase("count", unit="B") as advance:
        return count_words(
            files, normalizer=asked.normalizer, pretokenizer=_at_level(asked.level, asked.pretokenizer),
            fields=column or asked.fields or None, column=asked.column or None, word_counts=asked.word_counts,
            errors=asked.encoding_errors, min_count=asked.min_count, special=special,
            max_line=parse_max_line(asked.max_line),
            progress=lambda path, done, total: advance(done, total),
        )  # fmt: skip


def _candidates(counts: WordCounts, asked: CandidateOptions, phases: Phases, learn: Learner) -> Candidates:
    """Learned merges, or those of a file; asking for more than exist is an error."""
    if asked.file:
        return _replayed(counts, asked, phases)
    n_merges = int(asked.candidates or N_CANDIDATES)
    with phases.phase("learn", total=n_merges, unit="merges") as advance:
        found = learn(n_merges, marker=asked.marker, min_pair_count=asked.min_pair_count, report=advance)
    if asked.candidates and found.n_merges < n_merges:
        raise CandidateError(
            f"--candidates {n_merges}: this corpus gives only {found.n_merges} merges whose pair occurs "
            f"{asked.min_pair_count} times; ask for {found.n_merges} or fewer, or leave the option out"
        )
    return found


def _replayed(counts: WordCounts, asked: CandidateOptions, phases: Phases) -> Candidates:
    from volt.formats.merges import read_merges
    from volt.learn.bpe import replay_bpe

    merges = read_merges(asked.file or "")
    for note in merges.notes:
        say(f"note: {asked.candidates}: {note}")
    _check_level(asked.candidates, merges.spells_bytes, counts.pretokenizer.is_bytes)
    with phases.phase("replay", total=counts.n_words, unit="words") as advance:
        return replay_bpe(counts, merges.pairs, marker=asked.marker or merges.marker, report=advance)


def _check_level(path: str | Path, spells_bytes: bool, counts_bytes: bool) -> None:
    """Raise CandidateError if merges over bytes meet a corpus of characters, or the other way round."""
    if spells_bytes and not counts_bytes:
        raise CandidateError(f"{path}: its merges are over bytes, as those of GPT-2; search with --level bytes")
    if counts_bytes and not spells_bytes:
        raise CandidateError(f"{path}: its merges are over characters; leave out --level bytes")
