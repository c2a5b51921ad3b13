"""Threads, processes and copies that share an encoder, and what each of them remembers: answers stay the same."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from batches import ENCODERS, HARD, PRETOKENIZERS, TEXT, plain_ids
from drawn import DRAWS_ALL, examples

from volt.encode.batch_encoder import BatchEncoder
from volt.encode.chunks import Chunk, chunks_of
from volt.encode.encoder import Encoder
from volt.encode.merge_tables import MergeTables
from volt.encode.rendering import Rendering
from volt.errors import ConfigError


@pytest.mark.parametrize(
    "encoder", ENCODERS, ids=lambda encoder: encoder.vocabulary.pretokenizer.name
)
def test_chunks_and_threads_change_nothing(encoder: Encoder) -> None:
    """Chunks of any size on any number of threads, with tables that forget, give the same."""
    lines = [TEXT, "", *HARD, TEXT[::-1], "".join(HARD), " ".join(HARD).replace("\n", "")]
    lines = [line.replace("\n", "") for line in lines * (3 if DRAWS_ALL else 1)]
    text = "".join(line + "\n" for line in lines).encode()
    expected = list(chain.from_iterable(plain_ids(encoder, lines)))
    tables = MergeTables.of(encoder.vocabulary)
    for size, n_threads, limit in ((1, 1, 1), (7, 2, 10), (100, 16, 5), (1 << 20, 3, 1 << 20)):
        batches = BatchEncoder(tables, Rendering("ids", tables), limit=limit)
        parts = batches.encode(chunks_of(text, size=size), n_threads=n_threads)
        assert np.concatenate([part.values for part in parts]).tolist() == expected


def test_every_unit_has_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit whose words are entered with it takes no row from them: there are as many rows in use as units."""
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", 8)
    encoder = Encoder(ENCODERS[PRETOKENIZERS.index("gpt2")].vocabulary)
    words = [f"{i:b}".replace("0", "o").replace("1", "l") for i in range(1_000)]
    encoder.encode_batch([" ".join(f"{word}-{word[::-1]}w." for word in words)], n_threads=1)
    [batches] = encoder._batches.values()
    [table] = batches._idle
    assert table.n_units > 3_000
    assert int((table._table.rows[2::4] > 0).sum()) == table.n_units


@pytest.mark.slow
@pytest.mark.parametrize(
    "which", [0, 2, 4, len(PRETOKENIZERS) + 1], ids=["whitespace", "gpt2", "bytes", "user tokens"]
)
def test_thousands_of_batches_share_encoders(monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    """However batches meet in sixteen threads, while caches grow, forget and fill: each gives what it gives alone."""
    monkeypatch.setattr("volt.encode.unit_cache._N_SLOTS", 256)
    rng = np.random.default_rng(which)
    pool = [
        " ".join(rng.choice(HARD, 8)).replace("\n", "") + f" low{i % 300}"
        for i in range(examples(2_000))
    ]
    ids = plain_ids(ENCODERS[which], pool)
    batches = [rng.integers(0, len(pool), rng.integers(1, 9)) for _ in range(examples(1_000))]
    encoder = Encoder(ENCODERS[which].vocabulary, cache_words=20)

    def agrees(batch: np.ndarray) -> bool:
        found = encoder.encode_batch([pool[i] for i in batch], n_threads=1)
        return found.ids.tolist() == [number for i in batch for number in ids[i]]

    with ThreadPoolExecutor(16) as executor:
        assert all(executor.map(agrees, batches))


def test_pickled_encoder_gives_the_same() -> None:
    """An encoder survives pickling, with its limit."""
    encoder = pickle.loads(pickle.dumps(Encoder(ENCODERS[0].vocabulary, cache_words=7)))
    assert encoder.encode_batch([TEXT]).ids.tolist() == plain_ids(ENCODERS[0], [TEXT])[0]
    assert _forgets(encoder, 7)
    assert not _forgets(Encoder(encoder.vocabulary, cache_words=8), 7)


def _forgets(encoder: Encoder, n: int) -> bool:
    """Check whether an encoder that knows n words forgets the first one at the next word."""
    for word in [*(f"w{i}" for i in range(n)), "another"]:
        encoder.encode(word)
    return "w0" not in encoder._cache


def test_tables_keep_to_their_limit() -> None:
    """A thread remembers no more units than its limit and those of the text that it has just met."""
    encoder = Encoder(ENCODERS[0].vocabulary, cache_words=20)
    for start in range(0, 300, 30):
        encoder.encode_batch([" ".join(f"w{i}" for i in range(start, start + 30))], n_threads=1)
        [batches] = encoder._batches.values()
        assert [table.n_units for table in batches._idle] == [30]
    encoder.encode_batch(["w270 w299"] * 20, n_threads=1)  # above the limit, so forgotten first
    encoder.encode_batch(["w0 w1 w270"], n_threads=1)
    assert [table.n_units for table in batches._idle] == [4]


def test_units_are_remembered_beyond_the_end_of_a_file() -> None:
    """A chunk without text, as stands behind each file, costs no thread what it remembers."""
    encoder = Encoder(ENCODERS[0].vocabulary)
    parts = encoder.encode_parts(
        [Chunk(b"w0 w1"), Chunk(b""), Chunk(b"w2"), Chunk(b"")], n_threads=1
    )
    assert [len(part.ends) for part in parts] == [1, 0, 1, 0]
    [batches] = encoder._batches.values()
    assert [table.n_units for table in batches._idle] == [3]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes_give_the_same(method: str) -> None:
    """A process that was forked or spawned, after threads have run here, gives the same."""
    import multiprocessing

    encoder = ENCODERS[0]
    lines = [TEXT] * 10
    expected = encoder.encode_batch(lines, n_threads=2).ids.tolist()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.apply_async(_encode_elsewhere, (encoder, lines)).get(timeout=120) == expected


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_that_cannot_read_new_words_says_so() -> None:
    """Polars' threads stay behind when a process is forked: there is an error, not a wait for them without end."""
    import multiprocessing

    encoder = Encoder(ENCODERS[PRETOKENIZERS.index("unicode")].vocabulary)
    encoder.encode("low")
    with (
        multiprocessing.get_context("fork").Pool(1) as pool,
        pytest.raises(ConfigError, match="processes with multiprocessing"),
    ):
        pool.apply_async(encoder.encode, ("new words",)).get(timeout=120)


def _encode_elsewhere(encoder: Encoder, lines: list[str]) -> list[int]:
    return encoder.encode_batch(lines, n_threads=1).ids.tolist()
