"""Lines as columns → the ids of each field, `[BOS] [prefix …] id … id [EOS]`, and the number of
each line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.batches.argument_checks import Longs, check_option
from volt.batches.numbering import Numbering, numbering_of
from volt.display import counted
from volt.encode.batch_encoder import Encoded
from volt.errors import ConfigError, StreamError, quoted
from volt.stream.running.stream_batch import StreamBatch
from volt.stream.transforms.column import Column, make_read_only
from volt.stream.transforms.line_batch import Batch


class Parts(NamedTuple):
    """The position of each sample in its line.

    starts: (n,) int64, how many ids of the line come before a sample
    before: (n,) int64, the last of these ids; -1 at the start of a line
    is_last: (n,) bool, whether the line ends with the sample
    """

    starts: Longs
    before: Longs
    is_last: NDArray[np.bool_]

    @classmethod
    def whole(cls, n: int) -> Self:
        """Return the parts of `n` samples that are whole lines."""
        return cls(
            starts=np.zeros(n, np.int64),
            before=np.full(n, -1),
            is_last=np.ones(n, np.bool_),
        )

    def taken(self, rows: Longs) -> Parts:
        """Return the parts of the samples at `rows`."""
        return Parts(self.starts[rows], self.before[rows], self.is_last[rows])


Holds = Literal["text", "pieces", "ids"]
Beyond = Literal["refuse", "truncate"]
Unknown = Literal["replace", "refuse"]
Place = Callable[[int], str]
MOST_ID = (1 << 31) - 1


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
            name: _flat(name, rows) for name, rows in arguments.mapping(fields, "fields").items()
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
        return self.parts.taken(rows)


def joined_samples(parts: Sequence[Samples]) -> Samples:
    """Concatenate samples.

    parts: samples with the same fields

    >>> joined_samples([Samples.of({"src": [[5, 2]]}), Samples.of({"src": [[2]]}, numbers=[7])]).numbers.tolist()
    [0, 7]
    """
    inputs: list[Samples] = arguments.several(parts, "parts", one="give a list of Samples")
    if not inputs:
        raise ConfigError("no samples to join; give one part or more")
    for place, part in enumerate(inputs):
        arguments.instance(part, Samples, f"parts[{place}]")
    fields_of_parts = {", ".join(part.fields) for part in inputs}
    if len(fields_of_parts) > 1:
        names = " and ".join(f"({fields})" for fields in sorted(fields_of_parts))
        raise ConfigError(f"samples of {names} cannot be joined; make them with one SampleFormat")
    if len(inputs) == 1:
        return inputs[0]
    fields = dict[str, Encoded]()
    for name in inputs[0].fields:
        fields[name] = _joined([part.fields[name] for part in inputs])
    numbers = np.concatenate([part.numbers for part in inputs])
    if all(part.parts is None for part in inputs):
        return Samples(fields, numbers)
    several = [part.parts or Parts.whole(len(part)) for part in inputs]
    columns = map(np.concatenate, zip(*several, strict=True))
    return Samples(fields, numbers, Parts(*columns))


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
    parts = None if samples.parts is None else samples.parts.taken(rows)
    return Samples(fields, samples.numbers[rows], parts)


def _joined(parts: Sequence[Encoded]) -> Encoded:
    offsets = list[Longs]()
    n_ids = 0
    for part in parts:
        offsets.append(part.offsets[:-1] + n_ids)
        n_ids += len(part.ids)
    ids = np.concatenate([part.ids for part in parts])
    return Encoded(make_read_only(ids), np.concatenate([*offsets, [n_ids]]))


def _flat(name: str, rows: Iterable[Sequence[int]]) -> Encoded:
    lists = list[list[int]]()
    for place, row in enumerate(arguments.several(rows, name)):
        ids = arguments.wholes(row, f"{name}[{place}]")
        for number in ids:
            if not 0 <= number <= MOST_ID:
                raise ConfigError(
                    f"{name}[{place}] contains the id {number}; ids go from 0 to {MOST_ID:,}"
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
        remedy = (
            'give a dict of names and vocabularies, such as {"src": vocabulary, "tgt": vocabulary}'
        )
        inputs = arguments.mapping(self.vocabularies, "vocabularies", remedy=remedy)
        if not inputs:
            raise ConfigError(f"vocabularies is empty; {remedy}")
        loaded = dict[int, Numbering]()  # fields with the same vocabulary share a numbering
        for name, vocabulary in inputs.items():
            if id(vocabulary) not in loaded:
                loaded[id(vocabulary)] = numbering_of(vocabulary, name)
        numberings = {name: loaded[id(vocabulary)] for name, vocabulary in inputs.items()}
        object.__setattr__(self, "vocabularies", numberings)
        for name in ("bos", "eos"):
            check_option(self, name, arguments.flag)
        check_option(self, "max_length", arguments.whole, can_lack=True, low=1, high=MOST_ID)
        for name, choices in (("beyond", Beyond), ("unknown", Unknown), ("holds", Holds)):
            check_option(
                self, name, arguments.choice, can_lack=name == "holds", choices=get_args(choices)
            )
        for name in arguments.mapping(self.prefix, "prefix"):
            if name not in numberings:
                raise ConfigError(
                    f"prefix: no field {quoted(str(name))}; choose from {', '.join(numberings)}"
                )
        for name, numbering in numberings.items():
            if self.holds == "text" and numbering.encode is None:
                fault = f"a list of tokens cannot encode text, so field {quoted(name)} must hold pieces or ids"
                raise ConfigError(f"holds: {fault}")
            n_frame = sum(map(len, self._frame(name)))
            if self.max_length is not None and self.max_length <= n_frame:
                fault = f"max_length is {self.max_length}, and BOS, prefix and EOS of {name} take {n_frame}"
                raise ConfigError(f"{fault}; give {n_frame + 1:,} or more")

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
            name: self._field(name, column, batch.place)
            for name, column in zip(self.vocabularies, columns, strict=False)
        }
        return Samples(fields, batch.numbers)

    def _frame(self, name: str) -> tuple[list[Any], list[Any]]:
        """Return the ids before and after the ids of a line."""
        numbering: Numbering = self.vocabularies[name]
        prefix = arguments.texts(
            self.prefix.get(name, ()), "prefix", one=f"did you mean prefix={{{name!r}: [token]}}?"
        )
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
        head: list[Any] = [numbering.ids[token] for token in prefix]
        if self.bos:
            head.insert(0, numbering.bos)
        return head, [numbering.eos] * self.eos

    def _field(self, name: str, column: Column, place: Place) -> Encoded:
        if not column.present.all():
            line = place(int(np.argmin(column.present)))
            raise StreamError(
                f"{line}: has no field {quoted(name)}; drop such lines with the filter bitext"
            )
        from volt.kernels.batching import frame_ids

        ids = self._ids(name, column, place)
        head, tail = (make_read_only(np.array(frame, np.int32)) for frame in self._frame(name))
        n_frame = len(head) + len(tail)
        sizes = ids.sizes
        if self.max_length is not None:
            most = self.max_length - n_frame
            is_long = sizes > most
            if self.beyond == "refuse" and is_long.any():
                first = int(np.argmax(is_long))
                fault = f"has {sizes[first] + n_frame:,} ids, more than {self.max_length:,}"
                remedy = (
                    "drop such lines with the filter length, or set beyond to truncate in batches"
                )
                raise _fault(place(first), name, fault, remedy)
            sizes = np.minimum(sizes, most)

        offsets = np.concatenate([[0], np.cumsum(sizes + n_frame)])
        framed = np.empty(int(offsets[-1]), np.int32)
        n_tokens = len(self.vocabularies[name])
        bad = frame_ids(ids.data, ids.starts, sizes, head, tail, n_tokens, framed)
        if bad >= 0:
            of_line = framed[offsets[bad] + len(head) : offsets[bad + 1] - len(tail)]
            bad_id = of_line[(of_line < 0) | (of_line >= n_tokens)][0]
            fault = f"the id {bad_id} in field {quoted(name)} is not in its vocabulary (0 to {n_tokens - 1:,})"
            raise StreamError(f"{place(bad)}: {fault}; give the vocabulary that made it")
        return Encoded(make_read_only(framed), offsets)

    def _ids(self, name: str, column: Column, place: Place) -> Column:
        numbering: Numbering = self.vocabularies[name]
        if column.is_ids:
            return self._taken(name, numbering, column)
        holds = self.holds or ("pieces" if numbering.encode is None else "text")
        if holds == "ids":
            return self._taken(name, numbering, _parsed(name, column, place))
        if holds == "text" and numbering.encode is not None:
            ids = numbering.encode(column)
        else:
            ids = numbering.looked_up(column)
        if len(ids) != len(column):
            raise _fault(
                f"at or after {place(0)}", name, "contains a line break", "drop such lines"
            )
        if numbering.unk is None or self.unknown == "refuse":
            is_unknown = ids.data == numbering.unknown
            if is_unknown.any():
                first = int(np.argmax(is_unknown))
                bounds = np.append(ids.starts, len(ids.data))
                line = int(np.searchsorted(bounds, first, side="right")) - 1
                fault = "contains text that its vocabulary cannot spell"
                if holds == "pieces":
                    [value] = column.take([line]).strings()
                    pieces = [piece for piece in value.split(" ") if piece]
                    piece = pieces[first - int(bounds[line])]
                    fault = f"contains the piece {quoted(piece)}, which its vocabulary lacks"
                remedy = "fix the line, use the vocabulary that made it, or set unknown to replace"
                raise _fault(place(line), name, fault, f"{remedy} in batches")
        return ids

    def _taken(self, name: str, numbering: Numbering, column: Column) -> Column:
        """Return ids unchanged. Raises ConfigError if all samples would end in EOS twice."""
        if not self.eos or len(column) < 2 or not (column.sizes > 0).all():
            return column
        last_ids = column.data[column.starts + column.sizes - 1]
        if (last_ids == numbering.eos).all():
            raise ConfigError(
                f"the ids of field {quoted(name)} end in EOS already; set eos to false in batches"
            )
        return column


def _parsed(name: str, column: Column, place: Place) -> Column:
    from volt.kernels.decode import parse_ids

    text = column.text().tobytes()
    ids = np.empty(len(text) // 2, np.int32)
    offsets = np.zeros(len(column) + 1, np.int64)
    fault = parse_ids(np.frombuffer(text, np.uint8), MOST_ID, ids, offsets)
    if fault >= 0:
        line = text[:fault].count(b"\n")
        raise _fault(
            place(line),
            name,
            "contains text that is not an id",
            "write whole numbers, or change holds in batches",
        )
    return Column.of_ids(ids[: offsets[-1]], offsets)


def _fault(line: str, name: str, fault: str, remedy: str) -> StreamError:
    return StreamError(f"{line}: field {quoted(name)} {fault}; {remedy}")
