"""Real corpora → segments of running text for training, choosing and testing, one on a line.

    multi30k/train.en.gz, ted/Finnish.txt.gz, bible/sw.tsv.gz → NAME/train.txt, NAME/dev.txt, NAME/test.txt

A segment is lines of the corpus that follow each other, joined by a space, until they hold 400 characters. Of every
twenty segments, the eighth is for choosing (dev) and the eighteenth for testing, so all three are of one kind; whatever
the vocabulary, a character has the same text before it.

>>> [len(one) for one in segments(["a" * 150] * 5)]
[452, 301]
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from volt.errors import ConfigError
from volt.files.atomic import make_folder, write_atomic
from volt.stream import Source, Stream

SPLITS = ("train", "dev", "test")
CORPORA = {
    "multi30k-en": "multi30k/train.en.gz",
    "multi30k-de": "multi30k/train.de.gz",
    "ted-fi": "ted/Finnish.txt.gz",
    "ted-et": "ted/Estonian.txt.gz",
    "ted-lv": "ted/Latvian.txt.gz",
    "ted-ka": "ted/Georgian.txt.gz",
    "ted-mr": "ted/Marathi.txt.gz",
    "bible-eu": "bible/eu.tsv.gz",
    "bible-sw": "bible/sw.tsv.gz",
    "bible-uk": "bible/uk.tsv.gz",
}
_ENOUGH = 400  # characters of a segment
_OF_TWENTY = {7: "dev", 17: "test"}


@dataclass(frozen=True, slots=True)
class Texts:
    """The three texts of a corpus.

    name: of the corpus
    folder: holds train.txt, dev.txt, test.txt
    characters, n_bytes: of each, line ends among them
    fingerprint: of all three
    """

    name: str
    folder: Path
    characters: dict[str, int]
    n_bytes: dict[str, int]
    fingerprint: str

    def path(self, split: str) -> Path:
        """The file of a split."""
        return self.folder / f"{split}.txt"


def prepared(data: Path, name: str, work: Path) -> Texts:
    """The texts of a corpus by its name, written into a folder of their own unless they are there already.

    The folder is named by the fingerprint, too, so that other data never changes what a training reads.
    """
    lines: dict[str, list[str]] = {split: [] for split in SPLITS}
    for number, segment in enumerate(segments(lines_of(data, name))):
        lines[_OF_TWENTY.get(number % 20, "train")].append(segment)
    texts = {split: "".join(f"{line}\n" for line in found) for split, found in lines.items()}
    if not all(texts.values()):
        told = f"fewer than {max(_OF_TWENTY) + 1} segments of {_ENOUGH} characters, too few to test on"
        raise ConfigError(f"{data / CORPORA[name]}: {told}; give more text")
    encoded = {split: text.encode() for split, text in texts.items()}
    fingerprint = hashlib.sha256(b"\0".join(encoded.values())).hexdigest()[:12]
    folder = work / f"{name}-{fingerprint}"
    make_folder(folder)
    for split, text in encoded.items():
        path = folder / f"{split}.txt"
        if not path.exists() or path.read_bytes() != text:
            with write_atomic(path) as file:
                file.write(text)
    characters = {split: len(text) for split, text in texts.items()}
    return Texts(name, folder, characters, {split: len(text) for split, text in encoded.items()}, fingerprint)


def lines_of(data: Path, name: str) -> Iterator[str]:
    """The lines of a corpus, of verses without their numbers. Raises ConfigError if there is no such corpus."""
    if name not in CORPORA:
        raise ConfigError(f"no corpus {name}; choose from {', '.join(CORPORA)}")
    path = data / CORPORA[name]
    if not path.exists():
        raise ConfigError(f"{path}: no such file; --data is the folder that holds multi30k, ted and bible")
    with Stream([Source(name, (str(path),), epochs=1, shuffle="none")]) as stream:
        for number, line in enumerate(stream, 1):
            if path.suffixes[0] == ".tsv" and "\t" not in line:
                raise ConfigError(f"{path}:{number}: no tab; a line is the number of a verse, a tab, and the verse")
            yield line.partition("\t")[2] if path.suffixes[0] == ".tsv" else line


def segments(lines: Iterable[str]) -> Iterator[str]:
    """Lines joined until they hold 400 characters; white space is one space."""
    held: list[str] = []
    n = 0
    for line in lines:
        words = " ".join(line.split())
        if not words:
            continue
        held.append(words)
        n += len(words)
        if n >= _ENOUGH:
            yield " ".join(held)
            held, n = [], 0
    if held:
        yield " ".join(held)
