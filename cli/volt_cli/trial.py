"""`volt trial`: a corpus → small language models of several vocabulary sizes → the best size."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from volt.errors import ConfigError
from volt_cli.console import Phases, prepare_kernels, print_json, say, show
from volt_cli.io import check_places, is_stdout, say_written
from volt_cli.options import (
    EncodingErrors,
    Json,
    LengthOptions,
    Quiet,
    argument,
    input_paths,
    option,
)
from volt_cli.search import default_output

if TYPE_CHECKING:
    from volt.trial.report import TrialResult


@dataclass(frozen=True)
class ReadingOptions:
    PANEL = "Reading"

    encoding_errors: EncodingErrors = "strict"


def trial(
    corpus: Annotated[
        list[str],
        argument(
            "CORPUS",
            "Files, globs, folders, or - for stdin; .gz .bz2 .xz .zst too. Default: stdin, unless it is a terminal.",
            default_factory=list,
            show_default=False,
        ),
    ],
    hours: Annotated[float, option("H", "Time for the trainings, about, such as 0.5.")],
    length: LengthOptions,
    reading: ReadingOptions,
    out: Annotated[
        Path | None,
        option(
            "FOLDER",
            "For texts and results; a rerun continues. Default: ./CORPUS.trial.",
            "-o",
            "--output",
        ),
    ] = None,
    device: Annotated[
        str, option("NAME", "auto (a GPU, if there is one), cpu, cuda or cuda:N.")
    ] = "auto",
    jobs: Annotated[
        int | None,
        option(
            "N", "Trainings at a time; default: the cores, at most 8; 1 on a GPU.", min=1, max=256
        ),
    ] = None,
    seed: Annotated[int, option("N", "Seed of the first trainings.", min=0)] = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the best vocabulary size by training small language models.

    Trains models with vocabularies of several sizes on the corpus, and compares their bits per character of unseen
    text. Prints the best size, and what the pick of each rule of volt search would lose. If the time is short, all
    trainings read less. Needs PyTorch.
    """
    from volt.files.atomic import refuse_strays

    if not corpus and sys.stdin.isatty():
        raise ConfigError(
            "CORPUS is missing: name files, or give a text on stdin, as in volt trial < corpus.txt"
        )
    corpus = corpus or ["-"]
    paths = input_paths(corpus)
    if is_stdout(out):
        raise ConfigError(
            f"-o {out}: the results are several files, but stdout takes only one; name a folder"
        )
    folder = out or default_output(corpus).with_suffix(".trial")
    main = folder / "trial.jsonl"
    others = [folder / name for name in ("train.txt", "dev.txt", "test.txt", "trial.html")]
    check_places([main, *others], paths)
    refuse_strays(main, others)
    training = length.length()
    from volt.trial.running import run

    prepare_kernels(Phases(quiet=quiet), "learn", "words", "encode", "stream", "batches", "samples")
    result = run(
        paths,
        folder,
        hours=hours,
        training=training,
        jobs=jobs,
        device=device,
        seed=seed,
        errors=reading.encoding_errors,
        report=None if quiet else say,
    )
    _report(result, folder, " ".join(map(shlex.quote, corpus)), as_json=as_json, quiet=quiet)


def _report(result: TrialResult, folder: Path, corpus: str, *, as_json: bool, quiet: bool) -> None:
    from volt.files.atomic import write_atomic
    from volt.trial.report import as_data, as_text

    with write_atomic(folder / "trial.html") as file:
        file.write(
            f'<!doctype html><meta charset="utf-8"><title>volt trial</title>{result._repr_html_()}'.encode()
        )
    if as_json:
        print_json({**as_data(result), "output": str(folder)}, indent=1)
    elif not quiet:
        show(as_text(result))
        say(f"next: volt search {corpus} --select fixed:{result.best_for_request}")
        say_written(folder / "trial.html")
