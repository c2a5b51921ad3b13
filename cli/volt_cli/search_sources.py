"""Options of `volt search` for named sources, and checks of options that exclude each other.

A named source is a text that the user writes as NAME=FILE, such as en=en.txt. With several, one
vocabulary of all is searched, from counts that are mixed by --temperature or balanced by --parity;
or, with --per-source, one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt.errors import ConfigError, shown_path
from volt_cli.console import warn
from volt_cli.io import warn_of_table_columns
from volt_cli.options import flag, option
from volt_cli.search_options import CandidateOptions, CountOptions, SpecialOptions

if TYPE_CHECKING:
    from volt.count.word_counts import WordCounts
    from volt.kernels.warmup import Job
    from volt.learn.candidates import Candidates
    from volt.vocabulary import Vocabulary


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

    def check(
        self,
        names: Collection[str],
        candidates: str | None,
        *,
        word_counts: bool,
        coverage: float = 1.0,
    ) -> None:
        """Raise ConfigError if options contradict each other.

        names: names of the sources
        candidates: the file of merges of --candidates, if any
        word_counts: whether the sources are tables of words and counts

        >>> NamedSourceOptions(parity=True).check({}, None, word_counts=False)
        Traceback (most recent call last):
            ...
        volt.errors.ConfigError: --parity needs named sources; write NAME=FILE for each text, as
        en=a.gz
        """
        if not self.temperature >= 1:
            raise ConfigError(
                f"--temperature {self.temperature:g}: give 1 or more; 1 leaves the totals unchanged"
            )
        first_option = next(options_set(self), "")
        if first_option and not names:
            raise ConfigError(
                f"{first_option} needs named sources; write NAME=FILE for each text, as en=a.gz"
            )
        if self.parity_unit and not self.parity:
            raise ConfigError(
                "--parity-unit works only with --parity; add --parity, or remove --parity-unit"
            )
        if self.per_source and (self.parity or self.temperature != 1):
            raise ConfigError(
                f"--per-source and {first_option}: each source has its own vocabulary; remove one"
            )
        if self.parity:
            self._check_parity(names, candidates, word_counts=word_counts, coverage=coverage)

    def _check_parity(
        self,
        names: Collection[str],
        candidates: str | None,
        *,
        word_counts: bool,
        coverage: float,
    ) -> None:
        if coverage != 1:
            raise ConfigError("--parity keeps all characters; remove --coverage or --parity")
        if len(names) < 2:
            raise ConfigError(
                f"--parity compares sources, but there is only {next(iter(names))!r}; name two or more"
            )
        if candidates:
            raise ConfigError(
                f"--parity learns merges, but --candidates {shown_path(candidates)} already contains merges; remove one"
            )
        if self.unit == "line" and word_counts:
            raise ConfigError(
                "--parity-unit line: a table of words has no lines of text; choose character or byte"
            )

    @property
    def kernel_jobs(self) -> tuple[Job, ...]:
        """The jobs of `prepare_kernels` that --parity needs besides those of every search."""
        return ("learn", "replay") if self.parity else ()

    def choose_learner(
        self,
        old: Vocabulary | None,
        sources: Mapping[str, WordCounts],
        counts: WordCounts,
        learning: CandidateOptions,
    ) -> Callable[..., Candidates]:
        """Return a function of the number of merges that learns them with the chosen method.

        old: the vocabulary of --extend, if any
        sources: word counts of each source, for --parity
        counts: word counts of all sources together, for the other methods
        """
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
        """Warn of texts and options that may mislead.

        sources: for each source without a column, its files
        """
        for files in sources:
            warn_of_table_columns(
                files, "counted", "separate columns by tabs, and write NAME=FILE:N, or --fields N"
            )
        if self.parity_unit == "byte":
            warn(
                "bytes per character differ between scripts (1 in Latin, 3 in Devanagari), so pieces per byte mislead "
                "for several scripts; use --parity-unit character, or line for translations"
            )


def check_extend(
    learning: CandidateOptions,
    counting: CountOptions,
    special: SpecialOptions,
    naming: NamedSourceOptions,
) -> None:
    """Raise ConfigError for an option that --extend excludes, or --new-atoms without --extend."""
    if learning.extend is None:
        if learning.new_atoms is not None:
            raise ConfigError(
                "--new-atoms works only with --extend; add --extend MODEL, or remove --new-atoms"
            )
        return
    excluded_options: dict[str, Iterable[str]] = {
        "MODEL defines how words are made": chain(
            options_set(counting, "normalizer", "pretokenizer", "pattern", "level"),
            options_set(learning, "marker"),
        ),
        "MODEL keeps its special tokens": options_set(special),
        "new merges are learned after those of MODEL": chain(
            ["--candidates FILE"] if learning.file else [], options_set(naming, "parity")
        ),
        "use --new-atoms leave to add no characters": (
            f"{name} SHARE" for name in options_set(learning, "coverage")
        ),
    }
    for reason, names in excluded_options.items():
        for name in names:
            raise ConfigError(f"{name} and --extend: {reason}; remove one")


def options_set(group: Any, *field_names: str) -> Iterator[str]:
    """Yield the options of a group that differ from their defaults.

    field_names: the fields to examine; by default all

    >>> list(options_set(NamedSourceOptions(per_source=True)))
    ['--per-source']
    """
    for field in fields(group):
        is_selected = not field_names or field.name in field_names
        if is_selected and getattr(group, field.name) != field.default:
            yield f"--{field.name.replace('_', '-')}"
