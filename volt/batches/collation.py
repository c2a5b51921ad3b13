"""Lay out the samples of a batch, or its packs, as the padded arrays of one step, as in fairseq.

    src_tokens            PAD PAD  a   b  EOS    the source, padded on the left
    prev_output_tokens    EOS  x   y   z  PAD    the id before each id of the target
    target                 x   y   z  EOS PAD    the target, padded on the right

For samples of one field, the field is the target, and `src_tokens` has the id before each id. In a
pack, several samples follow each other in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from volt import arguments
from volt.array_types import Array, Flags, Ints, Longs
from volt.batches.argument_checks import WIDEST, check_option
from volt.batches.samples import MOST_ID, SampleFormat, Samples
from volt.encode.batch_encoder import Encoded
from volt.errors import ArgumentError, ConfigError, StreamError, missing, quoted

Arrays = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the arrays of a step. Packs use only `pad` and `dtype`.

    pad: the id that fills rows, or field name → id; by default the id of each field's <pad>
    left_pad_source, left_pad_target: whether padding is on the left
    pad_to_multiple: widths are rounded up to a multiple of this
    dtype: dtype of ids

    >>> Layout(dtype="int32").left_pad_source
    True
    """

    pad: int | Mapping[str, int] | None = None
    left_pad_source: bool = True
    left_pad_target: bool = False
    pad_to_multiple: int = 1
    dtype: Literal["int64", "int32"] = "int64"

    def __post_init__(self) -> None:
        pads = self.pad.values() if isinstance(self.pad, Mapping) else [self.pad]
        for pad in pads:
            if pad is not None:
                arguments.whole(pad, "pad", low=0, high=MOST_ID)
        check_option(self, "pad_to_multiple", arguments.whole, low=1, high=WIDEST)
        check_option(self, "dtype", arguments.choice, choices=("int64", "int32"))

    def of(self, samples: SampleFormat, *, packed: bool = False) -> Arrays:
        """Return the arguments of `collate` or `collate_packed`.

        Raises ConfigError if a vocabulary lacks <pad> or EOS.

        samples: the format of samples
        packed: whether rows are packs

        >>> Layout(pad_to_multiple=8).of(SampleFormat({"text": ["<s>", "<pad>", "</s>", "lo"]}))["pad"]
        {'text': 1}
        """
        _, target = _source_and_target(samples.vocabularies)
        eos = samples.vocabularies[target].eos
        if eos is None:
            raise ConfigError(
                f"the vocabulary of {target} has no EOS to end targets with; add the token </s>"
            )
        pad = self.pad
        if pad is None:
            pad = {}
            for name, numbering in samples.vocabularies.items():
                if numbering.pad is None:
                    raise ConfigError(
                        f"the vocabulary of {quoted(name)} has no <pad>; "
                        "add the token, or set pad to an id"
                    )
                pad[name] = numbering.pad
        if packed:
            return {"pad": pad, "eos": eos, "dtype": self.dtype}
        return {**asdict(self), "pad": pad, "eos": eos}


Ids = Array  # int64 or int32
Rows = Iterable[int] | Longs
PerField = int | Mapping[str, int]  # one number for all fields, or field name → number


class _Side(NamedTuple):
    """The arrays of one field of a batch. A row contains samples, and padding at one end.

    tokens: (n_rows, width) the ids
    before: (n_rows, width) the id before each id in its line; empty if not requested
    mask: (n_rows, width) bool, False for padding
    positions: (n_rows, width) int64, the index of each id in its sample or in the padding; empty if
        rows are not packs
    starts: (n_segments + 1,) int32, where samples and padding start in the flat arrays, and the end
    """

    tokens: Ids
    before: Ids
    mask: Flags
    positions: Longs
    starts: Ints


def collate(
    samples: Samples,
    rows: Rows,
    *,
    pad: PerField,
    eos: PerField,
    left_pad_source: bool = True,
    left_pad_target: bool = False,
    width: PerField | None = None,
    pad_to_multiple: int = 1,
    dtype: DTypeLike = np.int64,
) -> Arrays:
    """Return the arrays of one step. Raises StreamError if a target does not end in EOS.

    samples: samples with a source and a target, or with one field for a language model
    rows: indices of the samples of the batch, in order
    pad: the id that fills rows, or field name → id
    eos: the id that ends each target and starts its input, or field name → id
    left_pad_source, left_pad_target: whether padding is on the left
    width: the width of the arrays, or field name → width; by default the length of the longest row
    pad_to_multiple: widths are rounded up to a multiple of this
    dtype: dtype of ids, int64 or int32
    Returns `id` (the samples' numbers in the stream), `nsentences`, `ntokens` (of the target),
    `target`, `src_mask` and `tgt_mask` (true for ids), and `net_input` with `src_tokens`,
    `src_lengths` and `prev_output_tokens`. For one field, `src_tokens` has the id before each id of
    `target`, and there is no `prev_output_tokens`.

    >>> step = collate(Samples.of({"text": [[5, 6, 2]]}), [0], pad=1, eos=2, pad_to_multiple=4)
    >>> step["net_input"]["src_tokens"].tolist(), step["target"].tolist()
    ([[2, 5, 6, 1]], [[5, 6, 2, 1]])
    """
    source, target = _source_and_target(arguments.instance(samples, Samples, "samples").fields)
    indices = _check_rows(rows, len(samples))
    pads = _values_of(pad, "pad", samples)
    eos_id = _value_of(eos, target, "eos", samples)
    multiple = arguments.whole(pad_to_multiple, "pad_to_multiple", low=1)
    widths = {} if width is None else _values_of(width, "width", samples)

    def lay_out(field: str, **options: Any) -> _Side:
        row_ends = np.arange(1, len(indices) + 1)
        row_width = _row_width(samples, field, indices, widths.get(field), multiple)
        options |= {"row_ends": row_ends, "width": row_width, "pad": pads[field], "dtype": dtype}
        return _lay_out(samples, field, indices, **options)

    target_side = lay_out(target, eos=eos_id, pads_left=left_pad_target)
    n_source_ids = _count_ids(samples[source], indices)
    step: Arrays = {
        "id": samples.numbers[indices],
        "nsentences": len(indices),
        "ntokens": int(_count_ids(samples[target], indices).sum()),
        "net_input": {"src_tokens": target_side.before, "src_lengths": n_source_ids},
        "target": target_side.tokens,
    }
    if source != target:
        source_side = lay_out(source, pads_left=left_pad_source)
        step["net_input"]["src_tokens"] = source_side.tokens
        step["net_input"]["prev_output_tokens"] = target_side.before
        step["src_mask"] = source_side.mask
    return {**step, "tgt_mask": target_side.mask}


def _row_width(
    samples: Samples, field: str, indices: Longs, width: int | None, multiple: int
) -> int:
    """Return the width of a batch's rows.

    width: the requested width; None for the longest row
    """
    lengths = _count_ids(samples[field], indices)
    if width is None:
        width = int(lengths.max())
    is_long = lengths > width
    if is_long.any():
        row = int(np.argmax(is_long))
        line = f"line {samples.numbers[indices[row]]:,} of the stream"
        raise ConfigError(
            f"width is {width:,}, but {line} has {lengths[row]:,} ids in field {quoted(field)}; "
            "give the step's longest length, or no width"
        )
    return width + -width % multiple


def _count_ids(encoded: Encoded, indices: Longs) -> Longs:
    return encoded.offsets.take(indices + 1) - encoded.offsets.take(indices)


def collate_packed(
    samples: Samples,
    packs: Sequence[Rows],
    *,
    length: int,
    pad: PerField,
    eos: PerField,
    dtype: DTypeLike = np.int64,
) -> Arrays:
    """Return the arrays of one step of a language model whose rows contain several samples each.

    samples: samples of one field, none longer than a row; `cut_samples` splits longer ones
    packs: the indices of the samples of each row
    length: number of ids in a row
    pad, eos, dtype: as in `collate`
    Returns `id`, `nsentences`, `ntokens`, `target` and `tgt_mask` (n_packs, length), and
    `net_input` with `src_tokens` and `position_ids` (n_packs, length). For attention within
    samples, `net_input` also has `max_seqlen` and `cu_seqlens` (n_segments + 1,) int32: where
    samples and padding start in the flat batch.

    >>> samples = Samples.of({"text": [[5, 2], [6, 7, 2], [2]]})
    >>> step = collate_packed(samples, [[1, 2], [0]], length=4, pad=1, eos=2)
    >>> step["net_input"]["src_tokens"].tolist(), step["net_input"]["position_ids"].tolist()
    ([[2, 6, 7, 2], [2, 5, 1, 1]], [[0, 1, 2, 0], [0, 1, 0, 1]])
    """
    source, target = _source_and_target(arguments.instance(samples, Samples, "samples").fields)
    if source != target:
        raise ConfigError(
            f"samples of {', '.join(samples.fields)}: packs take samples of one field; use collate"
        )
    length = arguments.whole(length, "length", low=1)
    pad_id = _value_of(pad, target, "pad", samples)
    eos_id = _value_of(eos, target, "eos", samples)
    indices, row_ends = _join_packs(packs, samples[target], length)
    side = _lay_out(
        samples,
        target,
        indices,
        row_ends=row_ends,
        width=length,
        pad=pad_id,
        dtype=dtype,
        eos=eos_id,
        is_packed=True,
    )
    net_input = {
        "src_tokens": side.before,
        "position_ids": side.positions,
        "cu_seqlens": side.starts,
        "max_seqlen": int(np.diff(side.starts).max()),
    }
    return {
        "id": samples.numbers[indices],
        "nsentences": len(indices),
        "ntokens": int(_count_ids(samples[target], indices).sum()),
        "net_input": net_input,
        "target": side.tokens,
        "tgt_mask": side.mask,
    }


def _join_packs(packs: Sequence[Rows], encoded: Encoded, length: int) -> tuple[Longs, Longs]:
    """Return the samples of all packs, and where each pack ends among them."""
    inputs = arguments.several(packs, "packs", one="give a list of rows")
    arrays = list(map(_as_indices, inputs))
    if not arrays:
        raise ConfigError("packs is empty; a batch needs one or more")
    indices = _check_rows(np.concatenate(arrays), len(encoded))
    row_ends = np.cumsum([*map(len, arrays)])
    row_starts = np.append(0, row_ends[:-1])
    n_ids = np.add.reduceat(_count_ids(encoded, indices), row_starts)
    fullest = int(np.argmax(n_ids))
    if n_ids[fullest] > length:
        raise ConfigError(
            f"packs[{fullest}] has {n_ids[fullest]:,} ids, more than length={length:,}; "
            "give it fewer samples"
        )
    return indices, row_ends


def to_torch(collated: Any) -> Any:
    """Return a step with its arrays as torch tensors, which share the arrays' memory.

    collated: the result of `collate` or `collate_packed`
    """
    try:
        from torch import from_numpy
    except ImportError:
        raise missing("torch", extra="torch") from None

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: convert(item) for name, item in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype.kind not in "biuf":
            remedy = "give arrays of numbers, as collate returns them"
            raise ArgumentError(f"collated contains an array of {value.dtype}; {remedy}")
        return from_numpy(value)

    remedy = "give the result of collate or collate_packed"
    return convert(dict(arguments.mapping(collated, "collated", remedy=remedy)))


def _source_and_target(fields: Iterable[str]) -> tuple[str, str]:
    """Return the names of the source and the target; the same name if there is one field."""
    names = [*fields]
    if not 1 <= len(names) <= 2:
        rule = "a batch has a source and a target, or one field; name these in SampleFormat"
        raise ConfigError(f"samples of {', '.join(names) or 'no field'}: {rule}")
    return names[0], names[-1]


def _values_of(option: PerField, name: str, samples: Samples) -> dict[str, int]:
    return {field: _value_of(option, field, name, samples) for field in samples.fields}


def _value_of(option: PerField, field: str, name: str, samples: Samples) -> int:
    """Return an option's value for a field.

    name: the name of the option, for errors
    """
    if not isinstance(option, Mapping):
        return arguments.whole(option, name, low=0, high=MOST_ID)
    fields = ", ".join(samples.fields)
    for key in option:
        if key not in samples.fields:
            raise ConfigError(
                f"{name}: no field {quoted(str(key))} in these samples; choose from {fields}"
            )
    if field not in option:
        raise ConfigError(
            f"{name} lacks field {quoted(field)}; give one number for all, or one for each of {fields}"
        )
    return arguments.whole(option[field], f"{name}[{field!r}]", low=0, high=MOST_ID)


def _as_indices(rows: Rows) -> Longs:
    if not isinstance(rows, np.ndarray):
        rows = np.asarray(arguments.wholes(rows, "rows"))
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise ConfigError(
            f"rows is an array of {rows.dtype}, {rows.ndim}-dimensional; give indices of samples"
        )
    if not len(rows):
        raise ConfigError("rows is empty; a batch needs one or more")
    return rows.astype(np.int64, copy=False)


def _check_rows(rows: Rows, n_samples: int) -> Longs:
    indices = _as_indices(rows)
    is_missing = (indices < 0) | (indices >= n_samples)
    if is_missing.any():
        raise ConfigError(
            f"rows: no sample {indices[is_missing][0]}; "
            f"there are {n_samples:,}, from 0 to {n_samples - 1:,}"
        )
    return indices


def _check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        result = np.dtype(dtype)
    except TypeError:
        result = np.dtype(object)
    if result not in (np.int64, np.int32):
        raise ConfigError(f"dtype is {quoted(str(dtype))}; give int64 or int32")
    return result


def _lay_out(
    samples: Samples,
    field: str,
    indices: Longs,
    *,
    row_ends: Longs,
    width: int,
    pad: int,
    dtype: DTypeLike,
    eos: int | None = None,
    pads_left: bool = False,
    is_packed: bool = False,
) -> _Side:
    """Return arrays of one field, whose rows contain samples one after the other.

    indices: the samples, row after row
    row_ends: where each row ends in `indices`
    eos: the id in `before` at the start of a line; None if `before` is not needed
    Raises StreamError if `eos` is set, and a line does not end in it.
    """
    from volt.kernels.batching import lay_out

    encoded = samples[field]
    id_dtype = _check_dtype(dtype)
    shape = (len(row_ends), width)
    empty = (0, 0)
    tokens = np.empty(shape, id_dtype)
    mask = np.empty(shape, bool)
    before = np.empty(empty if eos is None else shape, id_dtype)
    positions = np.empty(shape if is_packed else empty, np.int64)
    starts = np.empty(len(indices) + len(row_ends) + 1, np.int32)  # of samples and of padding
    parts = samples.parts_of(indices)
    first_before = np.where(parts.before < 0, eos or 0, parts.before)

    n_starts = lay_out(
        encoded.ids,
        encoded.offsets,
        indices,
        row_ends,
        width,
        pads_left,
        first_before,
        parts.is_last,
        eos or 0,
        pad,
        tokens.ravel(),
        before.ravel(),
        mask.ravel(),
        positions.ravel(),
        starts,
    )
    if n_starts < 0:
        line = f"line {samples.numbers[indices[-1 - n_starts]]:,} of the stream"
        raise StreamError(
            f"{line}: field {quoted(field)} does not end in EOS, the id {eos}; "
            "make samples with eos=True, or set eos"
        )
    starts[n_starts] = tokens.size
    return _Side(tokens, before, mask, positions, starts[: n_starts + 1])
