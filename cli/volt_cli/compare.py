"""`volt compare`: VOLT and other systems measured on the same text."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from volt.errors import ConfigError, CorpusError
from volt_cli.console import Phases, messages, prepare_kernels, print_json, show
from volt_cli.io import (
    check_destinations,
    check_distinct_files,
    choose_report_console,
    is_stdout,
    report_written,
    warn_of_table_columns,
    writable_path,
    write_bytes,
)
from volt_cli.options import (
    Json,
    Quiet,
    ReadingPanel,
    argument,
    expand_inputs,
    flag,
    name_options,
    option,
    readable,
)
from volt_cli.search_options import SizeOptions, TrainingOptions

if TYPE_CHECKING:
    from volt.comparison import Comparison
    from volt.kernels.warmup import Job

MAX_SAMPLES = 20  # lines of --sample that the page shows


@dataclass(frozen=True)
class ReportOptions:
    PANEL = "Reports"

    out: Annotated[
        Path | None,
        option("FILE", "The report as an HTML page, or - for stdout.", "-o", "--output"),
    ] = None
    markdown: Annotated[Path | None, option("FILE", "The tables as Markdown, or - for stdout.")] = (
        None
    )
    plots: Annotated[Path | None, option("FOLDER", "The charts, as PNG and SVG.")] = None
    sample: Annotated[
        Path | None, option("FILE", "Lines that the page splits.", callback=readable(CorpusError))
    ] = None
    as_json: Json = False
    quiet: Quiet = False


@dataclass(frozen=True)
class LearningOptions:
    PANEL = "Learning"

    candidates: Annotated[
        int | None, option("N", "Merges to learn; default: enough for the pick.", min=1)
    ] = None
    temperature: Annotated[
        float, option("T", "Rescale the texts' totals n to n^(1/T) for learning.", min=1)
    ] = 1.0
    separate: Annotated[
        bool, flag("Also learn a separate vocabulary for each text.", "--separate/--joint")
    ] = False


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    corpus: Annotated[
        list[str],
        argument("CORPUS", "Texts, NAME=FILE or FILE; tables show NAME, such as a language."),
    ]
    reports: ReportOptions
    sizing: SizeOptions
    training: TrainingOptions
    learning: LearningOptions
    reading: ReadingPanel
    every: Annotated[
        bool, flag("Also print all measures, VOLT's other rules, and MUV-search.", "--all")
    ] = False
    certify: Annotated[
        bool,
        flag(
            "Also print how few pieces any vocabulary of VOLT's size and characters needs at "
            "least; takes seconds to minutes.",
            "--certify",
        ),
    ] = False
    heldout: Annotated[
        list[str] | None,
        option("TEXT", "Text only to measure on, NAME=FILE or FILE; may be repeated.", "--heldout"),
    ] = None
    systems: Annotated[
        list[str] | None,
        option(
            "SYSTEM",
            "muv-search, bpe:SIZE, spm-bpe:SIZE, spm-unigram:SIZE, wordpiece:SIZE, a file, or, for tiktoken, "
            "FILE:PATTERN; may be repeated.",
            "--with",
            "-m",
            "--model",
        ),
    ] = None


def compare(options: CompareOptions) -> None:
    """Compare VOLT's vocabularies with those of other systems.

    The others are MUV-search, fixed BPE sizes, sentencepiece, WordPiece, and your vocabulary files.
    If VOLT cannot read such a file, the library of its format encodes the text. Prints a verdict,
    and each vocabulary's size and measures on the held-out text, or without one on the training
    text; -o writes an HTML page with all measures.
    """
    from volt.count.file_arguments import source_files

    reports = options.reports
    systems = options.systems or []
    texts = list[str]()
    plain_texts = list[str]()
    for group in (options.corpus, options.heldout or []):
        for file in source_files(group).values():
            paths = expand_inputs([file.path])
            texts += paths
            if not file.column:
                plain_texts += paths
    from volt.comparison.compare import compare as run_compare
    from volt.comparison.systems import DEFAULT_SYSTEMS

    _check_files(texts, systems, reports)
    select = options.sizing.select
    sizes = options.sizing.parse_sizes()
    model = options.training.model(select)
    samples = []
    if reports.sample:
        samples = _read_samples(reports.sample, options.reading)
    if not reports.quiet and not options.reading.names_columns:
        warn_of_table_columns(plain_texts, "counted")
    jobs: list[Job] = ["learn", "words", "replay"]
    if options.certify:
        jobs.append("bound")
    prepare_kernels(Phases(quiet=reports.quiet), *jobs)
    with nullcontext() if reports.quiet else messages().status("count") as status:
        comparison = run_compare(
            options.corpus,
            heldout=options.heldout or (),
            systems=systems or DEFAULT_SYSTEMS,
            sizes=sizes,
            select=select,
            n_candidates=options.learning.candidates,
            temperature=options.learning.temperature,
            separate=options.learning.separate,
            training=options.training.length(),
            model=model,
            certified=options.certify,
            samples=samples,
            report=status.update if status else None,
            **options.reading.limits,
        )
    _write_reports(comparison, reports, full=options.every)


def _check_files(texts: list[str], systems: list[str], reports: ReportOptions) -> None:
    """Raise ConfigError if a report cannot be written, or is also an input. texts: paths"""
    from volt.comparison.systems import parse_spec
    from volt.formats.registry import files_read

    if is_stdout(reports.plots):
        raise ConfigError(
            "--plots -: charts are several files, but stdout takes only one; name a folder"
        )
    if reports.plots is not None and reports.plots.exists() and not reports.plots.is_dir():
        raise ConfigError(f"--plots {reports.plots}: is a file; give a folder")
    vocabularies = list[Path]()
    for system in systems:
        path = parse_spec(system).path
        if path:
            vocabularies += files_read(path)
    outputs: list[Path | None] = [reports.out, reports.markdown]
    if reports.plots:
        from volt.comparison.page.page import plot_files

        outputs += plot_files(reports.plots)
    check_distinct_files(outputs, [*texts, *vocabularies, reports.sample])
    check_destinations({"output": reports.out, "markdown": reports.markdown}, json=reports.as_json)


def _read_samples(path: Path, reading: ReadingPanel) -> list[str]:
    from volt.files.table_rows import TextColumns, read_lines

    limits = reading.limits
    columns = TextColumns(limits.pop("column"), limits.pop("fields"))
    text = next(read_lines(str(path), columns, **limits), b"").decode()
    filled = [line.strip() for line in text.split("\n") if line.strip()]
    if not filled:
        raise CorpusError(f"{path}: contains no lines; give a text with one sentence a line")
    return filled[:MAX_SAMPLES]


def _write_reports(comparison: Comparison, reports: ReportOptions, *, full: bool) -> None:
    from volt.comparison.tables import as_markdown, as_text

    data = comparison.as_data(reword=name_options)
    if reports.markdown is not None:
        write_bytes(as_markdown(data).encode(), reports.markdown)
    if reports.plots is not None:
        from volt.comparison.page.page import write_plots

        write_plots(comparison, reports.plots)
    if reports.out is not None:
        from volt.comparison.page.page import write_page

        with writable_path(reports.out) as path:
            write_page(comparison, path, reword=name_options)
    if reports.as_json:  # after the files: the reader may stop at any time
        print_json(data)
    elif not reports.quiet:
        parts = [as_text(data, full=full)]
        if not full:
            parts.append(
                "--all adds all measures, what other rules pick, and the grid of MUV-search."
            )
        show(*parts, console=choose_report_console(reports.out, reports.markdown))
    if not reports.quiet:
        for place in filter(None, (reports.markdown, reports.plots, reports.out)):
            report_written(place)
