"""Loaders that read ids from shards of their own, and rows packed for a language model, for steps.py.

    grain, litdata, mosaicml    pairs from ArrayRecord, litdata's chunks and MDS. None makes batches by tokens, so
                                have as many rows as fairseq's on average, in shuffled order, padded by numpy at once
    … packed                    rows of LENGTH + 1 ids of the target side, laid end to end once, before the run; the
                                loaders shuffle rows and stack ROWS of them. litdata reads them with its TokensLoader
    numpy, packed               nanoGPT's loader: ROWS slices of one memory-mapped file of u16, at random places
    megatron, packed            Megatron-LM's GPTDataset: VOLT's .bin and .idx; documents in shuffled order lie end to
                                end, an index made before has the place of each row, and a row joins slices of
                                documents; DataLoader
    volt, packed                whole samples, packed anew in each window; longer ones are split

The files are written when a loader is first used, before its clock starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from steps_peers import Pairs, gathered, rows_of, workers
from steps_volt import Counted, Data, volt_ids_steps
from torch.utils.data import DataLoader, Dataset

LENGTH, ROWS = 512, 8
ANY = 1 << 20  # packed rows have no epochs: a run may end after each batch
Row = Mapping[str, Any]
Array = NDArray[Any]


def pairs_of(folder: Path, first: int = 0, end: int | None = None) -> Iterator[dict[str, Array]]:
    pairs = Pairs(folder)
    for i in range(first, min(len(pairs), end or len(pairs))):
        yield {
            "src": pairs.source[i].numpy().astype(np.int32),
            "tgt": pairs.target[i].numpy().astype(np.int32),
        }


def stream_of_ids(data: Data) -> Array:
    side = Pairs(data.folder).target
    return np.frombuffer(side.data, side.dtype)


def packed_rows(data: Data) -> Array:
    """Return the target side as rows of LENGTH + 1 ids; the rest is left out."""
    ids = stream_of_ids(data)
    return ids[: len(ids) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1).astype(np.int32)


def collated(rows: Sequence[Row]) -> dict[str, Any]:
    """Pad pairs on the right, as the other loaders' batches."""
    sides = []
    for name in ("src", "tgt"):
        sizes = np.array([len(row[name]) for row in rows])
        sides.append((np.concatenate([row[name] for row in rows]), np.cumsum(sizes) - sizes, sizes))
    return gathered(sides, np.arange(len(rows)))


def shifted(rows: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs and the targets of packed rows."""
    ids = torch.as_tensor(np.asarray(rows)).to(torch.int64)
    return ids[:, :-1], ids[:, 1:]


def stacked(rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    return shifted(np.stack([row["ids"] for row in rows]))


def count_packed(batch: tuple[torch.Tensor, torch.Tensor]) -> Counted:
    return Counted(ANY, batch[1].numel(), batch[1].numel())


def count_volt_packed(batch: Mapping[str, Any]) -> Counted:
    return Counted(ANY, batch["ntokens"], batch["target"].numel())


def volt_packed(data: Data, n_workers: int, *, ahead: bool = True) -> Iterator[Any]:
    from volt.batches import ByPacks

    rule = ByPacks(length=LENGTH, rows=ROWS, on_long="split")
    return volt_ids_steps(data, n_workers, ("tgt",), rule, ahead=ahead)


def numpy_packed(data: Data, n_workers: int) -> Iterator[Any]:
    path = data.folder / "flat.bin"
    if not path.exists():
        stream_of_ids(data).astype("<u2").tofile(path)
    generator = torch.Generator().manual_seed(1)
    while True:  # as nanoGPT's get_batch, which maps the file anew for each batch
        ids = np.memmap(path, "<u2", "r")
        starts = torch.randint(len(ids) - LENGTH, (ROWS,), generator=generator).tolist()
        inputs = torch.stack(
            [torch.from_numpy(ids[i : i + LENGTH].astype(np.int64)) for i in starts]
        )
        yield (
            inputs,
            torch.stack(
                [torch.from_numpy(ids[i + 1 : i + 1 + LENGTH].astype(np.int64)) for i in starts]
            ),
        )


class GptRows(Dataset[dict[str, Array]]):
    """Rows of a language model. Positions do not restart within a row, and all ids count for the loss: the defaults."""

    def __init__(self, folder: Path) -> None:
        draw, documents = np.random.default_rng(1), Pairs(folder).target
        self.documents, self.order = documents, draw.permutation(len(documents.sizes))
        self.ends = np.cumsum(documents.sizes[self.order])
        self.rows = draw.permutation((int(self.ends[-1]) - 1) // LENGTH)
        self.mask, self.positions = np.ones(LENGTH, np.float32), np.arange(LENGTH)
        first = self.rows * LENGTH
        self.first, self.last = (
            np.searchsorted(self.ends, at, side="right") for at in (first, first + LENGTH)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> dict[str, Array]:
        documents, at = self.documents, self.rows[i] * LENGTH
        numbers = self.order[self.first[i] : self.last[i] + 1]
        start = at - self.ends[self.first[i]] + documents.sizes[numbers[0]]
        slices = [
            np.frombuffer(
                documents.data, documents.dtype, documents.sizes[one], documents.starts[one]
            )
            for one in numbers
        ]
        ids = np.concatenate(slices)[start : start + LENGTH + 1].astype(np.int64)
        return {
            "tokens": ids[:-1],
            "labels": ids[1:],
            "loss_mask": self.mask,
            "position_ids": self.positions,
        }


def megatron_packed(data: Data, n_workers: int) -> Iterator[Any]:
    loader = DataLoader(
        GptRows(data.folder),
        batch_size=ROWS,
        drop_last=True,
        persistent_workers=n_workers > 0,
        **workers(n_workers),
    )
    return itertools.chain.from_iterable(itertools.repeat(loader))


def count_megatron(batch: Mapping[str, torch.Tensor]) -> Counted:
    return Counted(ANY, batch["labels"].numel(), batch["labels"].numel())


def write_shards(data: Data, name: str) -> None:
    """Write the files of a side of this module, if it has some, in a process of its own."""
    kind, _, form = name.partition(", ")
    folder = data.folder / f"{kind} {form}"
    if kind in WRITERS and not folder.exists():
        WRITERS[kind](data, folder, packed=form == "packed")


def write_grain(data: Data, folder: Path, *, packed: bool) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    folder.mkdir()
    file = ArrayRecordWriter(str(folder / "0.array_record"), "group_size:1")
    for row in packed_rows(data) if packed else map(flat, pairs_of(data.folder)):
        file.write(row.tobytes())
    file.close()


def flat(pair: Row) -> Array:
    return np.concatenate([[len(pair["src"])], pair["src"], pair["tgt"]]).astype(np.int32)


def write_litdata(data: Data, folder: Path, *, packed: bool) -> None:
    from litdata import optimize
    from litdata.streaming.item_loader import TokensLoader

    options: dict[str, Any] = {"item_loader": TokensLoader()} if packed else {}
    inputs = [(str(data.folder), start, packed) for start in range(0, data.n_rows, 1000)]
    optimize(
        litdata_items, inputs, output_dir=str(folder), chunk_bytes="4MB", num_workers=1, **options
    )


def litdata_items(given: tuple[str, int, bool]) -> Iterator[Any]:
    folder, start, packed = given
    for pair in pairs_of(Path(folder), start, start + 1000):
        yield torch.from_numpy(pair["tgt"]) if packed else pair


def write_mosaicml(data: Data, folder: Path, *, packed: bool) -> None:
    from streaming import MDSWriter

    columns = (
        {"ids": f"ndarray:int32:{LENGTH + 1}"}
        if packed
        else dict.fromkeys(("src", "tgt"), "ndarray:int32")
    )
    with MDSWriter(out=str(folder), columns=columns, size_limit="4mb") as file:
        for row in ({"ids": row} for row in packed_rows(data)) if packed else pairs_of(data.folder):
            file.write(row)


WRITERS = {"grain": write_grain, "litdata": write_litdata, "mosaicml": write_mosaicml}


def grain(data: Data, n_workers: int) -> Iterator[Any]:
    def pair_of(record: bytes) -> dict[str, Array]:
        ids = np.frombuffer(record, np.int32)
        return {"src": ids[1 : 1 + ids[0]], "tgt": ids[1 + ids[0] :]}

    return grain_batches(data.folder / "grain ids", pair_of, rows_of(data), collated, n_workers)


def grain_packed(data: Data, n_workers: int) -> Iterator[Any]:
    def ids_of(record: bytes) -> dict[str, Array]:
        return {"ids": np.frombuffer(record, np.int32)}

    return grain_batches(data.folder / "grain packed", ids_of, ROWS, stacked, n_workers)


def grain_batches(folder: Path, decode: Any, n: int, collate: Any, n_workers: int) -> Iterator[Any]:
    import grain as library

    source = library.sources.ArrayRecordDataSource(sorted(map(str, folder.iterdir())))
    rows = (
        library.MapDataset.source(source)
        .seed(1)
        .shuffle()
        .repeat()
        .map(decode)
        .batch(n, batch_fn=collate)
    )
    batches = rows.to_iter_dataset(library.ReadOptions(num_threads=2, prefetch_buffer_size=16))
    if n_workers:
        batches = batches.mp_prefetch(
            library.MultiprocessingOptions(num_workers=n_workers, per_worker_buffer_size=8)
        )
    return iter(batches)


def litdata(data: Data, n_workers: int) -> Iterator[Any]:
    return litdata_batches(data.folder / "litdata ids", rows_of(data), collated, n_workers)


def litdata_packed(data: Data, n_workers: int) -> Iterator[Any]:
    from litdata.streaming.item_loader import TokensLoader

    loader = TokensLoader(block_size=LENGTH + 1)
    return litdata_batches(
        data.folder / "litdata packed", ROWS, shifted_stack, n_workers, item_loader=loader
    )


def shifted_stack(rows: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return shifted(torch.stack(list(rows)))


def litdata_batches(
    folder: Path, n: int, collate: Any, n_workers: int, **options: Any
) -> Iterator[Any]:
    from litdata import StreamingDataLoader, StreamingDataset

    rows = StreamingDataset(str(folder), shuffle=True, drop_last=True, seed=1, **options)
    loader = StreamingDataLoader(rows, batch_size=n, collate_fn=collate, num_workers=n_workers)
    return itertools.chain.from_iterable(itertools.repeat(loader))


def mosaicml(data: Data, n_workers: int) -> Iterator[Any]:
    return mosaicml_batches(data.folder / "mosaicml ids", rows_of(data), collated, n_workers)


def mosaicml_packed(data: Data, n_workers: int) -> Iterator[Any]:
    return mosaicml_batches(data.folder / "mosaicml packed", ROWS, stacked, n_workers)


def mosaicml_batches(folder: Path, n: int, collate: Any, n_workers: int) -> Iterator[Any]:
    from streaming import StreamingDataset

    rows = StreamingDataset(local=str(folder), shuffle=True, batch_size=n, shuffle_seed=1)
    loader = DataLoader(
        rows,
        batch_size=n,
        collate_fn=collate,
        drop_last=True,
        persistent_workers=n_workers > 0,
        **workers(n_workers),
    )  # type: ignore[arg-type]
    return itertools.chain.from_iterable(itertools.repeat(loader))
