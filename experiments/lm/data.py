"""Real corpora → segments of running text for training, choosing and testing, one on a line.

    multi30k/train.en.gz, ted/Finnish.txt.gz, bible/sw.tsv.gz → NAME/train.txt, NAME/dev.txt, NAME/test.txt

`ted-fi/8` trains on every eighth segment of ted-fi's training text, and is tested on all of its dev and test segments.
`ted-fi+ted-et` is the text of both.

A segment is consecutive lines of the corpus, joined by spaces, of 400 characters or more. Of every twenty segments the
eighth is for choosing (dev) and the eighteenth for testing, so all three texts are of one kind.

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
    "multi30k-en": "multi30k/train.en.gz", "multi30k-de": "multi30k/train.de.gz",
    "ted-fi": "ted/Finnish.txt.gz", "ted-et": "ted/Estonian.txt.gz", "ted-lv": "ted/Latvian.txt.gz",
    "ted-ka": "ted/Georgian.txt.gz", "ted-mr": "ted/Marathi.txt.gz",
    "bible-eu": "bible/eu.tsv.gz", "bible-sw": "bible/sw.tsv.gz", "bible-uk": "bible/uk.tsv.gz",
}  # fmt: skip
FURTHER = {  # in joined texts only
    "multi30k-fr": "multi30k/train.fr.gz", "multi30k-cs": "multi30k/train.cs.gz", "ted-ca": "ted/Catalan.txt.gz",
    "ted-ur": "ted/Urdu.txt.gz", "bible-et": "bible/et.tsv.gz", "bible-hy": "bible/hy.tsv.gz",
    "bible-lv": "bible/lv.tsv.gz",
}  # fmt: skip
_ENOUGH = 400  # characters of a segment
_OF_TWENTY = {7: "dev", 17: "test"}


@dataclass(frozen=True, slots=True)
class Texts:
    """The three texts of a corpus. characters, n_bytes: of each, with line ends;  fingerprint: of all three."""

    name: str
    folder: Path
    characters: dict[str, int]
    n_bytes: dict[str, int]
    fingerprint: str

    def path(self, split: str) -> Path:
        return self.folder / f"{split}.txt"


def parse(name: str) -> tuple[list[str], int]:
    """Return the joined corpora, and n if the training text is every n-th segment.

    >>> parse("ted-fi"), parse("ted-fi+ted-et/8")
    ((['ted-fi'], 1), (['ted-fi', 'ted-et'], 8))
    """
    joined, _, step = name.partition("/")
    names = joined.split("+")
    if unknown := [one for one in names if one not in CORPORA | FURTHER]:
        raise ConfigError(f"{name}: no corpus {unknown[0]}; choose from {', '.join(CORPORA | FURTHER)}")
    if step and not (step.isdecimal() and int(step)):
        raise ConfigError(f"{name}: give a whole number after /, such as ted-fi/8")
    return names, int(step or 1)


def prepared(data: Path, name: str, work: Path) -> Texts:
    """Write the texts of a corpus into a folder named by their fingerprint, so that other data gets another folder."""
    (names, step), lines = parse(name), {split: list[str]() for split in SPLITS}
    for one in names:
        for number, segment in enumerate(segments(lines_of(data, one))):
            lines[_OF_TWENTY.get(number % 20, "train")].append(segment)
    lines["train"] = lines["train"][::step]
    texts = {split: "".join(f"{line}\n" for line in found) for split, found in lines.items()}
    if not all(texts.values()):
        raise ConfigError(f"{data}: {name} has fewer than {max(_OF_TWENTY) + 1} segments; give more text")
    encoded = {split: text.encode() for split, text in texts.items()}
    fingerprint = hashlib.sha256(b"\0".join(encoded.values())).hexdigest()[:12]
    folder = work / f"{name.replace('/', '-every-')}-{fingerprint}"
    make_folder(folder)
    for split, text in encoded.items():
        path = folder / f"{split}.txt"
        if not path.exists() or path.read_bytes() != text:
            with write_atomic(path) as file:
                file.write(text)
    characters = {split: len(text) for split, text in texts.items()}
    return Texts(name, folder, characters, {split: len(text) for split, text in encoded.items()}, fingerprint)


def lines_of(data: Path, name: str) -> Iterator[str]:
    """Read the lines of a corpus, verses without their numbers. Raises ConfigError without the file."""
    path = data / (CORPORA | FURTHER)[name]
    if not path.exists():
        raise ConfigError(f"{path}: no such file; --data is the folder that holds multi30k, ted and bible")
    with Stream([Source(name, (str(path),), epochs=1, shuffle="none")]) as stream:
        for line in stream:
            yield line.partition("\t")[2] if path.suffixes[0] == ".tsv" else line


def segments(lines: Iterable[str]) -> Iterator[str]:
    """Join lines until they hold 400 characters; white space becomes one space."""
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
