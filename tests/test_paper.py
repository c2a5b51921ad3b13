"""The scripts on the paper's figures and tables: they run, and their solver and counts are what they say."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

import volt

FOLDER = ROOT / "experiments" / "paper"
SCRIPTS = {
    "figure1": ["--corpora", "Multi30k en+de", "Bible uk"],
    "table1": ["--corpora", "Multi30k en+de", "TED Finnish", "Bible uk"],
    "table4": ["--corpora", "TED Finnish"],
    "published": ["--quick", "--corpora", "TED Finnish", "Bible uk"],
}
SYLLABLES = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("", "n", "r", "st")]


@pytest.fixture(scope="module")
def published() -> Iterator[ModuleType]:
    """The module with the published program's objective."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        import published

        yield published


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like $VOLT_DATA, with made-up words."""
    folder, rng = tmp_path_factory.mktemp("data"), random.Random(7)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(4_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    lines = [" ".join(rng.choices(words, weights, k=8)) for _ in range(4_000)]
    for name in ("multi30k/train.en", "multi30k/train.de", "ted/Finnish.txt"):
        _write(folder / f"{name}.gz", lines)
    _write(folder / "bible/uk.tsv.gz", [f"v{number}\t{line}" for number, line in enumerate(lines)])
    return folder


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_prints_tables_and_writes_json(script: str, corpora: Path, tmp_path: Path) -> None:
    """One command prints Markdown tables whose rows have as many cells as their headings, and writes its rows."""
    command = [sys.executable, str(FOLDER / f"{script}.py"), *SCRIPTS[script], "--json", str(tmp_path / "rows.json")]
    compiled = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    done = subprocess.run(
        [*command, "--data", str(corpora)], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=compiled
    )
    assert done.returncode == 0, done.stderr
    tables = [part for part in done.stdout.split("\n\n") if part.startswith("|")]
    assert tables
    for table in tables:
        assert len({line.count("|") for line in table.strip().split("\n")}) == 1
    rows = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert rows.keys() == {argument for argument in SCRIPTS[script] if " " in argument}


def test_no_corpora_is_told(tmp_path: Path) -> None:
    """Without a folder of corpora a script says what to set."""
    command = [sys.executable, str(FOLDER / "table1.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env={"PATH": ""})
    assert done.returncode == 2
    assert "VOLT_DATA" in done.stderr


def _problem(seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.1, 1, 5), rng.uniform(0.1, 1, 9)
    return a / a.sum(), ratio * b / b.sum(), np.exp(-rng.uniform(0, 2, (5, 9)))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 5.0]), st.integers(1, 60))
def test_scaling_is_that_of_pot(published: ModuleType, seed: int, ratio: float, n_iters: int) -> None:
    """After any number of iterations, with equal and unequal masses, the plan is the one of POT's sinkhorn."""
    bregman = pytest.importorskip("ot.bregman")
    a, b, kernel = _problem(seed, ratio)
    theirs = bregman.sinkhorn_knopp(a, b, -np.log(kernel), 1.0, numItermax=n_iters, stopThr=1e-9, warn=False)
    ours = published.scaled(a, b, kernel, n_iters=n_iters)
    assert ours.matrix == pytest.approx(theirs, rel=1e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.2, 3.0, 6.0]))
def test_unequal_masses_end_in_overflow_unless_rescaled(published: ModuleType, seed: int, ratio: float) -> None:
    """With Σa ≠ Σb plain scaling leaves the range of floats, whatever the costs; rescaled, the plan comes to rest, and
    is that of equal masses."""
    a, b, kernel = _problem(seed, ratio)
    assert published.scaled(a, b, kernel, n_iters=3_000).stopped == "overflow"
    rescaled = published.scaled(a, b, kernel, n_iters=300, rescaled=True)
    equal = published.scaled(a, b / ratio, kernel, n_iters=300)
    assert rescaled.matrix == pytest.approx(equal.matrix, rel=1e-5)
    assert rescaled.matrix.sum(axis=1) == pytest.approx(a)


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), unique=True),
    st.dictionaries(st.text("ab@", min_size=1, max_size=6), st.integers(1, 9)),
)
def test_counts_within_pieces(published: ModuleType, tokens: list[str], pieces: dict[str, int]) -> None:
    """A token's count is the sum over the pieces that it is a substring of, each counted once."""
    expected = [sum(n for piece, n in pieces.items() if token in piece) for token in tokens]
    assert published.count_within(tokens, pieces) == expected


@pytest.mark.slow
@pytest.mark.campaign
def test_reference_values_are_reproduced(published: ModuleType, data: Path) -> None:
    """The nine objectives of the published program on Multi30k, to the three digits that are known, and its pick."""
    counts = volt.count_words([data / f"multi30k/train.{name}.gz" for name in ("en", "de")], pretokenizer="regex:[^ ]+")
    row = next(iter(published.study(published.read_texts(volt.learn_bpe(counts, 30_000)), ["published"])))
    found = [float(f"{score['objective']:.2e}") for score in row["scores"]]
    assert found == pytest.approx(published.REFERENCE, rel=1e-9)
    assert row["picks"] == 7_000
    assert {score["stopped"] for score in row["scores"]} == {"overflow"}
