"""The models of a configuration → their JSON schema, and documentation for people.

The dataclass of a transform is also the model of its options, and its docstrings are their documentation.

>>> print(as_text(["multiply"]))
multiply — Copy field 1 over the fields 2 to n; further fields stay. (`repeat` makes equal lines.)
  n: whole number, default 2
      How many fields hold the text of field 1.
<BLANKLINE>
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from volt.stream.config.models import FIELD, STEPS, ChoiceOptions, SourceOptions, StreamOptions
from volt.stream.transforms.registry import TRANSFORMS

FIELD_OPTIONS = ("fields", "field", "id_field", "if_cased", "from", "to")  # of transforms, where they are numbers


@cache  # of what the code declares, which does not change
def options_of(name: str) -> TypeAdapter[Any]:
    """Return the pydantic model that checks the options of a transform."""
    model: type[Any] = ChoiceOptions if name == "choice" else TRANSFORMS[name]
    return TypeAdapter(model)


def first_option(name: str) -> str | None:
    """Return the option that a transform takes without its name; None for a transform without options.

    >>> first_option("regex"), first_option("copy"), first_option("duplicate_mono")
    ('pattern', 'from', None)
    """
    return next(iter(options_of(name).json_schema()["properties"]), None)


def field_options(name: str) -> list[str]:
    """Return the options of a transform that hold fields.

    >>> field_options("lower"), field_options("copy"), field_options("encode")
    (['fields', 'if_cased'], ['from', 'to'], ['fields'])
    """
    properties = options_of(name).json_schema()["properties"]
    return [option for option in FIELD_OPTIONS if any(_integers(properties.get(option)))]


def _integers(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict) and node.get("type") == "integer":
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _integers(inner)


@cache  # of what the code declares, as above
def transform_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a transform's options; what is inherited is documented where it was declared."""
    schema = options_of(name).json_schema(ref_template="#/$defs/{model}")
    for base in TRANSFORMS[name].__mro__[1:]:
        if dataclasses.is_dataclass(base):
            for key, option in TypeAdapter(base).json_schema()["properties"].items():
                if "description" in option:
                    schema["properties"][key].setdefault("description", option["description"])
    for option in field_options(name):
        for number in _integers(schema["properties"][option]):
            number |= {"type": ["integer", "string"], "kind": FIELD}
    return schema


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a whole configuration, for editors and other programs.

    >>> json_schema()["properties"]["sources"]["description"]
    'The sources by name; at least one, unless there are `each` or `tasks`.'
    """
    schema = StreamOptions.model_json_schema()
    definitions = schema["$defs"]
    for name in TRANSFORMS:
        own = deepcopy(transform_schema(name))
        definitions |= own.pop("$defs", {})
        definitions[name] = own
    definitions["step"] = {"oneOf": [_step(name) for name in TRANSFORMS], "description": "A transform or filter."}
    schema["properties"]["defaults"]["propertyNames"] = {"enum": list(TRANSFORMS)}
    for steps in _marked(schema):
        del steps["kind"]
        steps["items"] = {"$ref": "#/$defs/step"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _step(name: str) -> dict[str, Any]:
    """Return a step is the name alone, or the name with options or the first option."""
    options = [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]
    if (first := first_option(name)) is not None:
        options.append(transform_schema(name)["properties"][first])
    named = {"type": "object", "properties": {name: {"anyOf": options}}, "required": [name]}
    return {"anyOf": [{"const": name}, {**named, "additionalProperties": False}]}


def _marked(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("kind") == STEPS:
            yield node
        for inner in list(node.values()):
            yield from _marked(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _marked(inner)


def known_keys(schema: dict[str, Any], place: tuple[str | int, ...]) -> list[str]:
    """Return the keys that a schema knows at a place. Parts of the place that only name an alternative are passed over.

    >>> known_keys(StreamOptions.model_json_schema(), ("sources", "wmt", "weight", "schedule"))
    ['points', 'kind']
    """
    nodes = [schema]
    for key in place:
        nodes = list(_inside(schema, nodes, key)) or nodes
    return [key for node in _resolved(schema, nodes) for key in node.get("properties", {})]


def _resolved(schema: dict[str, Any], nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        if "$ref" in node:
            yield from _resolved(schema, [schema["$defs"][node["$ref"].rpartition("/")[2]]])
        yield from _resolved(schema, node.get("oneOf", []) + node.get("anyOf", []))
        yield node


def _inside(schema: dict[str, Any], nodes: list[dict[str, Any]], key: str | int) -> Iterator[dict[str, Any]]:
    for node in _resolved(schema, nodes):
        if key in node.get("properties", {}):
            yield node["properties"][key]
        elif isinstance(node.get("additionalProperties"), dict):
            yield node["additionalProperties"]
        elif isinstance(key, int) and "items" in node:
            yield node["items"]


_NAMES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "null": "null"}
_REFERENCES = {
    "step": "transform", "ErrorOptions": "mapping", "EachOptions": "mapping", "InputOptions": "input",
    "TaskScheduleOptions": "mapping", "MixOptions": "mapping", "BatchesOptions": "mapping", "FieldOptions": "mapping",
    "PackOptions": "mapping",
}  # fmt: skip


def as_text(names: Sequence[str] = ()) -> str:
    """Return the documentation of these transforms; of everything if none is named."""
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
    yield "the fields of a `pair` and of `columns` have names, too.\n"
    for name in TRANSFORMS:
        yield from _section(name, definitions[name])
    yield from _section("variant (of choice)", definitions["VariantOptions"])


def _beyond(schema: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    own = {key: option for key, option in schema["properties"].items() if option != base["properties"].get(key)}
    return {**schema, "properties": own}


def _section(title: str, schema: dict[str, Any]) -> Iterator[str]:
    """Yield one mapping: its description, then each key."""
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
    """Describe in words what a key takes.

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
