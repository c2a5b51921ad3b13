"""`volt trial`: a corpus → small language models of several vocabulary sizes → the best size.

With --superwords, all vocabularies have the same size, and several numbers of superwords.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from volt.errors import ConfigError
from volt_cli.console import Phases, prepare_kernels, print_json, say, show
from volt_cli.io import (
    check_distinct_files,
    is_stdout,
    report_written,
    warn_of_table_columns,
)
from volt_cli.options import (
    RULES,
    Json,
    Quiet,
    ReadingPanel,
    TableReading,
    argument,
    expand_inputs,
    option,
    show_as_option,
)
from volt_cli.search_options import LengthOptions
from volt_cli.search_output import default_output
from volt_cli.superwords import SuperwordNumbers


@dataclass(frozen=True, kw_only=True)
class TrialOptions:
    corpus: Annotated[
        list[str],
        argument(
            "CORPUS",
            "Files, globs, folders, or - for stdin; .gz .bz2 .xz .zst too. Default: stdin, unless it is a terminal.",
            default_factory=list,
            show_default=False,
        ),
    ]
    hours: Annotated[float, option("H", "Time for the trainings, about, such as 0.5.")]
    length: LengthOptions
    joining: SuperwordNumbers
    reading: ReadingPanel
    out: Annotated[
        Path | None,
        option(
            "FOLDER",
            "For texts and results; a rerun continues. Default: ./CORPUS.trial.",
            "-o",
            "--output",
        ),
    ] = None
    select: Annotated[
        str,
        option("RULE", "With --superwords: rule that picks the size, or fixed:N.", words=RULES),
    ] = "trained"
    device: Annotated[
        str, option("NAME", "auto (a GPU, if there is one), cpu, cuda or cuda:N.")
    ] = "auto"
    jobs: Annotated[
        int | None,
        option(
            "N", "Trainings at a time; default: the cores, at most 8; 1 on a GPU.", min=1, max=256
        ),
    ] = None
    seed: Annotated[int, option("N", "Seed of the first trainings.", min=0)] = 1
    as_json: Json = False
    quiet: Quiet = False


def trial(options: TrialOptions) -> None:
    """Find the best vocabulary size by training small language models.

    Trains models with vocabularies of several sizes on the corpus, and compares their bits per
    character of unseen text. Prints the best size, and what the pick of each rule of volt search
    would lose. If the time is short, all trainings read less. With --superwords, compares numbers of
    superwords at one size, which --select picks. Needs PyTorch.
    """
    from volt.files.atomic import refuse_strays, write_atomic

    if not options.corpus and sys.stdin.isatty():
        raise ConfigError(
            "CORPUS is missing: name files, or give a text on stdin, as in volt trial < corpus.txt"
        )
    corpus = options.corpus or ["-"]
    paths = expand_inputs(corpus)
    if is_stdout(options.out):
        raise ConfigError(
            f"-o {options.out}: the results are several files, but stdout takes only one; "
            "name a folder"
        )
    folder = options.out or default_output(corpus).with_suffix(".trial")
    main = folder / "trial.jsonl"
    others = [folder / name for name in ("train.txt", "dev.txt", "test.txt", "trial.html")]
    check_distinct_files([main, *others], paths)
    refuse_strays(main, others)
    training = options.length.length()
    from volt.trial.report import as_data, as_page, as_text
    from volt.trial.running import check_hours

    compare = _choose_comparison(options)

    check_hours(options.hours)  # loading the loops takes seconds
    if not options.quiet and not options.reading.names_columns:
        warn_of_table_columns(paths, "read")
    phases = Phases(quiet=options.quiet)
    prepare_kernels(phases, "learn", "words", "encode", "stream", "batches", "samples")
    if options.joining.superwords:
        prepare_kernels(phases, "superwords")
    result = compare(
        paths,
        folder,
        hours=options.hours,
        training=training,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
        **options.reading.limits,
        report=None if options.quiet else say,
    )
    with write_atomic(folder / "trial.html") as file:
        file.write(as_page(result).encode())
    if options.as_json:
        print_json({**as_data(result), "output": str(folder)}, indent=1)
    elif not options.quiet:
        show(as_text(result))
        say(f"next: volt search {' '.join([shlex.join(corpus), *_advise(options, result)])}")
        report_written(folder / "trial.html")


def _choose_comparison(options: TrialOptions) -> Callable[..., Any]:
    """Return the function that compares sizes, or numbers of superwords."""
    from volt.trial.running import run, run_superwords

    amounts = options.joining.amounts
    if amounts:
        return partial(run_superwords, superwords=amounts, select=options.select)
    if options.select != "trained":
        raise ConfigError(
            "--select picks the size of a trial of superwords; add --superwords auto, or remove it"
        )
    return run


def _advise(options: TrialOptions, result: Any) -> Iterator[str]:
    """Yield the options of the search that follows from a result."""
    usual = TableReading().limits
    for name, value in options.reading.limits.items():
        if value != usual[name]:
            yield show_as_option(name, shlex.quote(str(value or "none")))
    if not options.joining.amounts:
        yield f"--select fixed:{result.best_for_request}"
        return
    yield f"--level bytes --select fixed:{result.size}"
    if result.best.superwords:
        yield f"--superwords {result.best.superwords}"
