"""Taboo segmentation: source and target spell the same words, and share no piece of several characters."""

import io
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.nbest_segmenters import LexiconSegmenter
from volt.stream.transforms.random_segmentation import (
    choose_disjoint_pairs,
    compute_probs,
    find_long_pieces,
)
from volt.stream.transforms.subwords import Decode
from volt.stream.transforms.taboo_segmentation import (
    DropoutSegmenter,
    MorfessorEmTaboo,
    MorfessorEmTabooReordered,
    Taboo,
    read_encoder,
    read_sentencepiece_segmenter,
)
from volt.stream.transforms.transform import LoadedFiles, invert, make_deterministic, open_transform
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

LEXICONS = st.dictionaries(
    st.text("abc▁", min_size=1, max_size=3), st.sampled_from([1.0, 2.0, 4.0, 8.0]), min_size=1
)
WORDS = st.text("abcd▁", min_size=1, max_size=6)
LINES = ["▁unlock ▁unlock ▁lock", "▁relock", "", "▁un ▁é"]
RNG = LineRng.of(3)


@pytest.fixture
def lexicon(tmp_path):
    """A small lexicon."""
    path = tmp_path / "lexicon.tsv"
    pieces = dict.fromkeys(["▁un", "lock", "▁u", "nl", "ock", "▁re", "loc", "▁l", *"▁unlockre"])
    path.write_text("".join(f"{4 + k % 3}\t{piece}\n" for k, piece in enumerate(pieces)))
    return path


@pytest.fixture
def vocabulary(tmp_path):
    """A small vocabulary."""
    path = tmp_path / "tiny.volt"
    merges = (("l", "o"), ("c", "k</w>"), ("lo", "ck</w>"), ("u", "n"))
    tokens = (*"unlocke", *(f"{letter}</w>" for letter in "kunl"), "lo", "ck</w>", "lock</w>", "un")
    Vocabulary(merges=merges, tokens=tokens).save(path)
    return path


def rows_of(transform, lines, rng=RNG):
    return transform(Batch.of(lines), rng).rows


def share_no_long_piece(source, target):
    return find_long_pieces(source.split(" ")).isdisjoint(find_long_pieces(target.split(" ")))


@given(LEXICONS, WORDS, st.integers(1, 8), st.sampled_from([0.0, 0.5, float("inf")]))
def test_pairs_share_no_long_piece(counts, word, n, theta):
    """choose_disjoint_pairs returns pairs of segmentations that spell the word and share no long
    piece, with probabilities that sum to 1."""
    [choices] = choose_disjoint_pairs(
        LexiconSegmenter.from_counts(counts), [word], n=n, theta=theta
    )
    assert choices.sides
    for source, target in choices.sides:
        first = choices.texts[source].split(" ")
        second = choices.texts[target].split(" ")
        assert "".join(first) == "".join(second) == word
        assert not {piece for piece in first if len(piece.replace("▁", "")) > 1} & set(second)
    assert choices.bounds[-1] == 1
    assert np.all(np.diff(choices.bounds) >= 0)


def test_markers_are_not_characters():
    """A marker and one character are not a long piece, so both segmentations of a pair may contain
    it."""
    segmenter = LexiconSegmenter.from_counts({"▁a": 8.0, "b": 8.0, "c": 8.0, "bc": 8.0})
    [choices] = choose_disjoint_pairs(segmenter, ["▁abc"], n=5, theta=0.5)
    pairs = [(choices.texts[source], choices.texts[target]) for source, target in choices.sides]
    assert ("▁a bc", "▁a b c") in pairs
    assert not find_long_pieces(["▁a", "a</w>", "▁"])
    assert find_long_pieces(["▁ab", "ab</w>"]) == {"▁ab", "ab</w>"}


def test_without_a_partner_the_target_is_characters():
    """choose_disjoint_pairs pairs a segmentation with the word's characters if no other
    segmentation avoids its long pieces."""
    segmenter = LexiconSegmenter.from_counts({"abc": 8.0, "d": 8.0})
    [choices] = choose_disjoint_pairs(segmenter, ["abcd"], n=1, theta=0.5)
    assert (choices.texts, choices.sides) == (["abc d", "a b c d"], [(0, 1)])


def test_pairs_are_drawn_by_their_scores(tmp_path):
    """MorfessorEmTaboo draws the source ∝ score^theta, and the target ∝ score^theta among its
    partners, by a χ² test over 2,000 lines."""
    counts = {"ab": 8.0, "a": 4.0, "b": 4.0, "bc": 2.0, "c": 4.0, "abc": 1.0}
    [best] = LexiconSegmenter.from_counts(counts).best(["abc"], 4)
    expected = {}
    for source, share in zip(best, compute_probs([each.score for each in best], 0.5), strict=True):
        long = find_long_pieces(source.pieces)
        partners = [each for each in best if long.isdisjoint(find_long_pieces(each.pieces))]
        weights = np.exp(0.5 * np.array([each.score for each in partners]))
        for target, weight in zip(partners, weights / weights.sum(), strict=True):
            expected[" ".join(source.pieces), " ".join(target.pieces)] = 2_000 * share * weight

    path = tmp_path / "lexicon.tsv"
    path.write_text("".join(f"{count}\t{piece}\n" for piece, count in counts.items()))
    rows = rows_of(MorfessorEmTaboo(path, n_samples=4), ["abc"] * 2_000)
    observed = Counter((source, target) for source, target in rows)
    assert observed.keys() <= expected.keys()
    distance = sum((observed[pair] - n) ** 2 / n for pair, n in expected.items())
    assert chdtrc(len(expected) - 1, distance) > 1e-4


def test_a_line_becomes_source_and_target(lexicon):
    """MorfessorEmTaboo writes two segmentations of field 1 to fields 1 and 2, and does not change
    further fields."""
    lines = [*LINES, "▁un\tx\ty"]
    transform = MorfessorEmTaboo(lexicon, theta=0.0)
    rows = rows_of(transform, lines)
    for line, (source, target, *rest) in zip(lines, rows, strict=True):
        text, *others = line.split("\t")
        assert source.replace(" ", "") == target.replace(" ", "") == text.replace(" ", "")
        assert rest == others[1:]
    assert rows != rows_of(transform, lines, LineRng.of(4))


def segmentations_by_word(line):
    """Return word → its segmentation, which must be the same for all occurrences in the line."""
    result = {}
    for word in line.split("▁")[1:]:
        assert result.setdefault(word.replace(" ", ""), word.strip()) == word.strip()
    return result


def test_reordered_sides_have_one_draw_for_each_word(lexicon):
    """MorfessorEmTabooReordered gives all equal words of a line one pair of segmentations; lines
    draw independently."""
    transform = MorfessorEmTabooReordered(lexicon, theta=0.0)
    lines = ["▁unlock ▁lock ▁unlock ▁relock\t▁relock ▁unlock ▁lock ▁unlock"] * 40
    drawn = set()
    for source, target in map(tuple, rows_of(transform, lines)):
        first = segmentations_by_word(source)
        second = segmentations_by_word(target)
        assert first.keys() == second.keys() == {"unlock", "lock", "relock"}
        assert all(share_no_long_piece(first[word], second[word]) for word in first)
        drawn.add((first["unlock"], second["unlock"]))
    assert len(drawn) > 3
    [[alone]] = rows_of(transform, ["▁un"])
    assert alone == rows_of(transform, ["▁un\t▁un"])[0][0]


def test_taboo_includes_both_transforms(lexicon):
    """Taboo with a Morfessor lexicon gives the lines of MorfessorEmTaboo and, if reordered, of
    MorfessorEmTabooReordered."""
    assert rows_of(Taboo(lexicon), LINES) == rows_of(MorfessorEmTaboo(lexicon), LINES)
    lines = ["▁unlock ▁lock\t▁lock ▁unlock"]
    expected = rows_of(MorfessorEmTabooReordered(lexicon), lines)
    assert rows_of(Taboo(lexicon, reordered=True), lines) == expected


def test_taboo_with_a_vocabulary(vocabulary):
    """Taboo with a vocabulary writes two sides that share no long piece and decode to the text."""
    transform = open_transform(
        Taboo(vocabulary, n_samples=16, segmenter="vocabulary", dropout=0.5), LoadedFiles()
    )
    batch = transform(Batch.of(["lock unlock un"] * 30), RNG)
    for row in batch.rows:
        source, target = (re.findall(r"\S.*?</w>", side) for side in row)
        assert all(map(share_no_long_piece, source, target))
    assert len(set(batch.lines)) > 3
    assert invert([transform]) == (Decode(vocabulary, None),)
    assert set(Decode(vocabulary)(batch, RNG).lines) == {"lock unlock un\tlock unlock un"}


def test_validation_takes_the_best_pair(lexicon):
    """MorfessorEmTaboo in its deterministic form writes the same pair for every seed; its inverse
    returns the text on both sides."""
    transform = MorfessorEmTaboo(lexicon, marks="word")
    [best] = make_deterministic([transform])
    [join] = invert([transform])
    lines = ["unlock lock", "relock"]
    batch = best(Batch.of(lines), RNG)
    assert all(rows_of(best, lines, LineRng.of(seed)) == batch.rows for seed in range(5))
    assert batch.rows[0][0] != batch.rows[0][1]
    assert join(batch, RNG).rows == [[line, line] for line in lines]


def test_samples_of_an_encoder_are_counted():
    """DropoutSegmenter sorts its distinct samples by frequency; a single sample is the encoding
    without dropout."""
    tokens = ("l", "o", "w", *(f"{letter}</w>" for letter in "low"), "lo", "low</w>")
    vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=tokens)
    segmenter = DropoutSegmenter.from_encoder(Encoder(vocabulary), dropout=0.5)
    low, wow = segmenter.best(["low", "wow"], 64)
    assert {each.pieces for each in low} == {("low</w>",), ("lo", "w</w>"), ("l", "o", "w</w>")}
    scores = [each.score for each in low]
    assert sum(map(math.exp, scores)) == pytest.approx(64)
    assert scores == sorted(scores, reverse=True)
    assert [each.pieces for each in wow] == [("w", "o", "w</w>")]
    assert segmenter.best(["low"], 64) == [low]
    assert [each.pieces for [each] in segmenter.best(["low"], 1)] == [("low</w>",)]
    assert segmenter.characters("low") == ("l", "o", "w</w>")


def test_a_sentencepiece_model_gives_the_n_best_of_the_library(tmp_path):
    """A SentencePiece segmenter returns the n best segmentations of the library, and refuses a BPE
    model."""
    spm = pytest.importorskip("sentencepiece", reason="needs the package sentencepiece")
    for kind in ("unigram", "bpe"):
        model = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(["low lower lowest newest widest new low"] * 20),
            model_writer=model,
            vocab_size=17,
            model_type=kind,
            minloglevel=2,
        )
        (tmp_path / kind).write_bytes(model.getvalue())
    segmenter = read_sentencepiece_segmenter(tmp_path / "unigram")
    processor = spm.SentencePieceProcessor(model_file=str(tmp_path / "unigram"))
    expected = processor.nbest_encode("lowest", nbest_size=4, out_type=str)
    [best] = segmenter.best(["lowest"], 4)
    assert [list(each.pieces) for each in best] == expected
    assert segmenter.characters("low") == ("▁", "l", "o", "w")
    with pytest.raises(VocabularyError, match="bpe: not a unigram model"):
        read_sentencepiece_segmenter(tmp_path / "bpe")


@pytest.mark.parametrize(
    ("name", "marker"), [("whitespace", "suffix"), ("whitespace", "prefix"), ("metaspace", "none")]
)
def test_vocabularies_must_split_at_spaces(tmp_path, name, marker):
    """read_encoder accepts a vocabulary that splits text at spaces and marks words, and refuses
    another."""
    path = tmp_path / "v.volt"
    vocabulary = Vocabulary(
        merges=(),
        tokens=("l",),
        marker=marker,
        pretokenizer=PreTokenizer(name),
    )
    vocabulary.save(path)
    assert read_encoder(path).encode("l")
    Vocabulary(merges=(), tokens=("l",), marker="none", pretokenizer=PreTokenizer("bytes")).save(
        path
    )
    message = r"v.volt: splits text with 'bytes' and marks words with 'none'; give a v"
    with pytest.raises(ConfigError, match=message):
        read_encoder(path)
