"""Laws of `read_texts` and `read_pairs`, which split a corpus into train, dev and test."""

import gzip
import json

import pytest

from volt.errors import ConfigError, CorpusError
from volt.trial.texts import LEAST, LEAST_PAIRS, Texts, read_pairs, read_texts, write_texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "low lower\n" * 900,
            f"the text has 8,[0-9]+ characters; trainings need {LEAST:,} or more",
        ),
        (
            f"{'low ' * 3000}\n" * 17,
            "the text has 17 segments, because its lines are long; trainings need 18",
        ),
        ("low \udcff", "1: invalid UTF-8"),
    ],
)
def test_unsuitable_texts_are_refused(tmp_path, text, message):
    """`read_texts` raises CorpusError for a text that is short, has few segments, or is not
    UTF-8.
    """
    path = tmp_path / "corpus.txt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CorpusError, match=message):
        read_texts([str(path)])


N_PAIRS = 700


def write_sides(folder, source, target):
    """Write the lines of two files. Return their paths."""
    paths = folder / "a.de", folder / "b.en"
    for path, lines in zip(paths, (source, target), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [str(path) for path in paths]


def numbered(word):
    return [f"{word} {number}" for number in range(N_PAIRS)]


def pairs_of(encoded):
    """Return the pairs in the files of texts."""
    lines = {name: text.decode().splitlines() for name, text in encoded.items()}
    splits = ("train", "dev", "test")
    return [
        pair
        for split in splits
        for pair in zip(lines[f"{split}.src"], lines[f"{split}.tgt"], strict=True)
    ]


def test_pairs_stay_together(tmp_path):
    """`read_pairs` puts each pair into one text, on the same line of both files.

    Pairs with an empty or very long side are left out, and reported."""
    source, target = numbered("Hund"), numbered("dög")
    source[5] = "  "
    target[9] = "w " * 2_000
    reports = []
    encoded = read_pairs(*write_sides(tmp_path, source, target), report=reports.append)
    expected = [(f"Hund {n}", f"dög {n}") for n in range(N_PAIRS) if n not in (5, 9)]
    assert sorted(pairs_of(encoded)) == sorted(expected)
    assert reports[0].startswith("left out 2 pairs of 700: a side is empty, or has more than")

    texts = write_texts(encoded, tmp_path / "texts")
    assert texts == Texts.read(tmp_path / "texts", ("src", "tgt"))
    assert texts.path("dev").name == "dev.tgt"
    train = encoded["train.tgt"].decode()
    assert (texts.characters["train"], texts.n_bytes["train"]) == (len(train), len(train.encode()))
    assert texts.characters["train.src"] == len(encoded["train.src"].decode())


def test_pairs_are_read_like_other_texts(tmp_path):
    """`read_pairs` reads compressed files, fields and columns, whose texts may contain line
    ends."""
    source, target = numbered("Hund"), numbered("dog")
    expected = read_pairs(*write_sides(tmp_path, source, target), report=str)
    numbers = [f"{n}\t{line}" for n, line in enumerate(source)]
    packed = tmp_path / "a.tsv.gz"
    packed.write_bytes(gzip.compress("\n".join(numbers).encode()))
    other = tmp_path / "b.tsv"
    other.write_text("".join(f"0\t{line}\r\n" for line in target), encoding="utf-8")
    assert read_pairs(str(packed), str(other), fields=2, report=str) == expected

    for path, lines in ((packed, source), (other, target)):
        rows = [json.dumps({"text": line.replace(" ", "\n")}) for line in lines]
        path.with_suffix(".jsonl").write_text("\n".join(rows), encoding="utf-8")
    paths = [str(path.with_suffix(".jsonl")) for path in (packed, other)]
    assert read_pairs(*paths, column="text", report=str) == expected


@pytest.mark.parametrize(
    ("n_source", "n_target", "message"),
    [
        (600, 599, "a.de has 600 lines, and .*b.en has 599; each line must be"),
        (1, 0, "a.de has 1 line, and .*b.en has 0"),
        (0, 0, "a.de: 0 of 0 pairs with 1 to 1,000 characters on each side"),
        (499, 499, f"499 of 499 pairs .* each side; trainings need {LEAST_PAIRS} or more"),
    ],
)
def test_files_that_are_not_pairs_are_refused(tmp_path, n_source, n_target, message):
    """`read_pairs` raises CorpusError for files of different lengths, and for few pairs."""
    paths = write_sides(tmp_path, numbered("Hund")[:n_source], numbered("dog")[:n_target])
    with pytest.raises(CorpusError, match=message):
        read_pairs(*paths, report=str)


def test_useless_pairs_are_refused(tmp_path):
    """`read_pairs` refuses a text as its own translation; an error counts pairs without a side."""
    lines = numbered("dog")[:600]
    with pytest.raises(CorpusError, match="source and target are the same text; name two files"):
        read_pairs(*write_sides(tmp_path, lines, lines), report=str)
    with pytest.raises(CorpusError, match="0 of 600 pairs with 1 to 1,000 characters on each"):
        read_pairs(*write_sides(tmp_path, lines, [""] * 600), report=str)


def test_lines_of_pairs_are_not_skipped(tmp_path):
    """`read_pairs` refuses errors="skip"; it replaces bytes that are not UTF-8 on request."""
    paths = write_sides(tmp_path, numbered("Hund"), numbered("dog"))
    with open(paths[1], "ab") as file:
        file.write(b"a\xff\n")
    with open(paths[0], "ab") as file:
        file.write(b"x\n")
    with pytest.raises(ConfigError, match="would shift its pairs; pass errors='replace'"):
        read_pairs(*paths, errors="skip", report=str)
    with pytest.raises(CorpusError, match=r"b\.en:701: invalid UTF-8"):
        read_pairs(*paths, report=str)
    assert ("x", "a\ufffd") in pairs_of(read_pairs(*paths, errors="replace", report=str))
