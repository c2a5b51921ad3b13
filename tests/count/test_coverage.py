"""Laws of `coverage_of`: sentencepiece leaves out the same characters, and counts stay exact."""

import math
from collections import Counter

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import DRAWS_ALL, examples
from support.merges import LINES, MARKERS

from volt import Encoder, WordCounts, learn_bpe, search
from volt.count.coverage import checked_share, coverage_of
from volt.errors import ArgumentError, ConfigError, CorpusError, VoltError
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN

FEW = settings(deadline=None, max_examples=examples(30))
words_ = st.dictionaries(
    st.text("aaabbcdé一😀", min_size=1, max_size=6), st.integers(1, 40), min_size=1, max_size=12
)
shares_ = st.floats(0.3, 1, exclude_max=True)
WORDS = Counter(word for line in LINES for word in line.split())


def ranked(words):
    """Return characters and counts, the commonest first, then by code point; a space precedes each
    word.
    """
    found = Counter()
    for word, count in words.items():
        for character in "▁" + word:
            found[character] += count
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


@given(words_, shares_)
@FEW
def test_the_commonest_characters_make_up_the_share(words, share):
    """`coverage_of` retains the commonest characters until they make up the share, and the
    space.
    """
    rows = ranked(words)
    kept = set()
    n_kept = 0
    total = sum(count for _, count in rows)
    for character, count in rows:
        if n_kept / total < share:
            kept.add(character)
            n_kept += count
    expected = [character for character, _ in rows if character not in kept and character != "▁"]
    if not kept - {"▁"}:
        with pytest.raises(CorpusError, match="leaves no character"):
            coverage_of(WordCounts.from_pairs(words), share)
        return
    found = coverage_of(WordCounts.from_pairs(words), share)
    assert found is not None
    assert found.left_out == "".join(expected)
    assert found.n_left_out == sum(count for character, count in rows if character in expected)
    assert found.n_characters == total
    assert found.n_left_out <= (1 - share) * total + 1e-9


def test_sentencepiece_leaves_out_the_same(lines, tmp_path):
    """`coverage_of` leaves out the characters that a model of sentencepiece lacks for the same
    share.

    Campaigns also compare 5,000 lines of Cantonese and German with the usual share.
    """
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = [*lines("ted/Cantonese.txt.gz", 2_500), *lines("multi30k/train.de.gz", 2_500)]
    texts = [" ".join(text.split()) for text in texts if "\u2581" not in text]
    for share, some in (
        (0.98, LINES),
        (0.985, LINES),
        (0.99, LINES),
        (0.995, LINES),
        (0.9995, texts),
    ):
        words = Counter(word for text in some for word in text.split())
        found = coverage_of(WordCounts.from_pairs(words), share)
        assert found is not None
        kept = set("".join(words)) - set(found.left_out)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(some),
            model_prefix=str(tmp_path / "spm"),
            model_type="bpe",
            vocab_size=len(kept) + 4,
            character_coverage=share,
            normalization_rule_name="identity",
            minloglevel=2,
        )
        model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
        assert {
            model.id_to_piece(number) for number in range(3, model.get_piece_size())
        } == kept | {"▁"}
    assert len(found.left_out) > (20 if DRAWS_ALL else 5)


@given(words_, shares_)
@FEW
def test_left_out_characters_part_words(words, share):
    """`learn_bpe` with a coverage learns from the parts of words between left-out characters."""
    try:
        candidates = learn_bpe(
            WordCounts.from_pairs(words), 30, marker="none", min_pair_count=1, coverage=share
        )
    except CorpusError:
        return
    parts = Counter()
    assert candidates.coverage is not None
    for word, count in words.items():
        for part in word.translate({ord(one): " " for one in candidates.coverage.left_out}).split(
            " "
        ):
            parts[part] += count * bool(part)
    assert candidates.merges == naive.learn(+parts, 30, "none", 1)


@pytest.mark.parametrize("marker", MARKERS)
def test_counts_are_those_of_the_encoded_corpus(marker):
    """With a coverage, the vocabulary's counts are those of the encoder.

    Characters that are left out become unknown pieces, or bytes."""
    counts = WordCounts.from_pairs(WORDS)
    candidates = learn_bpe(counts, 150, marker=marker, min_pair_count=1, coverage=0.9)
    coverage = candidates.coverage
    assert coverage is not None
    assert len(coverage.left_out) > 20
    for byte_fallback in (False, True):
        result = search(candidates, select="tokens", byte_fallback=byte_fallback)
        encoder = Encoder(result.vocabulary)
        found = Counter()
        for pieces, n in zip(
            encoder.encode_words(counts.words), counts.counts.tolist(), strict=True
        ):
            for piece in pieces:
                found[piece] += n
        tokens = dict(zip(result.vocabulary.tokens, result.vocabulary.counts, strict=True))
        assert {token: found[token] for token in tokens} == tokens
        left = sum(count for piece, count in found.items() if piece not in tokens)
        if byte_fallback:
            assert left > coverage.n_left_out
            assert encoder.decode(encoder.encode("მთე😀")) == "მთე😀"
        else:
            assert left == coverage.n_left_out
    assert "|coverage:0.9|" in result.signature
    assert result.vocabulary.provenance["left_out"] == coverage.left_out


def test_a_coverage_of_one_leaves_nothing_out():
    """`learn_bpe` with coverage=1 equals `learn_bpe` without a coverage."""
    counts = WordCounts.from_pairs(WORDS)
    one = learn_bpe(counts, 50, coverage=1)
    other = learn_bpe(counts, 50)
    assert one.tokens == other.tokens
    assert one.coverage is other.coverage is None
    assert "coverage" not in search(one).signature


@pytest.mark.parametrize("code", [FIRST_HIDDEN - 1, FIRST_HIDDEN, LAST_HIDDEN, LAST_HIDDEN + 1])
def test_user_tokens_are_no_characters(code):
    """`coverage_of` neither counts nor leaves out user tokens; neighbouring code points are
    characters.
    """
    found = coverage_of(WordCounts.from_pairs({f"ab{chr(code)}c": 5, "ab": 95}), 0.98)
    assert found is not None
    expected = ("c", 305) if code in (FIRST_HIDDEN, LAST_HIDDEN) else (chr(code), 310)
    assert (found.left_out, found.n_characters) == expected


@pytest.mark.parametrize("share", [0, -0.5, 1.1, 10**400, math.nan, math.inf, "0.9", None, True])
def test_impossible_shares_are_refused(share):
    """A coverage that is not a number above 0 and at most 1 raises an error."""
    for call in (checked_share, lambda share: learn_bpe(WORDS, 9, coverage=share)):
        with pytest.raises((ConfigError, ArgumentError), match="coverage is"):
            call(share)


def test_a_coverage_of_bytes_must_be_one():
    """A coverage below 1 raises an error if words are spelled by bytes."""
    counts = WordCounts.from_pairs({"low": 2}, pretokenizer="bytes")
    assert learn_bpe(counts, 1, coverage=1).coverage is None
    with pytest.raises(VoltError, match="256 bytes spell every character"):
        learn_bpe(counts, 1, coverage=0.9)


def test_characters_at_the_share_are_left_out():
    """For 4 a, 4 b and 2 c, the share 0.8 retains a and b; a larger one retains c, too."""
    counts = WordCounts.from_pairs({"aabb": 2, "c": 2}, pretokenizer="gpt2")
    found = [coverage_of(counts, share) for share in (0.4, 0.41, 0.8, 0.81)]
    assert [one and (one.left_out, one.n_left_out, one.n_characters) for one in found] == [
        ("bc", 6, 10),
        ("c", 2, 10),
        ("c", 2, 10),
        ("", 0, 10),
    ]
    assert found[0] is not None
    assert found[0].codes.tolist() == [98, 99]
