"""What tests of transforms share: rows of fields as hypothesis makes them, and a transform applied to rows."""

from __future__ import annotations

from hypothesis import strategies as st

from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import Transform

FIELD = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=20)
ROW = st.lists(FIELD, min_size=2, max_size=4)
ROWS = st.lists(ROW, max_size=8)
RAGGED = st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=8)
CUTS = st.integers(0, 6)  # how many fields a batch has been cut into before


def apply(transform: Transform, rows: list[list[str]], *, seed: int = 0) -> list[list[str]]:
    """Apply a transform to rows."""
    done = transform(Batch.of(["\t".join(row) for row in rows]), LineRng.of("test", seed))
    return [line.split("\t") for line in done.lines]
