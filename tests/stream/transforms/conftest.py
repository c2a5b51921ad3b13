"""The files that transforms name, and a function that returns a transform."""

import pytest
from stream.transforms.support import FILES, LIBRARIES, write_model
from support.configurations import parse_config

from volt.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The files that all rows name, except SentencePiece models."""
    folder = tmp_path_factory.mktemp("transforms")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    row = "l o|lo w</w>|lo w|e r</w>|low er</w>|e s|es t</w>"
    merges = tuple((left, right) for left, right in map(str.split, row.split("|")))
    letters = "".join(dict.fromkeys("LowerthusanDiHAZM,.%5N"))
    tokens = (*letters, *(f"{letter}</w>" for letter in letters), *map("".join, merges))
    Vocabulary(merges=merges, tokens=tokens).save(folder / "v.volt")
    return folder


@pytest.fixture(scope="session")
def step_of(folder):
    """A function that returns the transform of a row, if the libraries that it needs are installed."""

    def step_of_row(row):
        name, _, options = row.partition(": ")
        for word, library in LIBRARIES.items():
            if word in row:
                pytest.importorskip(library)
        if ".model" in row and not (folder / "uni.model").exists():
            write_model(folder / "uni.model", 1)
            write_model(folder / "bytes.model", 1, byte_fallback=True)
            write_model(folder / "bpe.model", 2)
        text = f"sources: {{s: {{path: a.tsv, transforms: [{row if options else name}]}}}}"
        source = parse_config(text, path=str(folder / "stream.yaml")).sources[0]
        return source.transforms[0]

    return step_of_row
