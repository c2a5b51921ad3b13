"""Named sources of a search: their weights, parity-aware merges, and a vocabulary for each.

>>> NamedSourceOptions(parity=True).check({}, None, word_counts=False)
Traceback (most recent call last):
    ...
volt.errors.ConfigError: --parity needs named sources; write NAME=FILE for each text, such as en=train.en.gz

`volt search --extend MODEL`: the vocabulary to extend. MODEL fixes how text is cut into words, the special tokens and
the marker, so options for these are refused.

>>> candidates, counts = CandidateOptions(extend=Path("m.volt")), CountOptions(level="bytes")
>>> check_alone(candidates, counts, SpecialOptions(), NamedSourceOptions())
Traceback (most recent call last):
    ...
volt.errors.ConfigError: --level and --extend: words are made as MODEL makes them; leave out one
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from volt.errors import ConfigError, shown, shown_path
from volt_cli.console import say
from volt_cli.io import load_model
from volt_cli.options import CandidateOptions, CountOptions, SpecialOptions

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.count.word_counts import WordCounts
    from volt.kernels.warmup import Job
    from volt.learn.candidates import Candidates
    from volt.learn.parity import Parity
    from volt.vocabulary import Vocabulary


MOST_COLUMNS, MOST_OF_COLUMN = 6, 24  # that a warning shows
MOST_OF_NAME = 100  # characters of a name that is put together


@dataclass(frozen=True)
class NamedSourceOptions:
    """Options for sources that have names."""

    PANEL = "Named sources"

    temperature: Annotated[
        float, typer.Option(metavar="T", help="Rescale the sources' totals n to n^(1/T), from 1: 5 helps small ones.")
    ] = 1.0
    parity: Annotated[
        bool, typer.Option("--parity", help="Let the source that is compressed worst choose each merge.")
    ] = False
    parity_unit: Annotated[
        Literal["character", "byte", "line"] | None,
        typer.Option(
            metavar="WHAT",
            help="Compare pieces per character, byte, or line of texts that are translations; default: character.",
        ),
    ] = None
    per_source: Annotated[
        bool, typer.Option("--per-source", help="A vocabulary for each source, NAME.volt; -o is then a folder.")
    ] = False

    @property
    def unit(self) -> Literal["character", "byte", "line"]:
        """The unit that parity compares."""
        return self.parity_unit or "character"

    @property
    def first_option(self) -> str:
        """The first option that is given; empty for none."""
        inputs = {
            "--temperature": self.temperature != 1, "--parity": self.parity,
            "--parity-unit": self.parity_unit is not None, "--per-source": self.per_source,
        }  # fmt: skip
        return next((name for name, is_given in inputs.items() if is_given), "")

    def check(
        self, names: Collection[str], candidates: str | None, *, word_counts: bool, coverage: float = 1.0
    ) -> None:
        """Raise ConfigError if the options contradict each other or do not go with these sources.

        candidates: the file of merges, if they are not learned
        word_counts: whether texts are tables of words
        coverage: the share of the characters that learning keeps
        """
        if not self.temperature >= 1:
            raise ConfigError(f"--temperature {self.temperature:g}: give 1 or more; 1 takes the texts as they are")
        if self.first_option and not names:
            raise ConfigError(
                f"{self.first_option} needs named sources; write NAME=FILE for each text, such as en=train.en.gz"
            )
        if self.parity_unit and not self.parity:
            raise ConfigError("--parity-unit says what --parity compares; add --parity, or leave it out")
        if self.per_source and (self.parity or self.temperature != 1):
            raise ConfigError(
                f"--per-source and {self.first_option}: each source has a vocabulary of its own; leave one out"
            )
        if self.parity and coverage != 1:
            raise ConfigError("--parity keeps all characters; leave out --coverage, or --parity")
        if self.parity:
            self._check_parity(names, candidates, word_counts)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The compiled loops that parity needs besides."""
        return ("parity", "replay") if self.parity else ()

    def learner(
        self, sources: Mapping[str, WordCounts], counts: WordCounts, *, coverage: float
    ) -> Callable[..., Candidates]:
        """Return the function that learns a number of merges, from these sources or from all counts together."""
        if self.parity:
            from volt.learn.parity import learn_parity

            return partial(learn_parity, sources, unit=self.unit, temperature=self.temperature)
        from volt.learn.bpe import learn_bpe

        return partial(learn_bpe, counts, coverage=coverage)

    def warn(self, texts: Mapping[str, Iterable[str]]) -> None:
        """Say what may mislead. texts: the files of sources of which no column was named."""
        warn_of_columns(texts.values())
        if self.parity_unit == "byte":
            warn_of_bytes()

    def _check_parity(self, names: Collection[str], candidates: str | None, word_counts: bool) -> None:
        if len(names) < 2:
            raise ConfigError(f"--parity is between sources, and there is only {next(iter(names))!r}; name two or more")
        if candidates:
            raise ConfigError(
                f"--parity learns merges, and --candidates {shown_path(candidates)} holds ready ones; leave one out"
            )
        if self.unit == "line" and word_counts:
            raise ConfigError("--parity-unit line: tables of words have no lines of text; count characters or bytes")


def warn_of_bytes() -> None:
    """Say what bytes do to a comparison of scripts."""
    say(
        "bytes per character differ between scripts (1 in Latin, 3 in Devanagari), so pieces per byte mislead across "
        "them; --parity-unit character, or line for translations, is safer",
        mark="warning",
        style="bold yellow",
    )


def warn_of_columns(sources: Iterable[Iterable[str]]) -> None:
    """Say which texts look like tables whose columns are counted as one text. sources: the files of each."""
    from volt.count.columns import first_columns

    for files in sources:
        for path in islice(files, 1):
            if columns := first_columns(path):
                message = ", ".join(f"{n} {shown(text, MOST_OF_COLUMN)!r}" for n, text in enumerate(columns, 1))
                say(
                    f"{shown_path(path)}: its lines have columns, and all are counted: {message}; "
                    "write NAME=FILE:N, or --fields N, for one",
                    mark="warning",
                    style="bold yellow",
                )


def joint_output(names: Iterable[str]) -> Path:
    """Return where the vocabulary of several sources goes unless a place is named.

    >>> str(joint_output(["en", "ta"]))
    'en+ta.volt'
    """
    name = "+".join(names)
    return Path(f"{name if len(name) <= MOST_OF_NAME else 'vocabulary'}.volt")


def outputs_of(names: Iterable[str], folder: Path | None) -> dict[str, Path]:
    """Return where the vocabulary of each source goes. Raises ConfigError if that is no folder.

    >>> {name: str(place) for name, place in outputs_of(["en", "ta"], None).items()}
    {'en': 'en.volt', 'ta': 'ta.volt'}
    """
    from volt_cli.io import is_stdout

    if folder is not None and (is_stdout(folder) or (folder.exists() and not folder.is_dir())):
        what = "stdout takes one file" if is_stdout(folder) else "a file"
        raise ConfigError(f"-o {shown_path(folder)}: {what}; --per-source writes NAME.volt for each, so give a folder")
    return {name: (folder or Path()) / f"{name}.volt" for name in names}


def first_to_make(folder: Path) -> Path:
    """Return the first of a folder and those above it that is not there yet, which is where making it can fail.

    >>> str(first_to_make(Path("nowhere/at/all")))
    'nowhere'
    """
    while not folder.parent.exists():
        folder = folder.parent
    return folder


def parity_data(parity: Parity) -> dict[str, Any]:
    """Return the measurements as JSON values."""
    plain, fair = parity.ratios
    return {
        "unit": parity.unit,
        "size": parity.size,
        "sources": {
            row.name: {"units": row.n_units, "plain_pieces": row.plain, "pieces": row.fair} for row in parity.sources
        },
        "plain_ratio": plain,
        "ratio": fair,
        "cost": parity.cost,
    }


def parity_text(parity: Parity) -> RenderableType:
    """Return a table of pieces per unit under plain BPE and under these merges, and a line on what the change costs."""
    from rich.console import Group
    from rich.text import Text

    from volt.display import Grid

    heads = (f"pieces per {parity.unit}", f"{parity.unit}s", "plain BPE", "parity")
    rows = [
        (shown(row.name), f"{row.n_units:,}", f"{row.plain / row.n_units:.3f}", f"{row.fair / row.n_units:.3f}")
        for row in parity.sources
    ]
    plain, fair = parity.ratios
    rows.append(("worst ÷ best", "", f"{plain:.3f}", f"{fair:.3f}"))
    note = f"with all {parity.size:,} tokens; {parity.cost:+.1%} pieces in all, plain BPE's as the measure"
    return Group("", Grid(heads, rows, range(1, 4), strong=len(rows) - 1), Text(note))


def each_text(results: Mapping[str, SearchResult]) -> RenderableType:
    """Return a line for each source: its words, and the size that was picked for it."""
    from volt.display import Grid

    rows = [
        (shown(name), f"{result.candidates.counts.total:,}", f"{result.best.size:,}", result.pick.why)
        for name, result in results.items()
    ]
    return Grid(("source", "words", "size", "why"), rows, [1, 2])


_WORDS = "words are made as MODEL makes them"
_TOKENS = "MODEL keeps its special tokens"
_LEARNS = "it learns merges after those of MODEL"
_ATOMS = {"add": True, "leave": False, None: None}


def check_alone(
    learning: CandidateOptions, counting: CountOptions, special: SpecialOptions, naming: NamedSourceOptions
) -> None:
    """Raise ConfigError if options are given that --extend leaves no choice of, or that are of --extend alone."""
    if learning.extend is None:
        if learning.new_atoms is not None:
            raise ConfigError("--new-atoms says what --extend does; add --extend MODEL, or leave it out")
        return
    ways = ("normalizer", "pretokenizer", "pattern", "level")
    for option, why in (
        *((option, _WORDS) for option in _options_set(counting, ways)),
        *((option, _WORDS) for option in _options_set(learning, ("marker",))),
        *((option, _TOKENS) for option in _options_set(special, [field.name for field in fields(special)])),
        *((option, _LEARNS) for option in ["--candidates FILE"] * bool(learning.file)),
        *((option, _LEARNS) for option in _options_set(naming, ("parity",))),
        *((f"{option} SHARE", "give --new-atoms leave") for option in _options_set(learning, ("coverage",))),
    ):
        raise ConfigError(f"{option} and --extend: {why}; leave out one")


def _options_set(group: Any, names: Collection[str]) -> Iterator[str]:
    """Yield the options among `names` that differ from their default, as they are spelled."""
    for field in fields(group):
        if field.name in names and getattr(group, field.name) != field.default:
            yield f"--{field.name.replace('_', '-')}"


def extended_model(path: Path | None, texts: Collection[str]) -> Vocabulary | None:
    """Return the vocabulary that is extended, None if there is none. texts: what is read as well

    Raises ConfigError if both are to come from stdin.
    """
    if path is None:
        return None
    if str(path) == "-" and "-" in texts:
        raise ConfigError("--extend -: stdin cannot hold both the vocabulary and the text; name a file for one of them")
    return load_model(path)


def extending_learner(
    vocabulary: Vocabulary, counts: WordCounts, learning: CandidateOptions
) -> Callable[..., Candidates]:
    """Return the function that learns a number of merges after those of the vocabulary."""
    from volt.choose.extend import extend_bpe

    def learn(n_merges: int | None = None, *, marker: object = None, **others: Any) -> Candidates:
        return extend(n_merges, **others)

    extend = partial(extend_bpe, vocabulary, counts, new_atoms=_ATOMS[learning.new_atoms])
    return learn
