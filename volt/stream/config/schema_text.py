"""The JSON schema of a configuration → documentation for people: every key, what it takes, its default, its meaning.

>>> print(as_text(["multiply"]))
multiply — Copy field 1 over the fields 2 to n; further fields stay. (`repeat` makes equal lines.)
  n: whole number, default 2
      How many fields hold the text of field 1.
<BLANKLINE>
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from volt.stream.config.models import FIELD, STEPS, SourceOptions
from volt.stream.config.schema import json_schema, transform_schema
from volt.stream.transforms.registry import TRANSFORMS

_NAMES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "null": "null"}
_REFERENCES = {
    "step": "transform", "ErrorOptions": "mapping", "EachOptions": "mapping", "InputOptions": "input",
    "TaskScheduleOptions": "mapping", "MixOptions": "mapping", "BatchesOptions": "mapping", "FieldOptions": "mapping",
    "PackOptions": "mapping",
}  # fmt: skip


def as_text(names: Sequence[str] = ()) -> str:
    """The documentation of these transforms; of everything if none is named."""
    if names:
        return "\n".join(line for name in names for line in _section(name, transform_schema(name)))
    return "\n".join(_everything())


def _everything() -> Iterator[str]:
    schema = json_schema()
    definitions = schema["$defs"]
    for name, options in list(definitions.items()):
        if name in ("EachOptions", "TaskOptions"):
            definitions[name] = _beyond(options, definitions["SourceOptions"])
    yield "A configuration is one YAML file. Relative paths are relative to it. Keys:\n"
    yield from _section("(the file)", schema)
    for title, name in [
        ("sources.NAME", "SourceOptions"),
        ("each", "EachOptions"),
        ("weight", "ScheduleOptions"),
        ("tasks.NAME", "TaskOptions"),
        ("tasks.NAME.inputs.NAME", "InputOptions"),
        ("mix", "MixOptions"),
        ("schedule", "TaskScheduleOptions"),
        ("errors", "ErrorOptions"),
        ("batches", "BatchesOptions"),
        ("batches.fields.NAME", "FieldOptions"),
        ("batches.pack", "PackOptions"),
    ]:
        yield from _section(title, definitions[name])
    yield "Transforms and filters. In a list of them, one is written `- NAME`, `- NAME: {option: value, …}`, or"
    yield "`- NAME: value`, which gives its first option. Fields count from 1;"
    yield "those of a `pair` and of `columns` have names, too.\n"
    for name in TRANSFORMS:
        yield from _section(name, definitions[name])
    yield from _section("variant (of choice)", definitions["VariantOptions"])


def _beyond(schema: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """A mapping without the keys that it shares with another."""
    own = {key: option for key, option in schema["properties"].items() if option != base["properties"].get(key)}
    return {**schema, "properties": own}


def _section(title: str, schema: dict[str, Any]) -> Iterator[str]:
    """One mapping: its description, then each key."""
    first, *rest = schema.get("description", SourceOptions.__doc__ or "").strip().split("\n")
    yield f"{title} — {first}"
    yield from (line for line in (line.rstrip() for line in rest) if line)
    for key, option in schema.get("properties", {}).items():
        need = "required" if key in schema.get("required", []) else f"default {_shown(option.get('default'))}"
        yield f"  {key}: {kind_of(option)}, {need}"
        yield from (f"      {line.strip()}" for line in (option.get("description") or "").split("\n"))
    yield ""


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if value is not None else "none"


def kind_of(option: dict[str, Any]) -> str:
    """What a key takes, in words.

    >>> kind_of({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]})
    'list of whole numbers, or null'
    """
    if options := option.get("anyOf") or option.get("oneOf"):
        kinds = [kind_of(one) for one in options]
        return ", or ".join(kinds) if "null" in kinds else " or ".join(kinds)
    if "enum" in option:
        return " | ".join(option["enum"])
    if "const" in option:
        return str(option["const"])
    if "$ref" in option:
        name = option["$ref"].rpartition("/")[2]
        return _REFERENCES.get(name) or str(name).removesuffix("Options").lower()
    if option.get("kind") == STEPS:
        return "list of transforms"
    if option.get("kind") == FIELD:
        return "field"
    if option.get("type") == "array":
        inner = option.get("prefixItems")
        return f"[{', '.join(map(kind_of, inner))}]" if inner else f"list of {_plural(kind_of(option['items']))}"
    if option.get("type") == "object":
        inside = option.get("additionalProperties")
        return f"mapping of names to {_plural(kind_of(inside))}" if isinstance(inside, dict) else "mapping"
    return "path" if option.get("format") == "path" else _NAMES[option["type"]]


def _plural(kind: str) -> str:
    return kind if kind.endswith(("]", "text")) else f"{kind}s"
