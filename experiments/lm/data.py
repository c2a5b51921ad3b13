"""Real corpora → segments of running text for training, choosing and testing, one on a line (volt/trial/texts.py).

    multi30k/train.en.gz, ted/Finnish.txt.gz, bible/sw.tsv.gz → NAME/train.txt, NAME/dev.txt, NAME/test.txt

`ted-fi/8` trains on every eighth segment of ted-fi's training text, and is tested on all of its dev and test segments.
`ted-fi+ted-et` is the text of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volt.errors import ConfigError
from volt.stream import Source, Stream
from volt.trial.texts import SPLITS, Texts, encode, fingerprint, segments, split_of, write_texts

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
FURTHER = {  # in joined texts only
    "multi30k-fr": "multi30k/train.fr.gz",
    "multi30k-cs": "multi30k/train.cs.gz",
    "ted-ca": "ted/Catalan.txt.gz",
    "ted-ur": "ted/Urdu.txt.gz",
    "bible-et": "bible/et.tsv.gz",
    "bible-hy": "bible/hy.tsv.gz",
    "bible-lv": "bible/lv.tsv.gz",
}


def parse(name: str) -> tuple[list[str], int]:
    """Return the joined corpora, and n if the training text is every n-th segment.

    >>> parse("ted-fi"), parse("ted-fi+ted-et/8")
    ((['ted-fi'], 1), (['ted-fi', 'ted-et'], 8))
    """
    joined, _, step = name.partition("/")
    names = joined.split("+")
    if unknown := [one for one in names if one not in CORPORA | FURTHER]:
        raise ConfigError(
            f"{name}: no corpus {unknown[0]}; choose from {', '.join(CORPORA | FURTHER)}"
        )
    if step and not (step.isdecimal() and int(step)):
        raise ConfigError(f"{name}: give a whole number after /, such as ted-fi/8")
    return names, int(step or 1)


def prepared(data: Path, name: str, work: Path) -> Texts:
    """Write the texts of a corpus into a folder named by their fingerprint, so that other data gets another folder."""
    (names, step), lines = parse(name), {split: list[str]() for split in SPLITS}
    for one in names:
        for number, segment in enumerate(segments(lines_of(data, one))):
            lines[split_of(number)].append(segment)
    lines["train"] = lines["train"][::step]
    if not all(lines.values()):
        raise ConfigError(
            f"{data}: {name} has no segment for one of {', '.join(SPLITS)}; give more text"
        )
    encoded = encode({f"{split}.txt": rows for split, rows in lines.items()})
    return write_texts(encoded, work / f"{name.replace('/', '-every-')}-{fingerprint(encoded)}")


def lines_of(data: Path, name: str) -> Iterator[str]:
    """Read the lines of a corpus, verses without their numbers. Raises ConfigError without the file."""
    path = data / (CORPORA | FURTHER)[name]
    if not path.exists():
        raise ConfigError(
            f"{path}: no such file; --data is the folder that holds multi30k, ted and bible"
        )
    with Stream([Source(name, (str(path),), epochs=1, shuffle="none")]) as stream:
        for line in stream:
            yield line.partition("\t")[2] if path.suffixes[0] == ".tsv" else line
