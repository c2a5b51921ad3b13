"""Docstrings as they are written here → Markdown, for mkdocstrings.

A field is a line `name: what it is`, with further lines indented; an example begins with `>>>`; other lines that are
indented by four spaces are a figure. The rest is text.

>>> as_markdown("Add numbers.\\n\\na, b: numbers,\\n    not texts\\nRaises nothing.")
'Add numbers.\\n\\n- `a`, `b`: numbers, not texts\\n\\nRaises nothing.'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from textwrap import dedent
from typing import Any, NamedTuple

import griffe

FIELD = re.compile(r"(\*{0,2}\w+(?:, \w+)*): (\S.*)")
INDENT = "    "


class AsMarkdown(griffe.Extension):
    """Rewrites the docstring of every object that is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """A module, a class, a function or an attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


class Line(NamedTuple):
    """A line of a docstring, and what it is part of."""

    kind: str
    text: str


def as_markdown(text: str) -> str:
    """The Markdown of a docstring."""
    groups = groupby(_lines(text.strip("\n").split("\n")), key=lambda line: line.kind)
    blocks = (_block(kind, [line.text for line in lines]) for kind, lines in groups)
    return "\n\n".join(block for block in blocks if block)


def _lines(lines: list[str]) -> Iterator[Line]:
    kind = "text"
    for line in lines:
        kind = _kind(line, before=kind)
        yield Line(kind, line)


def _kind(line: str, *, before: str) -> str:
    """Return the kind of block that a line belongs to. before: the previous line's kind"""
    if line.startswith(">>> ") or (before == "example" and line):
        return "example"
    if FIELD.match(line) or (before == "field" and line.startswith(INDENT)):
        return "field"
    if line.startswith(INDENT) or (before == "figure" and line.startswith(" ")):
        return "figure"
    return "figure" if before == "figure" and not line else "text"


def _block(kind: str, lines: list[str]) -> str:
    text = "\n".join(lines).strip("\n")
    if kind == "example":
        return f"```pycon\n{text}\n```"
    if kind == "figure":
        return f"```text\n{dedent(text)}\n```"
    return _fields(lines) if kind == "field" else text


def _fields(lines: list[str]) -> str:
    """A list, each field of which is one line."""
    fields = re.sub(r"\n +", " ", "\n".join(lines)).split("\n")
    return "\n".join(_field(*found.groups()) for found in map(FIELD.match, fields) if found)


def _field(names: str, meaning: str) -> str:
    return f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {meaning}"
