"""`volt trial`: a corpus → small language models of several vocabulary sizes → the best size.

With --superwords, all vocabularies have the same size, and several numbers of superwords.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.errors import ConfigError
from volt_cli.console import Phases, prepare_kernels, print_json, say, show
from volt_cli.io import (
    check_distinct_files,
    is_stdout,
    report_written,
    warn_of_table_columns,
)
from volt_cli.options import (
    Json,
    Quiet,
    ReadingPanel,
    Select,
    TableReading,
    argument,
    expand_inputs,
    option,
    show_as_option,
)
from volt_cli.search_options import LengthOptions
from volt_cli.search_output import default_output
from volt_cli.superwords import SuperwordNumbers

if TYPE_CHECKING:
    from volt.trial.report import TrialResult
    from volt.trial.superwords import SuperwordResult


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
    select: Select = "trained"
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
    from volt.files.atomic import refuse_strays

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
    amounts = options.joining.amounts
    if options.select != "trained" and not amounts:
        raise ConfigError(
            "--select picks the size of a trial of superwords; add --superwords auto, or remove it"
        )
    from volt.trial import report, running, superwords

    running.check_hours(options.hours)  # loading the loops takes seconds
    if not options.quiet and not options.reading.names_columns:
        warn_of_table_columns(paths, "read")
    phases = Phases(quiet=options.quiet)
    jobs = options.joining.kernel_jobs
    prepare_kernels(phases, "learn", "words", "encode", "stream", "batches", "samples", *jobs)
    settings: dict[str, Any] = {
        "hours": options.hours,
        "training": training,
        "jobs": options.jobs,
        "device": options.device,
        "seed": options.seed,
        **options.reading.limits,
        "report": None if options.quiet else say,
    }
    if amounts:
        joined = running.run_superwords(paths, folder, amounts, select=options.select, **settings)
        advice = f"--level bytes --select fixed:{joined.size}"
        if joined.best:
            advice += f" --superwords {joined.best}"
        _report(joined, superwords, folder, advice, options)
    else:
        result = running.run(paths, folder, **settings)
        _report(result, report, folder, f"--select fixed:{result.best_for_request}", options)


def _report(
    result: TrialResult | SuperwordResult,
    reporting: Any,
    folder: Path,
    advice: str,
    options: TrialOptions,
) -> None:
    """Write and print a result.

    reporting: the module with the functions for it
    advice: the options of the next search
    """
    from volt.files.atomic import write_atomic

    with write_atomic(folder / "trial.html") as file:
        file.write(reporting.as_page(result).encode())
    if options.as_json:
        print_json({**reporting.as_data(result), "output": str(folder)}, indent=1)
    elif not options.quiet:
        show(reporting.as_text(result))
        usual = TableReading().limits
        reading = [
            show_as_option(name, shlex.quote(str(value or "none")))
            for name, value in options.reading.limits.items()
            if value != usual[name]
        ]
        corpus = shlex.join(options.corpus or ["-"])
        say(f"next: volt search {' '.join([corpus, *reading, advice])}")
        report_written(folder / "trial.html")
