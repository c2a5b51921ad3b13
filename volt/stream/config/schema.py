"""What a configuration may hold: the models that check it, and the documentation that is read off them.

The dataclass of a transform is also the model of its options, and its docstrings are their documentation. An item in
a list of transforms (a step) is a name, or a mapping of the name to the options. Where the options are not a mapping,
they are the value of the first option: `- multiply: 3` means `- multiply: {n: 3}`.

>>> transform_schema("multiply")["properties"]["n"]["description"]
'How many fields hold the text of field 1.'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from volt.files.long_lines import MAX_LINE
from volt.files.threads import MOST_WORKERS
from volt.stream.reading.source import BLOCK_BYTES, BLOCK_LINES, SPLIT_LINES
from volt.stream.transforms.registry import TRANSFORMS

STEPS, FIELD = "steps", "field"  # how the schema marks a list of transforms, and the number or name of a field
FIELD_OPTIONS = ("fields", "field", "id_field", "if_cased", "from", "to")  # of transforms, where they are numbers


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ScheduleOptions(_Model):
    """A weight that changes while the stream runs."""

    points: list[tuple[int, float]]
    """[sample, weight] pairs with rising samples, the first 0; after the last point the weight stays."""
    kind: Literal["steps", "linear"] = "steps"
    """steps: hold a weight until the next point; linear: move towards it."""


def _is_mapping(value: object) -> str:
    return "schedule" if isinstance(value, dict) else "number"


def _is_list(value: object) -> str:
    return "list" if isinstance(value, list) else "path"


Weight = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False), Tag("number")] | Annotated[ScheduleOptions, Tag("schedule")],
    Discriminator(_is_mapping),
]
Paths = Annotated[
    Annotated[str, Tag("path")] | Annotated[list[str], Field(min_length=1), Tag("list")], Discriminator(_is_list)
]
Steps = Annotated[list[Any], Field(json_schema_extra={"kind": STEPS})]


class SourceOptions(_Model):
    """Where lines come from, and what happens to them."""

    path: Paths | None = None
    """Files (.tsv or text; plain, gzip, zstd, xz or bzip2), folders or globs, relative to the configuration file. `~`
    and `$NAME` are written out."""
    pair: dict[str, str] | None = None
    """Instead of path: files that belong together line by line, one for each field, by the fields' names, as in
    {src: wmt.de, tgt: wmt.en}. Options of transforms may then name fields, too."""
    columns: dict[str, str] | None = None
    """Of JSON lines and Parquet files: for each field, by its name, the key or the column that holds it, as in
    {src: de, tgt: translation.en}; a dot leads into what a key holds."""
    weight: Weight = 1.0
    """Its share of the stream, relative to the weights of the other sources."""
    transforms: Steps = []
    """What to do with its lines, in this order."""
    shuffle: Literal["lines", "outputs", "none"] = "lines"
    """lines: permute the lines of a block, then transform them; outputs: transform consecutive lines, as documents need
    it, and permute what comes out; none: read the files in order."""
    epochs: int | None = Field(None, ge=1)
    """How often to read it before it ends; for ever by default."""
    block_lines: int = Field(BLOCK_LINES, ge=1)
    """The most lines of a block, the unit of work and of shuffling; what memory is needed grows with it."""
    block_bytes: int = Field(BLOCK_BYTES, ge=1)
    """The most bytes of a block, on the average."""
    split_lines: int | None = Field(SPLIT_LINES, ge=1)
    """Lines per piece, the unit that an epoch permutes; null keeps files whole, each of which must then fit in memory
    two or three times."""
    min_fields: int = Field(0, ge=0)
    """A line with fewer fields is unfit."""
    max_fields: int | None = Field(None, ge=1)
    """A line with more fields is unfit."""
    max_chars: int | None = Field(None, ge=0)
    """A longer line is unfit."""
    max_line: int | None = Field(MAX_LINE, ge=0)
    """The most bytes of a line; a file with a longer one is unreadable, for memory's sake. null allows any length."""
    blank: bool = True
    """false: a line of white space is unfit."""


class EachOptions(SourceOptions):
    """Sources by pattern: the options of a source, and those below.
    The path, or each file of a pair, holds one `*`. What it matches is the source's name, which {name} in a text among
    the transforms stands for. A pair's first file says which names there are.
    """

    weight: Weight = 1.0
    """The share of all of them together, relative to the weights of the other sources."""
    temperature: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Each gets a share of that weight in proportion to (its number of lines) ^ (1 / temperature): 1 is in proportion
    to the lines, 5 brings up the small ones, as is usual for many languages, and a large number makes all equal."""


class ErrorOptions(_Model):
    """What to do with unfit lines: invalid UTF-8, missing fields, what a transform cannot take."""

    on_fault: Literal["raise", "skip", "quarantine"] = "raise"
    """raise: stop with the line's place; skip: leave it out and count; quarantine: also write it to a file."""
    quarantine: str | None = None
    """The file for quarantined lines, as JSON lines with place and reason. Each run adds to it, so that going on loses
    nothing; a run that starts anew says so if the file holds lines already."""
    max_faults: int | None = Field(default=None, ge=0)
    """Stop when more lines are unfit."""
    max_share: float | None = Field(default=None, ge=0, le=1)
    """Stop when a greater share of the lines read is unfit (judged from 1,000 lines on)."""


class StreamOptions(_Model):
    """A stream: sources, each with its transforms, mixed by weight."""

    sources: dict[str, SourceOptions] = {}
    """The sources by name; at least one, unless there is `each`."""
    each: EachOptions | None = None
    """Sources by pattern: one for each file, or pair of files, that matches."""
    seed: int = Field(0, ge=0)
    """All that is random follows from it; 0 or more."""
    ends: Literal["stop", "drop"] = "stop"
    """When a source with `epochs` ends: stop the stream, or drop the source and go on with the others."""
    workers: int = Field(0, ge=0, le=MOST_WORKERS)
    """How many compute ahead, 256 at most; 0: none but the stream itself. Their number does not change the output."""
    time_limit: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Seconds that a worker may take for a block of lines where a transform is Python code, beyond which the run ends
    with an error; any time by default."""
    transforms: Steps = []
    """What to do with the lines of every source, after its own transforms."""
    errors: ErrorOptions = ErrorOptions()
    """What to do with unfit lines."""
    cache: str | None = None
    """The folder for line indices and split files; by default in the user's cache folder."""


class VariantOptions(_Model):
    """One of the variants of `choice`."""

    weight: float
    """How often, relative to the other variants."""
    transforms: Steps = []
    """What happens to the line; nothing by default."""


class ChoiceOptions(_Model):
    """Send each line through one of several variants, drawn by their weights."""

    variants: list[VariantOptions] = Field(min_length=1)
    """The variants, each with a weight and its transforms."""


@cache  # of what the code declares, which does not change
def options_of(name: str) -> TypeAdapter[Any]:
    """What checks the options of a transform."""
    model: type[Any] = ChoiceOptions if name == "choice" else TRANSFORMS[name]
    return TypeAdapter(model)


def first_option(name: str) -> str:
    """The option that a transform takes without its name.

    >>> first_option("regex"), first_option("copy")
    ('pattern', 'from')
    """
    return str(next(iter(options_of(name).json_schema()["properties"])))


def field_options(name: str) -> list[str]:
    """The options of a transform that hold fields.

    >>> field_options("lower"), field_options("copy"), field_options("encode")
    (['fields', 'if_cased'], ['from', 'to'], ['fields'])
    """
    properties = options_of(name).json_schema()["properties"]
    return [option for option in FIELD_OPTIONS if any(_integers(properties.get(option)))]


def _integers(node: object) -> Iterator[dict[str, Any]]:
    """Every whole number in a schema."""
    if isinstance(node, dict) and node.get("type") == "integer":
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _integers(inner)


@cache  # of what the code declares, as above
def transform_schema(name: str) -> dict[str, Any]:
    """The JSON schema of a transform's options; what is inherited is documented where it was declared."""
    schema = options_of(name).json_schema(ref_template="#/$defs/{model}")
    for base in TRANSFORMS[name].__mro__[1:]:
        if dataclasses.is_dataclass(base):
            for key, option in TypeAdapter(base).json_schema()["properties"].items():
                schema["properties"][key].setdefault("description", option.get("description"))
    for option in field_options(name):
        for number in _integers(schema["properties"][option]):
            number |= {"type": ["integer", "string"], "kind": FIELD}
    return schema


def json_schema() -> dict[str, Any]:
    """The JSON schema of a whole configuration, for editors and other programs.

    >>> json_schema()["properties"]["sources"]["description"]
    'The sources by name; at least one, unless there is `each`.'
    """
    schema = StreamOptions.model_json_schema()
    definitions = schema["$defs"]
    for name in TRANSFORMS:
        own = deepcopy(transform_schema(name))
        definitions |= own.pop("$defs", {})
        definitions[name] = own
    definitions["step"] = {"oneOf": [_step(name) for name in TRANSFORMS], "description": "A transform or filter."}
    for steps in _marked(schema):
        del steps["kind"]
        steps["items"] = {"$ref": "#/$defs/step"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _step(name: str) -> dict[str, Any]:
    """A step is the name alone, or the name with options or the first option."""
    options = [{"$ref": f"#/$defs/{name}"}, {"type": "null"}, transform_schema(name)["properties"][first_option(name)]]
    named = {"type": "object", "properties": {name: {"anyOf": options}}, "required": [name]}
    return {"anyOf": [{"const": name}, {**named, "additionalProperties": False}]}


def _marked(node: object) -> Iterator[dict[str, Any]]:
    """Every list of transforms in a schema."""
    if isinstance(node, dict):
        if node.get("kind") == STEPS:
            yield node
        for inner in list(node.values()):
            yield from _marked(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _marked(inner)


def known_keys(schema: dict[str, Any], place: tuple[str | int, ...]) -> list[str]:
    """The keys that a schema knows at a place. Parts of the place that only name an alternative are passed over.

    >>> known_keys(StreamOptions.model_json_schema(), ("sources", "wmt", "weight", "schedule"))
    ['points', 'kind']
    """
    nodes = [schema]
    for key in place:
        nodes = list(_inside(schema, nodes, key)) or nodes
    return [key for node in _resolved(schema, nodes) for key in node.get("properties", {})]


def _resolved(schema: dict[str, Any], nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The nodes with references and alternatives followed."""
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
