"""The pydantic models that check every key of a configuration.

Their docstrings are its documentation.

A step in a list of transforms is a name, or a mapping of the name to the options. A value that is
not a mapping belongs to the first option: `- multiply: 3` means `- multiply: {n: 3}`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from volt.arguments import MAX_LINE
from volt.files.threads import MOST_WORKERS
from volt.stream.mixing.mixture import TEMPERATURE
from volt.stream.reading.source_definition import BLOCK_BYTES, BLOCK_LINES, SPLIT_LINES

# how the schema marks a list of transforms, and the number or name of a field
STEPS = "steps"
FIELD = "field"


class Model(BaseModel):
    """Refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


_KIND = """steps: keep a weight until the next point; linear: the share of the stream changes steadily between points.
If a weight goes from 1 to 9, and the other weight is 1, the share goes from 0.5 to 0.9, and is 0.7 half-way."""
ScheduleKind = Annotated[Literal["steps", "linear"], Field(description=_KIND)]


class ScheduleOptions(Model):
    """A weight that changes while the stream runs."""

    points: list[tuple[int, float]]
    """[sample, weight] pairs: the weight from a sample's number on. The numbers rise from 0; the
    last weight stays."""
    kind: ScheduleKind = "steps"


def _by_type(other: str, **tags: str) -> Discriminator:
    """Choose an alternative of a union by the value's type. tags: type name → alternative; `other`:
    for other types"""
    return Discriminator(lambda value: tags.get(type(value).__name__, other))


Weight = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False), Tag("number")]
    | Annotated[ScheduleOptions, Tag("schedule")],
    _by_type("number", dict="schedule"),
]
_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(ge=1)]
_Factor = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_List = Annotated[list[str], Field(min_length=1)]
Paths = Annotated[
    _List, BeforeValidator(lambda value: value if isinstance(value, list) else [value], str | _List)
]
Steps = Annotated[list[Any], Field(json_schema_extra={"kind": STEPS})]


class ReadingOptions(Model):
    """Options of reading, shuffling and checking lines."""

    shuffle: Literal["lines", "outputs", "none"] = "lines"
    """lines: permute the lines of a block, then transform them; outputs: transform consecutive
    lines, as `documents` requires, and permute the results; none: read the files in order."""
    epochs: _Positive | None = None
    """The number of times to read the source before it ends; endless by default."""
    block_lines: _Positive = BLOCK_LINES
    """The maximum number of lines in a block, the unit of work and of shuffling; more lines need
    more memory."""
    block_bytes: _Positive = BLOCK_BYTES
    """The maximum average number of bytes in a block."""
    split_lines: _Positive | None = SPLIT_LINES
    """Lines per segment of a file; epochs permute segments. null: whole files, which take five
    times their size in RAM."""
    min_fields: _Count = 0
    """A line with fewer fields is unfit."""
    max_fields: _Positive | None = None
    """A line with more fields is unfit."""
    max_chars: _Count | None = None
    """A longer line is unfit."""
    max_line: _Count | None = MAX_LINE
    """The maximum number of bytes in a line; a file with a longer line is unreadable. null allows
    any length."""
    blank: bool = True
    """false: a line that is empty or white space is unfit."""


class _SourceOptions(Model):
    path: Paths | None = None
    """Files (.tsv or text; plain, gzip, zstd, xz or bzip2; indexed ids, as NAME.bin, NAME.idx or
    NAME), folders or globs, relative to the configuration file. `~` and `$NAME` are expanded."""
    pair: dict[str, Paths] | None = None
    """Instead of path: line-aligned files, one for each field name, as in {src: wmt.de, tgt:
    wmt.en}, or a list of files for each, equally many. Options of transforms may then use these
    names for the fields."""
    columns: dict[str, str] | None = None
    """For JSON lines, Parquet, Arrow, and CSV or TSV with a header: the JSON key or column of each
    field name, as in {src: de, tgt: translation.en}; NAME.FIELD is a field of a nested object. A
    null is a missing field: its line is unfit if a later field has a value, and else has fewer
    fields, which `min_fields` refuses."""
    weight: Weight = 1.0
    """The source's share of the stream, relative to the weights of the other sources."""
    transforms: Steps = []
    """The transforms of the source's lines, in this order."""


class SourceOptions(ReadingOptions, _SourceOptions):
    """A source: where lines come from, and their transforms."""


class EachOptions(SourceOptions):
    """Sources by pattern: the options of a source, and the options below.
    The path, or each file of a pair, contains one `*`. The text that `*` matches becomes the
    source's name, and replaces {name} in the transforms' options. For pairs, the pattern of the
    first field determines the names.
    """

    weight: Weight = 1.0
    """The total share of these sources, relative to the weights of the other sources."""
    temperature: _Factor = 1.0
    """A source gets a share of this weight in proportion to (number of lines) ^ (1 / temperature).
    With 1, shares are proportional to lines; 5, usual for many languages, favours small sources; a
    large number makes shares equal."""


class MixOptions(Model):
    """Derive the weights of sources, and of tasks of split train, from their numbers of lines.

    The stream then has virtual epochs of V = min(Σ (r / r_max) · s_max, 1.5 · Σ s) lines, rounded
    down. Here s is a source's number of lines, r is its share of the stream, and s_max and r_max
    belong to the source with the most lines. Sources must not set `weight` or `epochs`.
    """

    by: Literal["temperature", "uniform", "concatenation", "weights"] = "temperature"
    """temperature: shares in proportion to (number of lines) ^ (1 / temperature); uniform: equal
    shares; concatenation: shares in proportion to the lines; weights: the sources' and tasks' own
    weights, as without `mix`."""
    temperature: _Factor = TEMPERATURE
    """With 1, shares are proportional to lines; 5 favours small sources; a large number makes
    shares equal."""


class ErrorOptions(Model):
    """The policy for unfit lines: invalid UTF-8, missing fields, lines that a transform refuses."""

    on_fault: Literal["raise", "skip", "quarantine"] = "raise"
    """raise: stop and report file and line; skip: skip and count the line; quarantine: also write
    it to a file."""
    quarantine: str | None = None
    """The file for quarantined lines, as JSON lines with position and reason. Each run appends to
    it, so a resumed run loses nothing; a new run reports if the file already contains lines."""
    max_faults: _Count | None = None
    """Stop when more lines than this are unfit."""
    max_share: float | None = Field(default=None, ge=0, le=1)
    """Stop when a greater share than this of the lines read is unfit (checked from 1,000 lines on).
    """


class VariantOptions(Model):
    """One of the variants of `choice`."""

    weight: float
    """The weight, relative to the other variants."""
    transforms: Steps = []
    """The transforms of the line; none by default."""


class ChoiceOptions(Model):
    """Send each line through one of several variants, drawn by their weights.

    Validation and translation do not draw: each line goes through the variant of largest weight; in
    a tie, the first.
    """

    variants: list[VariantOptions] = Field(min_length=1)
    """The variants, each with a weight and its transforms."""


WINDOW = 1 << 14  # samples
_MOST = (1 << 31) - 1  # ids, rows or samples
_WIDEST = 1 << 16  # maximum of pad_to_multiple
_Number = Annotated[int, Field(ge=1, le=_MOST)]
_PackSize = Annotated[int, Field(ge=1, le=1 << 24)]


class FieldOptions(Model):
    """The vocabulary of a field. A path alone is short for {vocabulary: path}."""

    vocabulary: str
    """A vocabulary, of VOLT or of another library, or a SentencePiece model."""
    prefix: list[str] = []
    """Tokens before every sample of the field, such as the target language: ["<2en>"]."""


class PackOptions(Model):
    """Rows of a fixed length, each of several samples laid end to end, for language models."""

    length: _PackSize
    """The number of ids in a row."""
    rows: _PackSize
    """The number of rows in a batch."""
    on_long: Literal["raise", "report", "split"] = "raise"
    """For a sample longer than a row: raise stops, report skips and counts it, split divides it
    into rows."""


_as_mapping = BeforeValidator(
    lambda value: value if isinstance(value, dict) else {"vocabulary": value}, str | FieldOptions
)
Fields = dict[str, Annotated[FieldOptions, _as_mapping]]
Window = Annotated[
    Annotated[_Number, Tag("number")] | Annotated[Literal["epoch"], Tag("word")],
    _by_type("number", str="word"),
]


class BatchesOptions(Model):
    """Input of a trainer: lines become samples of ids, and samples become batches, one for each
    rank in each step."""

    fields: Fields = Field(min_length=1)
    """The fields of the lines, in order, with names of your choice: a source and a target, or one
    field."""
    holds: Literal["text", "pieces", "ids"] | None = None
    """The content of the fields: text to encode, which is the default; pieces separated by spaces;
    or ids as numbers. Ids that the stream already contains, from binary shards or a transform, are
    used unchanged."""
    bos: bool = False
    """True if each sample starts with the vocabulary's bos token."""
    eos: bool = True
    """True if each sample ends with the vocabulary's eos token. Binary shards already contain it:
    write false."""
    max_length: _Number | None = None
    """The maximum number of ids in a sample's field, including prefix, bos and eos; no limit by
    default."""
    beyond: Literal["refuse", "truncate"] = "refuse"
    """The policy for longer samples: refuse stops and reports the line's file and number; truncate
    cuts their ends."""
    unknown: Literal["replace", "refuse"] = "replace"
    """The policy for pieces missing from the vocabulary: replace by its unknown token, or refuse
    and stop."""
    max_tokens: int | None = Field(None, ge=1, le=1 << 53)
    """The maximum number of tokens in a batch with padding: rows times the longest side. Give it,
    or pack."""
    max_sentences: _Number | None = None
    """The maximum number of rows in a batch."""
    multiple: _Number = 8
    """The number of rows in a batch is a multiple of this, if that many rows fit."""
    sort: Literal["length", "sides"] = "length"
    """The order by length: length needs less padding, sides is fairseq's order."""
    noise: float = Field(0.0, ge=0, le=1)
    """Noise added to lengths before sorting, as a share of the length, so that batches differ
    between epochs."""
    longest: _Number | None = None
    """A sample with a longer side than this is in no batch; by default, longer than max_tokens."""
    shortest: _Number = 1
    """A sample whose longest side is shorter is in no batch."""
    buckets: list[_Number] | None = Field(None, min_length=1)
    """Rising lengths, such as [16, 32, 64], to which batches are padded; longer samples are too
    long. Default: any."""
    on_long: Literal["raise", "report"] = "raise"
    """The policy for a sample that is too long: raise stops and names it, report skips and counts
    it."""
    pack: PackOptions | None = None
    """Instead of max_tokens: rows of a fixed length."""
    window: Window = WINDOW
    """How many samples are sorted together, or epoch for all of an epoch; more need less padding
    but more memory."""
    shuffle: bool = True
    """True if batches, and rows of equal length, come in a random order, which depends on the seed.
    """
    pad: str = Field("<pad>", min_length=1)
    """The token that fills rows; each field uses the token's id in its own vocabulary."""
    pad_to_multiple: int = Field(1, ge=1, le=_WIDEST)
    """Widths of batches are rounded up to a multiple of this number; max_tokens counts the rounded
    widths."""
    left_pad_source: bool = True
    """True if padding comes before the source."""
    left_pad_target: bool = False
    """True if padding comes before the target."""
    dtype: Literal["int64", "int32"] = "int64"
    """The number type of ids in the arrays."""


TaskWeight = Annotated[
    Annotated[float, Tag("number")]
    | Annotated[list[float], Field(min_length=1), Tag("list")]
    | Annotated[ScheduleOptions, Tag("schedule")],
    _by_type("number", list="list", dict="schedule"),
]


class TaskScheduleOptions(Model):
    """The points at which the weights of tasks change. A task's list of weights has one weight more than there are
    points: the first applies from the start, the second from the first point on, and so on.
    """

    points: list[int] = Field(min_length=1)
    """The points, in samples, batches or updates: rising whole numbers above 0."""
    unit: Literal["samples", "batches", "updates"] = "samples"
    """The unit of the points: samples (lines of the stream), batches, or updates (several batches).
    """
    kind: ScheduleKind = "steps"
    batch_samples: int | None = Field(None, gt=0)
    """For batches and updates: the number of samples in a batch."""
    update_batches: int | None = Field(None, gt=0)
    """For updates: the number of batches in an update; 1 by default."""


class InputOptions(Model):
    """One corpus of a task: src and tgt, line-aligned, or mono.

    Each is a file or a list of files.
    """

    src: Paths | None = None
    """The source side of parallel lines."""
    tgt: Paths | None = None
    """The target side of parallel lines."""
    mono: Paths | None = None
    """Lines that have one side; globs and folders are allowed, too."""


class _TaskOptions(Model):
    type: Literal["para", "mono"]
    """para: lines have a source and a target side; mono: lines have one side."""
    split: Literal["train", "valid"] = "train"
    """train: mixed with the other tasks by weight; valid: read separately, without noise, on
    request."""
    inputs: dict[str, InputOptions] = {}
    """The task's corpora by name."""
    share_inputs: str | None = None
    """Instead of inputs: another task, whose inputs and shards this task reads."""
    weight: TaskWeight = 1.0
    """The task's share of the stream, relative to the weights of the other tasks: a number; a list
    with one weight more than the schedule has points; or a schedule of its own. With kind: linear,
    the share changes steadily between points: if a weight goes from 1 to 9, and the only other
    weight is 1, the share is 0.7 half-way."""
    src_lang: str | None = None
    """The language of the source side, for transforms that use it."""
    tgt_lang: str | None = None
    """The language of the target side."""
    extra_prefix: str | None = None
    """A further tag, such as <BT>, for transforms that write tags."""
    n_shards: int | None = Field(None, gt=0)
    """The number of shards that `volt shard` writes; by default derived from the number of lines.
    """
    transforms: Steps = []
    """The transforms of the task's lines, in this order. Fields are called src and tgt."""


class TaskOptions(ReadingOptions, _TaskOptions):
    """Lines that are all treated in the same way.

    A source's keys from `shuffle` to `blank` are allowed, too.
    """


class StreamOptions(Model):
    """A stream: sources, each with its transforms, mixed by weight."""

    sources: dict[str, SourceOptions] = {}
    """The sources by name; at least one, unless there are `each` or `tasks`."""
    each: EachOptions | None = None
    """Sources by pattern: one for each file, or pair of files, that matches."""
    tasks: dict[str, TaskOptions] = {}
    """The tasks by name, in addition to sources or instead of them; each task acts as a source of
    that name."""
    mix: MixOptions | None = None
    """Mix sources and tasks by their numbers of lines, instead of by their weights."""
    schedule: TaskScheduleOptions | None = None
    """The points at which the weights of tasks change."""
    defaults: dict[str, Any] = {}
    """Options of transforms, by the transform's name, for every task; a step's own options override
    them."""
    shards: str | None = None
    """The folder, written by `volt shard`, from which tasks are read; by default, tasks are read
    from their inputs."""
    seed: _Count = 0
    """The seed of all randomness; 0 or more."""
    ends: Literal["stop", "drop"] = "stop"
    """When a source with `epochs` ends: stop the stream, or drop the source and continue with the
    others."""
    workers: int = Field(0, ge=0, le=MOST_WORKERS)
    """The number of workers that compute ahead, at most 256; 0 for none. The output does not depend
    on it."""
    time_limit: _Factor | None = None
    """The time limit in seconds for a block if a transform is Python code; a slower block ends the
    run with an error. No limit by default. With a limit, Python code runs in a separate process,
    even with 0 workers."""
    transforms: Steps = []
    """The transforms of every source's lines, after its own transforms."""
    errors: ErrorOptions = ErrorOptions()
    """The policy for unfit lines."""
    cache: str | None = None
    """The folder for line indices and split files; by default in the user's cache folder."""
    batches: BatchesOptions | None = None
    """The samples and batches of a trainer, for `volt stream batches` and `volt.batches.Steps`."""
