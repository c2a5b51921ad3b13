"""Turn lines into samples: the ids of each field, `[BOS] [prefix …] id … id [EOS]`.

`SampleFormat` encodes the columns of a batch of lines, such as source and target. The result,
`Samples`, contains the ids of all lines, one after the other, where each line's ids start, and the
number of each line in the stream:

    "lo w\tw" → src: ids [4, 5, 2], offsets [0, 3];  tgt: ids [5, 2], offsets [0, 2];  numbers [0]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np

from volt import arguments
from volt.array_types import Flags, Longs
from volt.batches.argument_checks import check_option
from volt.batches.numbering import Numbering, numbering_of
from volt.display import counted
from volt.encode.batch_encoder import Encoded
from volt.errors import ConfigError, StreamError, quoted
from volt.stream.running.stream_batch import StreamBatch
from volt.stream.transforms.column import Column, make_read_only
from volt.stream.transforms.line_batch import Batch

MOST_ID = (1 << 31) - 1
DescribeLine = Callable[[int], str]  # index of a line in its batch → FILE:LINE


class Parts(NamedTuple):
    """The position of each sample in its line.

    starts: (n,) int64, how many ids of the line come before a sample
    before: (n,) int64, the last of these ids; -1 at the start of a line
    is_last: (n,) bool, whether the line ends with the sample
    """

    starts: Longs
    before: Longs
    is_last: Flags

    @classmethod
    def whole(cls, n: int) -> Self:
        """Return the parts of `n` samples that are whole lines."""
        return cls(
            starts=np.zeros(n, np.int64),
            before=np.full(n, -1),
            is_last=np.ones(n, np.bool_),
        )

    def take(self, rows: Longs) -> Parts:
        """Return the parts of the samples at `rows`."""
        return Parts(self.starts[rows], self.before[rows], self.is_last[rows])


Holds = Literal["text", "pieces", "ids"]
Beyond = Literal["refuse", "truncate"]
Unknown = Literal["replace", "refuse"]


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of ids: one for each line, or several after `cut_samples`.

    fields: name → the ids of all samples, and where each sample starts
    numbers: (n,) int64, the number of each sample's line in the stream
    parts: the position of each sample in its line; None if all samples are whole lines

    >>> Samples.of({"src": [[5, 2], [2]]}).lengths.tolist()
    [[2], [1]]
    """

    fields: Mapping[str, Encoded]
    numbers: Longs
    parts: Parts | None = None

    def __repr__(self) -> str:
        return f"<Samples: {counted(len(self), 'sample')} of {', '.join(self.fields)}>"

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, name: str) -> Encoded:
        if name not in self.fields:
            raise ConfigError(
                f"no field {quoted(str(name))} in these samples; choose from {', '.join(self.fields)}"
            )
        return self.fields[name]

    @classmethod
    def of(
        cls, fields: Mapping[str, Iterable[Sequence[int]]], numbers: Sequence[int] | None = None
    ) -> Samples:
        """Return samples with these ids.

        fields: name → the ids of each sample
        numbers: line numbers; by default 0, 1, …
        """
        flat = {
            name: _flatten(name, rows) for name, rows in arguments.mapping(fields, "fields").items()
        }
        n_samples = {name: len(encoded) for name, encoded in flat.items()}
        if len({*n_samples.values()}) != 1:
            raise ConfigError(
                f"the fields have {n_samples or 'no'} samples; give one or more fields of equal size"
            )
        n = max(n_samples.values())
        if numbers is None:
            return cls(flat, np.arange(n))
        line_numbers = np.array(arguments.wholes(numbers, "numbers"), np.int64)
        if len(line_numbers) != n:
            raise ConfigError(f"{len(line_numbers)} numbers for {n} samples; give one for each")
        return cls(flat, line_numbers)

    @property
    def lengths(self) -> Longs:
        """(n, n_fields) int64, the number of ids."""
        lengths = [np.diff(encoded.offsets) for encoded in self.fields.values()]
        return np.stack(lengths, axis=1)

    def parts_of(self, rows: Longs) -> Parts:
        """Return the parts of the samples at `rows`, also if all samples are whole lines."""
        if self.parts is None:
            return Parts.whole(len(rows))
        return self.parts.take(rows)


def joined_samples(parts: Sequence[Samples]) -> Samples:
    """Concatenate samples.

    parts: samples with the same fields

    >>> joined_samples([Samples.of({"src": [[5, 2]]}), Samples.of({"src": [[2]]}, numbers=[7])]).numbers.tolist()
    [0, 7]
    """
    inputs: list[Samples] = arguments.several(parts, "parts", one="give a list of Samples")
    if not inputs:
        raise ConfigError("no samples to join; give one part or more")
    for index, part in enumerate(inputs):
        arguments.instance(part, Samples, f"parts[{index}]")
    fields_of_parts = {", ".join(part.fields) for part in inputs}
    if len(fields_of_parts) > 1:
        names = " and ".join(f"({fields})" for fields in sorted(fields_of_parts))
        raise ConfigError(f"samples of {names} cannot be joined; make them with one SampleFormat")
    if len(inputs) == 1:
        return inputs[0]
    joined = dict[str, Encoded]()
    for name in inputs[0].fields:
        joined[name] = _concatenate([part.fields[name] for part in inputs])
    numbers = np.concatenate([part.numbers for part in inputs])
    if all(part.parts is None for part in inputs):
        return Samples(joined, numbers)
    all_parts = [part.parts or Parts.whole(len(part)) for part in inputs]
    columns = map(np.concatenate, zip(*all_parts, strict=True))
    return Samples(joined, numbers, Parts(*columns))


def taken_samples(samples: Samples, rows: Longs) -> Samples:
    """Return some samples, with copies of their ids.

    rows: (n,) int64, indices in any order

    >>> taken_samples(Samples.of({"src": [[5, 2], [2], [6, 2]]}), np.array([0, 2]))["src"].ids.tolist()
    [5, 2, 6, 2]
    """
    arguments.instance(samples, Samples, "samples")
    fields = dict[str, Encoded]()
    for name, encoded in samples.fields.items():
        column = Column.of_ids(encoded.ids, encoded.offsets).take(rows).compact()
        offsets = np.append(column.starts, len(column.data))
        fields[name] = Encoded(column.data, offsets)
    parts = None if samples.parts is None else samples.parts.take(rows)
    return Samples(fields, samples.numbers[rows], parts)


def _concatenate(parts: Sequence[Encoded]) -> Encoded:
    offsets = list[Longs]()
    n_ids = 0
    for part in parts:
        offsets.append(part.offsets[:-1] + n_ids)
        n_ids += len(part.ids)
    ids = np.concatenate([part.ids for part in parts])
    return Encoded(make_read_only(ids), np.concatenate([*offsets, [n_ids]]))


def _flatten(name: str, rows: Iterable[Sequence[int]]) -> Encoded:
    lists = list[list[int]]()
    for index, row in enumerate(arguments.several(rows, name)):
        ids = arguments.wholes(row, f"{name}[{index}]")
        for id_ in ids:
            if not 0 <= id_ <= MOST_ID:
                raise ConfigError(
                    f"{name}[{index}] contains the id {id_}; ids go from 0 to {MOST_ID:,}"
                )
        lists.append(ids)
    flat = np.array([*chain.from_iterable(lists)], np.int32)
    return Encoded(make_read_only(flat), np.cumsum([0, *map(len, lists)]))


@dataclass(frozen=True, slots=True)
class SampleFormat:
    r"""The format of samples: how lines become ids.

    vocabularies: name of each field, in order → a vocabulary or encoder, the path of a vocabulary
        or SentencePiece model, or a list of tokens with <unk>, <s> and </s>
    holds: content of the fields: "text" to encode, "pieces" separated by spaces, or "ids" in
        decimal; by default "pieces" if the vocabulary is a list of tokens, else "text". A column of
        ids is used unchanged.
    bos, eos: whether to add BOS and EOS. Binary shards contain EOS already: set eos=False.
    prefix: name of the field → the tokens between BOS and the tokens of the line
    max_length: maximum number of ids in a field, including BOS, prefix and EOS
    beyond: action for a longer field: "refuse" it, or "truncate" the ids of the line
    unknown: action for unknown pieces: "replace" them by <unk>, or "refuse" them

    >>> tokens = ["<unk>", "<s>", "</s>", "<2de>", "lo", "w"]
    >>> pairs = SampleFormat({"src": tokens, "tgt": tokens}, prefix={"src": ["<2de>"]}, max_length=9)
    >>> samples = pairs.samples(Batch.of(["lo w\tw", "w\tlo lo"]))
    >>> pairs, samples, samples["src"][0].tolist()
    (<SampleFormat: src, tgt, with EOS, at most 9 ids>, <Samples: 2 samples of src, tgt>, [3, 4, 5, 2])
    """

    vocabularies: Mapping[str, Any]
    holds: Holds | None = None
    bos: bool = False
    eos: bool = True
    prefix: Mapping[str, Sequence[str]] = field(default_factory=dict)
    max_length: int | None = None
    beyond: Beyond = "refuse"
    unknown: Unknown = "replace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabularies", _read_numberings(self.vocabularies))
        for name in ("bos", "eos"):
            check_option(self, name, arguments.flag)
        check_option(self, "max_length", arguments.whole, can_lack=True, low=1, high=MOST_ID)
        for name, choices in (("beyond", Beyond), ("unknown", Unknown), ("holds", Holds)):
            check_option(
                self, name, arguments.choice, can_lack=name == "holds", choices=get_args(choices)
            )
        for name in arguments.mapping(self.prefix, "prefix"):
            if name not in self.vocabularies:
                raise ConfigError(
                    f"prefix: no field {quoted(str(name))}; choose from {', '.join(self.vocabularies)}"
                )
        for name, numbering in self.vocabularies.items():
            if self.holds == "text" and numbering.encode is None:
                fault = f"a list of tokens cannot encode text, so field {quoted(name)} must hold pieces or ids"
                raise ConfigError(f"holds: {fault}")
            n_added = sum(map(len, self._added_ids(name)))
            if self.max_length is not None and self.max_length <= n_added:
                raise ConfigError(
                    f"max_length is {self.max_length}, and BOS, prefix and EOS of {name} take {n_added}; "
                    f"give {n_added + 1:,} or more"
                )

    def __repr__(self) -> str:
        text = ", ".join(self.vocabularies)
        if self.bos or self.eos:
            roles = ["BOS"] * self.bos + ["EOS"] * self.eos
            text += f", with {', '.join(roles)}"
        if self.max_length is not None:
            text += f", at most {counted(self.max_length, 'id')}"
        return f"<SampleFormat: {text}>"

    def samples(self, batch: Batch | StreamBatch) -> Samples:
        """Return a sample for each line.

        Raises StreamError, with the line's position, if a line does not fit.

        batch: a batch of `Stream.batches`, or a `Batch` of lines; samples of a `Batch` are numbered
            from 0
        """
        if not isinstance(batch, StreamBatch):
            lines = arguments.instance(batch, Batch, "batch")
            batch = StreamBatch(lines, 0, *np.zeros((2, len(lines)), np.int64))
        columns = batch.lines.split(len(self.vocabularies)).columns
        fields = {
            name: self._encode_field(name, column, batch.place)
            for name, column in zip(self.vocabularies, columns, strict=False)
        }
        return Samples(fields, batch.numbers)

    def _added_ids(self, name: str) -> tuple[list[Any], list[Any]]:
        """Return the ids before (BOS and prefix) and after (EOS) the ids of a line, for one
        field."""
        numbering: Numbering = self.vocabularies[name]
        remedy = f"did you mean prefix={{{name!r}: [token]}}?"
        prefix = arguments.texts(self.prefix.get(name, ()), "prefix", one=remedy)
        for token in prefix:
            if token not in numbering.ids:
                raise ConfigError(
                    f"prefix: no token {quoted(token)} in the vocabulary of {name}; add it"
                )
        for role in ("bos", "eos"):
            if getattr(self, role) and getattr(numbering, role) is None:
                raise ConfigError(
                    f"the vocabulary of {name} has no {role.upper()}; turn {role} off, or add the token"
                )
        before: list[Any] = [numbering.ids[token] for token in prefix]
        if self.bos:
            before.insert(0, numbering.bos)
        return before, [numbering.eos] * self.eos

    def _encode_field(self, name: str, column: Column, describe: DescribeLine) -> Encoded:
        from volt.kernels.batching import frame_ids

        if not column.present.all():
            line = describe(int(np.argmin(column.present)))
            raise StreamError(
                f"{line}: has no field {quoted(name)}; drop such lines with the filter bitext"
            )
        ids = self._read_ids(name, column, describe)
        before, after = (
            make_read_only(np.array(added, np.int32)) for added in self._added_ids(name)
        )
        n_added = len(before) + len(after)
        sizes = self._limit_sizes(name, ids.sizes, n_added, describe)
        offsets = np.concatenate([[0], np.cumsum(sizes + n_added)])
        framed = np.empty(int(offsets[-1]), np.int32)
        n_tokens = len(self.vocabularies[name])
        bad = frame_ids(ids.data, ids.starts, sizes, before, after, n_tokens, framed)
        if bad >= 0:
            line_ids = framed[offsets[bad] + len(before) : offsets[bad + 1] - len(after)]
            bad_id = line_ids[(line_ids < 0) | (line_ids >= n_tokens)][0]
            fault = f"the id {bad_id} in field {quoted(name)} is not in its vocabulary (0 to {n_tokens - 1:,})"
            raise StreamError(f"{describe(bad)}: {fault}; give the vocabulary that made it")
        return Encoded(make_read_only(framed), offsets)

    def _limit_sizes(self, name: str, sizes: Longs, n_added: int, describe: DescribeLine) -> Longs:
        """Return how many ids of each line are used.

        Raises StreamError if long lines are refused.
        """
        if self.max_length is None:
            return sizes
        max_size = self.max_length - n_added
        is_long = sizes > max_size
        if self.beyond == "refuse" and is_long.any():
            line = int(np.argmax(is_long))
            fault = f"has {sizes[line] + n_added:,} ids, more than {self.max_length:,}"
            remedy = "drop such lines with the filter length, or set beyond to truncate in batches"
            raise _field_error(describe(line), name, fault, remedy)
        return np.minimum(sizes, max_size)

    def _read_ids(self, name: str, column: Column, describe: DescribeLine) -> Column:
        """Return the ids of a column of text, pieces or ids."""
        numbering: Numbering = self.vocabularies[name]
        holds = self.holds or ("pieces" if numbering.encode is None else "text")
        if column.is_ids or holds == "ids":
            ids = column if column.is_ids else _parse_ids(name, column, describe)
            self._check_eos(name, numbering, ids)
            return ids
        if holds == "text" and numbering.encode is not None:
            ids = numbering.encode(column)
        else:
            ids = numbering.look_up(column)
        if len(ids) != len(column):
            place = f"at or after {describe(0)}"
            raise _field_error(place, name, "contains a line break", "drop such lines")
        if numbering.unk is None or self.unknown == "refuse":
            is_unknown = ids.data == numbering.unknown
            if is_unknown.any():
                index = int(np.argmax(is_unknown))
                line = int(np.searchsorted(ids.starts, index, side="right")) - 1
                fault = "contains text that its vocabulary cannot spell"
                if holds == "pieces":
                    [text] = column.take([line]).strings()
                    pieces = [piece for piece in text.split(" ") if piece]
                    piece = pieces[index - int(ids.starts[line])]
                    fault = f"contains the piece {quoted(piece)}, which its vocabulary lacks"
                remedy = "fix the line, use the vocabulary that made it, or set unknown to replace"
                raise _field_error(describe(line), name, fault, f"{remedy} in batches")
        return ids

    def _check_eos(self, name: str, numbering: Numbering, ids: Column) -> None:
        """Raise ConfigError if all lines end in EOS, and another EOS would be added."""
        if not self.eos or len(ids) < 2 or not (ids.sizes > 0).all():
            return
        last_ids = ids.data[ids.starts + ids.sizes - 1]
        if (last_ids == numbering.eos).all():
            raise ConfigError(
                f"the ids of field {quoted(name)} end in EOS already; set eos to false in batches"
            )


def _read_numberings(vocabularies: Mapping[str, Any]) -> dict[str, Numbering]:
    """Return the numbering of each field; fields with the same vocabulary share one."""
    remedy = 'give a dict of names and vocabularies, such as {"src": vocabulary, "tgt": vocabulary}'
    inputs = arguments.mapping(vocabularies, "vocabularies", remedy=remedy)
    if not inputs:
        raise ConfigError(f"vocabularies is empty; {remedy}")
    numberings = dict[int, Numbering]()
    for name, vocabulary in inputs.items():
        if id(vocabulary) not in numberings:
            numberings[id(vocabulary)] = numbering_of(vocabulary, name)
    return {name: numberings[id(vocabulary)] for name, vocabulary in inputs.items()}


def _parse_ids(name: str, column: Column, describe: DescribeLine) -> Column:
    from volt.kernels.decode import parse_ids

    text = column.text().tobytes()
    ids = np.empty(len(text) // 2, np.int32)
    offsets = np.zeros(len(column) + 1, np.int64)
    bad_byte = parse_ids(np.frombuffer(text, np.uint8), MOST_ID, ids, offsets)
    if bad_byte >= 0:
        line = text[:bad_byte].count(b"\n")
        remedy = "write whole numbers, or change holds in batches"
        raise _field_error(describe(line), name, "contains text that is not an id", remedy)
    return Column.of_ids(ids[: offsets[-1]], offsets)


def _field_error(line: str, name: str, fault: str, remedy: str) -> StreamError:
    return StreamError(f"{line}: field {quoted(name)} {fault}; {remedy}")
