"""`volt search --extend MODEL`: the vocabulary that is extended, and what it leaves nobody to choose.

MODEL says how the corpus is cut into words, which special tokens there are and how words are marked.

>>> check_alone(CandidateOptions(extend=Path("m.volt")), CountOptions(level="bytes"), SpecialOptions(), SourceOptions())
Traceback (most recent call last):
    ...
volt.errors.ConfigError: --level and --extend: words are made as MODEL makes them; leave out one
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt.errors import ConfigError
from volt_cli.models import load_model
from volt_cli.options import CandidateOptions, CountOptions, SpecialOptions
from volt_cli.sources import SourceOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from volt.count.word_counts import WordCounts
    from volt.learn.candidates import Candidates
    from volt.vocabulary import Vocabulary

_WORDS = "words are made as MODEL makes them"
_TOKENS = "MODEL keeps its special tokens"
_LEARNS = "it learns merges behind those of MODEL"
_ATOMS = {"add": True, "leave": False, None: None}


def check_alone(
    learning: CandidateOptions, counting: CountOptions, special: SpecialOptions, naming: SourceOptions
) -> None:
    """Raise ConfigError if options are given that --extend leaves no choice of, or that are of --extend alone."""
    if learning.extend is None:
        if learning.new_atoms is not None:
            raise ConfigError("--new-atoms says what --extend does; add --extend MODEL, or leave it out")
        return
    ways = ("normalizer", "pretokenizer", "pattern", "level")
    for option, why in (
        *((option, _WORDS) for option in _given(counting, ways)),
        *((option, _WORDS) for option in _given(learning, ("marker",))),
        *((option, _TOKENS) for option in _given(special, [field.name for field in fields(special)])),
        *((option, _LEARNS) for option in ["--candidates FILE"] * bool(learning.file)),
        *((option, _LEARNS) for option in _given(naming, ("parity",))),
        *((f"{option} SHARE", "give --new-atoms leave") for option in _given(learning, ("coverage",))),
    ):
        raise ConfigError(f"{option} and --extend: {why}; leave out one")


def _given(group: Any, names: Collection[str]) -> Iterator[str]:
    """Those of these options of a group that are given, as they are spelled."""
    for field in fields(group):
        if field.name in names and getattr(group, field.name) != field.default:
            yield f"--{field.name.replace('_', '-')}"


def extended_model(path: Path | None, texts: Collection[str]) -> Vocabulary | None:
    """The vocabulary that is extended, None if there is none. texts: what is read as well

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
    """What learns merges behind a vocabulary's, given their number."""
    from volt.choose.extend import extend_bpe

    def learn(n_merges: int | None = None, *, marker: object = None, **others: Any) -> Candidates:
        return extend(n_merges, **others)

    extend = partial(extend_bpe, vocabulary, counts, new_atoms=_ATOMS[learning.new_atoms])
    return learn
