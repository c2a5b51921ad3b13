"""A comparison of two made-up languages."""

import pytest
from comparison.inflected import LINES, SIZES, SYSTEMS

from volt.comparison.compare import compare


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Write training and held-out text of two made-up languages."""
    folder = tmp_path_factory.mktemp("texts")
    for name, lines in LINES.items():
        (folder / f"train.{name}").write_text("\n".join(lines) + "\n")
        heldout = "\n".join(lines[:20]).replace("a", "o")
        (folder / f"test.{name}").write_text(f"{heldout}\n")
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(scope="session")
def both(files):
    """Return a comparison of both languages, all systems, and separate vocabularies."""
    pytest.importorskip("sentencepiece")
    pytest.importorskip("tokenizers")
    return compare(
        [files["train.en"], files["train.xx"]],
        heldout=[files["test.en"], files["test.xx"]],
        systems=(*SYSTEMS, "spm-bpe", "spm-unigram:70", "wordpiece:90"),
        sizes=SIZES,
        separate=True,
    )
