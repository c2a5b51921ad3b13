"""Mistakes in a configuration → one message that names file, line and key of each, and what may have been meant.

>>> from volt.stream.config.yaml import parse
>>> document = parse("sources:\\n  wmt: {wieght: 2}", path="stream.yaml")
>>> raise as_error([Problem(("sources", "wmt", "wieght"), "unknown key; did you mean weight?")], document)
Traceback (most recent call last):
    ...
volt.errors.ConfigError: stream.yaml:2: sources.wmt.wieght: unknown key; did you mean weight?
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import ConfigError, VoltError
from volt.files.paths import expand_user
from volt.stream.config.yaml import Document, Place
from volt.urls import plain_path, url_of

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST = 30  # problems that are told
_OPTION = re.compile(r"(?P<option>\w+)(: | is | ')")


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in a configuration: where it is, and what is wrong. is_gap: whether something is missing there."""

    place: Place
    message: str
    is_gap: bool = False


class Notes:
    """Checks the values of a document, and notes what is wrong with them.

    found: the problems so far.
    """

    def __init__(self, document: Document) -> None:
        self.document, self.found = document, list[Problem]()

    def add(self, place: Place, message: object) -> None:
        """Note a problem."""
        self.found.append(Problem(place, str(message)))

    def note(self, error: VoltError, place: Place) -> None:
        """Note an error, at the option that its text starts with, if it does."""
        told = str(error)
        found = _OPTION.match(told)
        if found and (*place, found["option"]) in self.document.lines:
            place, told = (*place, found["option"]), told.removeprefix(f"{found['option']}: ")
        self.add(place, told)

    def checked(self, model: Any, value: object, place: Place, *, is_part: bool = False) -> Any | None:
        """A value through pydantic, as JSON and strictly: "3" is no number and true is no 1.

        is_part: more is to be added to it: what is missing, or does not fit together, is no fault yet
        """
        from pydantic import TypeAdapter, ValidationError

        adapter = model if isinstance(model, TypeAdapter) else TypeAdapter(model)
        try:
            return adapter.validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            found = problems_of(error, adapter.json_schema(), at=place, document=self.document)
            self.found += (problem for problem in found if not (is_part and problem.is_gap))
        except VoltError as error:
            if not is_part:
                self.note(error, place)
        return None

    def made(self, kind: Any, place: Place, /, **options: Any) -> Any | None:
        """An object made of these options, None if they are wrong."""
        try:
            return kind(**options)
        except VoltError as error:
            self.note(error, place)
        return None

    def file(self, folder: Path, told: str, place: Place) -> str:
        """A path from a folder, with `~` and `$NAME` written out."""
        try:
            if not told.strip():
                raise ConfigError("is empty; name a file or folder")
            return arguments.path(expand_user(told) if url_of(told) else str(folder / expand_user(plain_path(told))))
        except VoltError as error:
            self.add(place, error)
            return str(folder / told)


def as_error(problems: Iterable[Problem], document: Document) -> ConfigError:
    """All problems as one error, in the order of their lines."""
    first: dict[Place, Problem] = {}
    for problem in problems:
        first.setdefault(problem.place, problem)  # where two are at one place, the first
    listed = sorted(first.values(), key=lambda problem: document.line(problem.place))
    more = [f"and {len(listed) - _MOST:,} more like these"] * (len(listed) > _MOST)
    return ConfigError("\n".join([*(_told(problem, document) for problem in listed[:_MOST]), *more]) + document.hint)


def _told(problem: Problem, document: Document) -> str:
    where = dotted(problem.place)
    line = f":{document.line(problem.place)}" if document.lines else ""  # what is no file has none
    return f"{document.path}{line}: {where}{': ' * bool(where)}{problem.message}"


def dotted(place: Place) -> str:
    """A place as people read it; items count from 1.

    >>> dotted(("sources", "wmt", "transforms", 0, "lower"))
    'sources.wmt.transforms[1].lower'
    """
    return "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")


def near(name: str, known: Sequence[str]) -> str:
    """A hint at the known name that was meant, or at all of them.

    >>> near("wieght", ["weight", "path"]), near("x", ["weight", "path"]), near("x", [])
    ('did you mean weight?', 'choose from weight, path', 'there is none here; remove it')
    """
    if not known:
        return "there is none here; remove it"
    found = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {found[0]}?" if found else f"choose from {', '.join(known)}"


def problems_of(error: ValidationError, schema: dict[str, Any], *, at: Place, document: Document) -> Iterator[Problem]:
    """What pydantic found, in plain words; `at` is the place of the value that it checked."""
    from volt.stream.config.schema import known_keys

    for found in error.errors(include_url=False):
        inner = found["loc"]
        place = (*at, *_real(inner, at, document))
        if found["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            hint = near(str(inner[-1]), known_keys(schema, inner[:-1]))
            yield Problem((*at, *_real(inner[:-1], at, document), str(inner[-1])), f"unknown key; {hint}")
        elif found["type"] in ("missing", "missing_argument"):
            yield Problem(place, f"key {inner[-1]!r} is missing; give it", is_gap=True)
        elif found["type"] == "too_short":
            yield Problem(place, "is empty; give at least one")
        elif found["type"] in ("model_type", "dataclass_type", "dict_type"):
            yield Problem(place, f"should be a mapping of keys to values, not {_shown(found['input'])}")
        else:
            expected = found["msg"].removeprefix("Input ").replace("tuple", "list").replace("array", "list")
            hint = "; quote it" * (found["type"] == "string_type" and isinstance(found["input"], int | float))
            yield Problem(place, f"{expected}, not {_shown(found['input'])}{hint}")


def _real(inner: Place, at: Place, document: Document) -> Place:
    """A place without pydantic's tags of alternatives, which the file does not hold."""
    real: Place = ()
    for key in inner:
        if (*at, *real, key) in document.lines:
            real = (*real, key)
    return real


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
