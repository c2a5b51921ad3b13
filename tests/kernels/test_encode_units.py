"""Units are encoded alike in tables of any size, which are full at every point of a text."""

from random import Random

import pytest
from support.batches import ENCODERS, HARD, plain_ids

from volt.encode.encoder import Encoder
from volt.kernels.encode_units import LINES


@pytest.mark.parametrize("number", range(len(ENCODERS)))
def test_encode_units_continues_after_its_tables_were_full(number, monkeypatch):
    """With tables that are full at any point of a text, the ids and pieces of lines equal those of
    the plain path, with dropout or without, for new and known units."""
    rng, encoder = Random(number), Encoder(ENCODERS[number].vocabulary)
    for name, n in (("_N_SLOTS", 8), ("_N_LINES", LINES + 2)):
        monkeypatch.setattr(f"volt.encode.unit_cache.{name}", n)
    lines = ["".join(rng.choices(HARD, k=rng.randint(0, 9))) for _ in range(40)]
    lines += ["low  low"] * 3 + [" a", "it's"]
    for batch in (lines, ["low", *lines, "x" * 1100]):
        encoded = encoder.encode_batch(batch, n_threads=1)
        assert [ids.tolist() for ids in encoded] == plain_ids(encoder, batch)

    lines = [line.replace("\n", "").replace("\r", "") for line in lines]
    text = "".join(line + "\n" for line in lines).encode()
    for options in ({}, {"dropout": 0.4, "seed": 1}):
        pieces = "".join(" ".join(row) + "\n" for row in encoder.encode_lines(lines, **options))
        assert encoder.encode_text(text, n_threads=1, **options).decode() == pieces
