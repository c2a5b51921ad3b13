"""Peers of `volt.batches.Steps`: their batches without end, as padded torch tensors, for steps.py.

    fairseq      ids are mapped into memory; rows are sorted and cut into batches once, and batches are permuted anew in
                 each epoch; DataLoader
    datasets     a streaming dataset of JSON lines, shuffled in a buffer, tokenised by `map`; DataLoader with the
                 collator of transformers
    mapped       datasets as its experts use it: `map` with two processes, once, to ids in Arrow; fairseq's batches; a
                 collator that only pads. The time before the first batch contains `map`
    tokenizers   `encode_batch_fast` on a window of shuffled pairs, sorted and cut into batches, padded by numpy
    numpy        ids are mapped into memory, and fairseq's batches are gathered and padded by numpy at once

fairseq's side follows a description of fairseq, without what would only slow it: workers live through all epochs, rows
are not sorted again within a batch, and the loop that cuts batches is compiled, as fairseq's is. datasets makes no
batches by tokens from a stream: its batches have as many rows as fairseq's on average, in reading order, so they have
more padding. It makes no decoder input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from steps_volt import EOS, PAD, WINDOW, Counted, Data
from torch.utils.data import DataLoader

IGNORED = -100  # what transformers fills labels with
MULTIPLE = 8  # rows of a batch, where there are so many
DTYPES = {4: "<i4", 5: "<i8", 8: "<u2"}  # of indexed ids, by their code
Ids = list[int]


class IndexedIds:
    """Sentences of ids in a memory-mapped file; each is a tensor of int64."""

    def __init__(self, prefix: Path) -> None:
        index = np.memmap(f"{prefix}.idx", mode="r")
        n = int(index[18:26].view("<u8")[0])
        self.dtype = np.dtype(DTYPES[int(index[17])])
        self.sizes, self.starts = (
            index[26 : 26 + 4 * n].view("<i4"),
            index[26 + 4 * n : 26 + 12 * n].view("<i8"),
        )
        self.data = memoryview(np.memmap(f"{prefix}.bin", mode="r"))  # type: ignore[arg-type]

    def __getitem__(self, i: int) -> torch.Tensor:
        ids = np.frombuffer(self.data, self.dtype, count=self.sizes[i], offset=self.starts[i])
        return torch.from_numpy(ids.astype(np.int64))


class Pairs:
    """The sources and targets of indexed ids."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = IndexedIds(folder / "ids.src"), IndexedIds(folder / "ids.tgt")

    def __len__(self) -> int:
        return len(self.source.sizes)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"id": i, "source": self.source[i], "target": self.target[i]}

    def batches(self, max_tokens: int) -> list[list[int]]:
        return batches_of(np.array(self.source.sizes), np.array(self.target.sizes), max_tokens)


def batches_of(
    source: NDArray[np.int32], target: NDArray[np.int32], max_tokens: int
) -> list[list[int]]:
    """Shuffle rows, sort them by the lengths of target and source, and cut them into batches."""
    order = np.random.default_rng(1).permutation(len(source))
    for sizes in (target, source):
        order = order[np.argsort(sizes[order], kind="stable")]
    ends = np.empty(len(order), np.int64)
    n = cut(np.maximum(source, target)[order], max_tokens, ends)
    return [rows.tolist() for rows in np.split(order, ends[: n - 1])]


@numba.njit(cache=True)
def cut(longest: NDArray[np.int32], max_tokens: int, ends: NDArray[np.int64]) -> int:
    """Set the ends of batches and return their number: rows are collected until one more would cost too much; then a
    multiple of MULTIPLE rows leaves, or all if they are fewer."""
    start, n, most = 0, 0, 0
    for row in range(len(longest)):
        most = max(most, longest[row])
        while row > start and most * (row + 1 - start) > max_tokens:
            size = row - start
            start += size - size % MULTIPLE if size >= MULTIPLE else size
            ends[n] = start
            n += 1
            most = longest[start : row + 1].max()
    ends[n] = len(longest)
    return n + 1


class Epochs:
    """An endless batch sampler: the same batches in another order in each epoch."""

    def __init__(self, batches: list[list[int]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        draw = np.random.default_rng(1)
        while True:
            for number in draw.permutation(len(self.batches)):
                yield self.batches[number]


def fairseq_collate(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sources, targets = [item["source"] for item in items], [item["target"] for item in items]
    net_input = {
        "src_tokens": filled(sources, left=True),
        "src_lengths": torch.tensor(list(map(len, sources))),
        "prev_output_tokens": filled(targets, eos_first=True),
    }
    about = {"id": torch.tensor([item["id"] for item in items]), "nsentences": len(items)}
    return {
        **about,
        "ntokens": sum(map(len, targets)),
        "net_input": net_input,
        "target": filled(targets),
    }


def filled(
    rows: Sequence[torch.Tensor], *, left: bool = False, eos_first: bool = False
) -> torch.Tensor:
    """Pad rows on the right or left; move the EOS of each to its front on request."""
    width = max(map(len, rows))
    padded = rows[0].new_full((len(rows), width), PAD)
    for place, ids in enumerate(rows):
        row = padded[place, width - len(ids) :] if left else padded[place, : len(ids)]
        if eos_first:
            row[0] = ids[-1]
            row[1:] = ids[:-1]
        else:
            row.copy_(ids)
    return padded


def fairseq(data: Data, n_workers: int) -> Iterator[Any]:
    pairs = Pairs(data.folder)
    sampler: Any = Epochs(pairs.batches(data.max_tokens))
    return iter(
        DataLoader(pairs, batch_sampler=sampler, collate_fn=fairseq_collate, **workers(n_workers))
    )  # type: ignore[arg-type]


def count_fairseq(batch: Mapping[str, Any]) -> Counted:
    inputs = batch["net_input"]
    tokens = int(inputs["src_lengths"].sum()) + batch["ntokens"]
    return Counted(
        batch["nsentences"], tokens, inputs["src_tokens"].numel() + batch["target"].numel()
    )


def workers(n: int) -> dict[str, Any]:
    return {"num_workers": n, "multiprocessing_context": "fork" if n else None}


def rows_of(data: Data) -> int:
    pairs = Pairs(data.folder)
    return round(len(pairs) / len(pairs.batches(data.max_tokens)))


def datasets(data: Data, n_workers: int) -> Iterator[Any]:
    from datasets import load_dataset
    from tokenizers.processors import TemplateProcessing
    from transformers import DataCollatorForSeq2Seq, PreTrainedTokenizerFast

    roles = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(data.folder / "hf" / "tokenizer.json"), **roles
    )
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", EOS)]
    )

    def tokenized(rows: Mapping[str, list[str]]) -> Any:
        return tokenizer(rows["src"], text_target=rows["tgt"])

    cache = str(data.folder / "datasets")
    text = load_dataset(
        "json", data_files=data.shards("jsonl"), split="train", streaming=True, cache_dir=cache
    )
    ids = text.shuffle(seed=1, buffer_size=WINDOW).map(
        tokenized, batched=True, remove_columns=["src", "tgt"]
    )
    collate = DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=IGNORED)
    return iter(
        DataLoader(
            ids.repeat(None), batch_size=rows_of(data), collate_fn=collate, **workers(n_workers)
        )
    )


def count_datasets(batch: Mapping[str, torch.Tensor]) -> Counted:
    mask, labels = batch["attention_mask"], batch["labels"]
    return Counted(
        len(labels), int(mask.sum()) + int((labels != IGNORED).sum()), mask.numel() + labels.numel()
    )


def grid(
    data: NDArray[Any], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Gather rows of flat ids into one padded array of int64, (n_rows, longest). Also return which places have ids."""
    columns = np.arange(sizes.max())
    inside = columns < sizes[:, None]
    return np.where(inside, data[np.where(inside, starts[:, None] + columns, 0)], PAD).astype(
        np.int64
    ), inside


def gathered(sides: Sequence[Any], rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return a batch with the tensors that VOLT's have. sides: data, starts and sizes of source and target"""
    (source, source_mask), (target, target_mask) = (
        grid(data, starts[rows], sizes[rows]) for data, starts, sizes in sides
    )
    before = np.full_like(target, EOS)
    before[:, 1:] = target[:, :-1]
    before[~target_mask] = PAD
    arrays = {
        "source": source,
        "source_mask": source_mask,
        "target": target,
        "target_mask": target_mask,
    }
    arrays |= {"before": before, "lengths": source_mask.sum(axis=1), "rows": rows}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def numpy(data: Data, n_workers: int) -> Iterator[Any]:
    pairs = Pairs(data.folder)
    sides = [
        (
            np.frombuffer(side.data, side.dtype),
            np.array(side.starts) // side.dtype.itemsize,
            np.array(side.sizes, np.int64),
        )
        for side in (pairs.source, pairs.target)
    ]
    for rows in Epochs(pairs.batches(data.max_tokens)):
        yield gathered(sides, np.array(rows))


def count_gathered(batch: Mapping[str, Any]) -> Counted:
    source, target = batch["source"], batch["target"]
    n_tokens = int(batch["source_mask"].sum() + batch["target_mask"].sum())
    return Counted(len(source), n_tokens, source.numel() + target.numel())


def tokenizers(data: Data, n_workers: int) -> Iterator[Any]:
    from tokenizers import Tokenizer

    tokenizer, draw = (
        Tokenizer.from_file(str(data.folder / "hf" / "tokenizer.json")),
        np.random.default_rng(1),
    )
    pairs = [
        line.split("\t")
        for path in data.shards("tsv")
        for line in Path(path).read_text().split("\n")[:-1]
    ]
    while True:
        order = draw.permutation(len(pairs))
        for start in range(0, len(order), WINDOW):
            texts = zip(*(pairs[row] for row in order[start : start + WINDOW]), strict=True)
            sides = [
                flat([one.ids for one in tokenizer.encode_batch_fast(list(side))]) for side in texts
            ]
            longest = np.maximum(*(sizes for _, _, sizes in sides))
            rows, ends = np.argsort(longest, kind="stable"), np.empty(len(longest), np.int64)
            n = cut(longest[rows].astype(np.int32), data.max_tokens, ends)
            batches = np.split(rows, ends[: n - 1])
            for number in draw.permutation(len(batches)):
                yield gathered(sides, batches[number])


def flat(rows: Sequence[Ids]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids of all rows, each ending in EOS, and where each row starts, and its size."""
    sizes = np.array([len(row) + 1 for row in rows])
    return (
        np.array([number for row in rows for number in (*row, EOS)]),
        np.cumsum(sizes) - sizes,
        sizes,
    )


def mapped(data: Data, n_workers: int) -> Iterator[Any]:
    import pyarrow.compute as compute
    from datasets import load_dataset
    from tokenizers import Tokenizer

    tokenizer, cache = (
        Tokenizer.from_file(str(data.folder / "hf" / "tokenizer.json")),
        str(data.folder / "datasets"),
    )

    def ids_of(rows: Mapping[str, list[str]]) -> dict[str, list[Ids]]:
        return {
            side: [[*one.ids, EOS] for one in tokenizer.encode_batch_fast(rows[side])]
            for side in ("src", "tgt")
        }

    text = load_dataset("json", data_files=data.shards("jsonl"), split="train", cache_dir=cache)
    ids = text.map(ids_of, batched=True, num_proc=2, load_from_cache_file=False).with_format(
        "numpy"
    )
    source, target = (
        compute.list_value_length(ids.data.column(side)).to_numpy() for side in ("src", "tgt")
    )
    sampler: Any = Epochs(batches_of(source, target, data.max_tokens))
    return iter(DataLoader(ids, batch_sampler=sampler, collate_fn=padded, **workers(n_workers)))


def padded(items: Sequence[Mapping[str, NDArray[np.int64]]]) -> dict[str, Any]:
    """Only pad: copy the rows of each side into one array."""
    sides = []
    for side in ("src", "tgt"):
        rows = [item[side] for item in items]
        sizes = np.array(list(map(len, rows)))
        sides.append((np.concatenate(rows), np.cumsum(sizes) - sizes, sizes))
    return gathered(sides, np.arange(len(items)))
