"""Segmenters give the best segmentations of words, and say what is wrong with their files, and where."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import MissingLibraryError, VocabularyError
from volt.stream.transforms.nbest_segmenters import (
    Segmenter,
    lexicon_segmenter,
    read_model,
    read_table,
)
from volt.stream.transforms.taboo_segmentation import (
    dropout_segmenter,
    read_sentencepiece_segmenter,
)
from volt.vocabulary import Vocabulary

LEXICONS = st.dictionaries(
    st.text("abc▁", min_size=1, max_size=3), st.sampled_from([1.0, 2.0, 4.0, 8.0]), min_size=1
)
WORDS = st.text("abcd▁", min_size=1, max_size=6)


def cuts(word: str) -> Iterator[tuple[str, ...]]:
    """All ways to cut a word into pieces."""
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        for rest in cuts(word[end:]):
            yield (word[:end], *rest)


def all_of(counts: dict[str, float], word: str) -> dict[tuple[str, ...], float]:
    """Every segmentation into pieces of a lexicon, and unknown characters, with its score: by the definition."""
    total = sum(counts.values())
    least = math.log(min(counts.values()) / total) - 10
    known = {piece: math.log(count / total) for piece, count in counts.items()}
    known = dict.fromkeys(word, least) | known
    return {
        pieces: sum(map(known.__getitem__, pieces))
        for pieces in cuts(word)
        if known.keys() >= set(pieces)
    }


@given(LEXICONS, WORDS, st.integers(1, 12))
def test_the_n_best_are_those_of_all(counts: dict[str, float], word: str, n: int) -> None:
    """Of all segmentations, n with the greatest scores come, best first, each once, and its pieces make the word."""
    expected, found = all_of(counts, word), lexicon_segmenter(counts).best([word], n)[0]
    assert [one.score for one in found] == pytest.approx(
        sorted(expected.values(), reverse=True)[:n]
    )
    assert len({one.pieces for one in found}) == len(found) == min(n, len(expected))
    assert all(one.score == pytest.approx(expected[one.pieces]) for one in found)


def test_of_equal_ones_the_longer_last_piece_comes_first() -> None:
    """Ties break by a rule, so that the n best are the same everywhere."""
    segmenter = lexicon_segmenter(dict.fromkeys(["a", "b", "c", "ab", "bc"], 1.0))
    assert [one.pieces for one in segmenter.best(["abc"], 3)[0]] == [
        ("a", "bc"),
        ("ab", "c"),
        ("a", "b", "c"),
    ]


def test_a_long_word_takes_no_long_time() -> None:
    """A path is two numbers a place, so that a word of many characters takes memory in proportion."""
    assert len(lexicon_segmenter({"a": 3.0, "aa": 1.0}).best(["a" * 5_000], 3)[0]) == 3


def written(tmp_path: Path, text: str | bytes) -> Path:
    """A file that holds this."""
    path = tmp_path / "model.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_lexicon_of_em_prune(tmp_path: Path) -> None:
    """Counts may be fractions, line ends those of Windows; a subword with the count 0 does not occur."""
    found = read_model(written(tmp_path, "2.5\t▁lo\r\n\r\n0.0\t▁low\r\n1e-3\tw\r\n"))
    assert found.best(["▁low"], 1)[0][0].pieces == ("▁lo", "w")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\nx\tb\n", r"model.txt:2: 'x\\tb' is not `count<TAB>subword`"),
        ("1\ta\n-1\tb\n", "model.txt:2: "),
        ("1\ta\nnan\tb\n", "model.txt:2: "),
        ("1\ta\ninf\tb\n", "model.txt:2: "),
        ("1\ta\n1\t\n", "model.txt:2: "),
        ("1\ta\n1\tb c\n", "model.txt:2: "),
        ("1\ta\n2 b\n", "model.txt:2: "),
        ("1\ta\n\n2\ta\n", "model.txt:3: the subword 'a' repeats line 1; remove one"),
        ("0\ta\n", "model.txt: no subword has a count above 0"),
        (b"1\ta\n\xff\tb\n", "model.txt:2: not UTF-8"),
        (
            pickle.dumps([1]),
            "model.txt: a pickle, which could run any code; write the model as text: morfessor -l",
        ),
    ],
)
def test_what_is_wrong_with_a_model(tmp_path: Path, text: str | bytes, message: str) -> None:
    """The error says file, line and remedy. No pickle is loaded."""
    with pytest.raises(VocabularyError, match=message):
        read_model(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "low\tlo w\nlower\n",
            r"model.txt:2: 'lower' is not `word<TAB>subword subword …`; fix the line",
        ),
        ("low\t \n", "model.txt:1: "),
        ("\tlow\n", "model.txt:1: "),
        ("a b\ta b\n", "model.txt:1: "),
        ("low\tlo\tw\n", "model.txt:1: "),
        ("low\tlo w\n\nlow\tl ow\n", "model.txt:3: the word 'low' repeats line 1; remove one"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path: Path, text: str, message: str) -> None:
    """The error says file, line and remedy."""
    with pytest.raises(VocabularyError, match=message):
        read_table(written(tmp_path, text))


MODEL = "# from training\n2 cat + s\n3 dog + s\n5 walk + ing\n"


def test_a_morfessor_model(tmp_path: Path) -> None:
    """The n best are the package's, best first, with its scores; without smoothing, as its commands have it."""
    pytest.importorskip("morfessor", reason="needs the package morfessor")
    found = read_model(written(tmp_path, MODEL))
    best = found.best(["cats", "dogs"], 5)[0]
    [model] = found.best.args  # type: ignore[attr-defined]
    assert best[0].pieces == ("cat", "s")
    assert best[0].pieces == tuple(model.viterbi_segment("cats", 0, 30)[0])
    assert best[0].score == pytest.approx(-model.viterbi_segment("cats", 0, 30)[1])
    assert best[1].pieces == tuple("cats")
    assert best[1].score < best[0].score


@pytest.mark.parametrize("line", ["x cat + s", "0 cat", "3", "2 cat +  + s"])
def test_what_is_wrong_with_a_morfessor_model(tmp_path: Path, line: str) -> None:
    """The error says file and line."""
    pytest.importorskip("morfessor", reason="needs the package morfessor")
    with pytest.raises(VocabularyError, match=r"model.txt:5: .* is neither `count morph"):
        read_model(written(tmp_path, f"{MODEL}{line}\n"))


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to install it."""
    monkeypatch.setitem(__import__("sys").modules, "morfessor", None)
    with pytest.raises(
        MissingLibraryError,
        match=r"morfessor is not installed; pip install 'volt-vocab\[morfessor\]'",
    ):
        read_model(written(tmp_path, MODEL))


def tiny(**options: str) -> Vocabulary:
    """A vocabulary of two merges."""
    merges = (("l", "o"), ("lo", "w</w>"))
    tokens = ("l", "o", "w", *(f"{letter}</w>" for letter in "low"), "lo", "low</w>")
    return Vocabulary(merges=merges, tokens=tokens, **options)  # type: ignore[arg-type]


def test_samples_of_an_encoder() -> None:
    """They are the encodings that dropout makes, the most frequent first; one sample is the encoding itself."""
    segmenter = dropout_segmenter(Encoder(tiny()), 0.5)
    (found, other), (best, _) = (
        segmenter.best(["low", "wow"], 64),
        segmenter.best(["low", "wow"], 1),
    )
    assert {one.pieces for one in found} == {("low</w>",), ("lo", "w</w>"), ("l", "o", "w</w>")}
    assert sum(math.exp(one.score) for one in found) == pytest.approx(64)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert [one.pieces for one in other] == [("w", "o", "w</w>")]
    assert [one.pieces for one in best] == [("low</w>",)]
    assert segmenter.best(["low"], 64)[0] == found  # whatever stands beside the word
    assert segmenter.characters("low") == ("l", "o", "w</w>")


def test_the_n_best_of_a_sentencepiece_model(tmp_path: Path) -> None:
    """They are the library's; a model of one segmentation is refused."""
    spm = pytest.importorskip("sentencepiece", reason="needs the package sentencepiece")
    for kind in ("unigram", "bpe"):
        made, text = io.BytesIO(), ["low lower lowest newest widest new low"] * 20
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=made,
            vocab_size=17,
            model_type=kind,
            minloglevel=2,
        )
        (tmp_path / kind).write_bytes(made.getvalue())
    segmenter: Segmenter = read_sentencepiece_segmenter(tmp_path / "unigram")
    found = segmenter.best(["lowest"], 4)[0]
    processor = spm.SentencePieceProcessor(model_file=str(tmp_path / "unigram"))
    assert [list(one.pieces) for one in found] == processor.nbest_encode(
        "lowest", nbest_size=4, out_type=str
    )
    assert {"".join(one.pieces) for one in found} == {"▁lowest"}
    assert segmenter.characters("low") == ("▁", "l", "o", "w")
    with pytest.raises(VocabularyError, match="bpe: not a unigram model"):
        read_sentencepiece_segmenter(tmp_path / "bpe")
