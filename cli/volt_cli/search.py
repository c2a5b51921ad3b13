"""`volt search`: from a corpus to its vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volt.errors import CandidateError, ConfigError
from volt_cli.console import Phases, output, prepare_kernels, say

if TYPE_CHECKING:
    from volt.choose.search import SearchResult
    from volt.count.word_counts import WordCounts
    from volt.learn.candidates import Candidates

N_CANDIDATES = 30_000


def search(
    corpus: Annotated[list[str], typer.Argument(help="Files, globs, folders, or - for stdin; .gz .zst .xz are read.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; default: CORPUS.volt, here.")
    ] = None,
    candidates: Annotated[
        str, typer.Option(help="Merges to learn, or a file of merges: subword-nmt codes, sentencepiece .model.")
    ] = "",
    sizes: Annotated[str, typer.Option(help="START:STOP:STEP; default: about thirty round sizes.")] = "",
    select: Annotated[str, typer.Option(help="knee, muv, f95, renyi, tokens or fixed:N.")] = "knee",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress, no report; errors only.")] = False,
    normalizer: Annotated[
        str, typer.Option(help="none, nfc, nfkc, lowercase, nfc+lowercase, nfkc+lowercase.")
    ] = "none",
    pretokenizer: Annotated[
        str, typer.Option(help="whitespace, unicode, gpt2, metaspace or regex:PATTERN.")
    ] = "whitespace",
    level: Annotated[
        str, typer.Option(help="characters, or bytes with GPT-2's alphabet and pre-tokeniser.")
    ] = "characters",
    marker: Annotated[str, typer.Option(help="suffix (</w>), prefix (▁) or none; default: as the words need.")] = "",
    fields: Annotated[str, typer.Option(help="Columns of tab-separated text, from 1: 2 or 1,2.")] = "",
    column: Annotated[str, typer.Option(help="Text column of .jsonl or .parquet files.")] = "",
    word_counts: Annotated[bool, typer.Option("--word-counts", help="The corpus is a table: word, count.")] = False,
    encoding_errors: Annotated[str, typer.Option(help="Lines that are not UTF-8: strict, replace or skip.")] = "strict",
    min_count: Annotated[int, typer.Option(help="Leave out words that occur less often.")] = 1,
    min_pair_count: Annotated[int, typer.Option(help="Merge no pair that occurs less often.")] = 2,
    user: Annotated[
        list[str] | None, typer.Option("--special", help="A token that is never split; may repeat.")
    ] = None,
    unk: Annotated[str, typer.Option(help="Spelling of the unknown token.")] = "<unk>",
    bos: Annotated[str, typer.Option(help="Spelling of the begin-of-sentence token.")] = "<s>",
    eos: Annotated[str, typer.Option(help="Spelling of the end-of-sentence token.")] = "</s>",
    pad: Annotated[str, typer.Option(help="Spelling of the padding token.")] = "<pad>",
    byte_fallback: Annotated[bool, typer.Option("--byte-fallback", help="Spell unknown characters as bytes.")] = False,
    length: Annotated[str, typer.Option(help="Mean length in Eq. 2 over: type or occurrence.")] = "type",
    mass: Annotated[str, typer.Option(help="Token marginal: share of tokens or of characters.")] = "tokens",
    epsilon: Annotated[float, typer.Option(help="Entropy regularisation ε.")] = 1.0,
    row_tau: Annotated[float, typer.Option(help="Hardness τ of the character marginal, 1 = hard.")] = 1.0,
    column_tau: Annotated[float, typer.Option(help="Hardness τ of the token marginal, 1 = hard.")] = 0.5,
    min_share: Annotated[float, typer.Option(help="Least transported share that keeps a token; 0 keeps all.")] = 0.001,
    solver: Annotated[str, typer.Option(help="sinkhorn or pot.")] = "sinkhorn",
    max_iters: Annotated[int, typer.Option(help="Most iterations per transport.")] = 1_000,
) -> None:
    """Find the vocabulary that a corpus deserves.

    Counts words, learns merge candidates, solves a transport problem per size, picks a size, writes the vocabulary, and
    prints the sizes with what every rule would pick and why.
    """
    from volt.choose.rules import parse_rule
    from volt.choose.search import checked_sizes, default_sizes
    from volt.choose.search import search as run_search
    from volt.choose.size_steps import Parameters
    from volt.files.atomic import check_writable
    from volt.text.special_tokens import SpecialTokens

    parameters = Parameters(length, mass, epsilon, row_tau, column_tau, min_share, solver, max_iters=max_iters)  # type: ignore[arg-type]
    special, fixed, asked = SpecialTokens(unk, bos, eos, pad, tuple(user or ())), parse_rule(select), parse_sizes(sizes)
    target = out or default_output(corpus)
    check_writable(target)
    phases = Phases(quiet=quiet)
    prepare_kernels(phases)
    counts = _count(
        corpus, phases, normalizer=normalizer, pretokenizer=_at_level(level, pretokenizer), fields=fields or None,
        column=column or None,
        word_counts=word_counts, errors=encoding_errors, min_count=min_count, special=special,
    )  # fmt: skip
    found = _candidates(counts, candidates, phases, marker=marker or None, min_pair_count=min_pair_count)
    with phases.phase("search", unit="sizes") as advance:
        grid = checked_sizes(found, asked or default_sizes(found), fixed=fixed)
        advance(0, len(grid))
        result = run_search(
            found, sizes=grid, select=select, parameters=parameters, special=special, byte_fallback=byte_fallback,
            report=advance,
        )  # fmt: skip
    with phases.phase("save"):
        result.vocabulary.save(target)
    if as_json:
        _print_json(result, phases, target)
    elif not quiet:
        _print_report(result, phases, target)


def _print_json(result: SearchResult, phases: Phases, target: Path) -> None:
    from volt.choose.report import as_data

    data = as_data(result, seconds=phases.seconds)
    typer.echo(json.dumps({**data, "output": str(target)}, ensure_ascii=False, indent=1))


def _print_report(result: SearchResult, phases: Phases, target: Path) -> None:
    from volt.choose.report import as_text

    output().print(as_text(result, seconds=phases.seconds), soft_wrap=True)
    say(f"wrote {target}: {result.vocabulary.size:,} tokens, {len(result.vocabulary.merges):,} merges")


def _at_level(level: str, pretokenizer: str) -> str:
    """The pre-tokeniser that a level asks for. Raises ConfigError if the two contradict each other."""
    if level == "characters":
        return pretokenizer
    if level != "bytes":
        raise ConfigError(f"--level {level!r}: choose from characters, bytes")
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


def _count(corpus: list[str], phases: Phases, **options: Any) -> WordCounts:
    from volt.count.corpus import count_words

    with phases.phase("count", unit="B") as advance:
        return count_words(corpus, progress=lambda path, done, total: advance(done, total), **options)


def _candidates(counts: WordCounts, source: str, phases: Phases, **options: Any) -> Candidates:
    """Learned merges, or those of a file; asking for more than exist is an error."""
    from volt.learn.bpe import learn_bpe

    if source and not source.isdecimal():
        return _replayed(counts, Path(source), phases, marker=options["marker"])
    asked = int(source) if source else N_CANDIDATES
    with phases.phase("learn", total=asked, unit="merges") as advance:
        found = learn_bpe(counts, asked, report=advance, **options)
    if source and found.n_merges < asked:
        raise CandidateError(
            f"--candidates {asked}: this corpus gives only {found.n_merges} merges whose pair occurs "
            f"{options['min_pair_count']} times; ask for {found.n_merges} or fewer, or leave the option out"
        )
    return found


def _replayed(counts: WordCounts, path: Path, phases: Phases, *, marker: Any) -> Candidates:
    from volt.formats.merges import read_merges
    from volt.learn.bpe import replay_bpe

    merges = read_merges(path)
    with phases.phase("replay", total=counts.n_words, unit="words") as advance:
        return replay_bpe(counts, merges.pairs, marker=marker or merges.marker, report=advance)
