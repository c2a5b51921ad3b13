"""Laws of encoding and decoding, against a naive twin, and against subword-nmt on real text."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain
from random import Random

import naive
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from test_bpe import LATE, LINES, merge_lists, word_counts

from volt.bpe import learn_bpe
from volt.encoder import Encoder
from volt.errors import ConfigError, CorpusError, VocabularyError, VoltError
from volt.kernels.merging import LONG
from volt.special import BYTE_TOKENS, SpecialTokens
from volt.text import Normalizer, PreTokenizer
from volt.vocabulary import Vocabulary
from volt.word_counts import WordCounts

FEW = settings(deadline=None, max_examples=60)
MANY = settings(deadline=None, max_examples=200)
USER = ("<url>", "<URL>", "<0x4", "é▁!", "abc", "ab", "@@")
CORPUS = [
    *LINES,
    "don't low lower newest widest </w> a</w> <unk> <0x41> @@ x▁y </s> the the the ab abc abcd",
]
# (marker, pre-tokeniser): what is lossless up to white space, and what is lossless entirely
JOINED = [("suffix", "whitespace"), ("prefix", "whitespace")]
LOSSLESS = [("none", "metaspace"), ("none", "unicode"), ("none", "gpt2"), ("none", r"regex:[^ ]+|[ ]+")]
SCHEMES = JOINED + LOSSLESS
NORMALIZERS = ["none", "nfc", "nfkc+lowercase"]

MARKUP = """</w> a</w> @@ ▁ ▁▁ <0x41> <0xE2> <unk> <s> </s> <pad> <url> <URL> <ur l> ab abc abab c a < / w > the low
    lowest don't 42 Σ ΑΣ ﬁ é e\u0301 가 ㄱ 😀 İ ß ½"""
hidden = {chr(code) for code in range(0x10F000, 0x10FFFE)}  # what SpecialTokens reserves
characters = st.characters(codec="utf-8").filter(lambda char: char not in hidden)
spaces = [" ", "  ", "\t", "\n", "\r", "\x1c", "\x85", "\u3000", "\u200b", "\0"]
fragments = st.sampled_from([*MARKUP.split(), *spaces])
texts = st.lists(fragments | characters, max_size=12).map("".join)
schemes = st.sampled_from(SCHEMES)


@cache
def vocabulary(
    marker: str = "suffix",
    pretokenizer: str = "whitespace",
    normalizer: str = "none",
    user: tuple[str, ...] = (),
    byte_fallback: bool = False,
) -> Vocabulary:
    """Learned from a few lines; no atom is missing and no token is pruned, except those that special tokens forbid."""
    cut, normal = PreTokenizer(pretokenizer), Normalizer.parse(normalizer)
    words = Counter(word for line in CORPUS for word in cut.split(normal.normalize(line)))
    counts = WordCounts.from_pairs(words, normalizer=normal, pretokenizer=cut)
    candidates = learn_bpe(counts, 120, marker=marker)
    special = SpecialTokens(user=user)
    reserved = {*special.all, *BYTE_TOKENS * byte_fallback, "</w>"}
    return Vocabulary(
        merges=tuple(candidates.merges),
        tokens=tuple(token for token in candidates.tokens if token not in reserved),
        marker=marker,
        normalizer=normal,
        pretokenizer=cut,
        special=special,
        byte_fallback=byte_fallback,
    )


@cache
def encoder(*args, **options) -> Encoder:
    return Encoder(vocabulary(*args, **options))


def spelled(text: str, normalizer: str, pretokenizer: str, marker: str, user: tuple[str, ...] = ()) -> str:
    """The text that decoding must give: user tokens as they are, the rest normalised; "▁" counts as a space where it
    stands for one; a pre-tokeniser that drops white space leaves single spaces."""
    longest_first = sorted(user, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text) if user else [text]
    normal = Normalizer.parse(normalizer).normalize
    text = "".join(part if part in user else normal(part) for part in parts)
    if pretokenizer == "whitespace":
        text = " ".join(text.split())
    return text if (marker, pretokenizer) == ("suffix", "whitespace") else text.replace("▁", " ")


@st.composite
def vocabularies(draw):
    """Words, and a vocabulary of learned or arbitrary merges of which only some tokens are kept."""
    if draw(st.booleans()):
        words, merges, marker = draw(merge_lists())
    else:
        words, marker = draw(word_counts()), draw(st.sampled_from(["suffix", "prefix", "none"]))
        merges = naive.learn(words, draw(st.integers(0, 30)), marker, 1)
    atoms = {atom for word in words for atom in naive.atoms(word, marker)}
    tokens = list(dict.fromkeys([*sorted(atoms), *map("".join, merges)]))
    kept = tuple(draw(st.permutations(tokens))[: draw(st.integers(0, len(tokens)))])
    return [*words], Vocabulary(merges=tuple(merges), tokens=kept, marker=marker)


@given(vocabularies())
@MANY
def test_pieces_equal_the_naive_encoder(case):
    """Lowest rank first, left to right, then split back to kept tokens: for any merges, kept tokens and marker."""
    words, vocabulary = case
    found = Encoder(vocabulary).encode_words(words)
    for word, pieces in zip(words, found, strict=True):
        assert [*pieces] == naive.encode(word, vocabulary.merges, vocabulary.tokens, vocabulary.marker)


@given(vocabularies(), st.lists(st.text("abc<>/w▁é😀", min_size=1, max_size=9), max_size=4))
@FEW
def test_pieces_of_other_words_equal_the_naive_encoder(case, words):
    """The same for words with characters that the vocabulary has never seen; they stay as they are."""
    _, vocabulary = case
    found = Encoder(vocabulary).encode_words(words)
    assert [[*pieces] for pieces in found] == [
        naive.encode(word, vocabulary.merges, vocabulary.tokens, vocabulary.marker) for word in words
    ]


def test_a_low_rank_may_follow_a_high_one():
    """A merge that becomes possible late is applied late, whatever its rank."""
    tokens = tuple(dict.fromkeys([*"abcd", *map("".join, LATE)]))
    assert Encoder(Vocabulary(tuple(LATE), tokens, marker="none")).encode_words(["abcd"]) == [("abcd",)]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["ab" * 50_000, "".join(Random(1).choices("abcdefghijklmnop", k=100_000))])
def test_a_word_of_100_000_characters(word):
    """One very long word is encoded like any other."""
    candidates = learn_bpe(WordCounts.from_pairs({word: 1}), 20)
    made = Encoder(Vocabulary(tuple(candidates.merges), candidates.tokens))
    pieces = made.encode(word)
    assert pieces == naive.merged(naive.atoms(word), candidates.merges)
    assert made.decode(pieces) == word
    assert made.decode(made.encode(word, dropout=0.1, seed=1)) == word


@given(texts, schemes, st.sampled_from(NORMALIZERS))
@settings(deadline=None, max_examples=400)
def test_decode_undoes_encode(text, scheme, normalizer):
    """decode(encode(x)) is x as normalised, for any text, every scheme, and text that looks like markup of ours."""
    made = encoder(*scheme, normalizer)
    assert made.decode(made.encode(text)) == spelled(text, normalizer, scheme[1], scheme[0])


@given(texts, schemes, st.sampled_from(NORMALIZERS))
@settings(deadline=None, max_examples=400)
@example("abc", SCHEMES[0], "none")
@example("x<url>y <url> abcab@@ é▁!", SCHEMES[1], "none")
def test_decode_undoes_encode_with_user_tokens(text, scheme, normalizer):
    """The same with user tokens, which neither normaliser nor merges touch; of two that fit, the longer."""
    made = encoder(*scheme, normalizer, user=USER)
    pieces = made.encode(text)
    assert made.decode(pieces) == spelled(text, normalizer, scheme[1], scheme[0], USER)
    assert [piece for piece in pieces if piece in USER] == re.findall("|".join(map(re.escape, USER)), text)


@pytest.mark.parametrize("user", [("ab", "abc"), ("abc", "ab")])
def test_the_longer_user_token_wins(user):
    """Of two user tokens that begin at the same place the longer is taken, whichever was declared first."""
    made = encoder("suffix", "whitespace", user=user)
    assert made.encode("xabc ab") == ["x", "abc", "</w>", "ab", "</w>"]
    assert [piece for piece, *_ in made.encode_offsets("xabc ab")] == made.encode("xabc ab")


@given(texts, schemes, st.sampled_from(NORMALIZERS), st.booleans())
@settings(deadline=None, max_examples=400)
def test_decode_undoes_encode_through_ids(text, scheme, normalizer, with_user):
    """With byte_fallback the same holds for ids: no text is unknown."""
    user = USER * with_user
    made = encoder(*scheme, normalizer, user=user, byte_fallback=True)
    ids = made.encode_ids(text)
    assert ids.dtype == np.int32
    assert made.decode(made.encode(text)) == made.decode_ids(ids) == spelled(text, normalizer, *scheme[::-1], user)
    assert not set(ids.tolist()) & {0, 1, 2, 3}


@given(vocabularies(), st.data())
@settings(deadline=None, max_examples=30)
def test_byte_fallback_spells_atoms_that_are_not_kept(case, data):
    """Also a character that merges mention, but the vocabulary does not keep, is spelled by bytes, never `<unk>`."""
    words, small = case
    made = Encoder(Vocabulary(small.merges, small.tokens, marker=small.marker, byte_fallback=True))
    line = " ".join(data.draw(st.lists(st.sampled_from(words), max_size=4)))
    ids = made.encode_ids(line)
    assert 0 not in ids
    assert made.decode_ids(ids) == (line.replace("▁", " ") if small.marker == "prefix" else line).replace(
        " ", " " if small.marker != "none" else ""
    )


@given(texts, schemes, st.booleans(), st.booleans())
@FEW
def test_pieces_are_in_the_vocabulary_or_one_character(text, scheme, with_user, byte_fallback):
    """ids(pieces) is `<unk>` for unknown characters alone; without any, pieces and ids name each other."""
    made = encoder(*scheme, user=USER * with_user, byte_fallback=byte_fallback)
    pieces, ids = made.encode(text), made.encode_ids(text)
    for piece, number in zip(pieces, ids.tolist(), strict=True):
        if number == 0:
            assert not byte_fallback
            assert len(piece.removesuffix("</w>") if scheme[0] == "suffix" else piece) == 1
        else:
            assert made.vocabulary.pieces[number] == piece


@pytest.mark.parametrize("token", ["<unk>", "<s>", "</s>", "<pad>"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_never_becomes_a_special_token(token, scheme):
    """Text that spells a token with a role is text: however often the corpus holds it, its id stays unused."""
    marker, pretokenizer = scheme
    counts = WordCounts.from_pairs({token: 9, token + "x": 9}, pretokenizer=pretokenizer)
    candidates = learn_bpe(counts, 30, marker=marker)
    kept = tuple(piece for piece in candidates.tokens if piece not in SpecialTokens().all)
    made = Encoder(Vocabulary(tuple(candidates.merges), kept, marker=marker, pretokenizer=PreTokenizer(pretokenizer)))
    line = f"{token} {token}x{token}"
    assert not set(made.encode(line)) & set(SpecialTokens().all)
    assert not set(made.encode_ids(line.replace(" ", "")).tolist()) & {1, 2, 3}
    assert made.decode(made.encode(line)) == line


@pytest.mark.parametrize(("merges", "tokens"), [((), ("a", "b", "c</w>")), ((("a", "_"),), ("a", "b", "c</w>"))])
def test_a_role_token_of_one_character_is_refused_or_safe(merges, tokens):
    """A role token of one character, which text may hold, is refused, or text is never encoded to it."""
    try:
        made = Encoder(Vocabulary(merges, tokens, special=SpecialTokens(pad="_")))
    except VoltError:
        return
    for line in ("a_b_c", "_", "_c", "b_ c"):
        assert 3 not in made.encode_ids(line)


def test_a_user_token_that_looks_like_the_end_of_a_word():
    """A user token spelled "</w>" or "x</w>" is refused, or survives encoding and decoding like any other."""
    for token in ("</w>", "x</w>"):
        for byte_fallback in (False, True):
            try:
                made = Encoder(
                    Vocabulary((), ("a", "b</w>"), special=SpecialTokens(user=(token,)), byte_fallback=byte_fallback)
                )
            except VoltError:
                continue
            for line in (f"a{token}a b", f"{token} b", f"a{token}"):
                assert made.decode(made.encode(line)) == line, (token, byte_fallback)


@given(st.lists(texts, max_size=5), schemes)
@FEW
def test_lines_are_encoded_one_by_one(lines, scheme):
    """encode_lines is encode of each line; the empty line has no pieces."""
    made = encoder(*scheme, "nfc", USER)
    assert made.encode_lines(lines) == [made.encode(line) for line in lines]
    assert made.encode("") == []
    assert made.encode_ids("").shape == (0,)
    assert made.decode([]) == made.decode_ids([]) == ""


@given(texts)
@FEW
def test_whitespace_lines_are_their_words(text):
    """Encoding a line is encoding its words."""
    made = encoder("suffix", "whitespace")
    assert made.encode(text) == [*chain.from_iterable(made.encode_words(text.split()))]


def test_the_cache_changes_nothing(monkeypatch):
    """Words come out the same before, after and while the cache is emptied."""
    monkeypatch.setattr("volt.encoder.CACHE_WORDS", 7)
    made = Encoder(vocabulary())
    expected = [encoder().encode(line) for line in CORPUS]
    assert [made.encode(line) for line in CORPUS * 3] == expected * 3
    assert made.encode_lines(CORPUS) == expected


# ---- dropout


@given(texts, schemes, st.floats(0, 1), st.integers(0, 2**63))
@FEW
def test_any_dropout_decodes_back(text, scheme, dropout, seed):
    """However merges are passed over, the pieces spell the text, and all are tokens or unknown characters."""
    made = encoder(*scheme)
    pieces = made.encode(text, dropout=dropout, seed=seed)
    assert made.decode(pieces) == spelled(text, "none", scheme[1], scheme[0])
    assert pieces == made.encode(text, dropout=dropout, seed=seed)


@given(vocabularies(), st.integers(0, 99))
@FEW
def test_the_ends_of_dropout(case, seed):
    """Dropout 0 is no dropout; dropout 1 leaves the atoms."""
    words, vocabulary = case
    made, line = Encoder(vocabulary), " ".join(words)
    assert made.encode(line, dropout=0.0, seed=seed) == made.encode(line)
    atoms = [atom for word in words for atom in naive.atoms(word, vocabulary.marker)]
    assert made.encode(line, dropout=1.0, seed=seed) == atoms


@given(st.lists(texts, max_size=6), st.integers(0, 6), st.integers(0, 10**6))
@FEW
def test_dropout_does_not_depend_on_batches(lines, cut, first):
    """Line i draws from (seed, first + i), however the lines are grouped, and lines differ from each other."""
    made = encoder()
    whole = made.encode_lines(lines, dropout=0.4, seed=3, first=first)
    parts = made.encode_lines(lines[:cut], dropout=0.4, seed=3, first=first)
    assert whole == parts + made.encode_lines(lines[cut:], dropout=0.4, seed=3, first=first + len(lines[:cut]))


def test_dropout_differs_between_lines_and_seeds():
    """Equal lines with different numbers, and different seeds, are sampled independently."""
    made, line = encoder(), " ".join(CORPUS)
    by_line = made.encode_lines([line] * 20, dropout=0.3, seed=1)
    by_seed = [made.encode(line, dropout=0.3, seed=seed) for seed in range(20)]
    assert len({*map(tuple, by_line)}) == len({*map(tuple, by_seed)}) == 20


def test_more_dropout_makes_more_pieces():
    """The number of pieces grows with dropout, from the deterministic one to that of atoms."""
    made = encoder()
    lengths = [
        sum(map(len, made.encode_lines(CORPUS * 20, dropout=dropout, seed=1)))
        for dropout in (0.0, 0.05, 0.1, 0.3, 0.6, 0.9, 1.0)
    ]
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("before", ["", "·" * LONG], ids=["short", "long"])
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(
    ("word", "merges"),
    [
        ("ab", [("a", "b</w>")]),
        ("abc", [("a", "b"), ("b", "c</w>"), ("ab", "c</w>"), ("a", "bc</w>")]),
        ("aaaaa", [("a", "a"), ("aa", "a</w>"), ("aa", "aa")]),
        ("ababx", [("a", "b"), ("ab", "ab"), ("abab", "x</w>")]),
        ("ababab", [("a", "b"), ("ab", "ab"), ("b", "a"), ("ba", "b</w>")]),
        ("abcd", [*LATE[:3], ("abc", "d</w>"), ("a", "bc")]),
    ],
)
def test_dropout_has_its_defined_distribution(word, merges, dropout, before):
    """Each applicable merge is passed over with the probability, independently at every step: frequencies of the
    outcomes agree with their exact probabilities (χ² test, fixed seed, p > 10⁻⁵). Short and long words, which differ
    here by what never merges, are merged by different loops."""
    exact = naive.dropout_distribution(word, merges, dropout)
    assert sum(exact.values()) == pytest.approx(1)
    tokens = tuple(dict.fromkeys([*naive.atoms(word), *map("".join, merges)]))
    made, n = Encoder(Vocabulary(tuple(merges), tokens)), 1_000 if before else 8_000
    pieces = made.encode(" ".join([before + word] * n), dropout=dropout, seed=7)
    pieces = [piece for piece in pieces if piece != "·"]
    found, start = Counter[tuple[str, ...]](), 0
    for i, piece in enumerate(pieces):
        if piece.endswith("</w>"):
            found[tuple(pieces[start : i + 1])] += 1
            start = i + 1
    assert found.total() == n
    assert set(found) <= set(exact)
    distance = sum((found[pieces] - n * p) ** 2 / (n * p) for pieces, p in exact.items() if p > 0)
    assert distance < chi2.ppf(1 - 1e-5, max(1, len(exact) - 1)), (found, exact)


@pytest.mark.parametrize("n", [LONG - 1, LONG, LONG + 1, 3 * LONG])
def test_long_words_are_merged_as_short_ones_are(n):
    """On either side of the length at which the loop changes, pieces are those of the naive twin."""
    rng = Random(n)
    merges = [("a", "b"), ("a", "a"), ("ab", "ab"), ("b", "b"), ("aa", "ab"), ("bb", "a"), ("ab", "b</w>")]
    tokens = tuple(dict.fromkeys(["a", "b", "a</w>", "b</w>", *map("".join, merges)]))
    made = Encoder(Vocabulary(tuple(merges), tokens))
    for _ in range(20):
        word = "".join(rng.choices("ab", k=n))
        assert made.encode(word) == naive.encode(word, merges)


def test_the_naive_dropout_has_its_distribution():
    """The two twins of dropout, sampling and exact, agree, so the definition is what we think it is."""
    merges, rng, n = [("a", "b"), ("ab", "ab"), ("abab", "x</w>")], Random(1), 4_000
    exact = naive.dropout_distribution("ababx", merges, 0.4)
    found = Counter(tuple(naive.encode_dropped("ababx", merges, 0.4, rng)) for _ in range(n))
    assert max(abs(found[pieces] / n - p) for pieces, p in exact.items()) < 0.04


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"dropout": 0.1}, "seed"),
        ({"dropout": -0.1, "seed": 1}, "-0.1"),
        ({"dropout": 1.1, "seed": 1}, "1.1"),
        ({"dropout": float("nan"), "seed": 1}, "nan"),
        ({"dropout": 0.1, "seed": -1}, "-1"),
    ],
)
def test_impossible_dropout_is_refused(options, found):
    """Dropout needs a probability and a seed that generators take; anything else is a ConfigError that says so."""
    with pytest.raises(ConfigError) as caught:
        encoder().encode("low", **options)
    assert found in str(caught.value)


# ---- offsets


def folded(text: str) -> str:
    """Final sigma is seen only in its context."""
    return text.replace("ς", "σ")


@given(texts, schemes, st.sampled_from(NORMALIZERS), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=500)
def test_offsets_point_to_what_a_piece_came_from(text, scheme, normalizer, with_user, byte_fallback):
    """Pieces are those of encode; spans lie within the line, in order; the normalised text of a span holds the piece,
    and is the piece where nothing was normalised; a byte's span is its character; a user token's span is itself."""
    marker, pretokenizer = scheme
    user = USER * with_user
    made = encoder(marker, pretokenizer, normalizer, user, byte_fallback)
    found = made.encode_offsets(text)
    assert [piece for piece, *_ in found] == made.encode(text)
    starts, ends = [start for _, start, _ in found], [end for *_, end in found]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    for piece, start, end in found:
        assert 0 <= start <= end <= len(text)
        source = text[start:end]
        normal = source if piece in user else Normalizer.parse(normalizer).normalize(source)
        if byte_fallback and piece in BYTE_TOKENS:
            shown = normal + "▁" * (pretokenizer != "whitespace") + "ς" * ("σ" in normal)  # "▁" may show a space
            assert int(piece[3:5], 16) in shown.encode()
            continue
        bare = piece.removesuffix("</w>") if marker == "suffix" and piece not in user else piece
        if marker == "suffix" and pretokenizer == "whitespace":
            assert folded(bare) in folded(normal)
            assert bare == source or normalizer != "none"
        else:
            shown, normal = bare.replace("▁", " "), normal.replace("▁", " ")
            assert folded(shown) in folded(normal) or folded(shown.removeprefix(" ")) in folded(normal)
            assert normalizer != "none" or normal in (shown, shown.removeprefix(" "))


@given(texts, schemes, st.booleans())
@FEW
def test_offsets_cover_the_line(text, scheme, with_user):
    """Without normalisation, every character that is not white space lies in the span of some piece."""
    found = encoder(*scheme, user=USER * with_user).encode_offsets(text)
    covered = {i for _, start, end in found for i in range(start, end)}
    missing = {text[i] for i in set(range(len(text))) - covered}
    assert all(char.isspace() for char in missing)
    if scheme in LOSSLESS:
        assert not missing


# ---- sharing, copying, refusing


@given(texts)
@FEW
def test_pickling_changes_nothing(text):
    """An encoder that went through pickle encodes alike."""
    made = encoder("none", "gpt2", user=USER)
    assert pickle.loads(pickle.dumps(made)).encode(text) == made.encode(text)


def test_threads_share_an_encoder():
    """16 threads that share one encoder, with a small cache too, give what one thread gives."""
    made, rng = Encoder(vocabulary()), Random(3)
    lines = [" ".join("".join(rng.choices("abcdehlotw", k=rng.randint(1, 9))) for _ in range(20)) for _ in range(400)]
    expected = [Encoder(vocabulary()).encode(line) for line in lines]
    dropped = Encoder(vocabulary()).encode_lines(lines, dropout=0.3, seed=1)
    with ThreadPoolExecutor(16) as pool:
        assert [*pool.map(made.encode, lines)] == expected
        assert [*pool.map(made.encode, reversed(lines))] == expected[::-1]
        found = pool.map(lambda i: made.encode_lines([lines[i]], dropout=0.3, seed=1, first=i)[0], range(len(lines)))
        assert [*found] == dropped


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lone_surrogates_are_no_text(scheme):
    """A lone surrogate is a CorpusError that says where it stands, in every way of encoding."""
    made = encoder(*scheme, user=USER)
    for call in (made.encode, made.encode_ids, made.encode_offsets, lambda line: made.encode_lines(["a", line])):
        with pytest.raises(CorpusError, match=r"U\+D800 at character 2"):
            call("ab\ud800")


@pytest.mark.parametrize("bad", [-1, 10**6])
def test_ids_out_of_range_are_refused(bad):
    """decode_ids names an id that does not exist, and its place."""
    with pytest.raises(VocabularyError, match=f"id {bad} at position 1"):
        encoder().decode_ids([4, bad])


def test_any_ids_decode():
    """Any sequence of ids that exist decodes, bytes that are no UTF-8 included."""
    for scheme in SCHEMES:
        made = encoder(*scheme, user=USER, byte_fallback=True)
        ids = Random(2).choices(range(len(made.vocabulary.pieces)), k=2_000)
        assert isinstance(made.decode_ids(ids), str)
        assert made.decode_ids(np.array(ids, np.int32)) == made.decode_ids(ids)


# ---- subword-nmt


def assert_pieces_equal_subword_nmt(oracle, train, lines, n_merges) -> None:
    """VOLT's pieces are subword-nmt's, without and with a vocabulary filter that prunes half of the tokens."""
    counts = WordCounts.from_pairs(Counter(word for line in train for word in line.split()))
    candidates = learn_bpe(counts, n_merges)
    order = Random(1).sample(candidates.tokens, candidates.n_tokens)
    lines = [" ".join(line.split()) for line in lines]
    for kept in (None, sorted(order[: candidates.n_tokens // 2])):
        made = Encoder(Vocabulary(tuple(candidates.merges), candidates.tokens if kept is None else tuple(kept)))
        bpe = oracle.bpe(candidates.merges, kept=kept)
        assert made.encode_lines(lines) == [oracle.pieces(bpe, line) for line in lines]


def test_pieces_equal_subword_nmt(subword_nmt):
    """On a few lines, half of which the merges were not learned on."""
    assert_pieces_equal_subword_nmt(subword_nmt, LINES * 2, [*LINES, *CORPUS, "unseen ÄÖÜ words, aaaaaaa"], 150)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "de", "fr", "cs"])
def test_pieces_equal_subword_nmt_on_multi30k(subword_nmt, lines, language):
    """On training text that merges were learned on, and validation text that they were not."""
    train = lines(f"multi30k/train.{language}.gz", 3_000)
    assert_pieces_equal_subword_nmt(subword_nmt, train, train + lines(f"multi30k/val.{language}.gz"), 4_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "language", ["Cantonese", "Catalan", "Estonian", "Finnish", "Georgian", "Latvian", "Marathi", "Urdu"]
)
def test_pieces_equal_subword_nmt_on_ted(subword_nmt, lines, language):
    """On eight more languages and five scripts; merges learned on the first half."""
    text = lines(f"ted/{language}.txt.gz", 2_000)
    assert_pieces_equal_subword_nmt(subword_nmt, text[:1_000], text, 2_000)
