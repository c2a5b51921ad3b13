"""Laws of tokens that are chosen for few pieces: counts are exact, no step adds pieces, and other libraries give
the same ids."""

from itertools import chain

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from volt.choose.certificate import build_lattice
from volt.choose.search import search
from volt.choose.token_choice import TokenChoice, choose_tokens, list_texts
from volt.encode import Encoder
from volt.errors import CandidateError, ConfigError
from volt.formats.registry import write_vocabulary
from volt.kernels.arrays import Words
from volt.text.atoms import atom_codes

MANY = settings(max_examples=examples(60), deadline=None)
tiny_texts = st.dictionaries(
    st.text("ab", min_size=1, max_size=5), st.integers(1, 9), min_size=1, max_size=4
)


def start(counts, seed):
    """Return a choice of random tokens, and the strings of all candidates."""
    codes, ends = atom_codes(list(counts), marker="none")
    words = Words(codes, ends, np.array(list(counts.values()), np.int64))
    lattice = build_lattice(words, 1)
    texts = list_texts(lattice, words.symbols)
    is_chosen = np.random.default_rng(seed).integers(2, size=len(texts))
    return TokenChoice(lattice, np.flatnonzero(is_chosen)), texts


def count(counts, tokens):
    return sum(n * naive.path_length(word, tokens) for word, n in counts.items())


def chosen_texts(current, texts):
    return {texts[token] for token in np.flatnonzero(current.is_chosen)}


@MANY
@given(tiny_texts, st.integers(0, 99))
def test_pieces_and_values_are_those_of_shortest_paths(counts, seed):
    """Pieces are exact after any changes, and so is the value of each token that can be dropped. The
    value of a token that can be added is exact if it occurs once in each word."""
    current, texts = start(counts, seed)
    for token in range(0, len(texts), 2):
        current.toggle(token)
    tokens = chosen_texts(current, texts)
    assert current.n_pieces == count(counts, tokens)
    for number, text in enumerate(texts):
        if text in tokens:
            value = count(counts, tokens - {text}) - current.n_pieces
            assert current.values[number] == value
            continue
        saved = current.n_pieces - count(counts, tokens | {text})
        if all(word.find(text) == word.rfind(text) for word in counts):
            assert current.values[number] == saved
        assert (current.values[number] > 0) >= (saved > 0)


@MANY
@given(tiny_texts, st.integers(0, 99))
def test_exchanges_keep_the_number_of_tokens_and_add_no_pieces(counts, seed):
    """After exchanges, as many tokens are chosen, with at most as many pieces, and at least the fewest."""
    current, texts = start(counts, seed)
    n_tokens = int(current.is_chosen.sum())
    n_pieces = current.n_pieces
    current.exchange(10)
    assert current.is_chosen.sum() == n_tokens
    assert naive.fewest_pieces(counts, n_tokens) <= current.n_pieces <= n_pieces
    assert current.n_pieces == count(counts, chosen_texts(current, texts))


@MANY
@given(tiny_texts, st.integers(0, 6))
def test_filling_stops_at_the_number_or_when_no_token_saves_pieces(counts, n_tokens):
    """As many tokens are chosen as requested, or fewer if no other saves any piece."""
    current, texts = start(counts, 1)
    current.fill(n_tokens)
    tokens = chosen_texts(current, texts)
    assert len(tokens) <= n_tokens
    if len(tokens) < n_tokens:
        assert current.n_pieces == sum(counts.values())


def choose(counts, size, n_merges=30, **options):
    """Return the result of a search for a size, and the same with chosen tokens."""
    result = search(
        volt.learn_bpe(counts, n_merges, marker="none"), sizes=[size], select=size, **options
    )
    return result, choose_tokens(result)


@MANY
@given(tiny_texts, st.integers(0, 5))
def test_a_vocabulary_has_as_many_tokens_and_its_encoder_makes_the_counted_pieces(counts, n_free):
    """The chosen tokens are as many as BPE's; the encoder cuts words into as few pieces as they allow."""
    candidates = volt.learn_bpe(counts, 30, marker="none", min_pair_count=1)
    if not candidates.n_merges:
        return
    size = min(candidates.n_atoms + n_free, candidates.n_tokens)
    result = search(candidates, sizes=[size], select=size)
    chosen = choose_tokens(result)
    vocabulary = chosen.vocabulary
    assert len(vocabulary.tokens) == len(result.vocabulary.tokens)
    assert vocabulary.pieces[:4] == result.vocabulary.pieces[:4]
    pieces = Encoder(vocabulary).encode_words(list(counts))
    n_pieces = sum(n * len(each) for n, each in zip(counts.values(), pieces, strict=True))
    assert n_pieces == count(counts, vocabulary.tokens) == chosen.best.n_pieces
    assert n_pieces == sum(vocabulary.counts) <= result.best.n_pieces
    n_other = vocabulary.size - candidates.n_atoms
    assert n_pieces >= naive.fewest_pieces(counts, n_other)


def test_the_measures_are_those_of_the_chosen_tokens():
    """Entropy and transport of the result are computed from the tokens of the vocabulary."""
    _, chosen = choose({"abc": 9, "ab": 4}, 4)
    counts = dict(zip(chosen.vocabulary.tokens, chosen.vocabulary.counts, strict=True))
    assert counts == {"a": 4, "b": 4, "c": 0, "abc": 9}
    expected = naive.entropy([4, 4, 0, 9], np.array([1, 1, 1, 3]))
    assert chosen.best.entropy == pytest.approx(expected)
    assert chosen.best.n_kept == 4


LINES = ["the cat sat on the mat", "other cats sat there", "the rest ate the hat", "that rat"] * 5
UNSEEN = [
    "",
    " ",
    "a",
    "the  cat ",
    "Zebra the cat, 猫猫 sat",
    "thattatthe",
    "\u2581the",
    "cats\tthat",
]


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_other_libraries_give_the_same_ids(tmp_path, byte_fallback):
    """A vocabulary of chosen tokens has the same ids as an export to tokenizers and sentencepiece."""
    tokenizers = pytest.importorskip("tokenizers", reason="its ids are compared")
    sentencepiece = pytest.importorskip("sentencepiece", reason="its ids are compared")
    counts = volt.count_words(texts=LINES, pretokenizer="metaspace")
    candidates = volt.learn_bpe(counts)
    vocabulary = choose_tokens(
        search(candidates, select=25, byte_fallback=byte_fallback)
    ).vocabulary
    write_vocabulary(vocabulary, tmp_path / "tokenizer.json", to="huggingface")
    write_vocabulary(vocabulary, tmp_path / "tokens.model", to="sentencepiece")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokens.model"))
    encoder = Encoder(vocabulary)
    for line in (*LINES[:4], *UNSEEN):
        ids = encoder.encode_ids(line).tolist()
        assert theirs.encode(line, add_special_tokens=False).ids == ids, line
        assert processor.encode(line) == ids, line


def test_tokens_spelled_like_special_tokens_are_not_chosen():
    """A special token is never chosen, however many pieces it would save."""
    counts = {"abcabc": 50, "abc": 9, "cab": 4, "bb": 2}
    plain = choose(counts, 6)[1].vocabulary
    assert "abcabc" in plain.tokens
    special = volt.SpecialTokens(control=("abcabc",))
    _, chosen = choose(counts, 6, special=special)
    assert chosen.vocabulary.pieces.count("abcabc") == 1
    assert len(set(chosen.vocabulary.pieces)) == len(chosen.vocabulary.pieces)


def test_a_user_token_of_one_character_is_a_reserved_atom():
    """A user token that was counted as text is not a token, but its pieces count, as they do for BPE."""
    counts = {"abc": 20, "abd": 9, "bcd": 8, "cab": 7}
    result, chosen = choose(counts, 7, special=volt.SpecialTokens(user=("a",)))
    assert "a" not in chosen.vocabulary.tokens
    assert chosen.best.n_pieces == count(counts, {*"abcd", *chosen.vocabulary.tokens})
    assert chosen.best.n_pieces < result.best.n_pieces


def test_multiples_hold_and_left_out_characters_end_tokens():
    """The ids are a multiple of the requested number; no token contains a character beyond the coverage."""
    counts = volt.count_words(texts=[*LINES, "q"], pretokenizer="metaspace")
    candidates = volt.learn_bpe(counts, coverage=0.99)
    result = search(candidates, select=20, multiple_of=8)
    chosen = choose_tokens(result)
    assert len(chosen.vocabulary) == len(result.vocabulary)
    assert len(chosen.vocabulary) % 8 == 0
    assert not set(candidates.coverage.left_out) & set(
        chain.from_iterable(chosen.vocabulary.tokens)
    )
    assert chosen.merged == result.best
    assert "|tokens:optimal|" in chosen.signature


def test_long_words_are_cut_for_the_choice_only():
    """Words of more than 256 characters are encoded whole, and their tokens are chosen."""
    word = "abcde" * 110
    candidates = volt.learn_bpe({word: 3, "xyz": 2}, 20, marker="none")
    result = search(candidates, select=14)
    chosen = choose_tokens(result)
    [pieces, _] = Encoder(chosen.vocabulary).encode_words([word, "xyz"])
    assert "".join(pieces) == word
    assert chosen.best.n_pieces == sum(chosen.vocabulary.counts) <= result.best.n_pieces


def test_the_result_never_has_more_pieces_than_bpe():
    """If the choice fits badly to the ends of long words, BPE's tokens remain."""
    counts = {"abcdefghij" * 300 + "xyz": 2, "abab": 50}
    result, chosen = choose(counts, 30)
    assert chosen.best.n_pieces <= result.best.n_pieces


def test_rare_tokens_are_not_chosen():
    """A token that occurs at most half as often as BPE's last merge is not chosen, long as it may be."""
    counts = {"abcdefgh": 6, "xy": 20, "xz": 15}
    _, chosen = choose(counts, 13)
    assert "abcdefgh" not in chosen.vocabulary.tokens
    assert "abcdefgh" in choose(counts, 14)[1].vocabulary.tokens


def test_reports_count_exchanges():
    """`report` is called with the number of exchanges, which saved pieces."""
    counts = volt.count_words(texts=LINES, pretokenizer="metaspace")
    result = search(volt.learn_bpe(counts), select=25)
    numbers = []
    chosen = choose_tokens(result, report=numbers.append)
    assert numbers == list(range(1, len(numbers) + 1))
    assert bool(numbers) == (chosen.best.n_pieces < result.best.n_pieces)


def test_other_candidates_are_refused():
    """Words with a marker, and candidates that are not BPE's of the text, are refused with a remedy."""
    counts = volt.count_words(texts=LINES)
    with pytest.raises(CandidateError, match="marker 'suffix' is for merges"):
        choose_tokens(search(volt.learn_bpe(counts)))
    words = volt.learn_bpe(volt.count_words(texts=LINES, level="bytes"), 20)
    superwords = volt.learn_superwords(words, texts=LINES, n_superwords=2)
    with pytest.raises(CandidateError, match="superwords"):
        choose_tokens(search(superwords))
    with pytest.raises(ConfigError, match="result"):
        choose_tokens(words)
