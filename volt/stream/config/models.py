"""What a configuration may hold: the models that check it. Their docstrings are its documentation.

An item in a list of transforms (a step) is a name, or a mapping of the name to the options. Where the options are not a
mapping, they are the value of the first option: `- multiply: 3` means `- multiply: {n: 3}`.

>>> SourceOptions(path="a.tsv").shuffle
'lines'
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from volt.files.long_lines import MAX_LINE
from volt.stream.mixing.sampling import TEMPERATURE
from volt.stream.reading.source import BLOCK_BYTES, BLOCK_LINES, SPLIT_LINES

STEPS, FIELD = "steps", "field"  # how the schema marks a list of transforms, and the number or name of a field


class Model(BaseModel):
    """Knows its keys, and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ScheduleOptions(Model):
    """A weight that changes while the stream runs."""

    points: list[tuple[int, float]]
    """[sample, weight] pairs with rising samples, the first 0; after the last point the weight stays."""
    kind: Literal["steps", "linear"] = "steps"
    """steps: hold a weight until the next point; linear: let the shares of the stream move in a straight line between
    the points: from 1 to 9 beside a weight of 1, the share goes from 0.5 to 0.9, and is 0.7 half-way."""


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


class ReadingOptions(Model):
    """How lines are read, shuffled and checked."""

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
    five times."""
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


class _SourceOptions(Model):
    path: Paths | None = None
    """Files (.tsv or text; plain, gzip, zstd, xz or bzip2; indexed ids, as NAME.bin, NAME.idx or NAME), folders or
    globs, relative to the configuration file. `~` and `$NAME` are written out."""
    pair: dict[str, Paths] | None = None
    """Instead of path: files that belong together line by line, one for each field, by the fields' names, as in
    {src: wmt.de, tgt: wmt.en}; or lists of such, equally long. Options of transforms may then name fields, too."""
    columns: dict[str, str] | None = None
    """Of JSON lines and Parquet files: for each field, by its name, the key or the column that holds it, as in
    {src: de, tgt: translation.en}; a dot leads into what a key holds."""
    weight: Weight = 1.0
    """Its share of the stream, relative to the weights of the other sources."""
    transforms: Steps = []
    """What to do with its lines, in this order."""


class SourceOptions(ReadingOptions, _SourceOptions):
    """Where lines come from, and what happens to them."""


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


class MixOptions(Model):
    """Weights of sources and of tasks (split train) from their numbers of lines, for training on many of them.

    The stream then has virtual epochs of V lines. With s lines in a source, and its share r of the stream,
    V = min(Σ (r / r_max) · s_max, 1.5 · Σ s), rounded down, where `max` is the source with the most lines. No source
    may have a weight, or an end (epochs), beside it.
    """

    by: Literal["temperature", "uniform", "concatenation", "weights"] = "temperature"
    """temperature: shares in proportion to (number of lines) ^ (1 / temperature); uniform: equal shares; concatenation:
    shares in proportion to the lines; weights: what the sources and tasks say themselves, as without `mix`."""
    temperature: float = Field(TEMPERATURE, gt=0, allow_inf_nan=False)
    """1 is in proportion to the lines, 5 brings up the small sources, and a large number makes all equal."""


class ErrorOptions(Model):
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


class VariantOptions(Model):
    """One of the variants of `choice`."""

    weight: float
    """How often, relative to the other variants."""
    transforms: Steps = []
    """What happens to the line; nothing by default."""


class ChoiceOptions(Model):
    """Send each line through one of several variants, drawn by their weights.

    Nothing is drawn at validation and translation: each line goes through the heaviest variant, the first of several.
    """

    variants: list[VariantOptions] = Field(min_length=1)
    """The variants, each with a weight and its transforms."""
