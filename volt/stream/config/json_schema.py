"""Make the JSON schema of a configuration, and its documentation, from the pydantic models.

The dataclass of a transform is also the model of its options, and its docstrings are their
documentation. The schema of an option that takes a field has `kind: field`, and that of a list of
transforms `kind: steps`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from volt.stream.config.pydantic_models import (
    FIELD,
    STEPS,
    ChoiceOptions,
    SourceOptions,
    StreamOptions,
)
from volt.stream.transforms.registry import TRANSFORMS

Schema = dict[str, Any]
# Options that take fields, in transforms in which their values are numbers
FIELD_OPTIONS = ("fields", "field", "id_field", "if_cased", "from", "to")


@cache
def make_adapter(name: str) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a transform's options."""
    model: type[Any] = ChoiceOptions if name == "choice" else TRANSFORMS[name]
    return TypeAdapter(model)


def first_option(name: str) -> str | None:
    """Return the option that may be given without its name; None for a transform without options."""
    return next(iter(make_adapter(name).json_schema()["properties"]), None)


def field_options(name: str) -> list[str]:
    """Return the names of a transform's options that take fields.

    >>> field_options("lower"), field_options("copy"), field_options("encode")
    (['fields', 'if_cased'], ['from', 'to'], ['fields'])
    """
    properties = make_adapter(name).json_schema()["properties"]
    return [option for option in FIELD_OPTIONS if any(_find_integers(properties.get(option)))]


def _find_integers(node: object) -> Iterator[Schema]:
    return (inner for inner in _find_mappings(node) if inner.get("type") == "integer")


def _find_mappings(node: object) -> Iterator[Schema]:
    """Yield all mappings in a JSON value, outer ones first."""
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _find_mappings(inner)


@cache
def transform_schema(name: str) -> Schema:
    """Return the JSON schema of a transform's options; inherited options keep their documentation."""
    schema = make_adapter(name).json_schema(ref_template="#/$defs/{model}")
    for base in TRANSFORMS[name].__mro__[1:]:
        if dataclasses.is_dataclass(base):
            for key, option in TypeAdapter(base).json_schema()["properties"].items():
                if "description" in option:
                    schema["properties"][key].setdefault("description", option["description"])
    for option in field_options(name):
        for field in _find_integers(schema["properties"][option]):
            field |= {"type": ["integer", "string"], "kind": FIELD}
    return schema


def json_schema() -> Schema:
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
    definitions["step"] = {
        "oneOf": [_describe_step(name) for name in TRANSFORMS],
        "description": "A transform or filter.",
    }
    schema["properties"]["defaults"]["propertyNames"] = {"enum": list(TRANSFORMS)}
    for node in _find_mappings(schema):
        if node.get("kind") == STEPS:
            del node["kind"]
            node["items"] = {"$ref": "#/$defs/step"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _describe_step(name: str) -> Schema:
    """Return the schema of a list's item: a transform's name, or its name and options."""
    options = [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]
    first = first_option(name)
    if first is not None:
        options.append(transform_schema(name)["properties"][first])
    with_options = {
        "type": "object",
        "properties": {name: {"anyOf": options}},
        "required": [name],
        "additionalProperties": False,
    }
    return {"anyOf": [{"const": name}, with_options]}


_TYPE_NAMES = {  # in the documentation
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
}
_SECTIONS = {  # section of a configuration → its definition in the schema
    "sources.NAME": "SourceOptions",
    "each": "EachOptions",
    "weight": "ScheduleOptions",
    "tasks.NAME": "TaskOptions",
    "tasks.NAME.inputs.NAME": "InputOptions",
    "mix": "MixOptions",
    "schedule": "TaskScheduleOptions",
    "errors": "ErrorOptions",
    "batches": "BatchesOptions",
    "batches.fields.NAME": "FieldOptions",
    "batches.pack": "PackOptions",
}
_DEFINITION_NAMES = {  # in the documentation, if not the definition's own name
    "step": "transform",
    **dict.fromkeys(set(_SECTIONS.values()), "mapping"),
    "SourceOptions": "source",
    "TaskOptions": "task",
    "InputOptions": "input",
    "ScheduleOptions": "schedule",
    "VariantOptions": "variant",
}


def as_text(names: Sequence[str] = ()) -> str:
    """Return the documentation of the named transforms, or of everything if there are no names."""
    if not names:
        return "\n".join(_list_everything())
    lines = list[str]()
    for name in names:
        lines += _list_section(name, transform_schema(name))
    return "\n".join(lines)


def _list_everything() -> Iterator[str]:
    schema = json_schema()
    definitions = schema["$defs"]
    shared_options = definitions["SourceOptions"]["properties"].items()
    for name in ("EachOptions", "TaskOptions"):
        options = definitions[name]["properties"]
        own_options = [item for item in options.items() if item not in shared_options]
        definitions[name]["properties"] = dict(own_options)
    yield "A configuration is one YAML file. Relative paths are relative to it. Keys:\n"
    yield from _list_section("(the file)", schema)
    for title, name in _SECTIONS.items():
        yield from _list_section(title, definitions[name])
    yield "Transforms and filters. Write each item of a list as `- NAME`, `- NAME: {option: value, …}`, or"
    yield "`- NAME: value`, which sets the first option. Fields are numbered from 1;"
    yield "the fields of a `pair` and of `columns` have names, too.\n"
    for name in TRANSFORMS:
        yield from _list_section(name, definitions[name])
    yield from _list_section("variant (of choice)", definitions["VariantOptions"])


def _list_section(title: str, schema: Schema) -> Iterator[str]:
    """Yield the lines of documentation of a mapping and its keys."""
    description = schema.get("description", SourceOptions.__doc__ or "")
    first, *rest = description.strip().split("\n")
    yield f"{title} — {first}"
    yield from (line.rstrip() for line in rest if line.strip())
    for key, option in schema.get("properties", {}).items():
        need = "required"
        if key not in schema.get("required", ()):
            default = option.get("default")
            shown = "none" if default is None else json.dumps(default, ensure_ascii=False)
            need = f"default {shown}"
        yield f"  {key}: {describe_type(option)}, {need}"
        for line in option.get("description", "").strip().split("\n"):
            yield f"      {line.strip()}"
    yield ""


def describe_type(option: Schema) -> str:
    """Describe the values of a key in words, such as "list of whole numbers, or null"."""
    match option:
        case {"anyOf": options} | {"oneOf": options}:
            names = [describe_type(alternative) for alternative in options]
            return (", or " if "null" in names else " or ").join(names)
        case {"enum": words}:
            return " | ".join(words)
        case {"const": word}:
            return str(word)
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            return str(_DEFINITION_NAMES.get(name, name))
        case {"kind": kind}:
            return "list of transforms" if kind == STEPS else "field"
        case {"type": "array", "prefixItems": items}:
            return f"[{', '.join(map(describe_type, items))}]"
        case {"type": "array", "items": item}:
            return f"list of {_pluralize(describe_type(item))}"
        case {"type": "object", "additionalProperties": dict(item)}:
            return f"mapping of names to {_pluralize(describe_type(item))}"
        case {"type": "object"}:
            return "mapping"
        case {"format": "path"}:
            return "path"
    return _TYPE_NAMES[option["type"]]


def _pluralize(name: str) -> str:
    return name if name.endswith(("]", "text")) else f"{name}s"
