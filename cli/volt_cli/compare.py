"""`volt compare`: which vocabulary, and why: VOLT beside other systems, on your text."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import ConfigError, CorpusError
from volt_cli.console import messages, output, prepare_kernels, say
from volt_cli.search import parse_sizes

if TYPE_CHECKING:
    from volt.comparison import Comparison

N_SAMPLES = 20  # lines of --sample that are shown


def compare(
    corpus: Annotated[
        list[str], typer.Argument(help="Texts, NAME=FILE or FILE; a name such as a language's stands for its file.")
    ],
    heldout: Annotated[
        list[str] | None,
        typer.Option("--heldout", help="Text to measure on alone, NAME=FILE or FILE; may repeat."),
    ] = None,
    systems: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="muv-search, bpe:SIZE, spm-bpe:SIZE, spm-unigram:SIZE, wordpiece:SIZE, or a file; may repeat.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="The report as one HTML page.")] = None,
    as_json: Annotated[str, typer.Option("--json", help="Everything as JSON: a file, or - for stdout.")] = "",
    markdown: Annotated[Path | None, typer.Option(help="The tables as Markdown.")] = None,
    plots: Annotated[Path | None, typer.Option(help="A folder for the charts, as PNG and SVG.")] = None,
    sizes: Annotated[str, typer.Option(help="START:STOP:STEP; default: about thirty round sizes.")] = "",
    candidates: Annotated[int, typer.Option(help="Merges to learn.")] = 30_000,
    select: Annotated[str, typer.Option(help="knee, muv, f95, renyi, tokens or fixed:N.")] = "knee",
    temperature: Annotated[float, typer.Option(help="Rescale the texts' totals n to n^(1/T) for learning.")] = 1.0,
    separate: Annotated[
        bool, typer.Option("--separate/--joint", help="Also a vocabulary of its own for each text.")
    ] = False,
    sample: Annotated[Path | None, typer.Option(help="Lines to show, cut at every size.")] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress, no tables; errors only.")] = False,
) -> None:
    """Compare VOLT's vocabularies with MUV-search, fixed BPE sizes, sentencepiece, WordPiece and files of yours.

    Prints each one's size, cost, and measures on the training and the held-out text; -o writes a page to look at.
    """
    from volt.comparison.compare import compare as run_compare
    from volt.comparison.systems import DEFAULT_SYSTEMS
    from volt_cli.console import Phases

    asked = parse_sizes(sizes)
    lines = _sample_lines(sample) if sample else []
    _check_targets(out, markdown, as_json, plots)
    phases = Phases(quiet=quiet)
    prepare_kernels(phases)
    with nullcontext() if quiet else messages().status("count") as status:
        comparison = run_compare(
            corpus, heldout=heldout or (), systems=systems or DEFAULT_SYSTEMS, sizes=asked, select=select,
            n_candidates=candidates, temperature=temperature, separate=separate, samples=lines,
            report=status.update if status else None,
        )  # fmt: skip
    _write(comparison, out, markdown, as_json, plots, quiet=quiet)


def _sample_lines(path: Path) -> list[str]:
    from volt.files.blocks import read_blocks

    lines = next((block.data.decode().split("\n") for block in read_blocks(str(path))), [])
    filled = [line.strip() for line in lines if line.strip()]
    if not filled:
        raise CorpusError(f"{path}: no lines; give a text of one sentence a line")
    return filled[:N_SAMPLES]


def _check_targets(out: Path | None, markdown: Path | None, as_json: str, plots: Path | None) -> None:
    """Refuse now what could not be written after minutes of work."""
    from volt.files.atomic import check_writable

    for path in (out, markdown, Path(as_json) if as_json not in ("", "-") else None):
        if path is not None:
            check_writable(path)
    if plots is not None and plots.exists() and not plots.is_dir():
        raise ConfigError(f"--plots {plots}: a file; give a folder")


def _write(
    comparison: Comparison, out: Path | None, markdown: Path | None, as_json: str, plots: Path | None, *, quiet: bool
) -> None:
    from volt.comparison.report import as_markdown, as_text

    data = comparison.as_data()
    if as_json == "-":
        typer.echo(json.dumps(data, ensure_ascii=False))
    elif not quiet:
        output().print(as_text(data))
    if as_json not in ("", "-"):
        _write_text(Path(as_json), json.dumps(data, ensure_ascii=False) + "\n", quiet=quiet)
    if markdown is not None:
        _write_text(markdown, as_markdown(data), quiet=quiet)
    if plots is not None:
        from volt.comparison.page.page import write_plots

        write_plots(comparison, plots)
        _wrote(plots, quiet=quiet)
    if out is not None:
        from volt.comparison.page.page import write_page

        write_page(comparison, out)
        _wrote(out, quiet=quiet)


def _write_text(path: Path, text: str, *, quiet: bool) -> None:
    from volt.files.atomic import write_atomic

    with write_atomic(path) as file:
        file.write(text.encode())
    _wrote(path, quiet=quiet)


def _wrote(path: Path, *, quiet: bool) -> None:
    if not quiet:
        say(f"wrote {path}")
