"""`volt trial`: a corpus → small language models of several vocabulary sizes → the best size.

With --superwords, all vocabularies have the same size, and several numbers of superwords. With
--source and --target, translation models have a vocabulary for each side.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
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


@dataclass(frozen=True)
class SidesOptions:
    """Two files of a translation instead of CORPUS, and a size for each side."""

    PANEL = "Translation"

    source: Annotated[
        str | None, option("FILE", "Text to translate from; line n of both files is a pair.")
    ] = None
    target: Annotated[str | None, option("FILE", "Its translation, line by line.")] = None

    @property
    def files(self) -> list[str]:
        """The two files, or none. Raises ConfigError if one is missing."""
        files = [path for path in (self.source, self.target) if path is not None]
        if len(files) == 1:
            raise ConfigError("--source and --target are the two files of a translation; give both")
        return files


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
    sides: SidesOptions
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
    superwords at one size, which --select picks. With --source and --target, trains translation
    models, and compares sizes for each side. Needs PyTorch.
    """
    from volt.files.atomic import refuse_strays, write_atomic

    sides = options.sides.files
    if not (options.corpus or sides) and sys.stdin.isatty():
        raise ConfigError(
            "CORPUS is missing: name files, or give a text on stdin, as in volt trial < corpus.txt"
        )
    corpus = sides or options.corpus or ["-"]
    paths = expand_inputs(corpus)
    if is_stdout(options.out):
        raise ConfigError(
            f"-o {options.out}: the results are several files, but stdout takes only one; "
            "name a folder"
        )
    folder = options.out or default_output(corpus).with_suffix(".trial")
    main = folder / "trial.jsonl"
    others = _other_outputs(folder, is_translation=bool(sides))
    check_distinct_files([main, *others], paths)
    refuse_strays(main, others)
    training = options.length.length()
    from volt.trial.report import as_page, as_text
    from volt.trial.running import check_hours

    compare = _choose_comparison(options, paths)
    check_hours(options.hours)  # loading the loops takes seconds
    if not options.quiet and not options.reading.names_columns:
        warn_of_table_columns(paths, "read")
    phases = Phases(quiet=options.quiet)
    prepare_kernels(phases, "learn", "words", "encode", "stream", "batches", "samples")
    if options.joining.superwords:
        prepare_kernels(phases, "superwords")
    result = compare(
        folder,
        hours=options.hours,
        training=training,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
        **options.reading.limits,
        report=None if options.quiet else say,
    )
    if options.as_json:
        print_json({**result.data, "output": str(folder)}, indent=1)
    elif not options.quiet:
        show(as_text(result))
        for search in _next_searches(options, paths, result):
            say(f"next: volt search {search}")
    with write_atomic(folder / "trial.html") as file:
        file.write(as_page(result).encode())
    if not (options.as_json or options.quiet):
        report_written(folder / "trial.html")


def _other_outputs(folder: Path, *, is_translation: bool) -> list[Path]:
    """Return the files that a trial writes into its folder besides its results."""
    endings = ("src", "tgt") if is_translation else ("txt",)
    texts = product(("train", "dev", "test"), endings)
    return [folder / "trial.html", *(folder / ".".join(name) for name in texts)]


def _choose_comparison(options: TrialOptions, paths: list[str]) -> Callable[..., Any]:
    """Return the function that compares sizes, numbers of superwords, or sizes of two sides."""
    from volt.trial.running import run, run_sides, run_superwords

    amounts = options.joining.amounts
    if options.sides.files and (options.corpus or amounts):
        raise ConfigError(
            "--source and --target replace CORPUS, and exclude --superwords; remove one of them"
        )
    if amounts:
        return partial(run_superwords, paths, superwords=amounts, select=options.select)
    if options.select != "trained":
        raise ConfigError(
            "--select picks the size of a trial of superwords, which has --superwords; remove it"
        )
    if options.sides.files:
        if len(paths) > 2:
            raise ConfigError(
                f"--source and --target name {len(paths)} files; name one for each side"
            )
        return partial(run_sides, *paths)
    return partial(run, paths)


def _next_searches(options: TrialOptions, paths: list[str], result: Any) -> list[str]:
    """Return the texts and options of the searches that follow from a result.

    paths: of the texts; there is no search of a pipe, which cannot be read again
    """
    from volt.files.small_files import is_pipe

    if "-" in paths or any(map(is_pipe, paths)):
        return []
    usual = TableReading().limits
    reading = ""
    for name, value in options.reading.limits.items():
        if value != usual[name]:
            reading += f" {show_as_option(name, shlex.quote(str(value or 'none')))}"
    best = result.best
    files = options.sides.files
    if files:
        searches = []
        has_equal_names = len({default_output([file]) for file in files}) == 1
        for name, size in (("source", best.source), ("target", best.target)):
            file = getattr(options.sides, name)
            least = _count_atoms(expand_inputs([file]), options)
            search = f"{shlex.quote(file)}{reading} --select fixed:{max(size, least)}"
            if has_equal_names:
                search += f" -o {name}.volt"
            searches.append(search)
        return searches
    corpus = f"{shlex.join(options.corpus)}{reading}"
    if not options.joining.amounts:
        size = max(result.best_for_request, _count_atoms(paths, options))
        return [f"{corpus} --select fixed:{size}"]
    search = f"{corpus} --level bytes --select fixed:{result.size}"
    if best.superwords:
        search += f" --superwords {best.superwords}"
    return [search]


def _count_atoms(paths: list[str], options: TrialOptions) -> int:
    """Return the smallest size of a search; the texts of trainings may lack rare characters."""
    from volt.count.corpus import count_words
    from volt.learn.bpe import learn_bpe

    return learn_bpe(count_words(paths, **options.reading.limits), 0).n_atoms
