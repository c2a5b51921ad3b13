"""What a configuration may say of batches: the models that check it. Their docstrings are its documentation.

>>> BatchesOptions(fields={"src": "joint.volt"}, max_tokens=4096).window
16384
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from volt.stream.config.models import Model

WINDOW = 1 << 14  # samples
_MOST = (1 << 31) - 1  # ids, rows or samples
_WIDEST = 1 << 16  # ids that a width is a multiple of


def _kind_of_field(value: object) -> str:
    return "mapping" if isinstance(value, dict) else "path"


def _kind_of_window(value: object) -> str:
    return "word" if isinstance(value, str) else "number"


class FieldOptions(Model):
    """What numbers the tokens of a field. A path alone is short for {vocabulary: path}."""

    vocabulary: str
    """A vocabulary, of VOLT or of another library, or a SentencePiece model."""
    prefix: list[str] = Field(default=[])
    """Tokens that stand in front of every sample of the field, such as the language that is wanted: ["<2en>"]."""


class PackOptions(Model):
    """Rows of a fixed length, each of several samples laid end to end, for language models."""

    length: int = Field(ge=1, le=1 << 24)
    """Ids of a row."""
    rows: int = Field(ge=1, le=1 << 24)
    """Rows of a batch."""
    on_long: Literal["raise", "report", "split"] = "raise"
    """What becomes of a sample with more ids than a row: raise stops, report leaves it out and counts it, split cuts it
    into rows."""


Fields = dict[
    str,
    Annotated[
        Annotated[str, Tag("path")] | Annotated[FieldOptions, Tag("mapping")],
        Discriminator(_kind_of_field),
    ],
]
Window = Annotated[
    Annotated[int, Field(ge=1, le=_MOST), Tag("number")] | Annotated[Literal["epoch"], Tag("word")],
    Discriminator(_kind_of_window),
]


class BatchesOptions(Model):
    """What a trainer gets: lines as samples of ids, and samples in batches, one for each rank in each step."""

    fields: Fields = Field(min_length=1)
    """The fields of the lines, in their order, by names that are yours: source and target, or one alone for a language
    model. Each has a vocabulary."""
    holds: Literal["text", "pieces", "ids"] | None = None
    """What the fields hold: text to be encoded, which is the default; pieces with spaces between them; or ids as
    numbers. What is ids in the stream already, of binary shards or of a transform, is taken as it is."""
    bos: bool = False
    """Whether each sample starts with the vocabulary's token for that."""
    eos: bool = True
    """Whether each sample ends with the vocabulary's token for that. Binary shards have it already: say false."""
    max_length: int | None = Field(None, ge=1, le=_MOST)
    """The most ids of a field of a sample, prefix and ends among them; any number by default."""
    beyond: Literal["refuse", "truncate"] = "refuse"
    """What becomes of a longer one: refuse stops with the line's place, truncate cuts it at its end."""
    unknown: Literal["replace", "refuse"] = "replace"
    """What becomes of pieces that the vocabulary lacks: replace by its unknown token, or refuse and stop."""
    max_tokens: int | None = Field(None, ge=1, le=1 << 53)
    """The most tokens of a batch, which are its rows times its longest side, so with padding. Give it, or pack."""
    max_sentences: int | None = Field(None, ge=1, le=_MOST)
    """The most rows of a batch."""
    multiple: int = Field(8, ge=1, le=_MOST)
    """The number of rows of a batch is a multiple of it, where so many fit."""
    sort: Literal["length", "sides"] = "length"
    """How rows of like length come together: length leaves less padding, sides is fairseq's order."""
    noise: float = Field(0.0, ge=0, le=1)
    """How far lengths are blurred before rows are sorted, as a share of them, so that batches mix anew each time."""
    longest: int | None = Field(None, ge=1, le=_MOST)
    """A sample with a longer side is in no batch; by default one with more than max_tokens."""
    shortest: int = Field(1, ge=1, le=_MOST)
    """A sample whose longest side is shorter is in no batch."""
    buckets: list[Annotated[int, Field(ge=1, le=_MOST)]] | None = Field(None, min_length=1)
    """Lengths that rise, such as [16, 32, 64]: batches are padded to one of them, so that arrays have few widths, and a
    sample beyond the last is too long. Any width by default."""
    on_long: Literal["raise", "report"] = "raise"
    """What becomes of a sample that is too long: raise stops with its name, report leaves it out and counts it."""
    pack: PackOptions | None = None
    """Instead of max_tokens: rows of one length."""
    window: Window = WINDOW
    """How many samples are sorted together before batches are made of them, or epoch, for all of an epoch. More
    samples leave less padding, and take memory."""
    shuffle: bool = True
    """Whether batches, and rows of equal length, come in a random order that follows from the seed."""
    pad: str = Field("<pad>", min_length=1)
    """The token that fills rows; each field has the id that its vocabulary gives it."""
    pad_to_multiple: int = Field(1, ge=1, le=_WIDEST)
    """The widths of a batch are multiples of it, and max_tokens bounds these widths."""
    left_pad_source: bool = True
    """Whether padding stands in front of the source."""
    left_pad_target: bool = False
    """Whether padding stands in front of the target."""
    dtype: Literal["int64", "int32"] = "int64"
    """Of ids in the arrays."""
