"""Laws of unigram models: every way of encoding gives the pieces of a naive twin, and draws depend on the seed and
the number of a line only."""

import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby, pairwise

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import ids_of
from support.drawn import examples

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, CorpusError, VocabularyError
from volt.kernels import lattice
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary, cached_vocabulary

# Many sums of these scores are equal, or differ only by rounding
SCORES = {
    "▁": -1.1,
    "a": -1.1,
    "b": -2.3,
    "ab": -3.4,
    "ba": -3.4,
    "▁a": -2.2,
    "▁ab": -4.5,
    "aba": -4.5,
    "bab": -5.7,
    "é": -3.3,
    "中": -4.0,
    "éa": -4.4,
}
WHOLE = {piece: float(round(score)) for piece, score in SCORES.items()}
SPANNING = SCORES | {"a▁b": -4.5, "▁▁": -2.2, "b▁": -3.4}
HARD = [
    "a",
    "b",
    "ab",
    " ",
    "  ",
    "é",
    "中",
    "x",
    "xyz",
    "😀",
    "▁",
    "\0",
    "\r",
    "\t",
    "aba" * 40,
    "x" * 9,
]
lines_of_text = st.lists(
    st.lists(st.sampled_from(HARD), max_size=12).map("".join), min_size=1, max_size=6
)
FEW = settings(max_examples=examples(60), deadline=None)


def model(scores, **options):
    """Return a unigram vocabulary."""
    options = {"marker": "none", "pretokenizer": "metaspace", **options}
    return Vocabulary((), tuple(scores), scores=tuple(scores.values()), **options)


def naive_pieces(vocabulary, line):
    """Return the pieces of a line as a naive twin finds them; its words begin with "▁"."""
    scores = dict(zip(vocabulary.tokens, vocabulary.scores, strict=True))
    unknown = min(scores.values()) - 10
    single = vocabulary.score_sums == "lines"
    text = f"▁{line}".replace(" ", "▁") if line else ""
    words = [text]
    if vocabulary.pretokenizer.name == "metaspace" and not single:
        words = [f"▁{word}" for word in text[1:].split("▁")] if text else []
    if single:
        unknown = float(np.float32(unknown))
    rows = [naive.best_path(word, scores, unknown, single=single)[0] for word in words]

    pieces = []
    for row in rows:
        for is_unknown, run in groupby(row, key=lambda piece: piece not in scores):
            characters = list(run)
            if is_unknown and vocabulary.byte_fallback:
                pieces += [BYTE_TOKENS[byte] for byte in "".join(characters).encode()]
            elif is_unknown and vocabulary.fuse_unk:
                pieces.append("".join(characters))
            else:
                pieces += characters
    return pieces


def assert_all_ways_agree(encoder, lines, expected, folder=None):
    """Check that every way of encoding lines gives these pieces, and their ids."""
    ids = [encoder.ids(pieces).tolist() for pieces in expected]
    assert encoder.encode_lines(lines) == expected
    assert list(map(encoder.encode, lines)) == expected
    assert [encoder.encode_ids(line).tolist() for line in lines] == ids
    assert list(map(encoder.count, lines)) == list(map(len, ids))
    ended = [f"{line}\nb" for line in lines]  # the batch then has another separator
    with_ends = ids_of(encoder.encode_batch([*lines, *ended]))
    assert with_ends[: len(lines)] == ids
    assert with_ends[len(lines) :] == [encoder.encode_ids(line).tolist() for line in ended]
    spans = encoder.encode_spans(lines)
    bounds = pairwise(spans.offsets.tolist())
    assert [spans.ids[start:end].tolist() for start, end in bounds] == ids
    text = "\n".join(lines).encode()  # the last line has no end
    for n_threads in (1, 2, 3):
        assert ids_of(encoder.encode_batch(lines, n_threads=n_threads)) == ids
        whole = encoder.encode_bytes(text + b"\n", n_threads=n_threads)
        assert ids_of(whole) == ids
        assert (
            ids_of(encoder.encode_bytes(text, n_threads=n_threads))
            == ids[: text.count(b"\n") + bool(lines[-1])]
        )
    texts = encoder.encode_text(text + b"\n").decode().split("\n")[:-1]
    assert texts == [" ".join(pieces) for pieces in expected]
    texts = encoder.encode_text(text + b"\n", form="ids").decode().split("\n")[:-1]
    assert texts == [" ".join(map(str, row)) for row in ids]


OPTIONS = {
    "words": {},
    "lines": {"score_sums": "lines"},
    "fused": {"score_sums": "lines", "fuse_unk": True},
    "bytes": {"score_sums": "lines", "byte_fallback": True},
    "fused words": {"fuse_unk": True},
    "line": {"pretokenizer": "metaspace-line"},
    "fused line": {"pretokenizer": "metaspace-line", "score_sums": "lines", "fuse_unk": True},
    "no unk": {"score_sums": "lines", "special": SpecialTokens(unk=None)},
}
ENCODERS = {
    (name, index): Encoder(model(scores, **options))
    for name, options in OPTIONS.items()
    for index, scores in enumerate((SCORES, WHOLE, SPANNING)[: 3 if "line" in name.split() else 2])
}


@pytest.mark.parametrize("key", ENCODERS, ids=str)
@FEW
@given(lines=lines_of_text)
def test_all_ways_of_encoding_equal_a_naive_twin(key, lines):
    """Ids, pieces, spans and counts, of lines alone, in batches, bytes and text, by any number of threads, are those
    of a naive twin, also where sums are equal or rounding decides, and in the second use of a cache."""
    encoder = ENCODERS[key]
    expected = [naive_pieces(encoder.vocabulary, line) for line in lines]
    assert_all_ways_agree(encoder, lines, expected)


@pytest.mark.parametrize(
    "scores", [SCORES, WHOLE, {"a": -4000.0, "b": -3999.5, "ab": -7999.5, "▁": -0.25}]
)
@pytest.mark.parametrize(
    "options",
    [{}, {"byte_fallback": True}, {"fuse_unk": True}, {"special": SpecialTokens(unk=None)}],
)
def test_sums_of_long_lines_are_rounded_as_along_the_line(scores, options):
    """In a line of thousands of pieces, in which single precision rounds more, all ways of encoding still give the pieces of
    the line as a whole. So they do in lines of many unknown characters, whose scores are low, too."""
    vocabulary = model(scores, score_sums="lines", **options)
    rng = np.random.default_rng(5)
    words = ["ab", "aba", "bab", "ababa", "x", "éa", "xyzxyzxyzx"]
    lines = [" ".join(rng.choice(words, n)) for n in (1, 150, 2000, 3)]
    lines += ["".join(rng.choice(["a", "b", "x "], 2500)), "", "ab"]
    expected = [naive_pieces(vocabulary, line) for line in lines]
    assert_all_ways_agree(Encoder(vocabulary), lines, expected)


@pytest.mark.parametrize("lowest", [10.0, 9.0, 50.0, -1.0])
def test_scores_may_be_positive(lowest):
    """Scores above 0, so that unknown characters have the score 0, or one above it, encode as in a naive twin."""
    vocabulary = model(
        {"a": lowest, "b": 500.0, "▁": lowest + 0.1, "ab": 500.1}, score_sums="lines"
    )
    lines = ["ab ba", "", "xab" * 300, "a"]
    assert_all_ways_agree(
        Encoder(vocabulary), lines, [naive_pieces(vocabulary, line) for line in lines]
    )


PRETOKENIZERS = [
    "whitespace",
    "gpt2",
    "unicode",
    "metaspace-runs",
    r"regex:\w+|\s",
    r"split: +[^ ]*|[^ ]+",
    "bytes",
]
NORMALIZERS = {
    "none": Normalizer(),
    "lower": Normalizer(lowercase=True),
    "spaces": Normalizer.of_steps([["spaces"], ["lowercase"]]),
}


@pytest.mark.parametrize("pretokenizer", PRETOKENIZERS)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("users", [(), ("<x>", "b<")])
def test_ways_of_encoding_agree_for_any_words(pretokenizer, normalizer, users):
    """With any pre-tokenizer, normalizer and user tokens, ids, text and spans agree with the pieces of `encode_lines`."""
    vocabulary = model(
        WHOLE,
        score_sums="lines",
        pretokenizer=pretokenizer,
        normalizer=NORMALIZERS[normalizer],
        special=SpecialTokens(user=users),
    )
    encoder = Encoder(vocabulary)
    lines = ["ab  Aba<x>a", " AB b<b<x>", "", "ba" * 300, "x \U0010c000 é", "b<x>", "bab\tab"]
    assert_all_ways_agree(encoder, lines, encoder.encode_lines(lines))


def test_special_tokens_are_found_where_they_are_allowed():
    """With `allowed_special`, a special token in the text is one id, and the text around it is encoded as otherwise."""
    encoder = Encoder(model(WHOLE, score_sums="lines"))
    [plain] = encoder.encode_batch(["aba</s>b"])
    [found] = encoder.encode_batch(["aba</s>b"], allowed_special="all")
    assert encoder.vocabulary.ids["</s>"] not in plain
    assert [encoder.vocabulary.pieces[number] for number in found] == ["▁", "aba", "</s>", "b"]


@pytest.mark.parametrize("pretokenizer", ["gpt2", "whitespace", "metaspace"])
def test_a_long_line_is_encoded_as_a_whole(pretokenizer):
    """A line that is longer than a chunk has the same ids for any number of threads."""
    rng = np.random.default_rng(3)
    words = ["".join(rng.choice(["a", "b"], n)) for n in rng.integers(1, 9, 50)]
    line = " ".join(rng.choice(words, 40_000))
    encoder = Encoder(model(SCORES, score_sums="lines", pretokenizer=pretokenizer))
    [pieces] = encoder.encode_lines([line])
    for n_threads in (1, 3):
        [ids] = encoder.encode_batch([line], n_threads=n_threads)
        assert ids.tolist() == encoder.ids(pieces).tolist()


@pytest.mark.parametrize("normalizer", ["none", "spaces"])
@pytest.mark.parametrize("draws", [{}, {"alpha": 0.5, "seed": 1}])
def test_lines_of_files_end_as_windows_ends_them(tmp_path, normalizer, draws):
    r"""`encode_file` drops "\r" at the end of a line, also of a last line without "\n"."""
    encoder = Encoder(model(WHOLE, score_sums="lines", normalizer=NORMALIZERS[normalizer]))
    path = tmp_path / "text"
    path.write_bytes(b"aba\r\n\r\nb\rb\r\nba\r")
    expected = ids_of(encoder.encode_bytes(b"aba\n\nb\rb\nba\n", **draws))
    assert ids_of(encoder.encode_file(path, **draws)) == expected


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("pretokenizer", ["metaspace", "metaspace-line", "whitespace"])
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xe2\x96", b"\x81", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
)
@pytest.mark.parametrize("draws", [{}, {"alpha": 0.5, "seed": 1}])
def test_invalid_text_is_refused_with_its_line(tmp_path, normalizer, pretokenizer, bad, draws):
    """Text that is not UTF-8 raises CorpusError with the number of its line, and the encoder works after that."""
    vocabulary = model(
        WHOLE, score_sums="lines", pretokenizer=pretokenizer, normalizer=NORMALIZERS[normalizer]
    )
    encoder = Encoder(vocabulary)
    path = tmp_path / "text"
    for text in (b"ab\nab " + bad + b" ab\nb\n", b"ab\n" + bad):
        path.write_bytes(text)
        for encode in (encoder.encode_bytes, encoder.encode_text):
            with pytest.raises(CorpusError, match="text:2: "):
                encode(text, **draws)
        with pytest.raises(CorpusError, match="text:2: "):
            encoder.encode_file(path, **draws)
    assert encoder.encode_batch(["ab"]).ids.tolist() == encoder.encode_ids("ab").tolist()


@FEW
@given(lines=lines_of_text)
def test_decoding_undoes_encoding(lines):
    """With byte fallback, the text of a line's ids is the line, with a space for each "▁"."""
    encoder = ENCODERS["bytes", 0]
    for line in lines:
        assert encoder.decode_ids(encoder.encode_ids(line)) == line.replace("▁", " ")


def test_cached_and_pickled_models_encode_alike(tmp_path, monkeypatch):
    """A model from the cache, or from a pickle, encodes and draws as the one that was saved, by several threads too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cached_vocabulary, "SIZES", range(1 << 20))
    vocabulary = model(SCORES, score_sums="lines", fuse_unk=True)
    vocabulary.save(tmp_path / "a.volt")
    lines = ["ababa xx ba", "é", "", "中中 abab"] * 50
    first = Encoder(vocabulary)
    expected = ids_of(first.encode_batch(lines))
    drawn = first.encode_lines(lines, alpha=0.3, seed=2)
    for _ in range(2):
        encoder = Encoder(Vocabulary.load(tmp_path / "a.volt"))
        for one in (encoder, pickle.loads(pickle.dumps(encoder))):
            assert one.vocabulary == vocabulary
            assert ids_of(one.encode_batch(lines)) == expected
            assert one.encode_lines(lines, alpha=0.3, seed=2) == drawn
    with ThreadPoolExecutor(4) as pool:
        assert (
            list(pool.map(lambda _: ids_of(encoder.encode_batch(lines)), range(8)))
            == [expected] * 8
        )


# Sampling


@pytest.mark.parametrize("nbest", [-1, 3])
@pytest.mark.parametrize(
    "options", [{}, {"fuse_unk": True}, {"normalizer": NORMALIZERS["spaces"]}], ids=str
)
def test_draws_depend_on_the_number_of_a_line(tmp_path, nbest, options):
    """A line's draw depends on the seed and its number, not on chunks, threads or the form of the output."""
    encoder = Encoder(model(SCORES, **options))
    draws = {"alpha": 0.4, "nbest": nbest, "seed": 6}
    lines = ["ababa ab", "x éa xx", "", "bababab"] * 40
    rows = encoder.encode_lines(lines, **draws)
    assert rows != encoder.encode_lines(lines, **draws | {"seed": 7})
    ids = [encoder.ids(row).tolist() for row in rows]
    text = "".join(f"{line}\n" for line in lines).encode()
    (tmp_path / "text").write_bytes(text)
    for n_threads in (1, 2, 3):
        assert ids_of(encoder.encode_batch(lines, **draws, n_threads=n_threads)) == ids
        assert ids_of(encoder.encode_bytes(text, **draws, n_threads=n_threads)) == ids
        assert ids_of(encoder.encode_file(tmp_path / "text", **draws, n_threads=n_threads)) == ids
    joined = "".join(" ".join(row) + "\n" for row in rows)
    assert encoder.encode_text(text, **draws).decode() == joined
    assert encoder.encode_lines(lines[50:], **draws, first=50) == rows[50:]
    half = text[: len(text) // 2 + 1].rindex(b"\n") + 1
    first = text[:half].count(b"\n")
    assert encoder.encode_text(text[half:], **draws, first=first).decode() == "".join(
        " ".join(row) + "\n" for row in rows[first:]
    )
    numbers = np.arange(len(lines))[::-1].copy()
    reversed_text = "".join(f"{line}\n" for line in lines[::-1]).encode()
    assert ids_of(encoder.encode_bytes(reversed_text, **draws, numbers=numbers)) == ids[::-1]


@pytest.mark.parametrize(("room", "n_slots"), [(1, 1), (20, 2), (1 << 10, 1 << 10)])
def test_draws_do_not_depend_on_the_words_before(monkeypatch, room, n_slots):
    """A line's draw is the same, whether the lattices of its words are remembered or forgotten."""
    encoder = Encoder(model(SCORES))
    lines = ["ababa ab ba", "x éa xx ababa", "", "bab" * 9, "ab ab"] * 20
    expected = encoder.encode_lines(lines, alpha=0.3, seed=1)
    monkeypatch.setattr(lattice, "_ROOM", room)
    monkeypatch.setattr(lattice, "_N_SLOTS", n_slots)
    assert encoder.encode_lines(lines, alpha=0.3, seed=1) == expected


def test_alpha_0_draws_all_paths_alike():
    """With alpha 0, each path of a word is drawn about as often as the others, whatever its score."""
    encoder = Encoder(model(SCORES))
    n = 3_000
    counts = Counter(map(tuple, encoder.encode_lines(["aba"] * n, alpha=0, seed=1)))
    assert len(counts) == 7
    share = n / len(counts)
    assert all(abs(count - share) < 6 * np.sqrt(share) for count in counts.values())


@pytest.mark.parametrize("nbest", [-1, 1, 5])
@pytest.mark.parametrize("alpha", [1e3, 1e6])
def test_a_large_alpha_draws_the_best_path(nbest, alpha):
    """With a large alpha, or of the one best path, the draw is the best path."""
    scores = {"▁": -3.0, "a": -3.0, "b": -3.5, "ab": -15.0, "▁ab": -30.0, "c": 5.0}
    encoder = Encoder(model(scores, pretokenizer="metaspace-line"))
    lines = ["ab", "abab xab", "", "cab"]
    assert encoder.encode_lines(lines, alpha=alpha, nbest=nbest, seed=1) == encoder.encode_lines(
        lines
    )


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0, 30.0])
def test_long_words_are_drawn(alpha):
    """The draws of words of thousands of characters spell the words: weights neither overflow nor vanish."""
    encoder = Encoder(model(SCORES | {"c": 200.0}, pretokenizer="metaspace-line"))
    for word in ("ab" * 5_000, "x" * 3_000, "c" * 4_000 + "x" * 4_000 + "ab" * 500):
        pieces = encoder.encode(word, alpha=alpha, seed=4)
        assert "".join(pieces) == f"▁{word}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.1}, "needs a seed"),
        ({"alpha": -0.1, "seed": 1}, "alpha is -0.1"),
        ({"alpha": float("nan"), "seed": 1}, "alpha is nan"),
        ({"alpha": float("inf"), "seed": 1}, "alpha is inf"),
        ({"alpha": 0.1, "nbest": 0, "seed": 1}, "nbest is 0"),
        ({"alpha": 0.1, "nbest": -2, "seed": 1}, "nbest is -2"),
        ({"alpha": 0.1, "nbest": 513, "seed": 1}, "nbest is 513"),
        ({"alpha": 0.1, "seed": -1}, "not -1"),
        ({"dropout": 0.1, "seed": 1}, "dropout skips merges"),
    ],
)
def test_misuse_of_sampling_is_refused(options, message):
    """The error for a wrong option of sampling names the option and its value."""
    encoder = Encoder(model(SCORES))
    for encode in (encoder.encode, encoder.encode_ids):
        with pytest.raises(ConfigError, match=message):
            encode("ab", **options)
    with pytest.raises(ConfigError, match=message):
        encoder.encode_batch(["ab"], **options)


def test_best_paths_of_long_lines_are_drawn():
    """The best paths of a line of many thousand characters are ranked in memory that grows with its length alone."""
    encoder = Encoder(model(SCORES))
    line = "ab" * 30_000
    drawn = {tuple(encoder.encode(line, alpha=0.1, nbest=512, seed=seed)) for seed in range(3)}
    assert {"".join(pieces) for pieces in drawn} == {f"▁{line}"}
    assert len(drawn) == 3


def test_models_with_merges_draw_no_paths():
    """`alpha` is refused for a vocabulary with merges."""
    encoder = Encoder(Vocabulary((("a", "b"),), ("a", "b", "ab"), marker="none"))
    with pytest.raises(ConfigError, match="alpha draws paths of a unigram model"):
        encoder.encode("ab", alpha=0.1, seed=1)


# Models


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merges": (("a", "b"),)}, "merges or scores, not both"),
        ({"marker": "suffix"}, "the marker suffix"),
        ({"marker": "prefix"}, "the marker prefix"),
        ({"scores": (-1.0,)}, "3 tokens but 1 scores"),
        ({"scores": (-1.0, float("nan"), -1.0)}, "token 'b' has the score nan"),
        ({"scores": (-1.0, -1.0, float("-inf"))}, "token 'ab' has the score -inf"),
        (
            {"scores": (-1.0, -1.0, 1e39)},
            "token 'ab' has the score 1e.39; give a number of at most 3.40282e.38",
        ),
        ({"special_scores": (("<s>", 1.0), ("<s>", 2.0))}, "'<s>': name each special"),
        ({"special_scores": (("<s>", float("nan")),)}, "'<s>' has nan; give a number of at most"),
        ({"tokens": ("a", "", "ab")}, "a token is empty"),
        ({"tokens": ("a", "b", "a")}, "repeats token 1"),
    ],
)
def test_faulty_models_are_refused(options, message):
    """The error for a faulty unigram model names the fault."""
    vocabulary = model({"a": -1.0, "b": -2.0, "ab": -2.5})
    with pytest.raises(VocabularyError, match=message):
        replace(vocabulary, **options)


@pytest.mark.parametrize("kind", ["metaspace", "metaspace-line"])
@given(st.integers(0, 99))
@settings(max_examples=examples(4), deadline=None)
def test_a_long_line_has_the_pieces_of_its_sums_in_single_precision(kind, seed):
    """The sum of a line's scores grows beyond 100,000, so that most words are segmented differently, from the cache or
    not, at its start and its end; the pieces are those of one walk along the whole line."""
    rng = np.random.default_rng(seed)
    # scores that differ by less than single precision rounds large sums
    scores = {piece: -300 - 1e-3 * rng.random() for piece in SCORES} | {"▁": -1.0}
    scores["ab"] = scores["a"] + scores["b"] + 1e-4
    scores["aba"] = scores["a"] + scores["ba"] - 1e-5
    scores = {piece: float(np.float32(score)) for piece, score in scores.items()}
    words = [
        "".join(rng.choice(["a", "b", "é", "中", "x"], size)) for size in rng.integers(1, 7, 300)
    ]
    line = " ".join(rng.choice(words, 400))
    vocabulary = model(scores, pretokenizer=kind, score_sums="lines", fuse_unk=False)
    encoder = Encoder(vocabulary)
    [expected] = encoder.encode_lines([line])
    for _ in range(2):
        assert encoder.encode(line) == expected
        assert encoder.encode_ids(line).tolist() == encoder.ids(expected).tolist()
