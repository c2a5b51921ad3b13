"""Tables, lexicons and lists at their edges: odd spaces, other words, huge counts, tags, no marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from volt.errors import VocabularyError
from volt.formats.registry import listed_pieces, read_vocabulary
from volt.stream import Source, Stream, debug
from volt.stream.checking.trace import DebugLine
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.nbest_segmenters import read_model, read_table
from volt.stream.transforms.random_segmentation import (
    DeterministicSegmentation,
    JoinPieces,
    MorfessorEm,
)
from volt.stream.transforms.tags import LangPrefixBoth, Tag
from volt.stream.transforms.transform import LoadedFiles, Transform, loaded
from volt.stream.transforms.vocabulary_noise import Insertion, Switchout

CHANCE = LineRng.of(3)
LEXICON = "8\t▁low\n4\ter\n1\tl\n1\to\n1\tw\n1\te\n1\tr\n1\t▁\n"


def written(folder: Path, text: str) -> Path:
    """A file that holds this."""
    path = folder / "file.tsv"
    path.write_text(text, newline="")
    return path


def cut(transform: Transform, lines: list[str]) -> list[str]:
    """Lines through a transform."""
    return transform(Batch.of(lines), CHANCE).lines


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\x1c", "\x85", "\u2028", "\v"])
def test_only_the_space_separates(tmp_path: Path, space: str) -> None:
    """Words and pieces hold every other white space; line ends are those of Unix or Windows."""
    word = f"a{space}b{space}"
    table = DeterministicSegmentation(
        written(tmp_path, f"{word}\ta {space}b{space}\r\n{space}\t{space}\n")
    )
    assert cut(table, [f"{word} {space}"]) == [f"a {space}b{space} {space}"]


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("low", "lo w"),
        ("▁low", "▁lo w"),
        ("low", "▁lo w"),
        ("▁low", "▁ l ow"),
        ("low", "lo@@ w"),
        ("low", "l@@ ow</w>"),
        ("low", "lo w</w>"),
        ("low", "lo￭ w"),
        ("low", "lo ￭w"),
        ("a@@b", "a@@ b"),
        ("@@", "@@"),
        ("▁", "▁"),
    ],
)
def test_pieces_that_spell_the_word_are_taken(tmp_path: Path, word: str, pieces: str) -> None:
    """With the marks of the usual tools, too."""
    table = read_table(written(tmp_path, f"{word}\t{pieces}\n"))
    assert " ".join(table.best([word], 1)[0][0].pieces) == pieces


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("low", "hi gh"),
        ("low", "lo"),
        ("low", "lo w w"),
        ("Low", "lo w"),
        ("low", "lo ▁w"),
        ("low", "lo</w> w"),
        ("low", "lo w@@"),
    ],
)
def test_pieces_that_do_not_spell_the_word_are_refused(
    tmp_path: Path, word: str, pieces: str
) -> None:
    """They could not be joined to the text again; the error names both."""
    with pytest.raises(
        VocabularyError,
        match=rf"file.tsv:2: the pieces '{pieces}' do not spell the word '{word}'; g",
    ):
        read_table(written(tmp_path, f"new\tn ew\n{word}\t{pieces}\n"))


def test_marks_come_by_themselves(tmp_path: Path) -> None:
    """Fields without any get them, so that their spaces come back; those that have some, and other models, do not."""
    lexicon = MorfessorEm(written(tmp_path, LEXICON), n_samples=1)
    lines = ["low lower\tlow", "▁low er\tlow", "", "low\t"]
    made = cut(lexicon, lines)
    assert made == ["▁low ▁low er\t▁low", "▁low er\t▁low", "", "▁low\t"]
    assert cut(JoinPieces(), made) == ["low lower\tlow", "lower\tlow", "", "low\t"]
    assert cut(MorfessorEm(lexicon.model, n_samples=1, marks="given"), ["low low"]) == [
        "l o w l o w"
    ]
    table = DeterministicSegmentation(tmp_path / "table.tsv")
    table.table.write_text("▁low\t▁lo w\n")
    assert cut(table, ["low low"]) == ["▁lo w ▁lo w"]
    table.table.write_text("low\tlo w\n")
    assert cut(table, ["low low"]) == ["lo w lo w"]


@pytest.mark.parametrize("count", ["1e308", "1e301", "9" * 305])
def test_counts_that_no_sum_holds_are_refused(tmp_path: Path, count: str) -> None:
    """With the line, by lexicons, by models of the package and by lists; those below are summed."""
    with pytest.raises(
        VocabularyError, match=r"file.tsv:2: the count .* is above 1e.300; divide all counts"
    ):
        read_model(written(tmp_path, f"1\ta\n{count}\tb\n"))
    assert read_model(written(tmp_path, "1e300\ta\n1e300\tb\n")).best(["a"], 1)[0][
        0
    ].score == pytest.approx(-0.6931472)
    if not count.isdecimal():
        with pytest.raises(VocabularyError, match=r"file.tsv:2: the count .* is above 1e.300"):
            listed_pieces(written(tmp_path, f"1\ta\n{count}\tb\n"))


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    """A lexicon, a model or a table; the error says what there should be."""
    for text in ("", "\n\r\n", "\ufeff"):
        with pytest.raises(
            VocabularyError,
            match=r"file.tsv: the file is empty; give one with lines `count<TAB>subw",
        ):
            read_model(written(tmp_path, text))
        with pytest.raises(
            VocabularyError,
            match=r"file.tsv: the file is empty; give one with lines `word<TAB>subwo",
        ):
            read_table(written(tmp_path, text))


COUNTS = "9.87e-05\tcat\n3e5\tdog\n2\tcow\n1.5E+2\tlow\xa0er\n"


def test_counts_may_have_exponents(tmp_path: Path) -> None:
    """In lists for noise, for merges, and for morfessor_em alike."""
    path = written(tmp_path, COUNTS)
    assert listed_pieces(path) == ["cat", "dog", "cow", "low\xa0er"]
    assert cut(Switchout(path, rate=1.0), ["x"])[0] in ("cat", "dog", "cow", "low\xa0er")
    words = ["cat", "dog", "cow", "low\xa0er"]
    assert [best.pieces for [best] in read_model(path).best(words, 1)] == [
        (word,) for word in words
    ]
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\nc a\nca t</w>\n")
    found = read_vocabulary(written(tmp_path, "9.87e-05\tca\n3e5\tcat</w>\n2\tc\n"), merges=codes)
    assert found.counts is not None
    assert dict(zip(found.tokens, found.counts, strict=True)) == {
        "ca": 1,
        "cat</w>": 300_001,
        "c": 2,
    }


def test_the_odd_line_of_a_list_is_named(tmp_path: Path) -> None:
    """Not the first one, which is as it should be."""
    with pytest.raises(
        VocabularyError, match=r"file.tsv:3: is not `count<TAB>subword`, as the lines before it are"
    ):
        read_vocabulary(written(tmp_path, "3\tcat\n2.5\tdog\nmany\tcow\n1\tlow\n"))


@pytest.mark.parametrize("kind", [Switchout, Insertion])
def test_noise_draws_no_tags_of_its_task(
    tmp_path: Path, kind: type[Switchout] | type[Insertion]
) -> None:
    """Whatever they look like, in whatever step they are added; others may be named."""
    tags = ("[BT]", "__opt__", "<FROM_a<b>", "<TO_en>", "extra", "{x}")
    vocabulary = written(tmp_path, "".join(f"9\t{token}\n" for token in (*tags, "cat", "dog")))
    text = tmp_path / "text.tsv"
    text.write_text("low low low low\tlow low low\n" * 200)
    steps: tuple[Transform, ...] = (
        Choice((Variant(1.0, (kind(vocabulary, rate=1.0, without=("extra",)),)),)),
        Tag("[BT] __opt__"),
        Choice((Variant(1.0), Variant(9.0, (Tag("{x}"),)))),
        LangPrefixBoth("a<b", "en"),
    )
    source = Source("s", (str(text),), 1.0, steps, epochs=1)
    with Stream([source]) as stream:
        found = {
            token
            for line in stream
            for token in line.split("<TO_en> ")[1].replace("\t", " ").split(" ")
        }
    assert found - {"low", "[BT]", "__opt__", "{x}"} == {"cat", "dog"}
    drawn = {
        token
        for line in cut(kind(vocabulary, rate=1.0, without=tags), ["low"] * 300)
        for token in line.split()
    }
    assert drawn - {"low"} == {"cat", "dog"}
    with pytest.raises(VocabularyError, match=r"contains only special tokens"):
        loaded(kind(vocabulary, without=(*tags, "cat", "dog")), LoadedFiles())


def test_debug_needs_no_number(tmp_path: Path) -> None:
    """Twenty lines, as the command shows."""
    text = tmp_path / "text.tsv"
    text.write_text("low\n" * 30)
    with Stream([Source("s", (str(text),), epochs=1)]) as stream:
        found: list[DebugLine] = list(debug(stream))
    assert len(found) == 20
