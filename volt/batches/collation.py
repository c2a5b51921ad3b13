"""Samples or packs → the padded arrays of one step, as in fairseq.

src_tokens            PAD PAD  a   b  EOS        the source, padded on the left
prev_output_tokens    EOS  x   y   z  PAD        the target with EOS moved to its front
target                 x   y   z  EOS PAD        the target, padded on the right
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt import arguments
from volt.batches.argument_checks import WIDEST, Longs, check_option
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
        _, target = _sides(samples.vocabularies)
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
                    fault = f"the vocabulary of {quoted(name)} has no <pad>"
                    raise ConfigError(f"{fault}; add the token, or set pad to an id")
                pad[name] = numbering.pad
        if packed:
            return {"pad": pad, "eos": eos, "dtype": self.dtype}
        return {**asdict(self), "pad": pad, "eos": eos}


Ids = NDArray[Any]  # int64 or int32
Rows = Iterable[int] | Longs
Each = int | Mapping[str, int]  # one number for all fields, or field name → number


class _Side(NamedTuple):
    """One side of a batch; arrays that were not asked for are empty.

    tokens, mask, before: (n_rows, width) ids, whether they are ids of samples, and the ids with EOS
        moved to the front
    positions: (n_rows, width) int64, the index of each id in its sample or in the padding
    starts: (n_segments + 1,) int32, where samples and padding start in the flat arrays
    """

    tokens: Ids
    before: Ids
    mask: NDArray[np.bool_]
    positions: Longs
    starts: NDArray[np.int32]


def collate(
    samples: Samples,
    rows: Rows,
    *,
    pad: Each,
    eos: Each,
    left_pad_source: bool = True,
    left_pad_target: bool = False,
    width: Each | None = None,
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
    source, target = _sides(arguments.instance(samples, Samples, "samples").fields)
    chosen = _rows(rows, len(samples))
    pads = _each(pad, "pad", samples)
    end = _of(target, eos, "eos", samples)
    multiple = arguments.whole(pad_to_multiple, "pad_to_multiple", low=1)
    widths = {} if width is None else _each(width, "width", samples)
    sizes = {name: _sizes(samples[name], chosen) for name in samples.fields}
    row_ends = np.arange(1, len(chosen) + 1)

    def side(name: str, *, left: bool, eos: int | None = None) -> _Side:
        width = widths.get(name, int(sizes[name].max()))
        _check_width(width, sizes[name], samples.numbers[chosen], name)
        width += -width % multiple
        return _laid_out(samples, name, chosen, row_ends, width, pads[name], dtype, eos, left)

    laid_out = side(target, left=left_pad_target, eos=end)
    result: Arrays = {
        "id": samples.numbers[chosen],
        "nsentences": len(chosen),
        "ntokens": int(sizes[target].sum()),
        "net_input": {"src_tokens": laid_out.before, "src_lengths": sizes[source]},
        "target": laid_out.tokens,
    }
    if source != target:
        other = side(source, left=left_pad_source)
        result["net_input"]["src_tokens"] = other.tokens
        result["net_input"]["prev_output_tokens"] = laid_out.before
        result["src_mask"] = other.mask
    return {**result, "tgt_mask": laid_out.mask}


def _check_width(width: int, sizes: Longs, numbers: Longs, name: str) -> None:
    is_long = sizes > width
    if is_long.any():
        row = int(np.argmax(is_long))
        line = f"line {numbers[row]:,} of the stream"
        fault = f"width is {width:,}, but {line} has {sizes[row]:,} ids in field {quoted(name)}"
        raise ConfigError(f"{fault}; give the step's longest length, or no width")


def collate_packed(
    samples: Samples,
    packs: Sequence[Rows],
    *,
    length: int,
    pad: Each,
    eos: Each,
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
    source, target = _sides(arguments.instance(samples, Samples, "samples").fields)
    if source != target:
        fault = f"samples of {', '.join(samples.fields)}: packs take samples of one field"
        raise ConfigError(f"{fault}; use collate")
    length = arguments.whole(length, "length", low=1)
    pad_id = _of(target, pad, "pad", samples)
    eos_id = _of(target, eos, "eos", samples)
    rows, row_ends = _rows_of_packs(packs, samples[target], length)
    side = _laid_out(samples, target, rows, row_ends, length, pad_id, dtype, eos_id, is_packed=True)
    net_input = {
        "src_tokens": side.before,
        "position_ids": side.positions,
        "cu_seqlens": side.starts,
        "max_seqlen": int(np.diff(side.starts).max()),
    }
    return {
        "id": samples.numbers[rows],
        "nsentences": len(rows),
        "ntokens": int(_sizes(samples[target], rows).sum()),
        "net_input": net_input,
        "target": side.tokens,
        "tgt_mask": side.mask,
    }


def _rows_of_packs(packs: Sequence[Rows], encoded: Encoded, length: int) -> tuple[Longs, Longs]:
    """Return the samples of all packs, and where each pack ends among them."""
    inputs = arguments.several(packs, "packs", one="give a list of rows")
    listed = list(map(_listed, inputs))
    if not listed:
        raise ConfigError("packs is empty; a batch needs one or more")
    rows = _rows(np.concatenate(listed), len(encoded))
    row_ends = np.cumsum([*map(len, listed)])
    row_starts = np.append(0, row_ends[:-1])
    n_ids = np.add.reduceat(_sizes(encoded, rows), row_starts)
    fullest = int(np.argmax(n_ids))
    if n_ids[fullest] > length:
        fault = f"packs[{fullest}] has {n_ids[fullest]:,} ids, more than length={length:,}"
        raise ConfigError(f"{fault}; give it fewer samples")
    return rows, row_ends


def to_torch(collated: Any) -> Any:
    """Return a step with its arrays as torch tensors, which share the arrays' memory.

    collated: the result of `collate` or `collate_packed`
    """
    try:
        from torch import from_numpy
    except ImportError:
        raise missing("torch", extra="torch") from None

    def converted(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: converted(item) for name, item in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        if value.dtype.kind not in "biuf":
            remedy = "give arrays of numbers, as collate returns them"
            raise ArgumentError(f"collated contains an array of {value.dtype}; {remedy}")
        return from_numpy(value)

    remedy = "give the result of collate or collate_packed"
    return converted(dict(arguments.mapping(collated, "collated", remedy=remedy)))


def _sides(fields: Iterable[str]) -> tuple[str, str]:
    """Return the names of the source and the target; the same name if there is one field."""
    names = [*fields]
    if not 1 <= len(names) <= 2:
        rule = "a batch has a source and a target, or one field; name these in SampleFormat"
        raise ConfigError(f"samples of {', '.join(names) or 'no field'}: {rule}")
    return names[0], names[-1]


def _each(option: Each, name: str, samples: Samples) -> dict[str, int]:
    return {field: _of(field, option, name, samples) for field in samples.fields}


def _of(field: str, option: Each, name: str, samples: Samples) -> int:
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


def _listed(rows: Rows) -> Longs:
    if not isinstance(rows, np.ndarray):
        rows = np.asarray(arguments.wholes(rows, "rows"))
    chosen = rows
    if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
        raise ConfigError(
            f"rows is an array of {chosen.dtype}, {chosen.ndim}-dimensional; give indices of samples"
        )
    if not len(chosen):
        raise ConfigError("rows is empty; a batch needs one or more")
    return chosen.astype(np.int64, copy=False)


def _rows(rows: Rows, n: int) -> Longs:
    chosen = _listed(rows)
    bad = (chosen < 0) | (chosen >= n)
    if bad.any():
        raise ConfigError(f"rows: no sample {chosen[bad][0]}; there are {n:,}, from 0 to {n - 1:,}")
    return chosen


def _kind(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.int64, np.int32):
        raise ConfigError(f"dtype is {quoted(str(dtype))}; give int64 or int32")
    return kind


def _sizes(encoded: Encoded, rows: Longs) -> Longs:
    return encoded.offsets.take(rows + 1) - encoded.offsets.take(rows)


def _laid_out(
    samples: Samples,
    name: str,
    rows: Longs,
    row_ends: Longs,
    width: int,
    pad: int,
    dtype: DTypeLike,
    eos: int | None = None,
    left: bool = False,
    is_packed: bool = False,
) -> _Side:
    """Return arrays filled with samples.

    Raises StreamError if a sample does not end in `eos`, if given.

    row_ends: where each row of the arrays ends in `rows`, the samples
    """
    from volt.kernels.batching import lay_out

    encoded = samples[name]
    kind = _kind(dtype)
    shape = (len(row_ends), width)
    tokens = np.empty(shape, kind)
    mask = np.empty(shape, bool)
    before = np.empty((0, 0) if eos is None else shape, kind)
    positions = np.empty(shape if is_packed else (0, 0), np.int64)
    most_starts = len(rows) + len(row_ends) if is_packed else 0
    starts = np.empty(most_starts + 1, np.int32)
    _, ids_before, is_last = samples.parts_of(rows)
    first_ids = np.where(ids_before < 0, eos or 0, ids_before)

    bad, n_starts = lay_out(
        encoded.ids,
        encoded.offsets,
        rows,
        row_ends,
        width,
        left,
        first_ids,
        is_last,
        eos or 0,
        pad,
        tokens.ravel(),
        before.ravel(),
        mask.ravel(),
        positions.ravel(),
        starts,
    )
    if bad >= 0:
        field = f"line {samples.numbers[rows[bad]]:,} of the stream: field {quoted(name)}"
        raise StreamError(
            f"{field} does not end in EOS, the id {eos}; make samples with eos=True, or set eos"
        )
    starts[n_starts] = tokens.size
    return _Side(tokens, before, mask, positions, starts[: n_starts + 1])
