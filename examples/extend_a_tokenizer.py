"""Extend a vocabulary for a new domain, shrink it again, and carry the embedding's rows along.

    pip install volt-vocab
    python extend_a_tokenizer.py

It needs no input file: the old text is half of Python's own help topics, the new text the other half, upper-cased. It
prints the pieces per word of the new text before and after extending, and after shrinking to the old size. It checks
that old ids and their rows stay. The row of a new token is the mean of the rows of the pieces that it is merged from.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

import volt

WIDTH = 16  # of the embedding
N_OLD, N_MORE = 800, 400  # tokens of the old vocabulary, and additional ones


def extended(old: volt.Vocabulary, counts: volt.WordCounts, n_more: int) -> volt.Vocabulary:
    """Append at most n_more tokens to the old vocabulary, including characters that it lacks."""
    candidates = volt.extend_bpe(old, counts, n_merges=n_more)
    return volt.search(candidates, select="fixed:" + str(len(old.tokens) + n_more)).vocabulary


def rows_for(
    old: volt.Vocabulary, new: volt.Vocabulary, rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the old rows, and for each new token the mean of the rows that it is merged from: (n_new_ids, width).

    A character that the old vocabulary lacks was <unk>, and gets its row.
    """
    ids = {piece: i for i, piece in enumerate(old.pieces)}
    parts = {left + right: (left, right) for left, right in new.merges}

    def spelled(token: str) -> list[int]:
        if token in ids or token not in parts:
            return [ids.get(token, ids["<unk>"])]
        return [i for part in parts[token] for i in spelled(part)]

    return np.vstack(
        [rows, *(rows[spelled(piece)].mean(axis=0) for piece in new.pieces[len(rows) :])]
    )


def pieces_per_word(vocabulary: volt.Vocabulary, text: str) -> float:
    """Return the mean number of pieces per word of a text."""
    return len(volt.Encoder(vocabulary).encode(text)) / len(text.split())


def main() -> None:
    texts = list(topics.values())
    old_text, new_text = "\n".join(texts[::2]), "\n".join(texts[1::2]).upper()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("old.txt", old_text), ("new.txt", new_text)):
            Path(folder, name).write_text(text, encoding="utf-8")
        old_counts, new_counts = (
            volt.count_words(Path(folder, name)) for name in ("old.txt", "new.txt")
        )
    old = volt.search(
        volt.learn_bpe(old_counts, n_merges=N_OLD), select=f"fixed:{N_OLD}"
    ).vocabulary
    rows = np.random.default_rng(1).normal(
        size=(len(old.pieces), WIDTH)
    )  # a substitute for a trained model's rows

    new = extended(old, new_counts, N_MORE)
    new_rows = rows_for(old, new, rows)
    assert new.pieces[: len(old.pieces)] == old.pieces, "an old id moved"
    assert np.array_equal(new_rows[: len(rows)], rows)

    shrunk = volt.shrink(new, new_counts, to=len(old.pieces))
    kept = np.flatnonzero(shrunk.new_ids >= 0)
    kept_rows = new_rows[kept]  # in the order of the shrunk vocabulary, which keeps the old order
    assert [new.pieces[i] for i in kept] == list(shrunk.vocabulary.pieces), (
        "a row would be another token's"
    )
    assert kept_rows.shape == (len(old.pieces), WIDTH)

    for name, vocabulary in (("old", old), ("extended", new), ("shrunk", shrunk.vocabulary)):
        ids, cost = len(vocabulary.pieces), pieces_per_word(vocabulary, new_text)
        print(f"{name:<8}  {ids:>5,} ids  {cost:.2f} pieces per word of the new text")


if __name__ == "__main__":
    main()
