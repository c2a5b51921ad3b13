"""Options of named sources (weights, parity, one vocabulary per source); options that --extend excludes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt.errors import ConfigError, shown, shown_path
from volt_cli.console import warn
from volt_cli.io import is_stdout, warn_of_table_columns
from volt_cli.options import CandidateOptions, CountOptions, SpecialOptions, flag, option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.count.word_counts import WordCounts
    from volt.kernels.warmup import Job
    from volt.learn.candidates import Candidates
    from volt.learn.parity import Parity
    from volt.vocabulary import Vocabulary


MOST_OF_NAME = 100  # characters of a file name joined from sources' names


@dataclass(frozen=True)
class NamedSourceOptions:
    PANEL = "Named sources"

    temperature: Annotated[
        float, option("T", "Rescale sources' totals n to n^(1/T); T > 1 helps small ones.")
    ] = 1.0
    parity: Annotated[
        bool, flag("Let the source that is compressed worst choose each merge.", "--parity")
    ] = False
    parity_unit: Annotated[
        Literal["character", "byte", "line"] | None,
        option(
            "WHAT",
            "Compare pieces per character, byte, or line of translations; default: character.",
        ),
    ] = None
    per_source: Annotated[
        bool, flag("Write NAME.volt for each source; -o is then a folder.", "--per-source")
    ] = False

    @property
    def unit(self) -> Literal["character", "byte", "line"]:
        return self.parity_unit or "character"

    @property
    def first_option(self) -> str:
        return next(_options_set(self), "")

    def check(
        self,
        names: Collection[str],
        candidates: str | None,
        *,
        word_counts: bool,
        coverage: float = 1.0,
    ) -> None:
        """Raise ConfigError if options contradict each other. candidates: the file of merges, if any

        >>> NamedSourceOptions(parity=True).check({}, None, word_counts=False)
        Traceback (most recent call last):
            ...
        volt.errors.ConfigError: --parity needs named sources; write NAME=FILE for each text, as en=a.gz
        """
        if not self.temperature >= 1:
            raise ConfigError(
                f"--temperature {self.temperature:g}: give 1 or more; 1 leaves the totals unchanged"
            )
        if self.first_option and not names:
            raise ConfigError(
                f"{self.first_option} needs named sources; write NAME=FILE for each text, as en=a.gz"
            )
        if self.parity_unit and not self.parity:
            raise ConfigError(
                "--parity-unit works only with --parity; add --parity, or remove --parity-unit"
            )
        if self.per_source and (self.parity or self.temperature != 1):
            raise ConfigError(
                f"--per-source and {self.first_option}: each source has its own vocabulary; remove one"
            )
        if self.parity and coverage != 1:
            raise ConfigError("--parity keeps all characters; remove --coverage or --parity")
        if self.parity and len(names) < 2:
            raise ConfigError(
                f"--parity compares sources, but there is only {next(iter(names))!r}; name two or more"
            )
        if self.parity and candidates:
            raise ConfigError(
                f"--parity learns merges, but --candidates {shown_path(candidates)} already contains merges; remove one"
            )
        if self.parity and self.unit == "line" and word_counts:
            raise ConfigError(
                "--parity-unit line: a table of words has no lines of text; choose character or byte"
            )

    @property
    def jobs(self) -> tuple[Job, ...]:
        return ("learn", "replay") if self.parity else ()

    def learner(
        self,
        old: Vocabulary | None,
        sources: Mapping[str, WordCounts],
        counts: WordCounts,
        learning: CandidateOptions,
    ) -> Callable[..., Candidates]:
        """Return the function that learns merges. old: the vocabulary to extend, if any"""
        options: dict[str, Any] = {"min_pair_count": learning.min_pair_count}
        if old:
            from volt.choose.extend import extend_bpe

            if learning.new_atoms is not None:
                options["new_atoms"] = learning.new_atoms == "add"
            return partial(extend_bpe, old, counts, **options)
        options["marker"] = learning.marker
        if self.parity:
            from volt.learn.parity import learn_parity

            options["temperature"] = self.temperature
            return partial(learn_parity, sources, unit=self.unit, **options)
        from volt.learn.bpe import learn_bpe

        return partial(learn_bpe, counts, coverage=learning.coverage, **options)

    def warn(self, sources: Iterable[Iterable[str]]) -> None:
        """Warn of options that may mislead. sources: the files of each source for which no column was named"""
        for files in sources:
            warn_of_table_columns(
                files, "counted", "separate columns by tabs, and write NAME=FILE:N, or --fields N"
            )
        if self.parity_unit == "byte":
            warn(
                "bytes per character differ between scripts (1 in Latin, 3 in Devanagari), so pieces per byte mislead "
                "for several scripts; use --parity-unit character, or line for translations"
            )


def joint_output(names: Iterable[str]) -> Path:
    name = "+".join(names)
    return Path(f"{name if len(name) <= MOST_OF_NAME else 'vocabulary'}.volt")


def outputs_of(names: Iterable[str], folder: Path | None) -> dict[str, Path]:
    if folder is not None and (is_stdout(folder) or (folder.exists() and not folder.is_dir())):
        what = "stdout takes only one file" if is_stdout(folder) else "is a file"
        raise ConfigError(
            f"-o {shown_path(folder)}: {what}; --per-source writes several, so give a folder"
        )
    return {name: (folder or Path()) / f"{name}.volt" for name in names}


def first_to_make(folder: Path) -> Path:
    """Return the outermost folder that is missing, which is created first."""
    while not folder.parent.exists():
        folder = folder.parent
    return folder


def parity_data(parity: Parity) -> dict[str, Any]:
    plain, fair = parity.ratios
    return {
        "unit": parity.unit,
        "size": parity.size,
        "sources": {
            row.name: {"units": row.n_units, "plain_pieces": row.plain, "pieces": row.fair}
            for row in parity.sources
        },
        "plain_ratio": plain,
        "ratio": fair,
        "cost": parity.cost,
    }


def parity_text(parity: Parity) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from volt.display import Grid

    heads = (f"pieces per {parity.unit}", f"{parity.unit}s", "plain BPE", "parity")
    rows = [
        (
            shown(row.name),
            f"{row.n_units:,}",
            f"{row.plain / row.n_units:.3f}",
            f"{row.fair / row.n_units:.3f}",
        )
        for row in parity.sources
    ]
    plain, fair = parity.ratios
    rows.append(("worst ÷ best", "", f"{plain:.3f}", f"{fair:.3f}"))
    note = f"with all {parity.size:,} tokens; {parity.cost:+.1%} pieces in total, compared with plain BPE"
    return Group("", Grid(heads, rows, range(1, 4), strong=len(rows) - 1), Text(note))


def each_text(results: Mapping[str, SearchResult]) -> RenderableType:
    from volt.display import Grid

    rows = [
        (
            shown(name),
            f"{result.candidates.counts.total:,}",
            f"{result.best.size:,}",
            result.pick.why,
        )
        for name, result in results.items()
    ]
    return Grid(("source", "words", "size", "why"), rows, [1, 2])


def check_alone(
    learning: CandidateOptions,
    counting: CountOptions,
    special: SpecialOptions,
    naming: NamedSourceOptions,
) -> None:
    if learning.extend is None:
        if learning.new_atoms is not None:
            raise ConfigError(
                "--new-atoms works only with --extend; add --extend MODEL, or remove --new-atoms"
            )
        return
    conflicts: dict[str, Iterable[str]] = {
        "MODEL defines how words are made": chain(
            _options_set(counting, "normalizer", "pretokenizer", "pattern", "level"),
            _options_set(learning, "marker"),
        ),
        "MODEL keeps its special tokens": _options_set(special),
        "new merges are learned after those of MODEL": chain(
            ["--candidates FILE"] if learning.file else [], _options_set(naming, "parity")
        ),
        "use --new-atoms leave to add no characters": (
            f"{name} SHARE" for name in _options_set(learning, "coverage")
        ),
    }
    for why, names in conflicts.items():
        for name in names:
            raise ConfigError(f"{name} and --extend: {why}; remove one")


def _options_set(group: Any, *names: str) -> Iterator[str]:
    for field in fields(group):
        if (not names or field.name in names) and getattr(group, field.name) != field.default:
            yield f"--{field.name.replace('_', '-')}"
