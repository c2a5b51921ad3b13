"""Laws of Hugging Face exports of what came from elsewhere: own ids, missing roles, control tokens, other merging."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from drawn import examples
from exports import LINES, assert_agree, beyond, learn
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.text.byte_alphabet import ALPHABET, to_bytes
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

tokenizers = pytest.importorskip("tokenizers")

NONE = SpecialTokens(None, None, None, None)
TOKENS = ("o", "l", "lo", "w")
PLAIN = {"merges": (("l", "o"),), "tokens": TOKENS, "marker": "none"}


def written(vocabulary, folder: Path):
    """The library with the exported folder loaded."""
    huggingface.write(vocabulary, folder)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def imported():
    """transformers, which warns of what it misses when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers")


def test_ids_of_the_vocabulary_are_those_of_the_file(tmp_path):
    """Ids stay wherever the vocabulary has them, gaps too; without unk an unknown character leaves no id; a control
    token, plain text in VOLT, is found there."""
    special = SpecialTokens(None, "<|end|>", "<|end|>", None, user=("<url>",), control=("[A]",))
    order = ("o", "", "[A]", "l", "<url>", "lo", "w", "<|end|>")
    vocabulary = Vocabulary(**PLAIN, special=special, order=order)
    found = written(vocabulary, tmp_path / "m")
    assert found.get_vocab() == vocabulary.ids
    for line, ids in {
        "low": [5, 6],
        "lo [A] x<url>low": [5, 2, 4, 5, 6],
        "<|end|> wol": [7, 6, 0, 3],
    }.items():
        assert found.encode(line).ids == ids
        if "[" not in line and "|" not in line:
            assert Encoder(vocabulary).encode_ids(line).tolist() == ids


def test_transformers_names_what_has_a_role(tmp_path):
    """AutoTokenizer loads the folder with the same ids; roles that nothing has are None; control tokens are special to
    it: left out of decoded text, and found in text."""
    transformers = imported()
    special = SpecialTokens(
        None, "<|end|>", "<|end|>", None, user=("<url>",), control=("[A]", "[B]")
    )
    vocabulary = Vocabulary(
        **PLAIN, special=special, order=("o", "l", "lo", "w", "[A]", "<url>", "<|end|>", "[B]")
    )
    notes = huggingface.write(vocabulary, tmp_path / "m")
    assert "special tokens, such as <|end|>, [A], [B], in text" in notes[0]
    found = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    assert len(found) == len(vocabulary)
    assert (found.bos_token_id, found.eos_token_id, found.unk_token, found.pad_token) == (
        6,
        6,
        None,
        None,
    )
    assert {*found.all_special_ids} == {4, 6, 7}
    line = "[A]low <url> [B]lo<|end|>"
    assert found.encode(line, add_special_tokens=False) == [4, 2, 3, 5, 7, 2, 6]
    assert found.decode([4, 2, 3, 7], skip_special_tokens=True) == "low"


def test_a_role_that_is_a_user_token_is_found_in_text(tmp_path):
    """A token that is both is found by transformers, too."""
    transformers = imported()
    vocabulary = Vocabulary(
        **PLAIN, special=SpecialTokens(None, "<|a|>", "<|e|>", None, user=("<|a|>",))
    )
    notes = huggingface.write(vocabulary, tmp_path / "m")
    assert any("such as <|e|>, in text" in note for note in notes)
    found = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    assert (
        found.encode("lo<|a|>w", add_special_tokens=False)
        == Encoder(vocabulary).encode_ids("lo<|a|>w").tolist()
    )


@given(drawn=st.data())
@settings(deadline=None, max_examples=examples(60))
def test_ranks_become_pairs(drawn, tmp_path_factory):
    """Where a rank belongs to what is made, the exported merges cut as tiktoken does by those ranks, runs too."""
    tiktoken = pytest.importorskip("tiktoken")
    known, merges = ["a", "b", "c"], []
    for _ in range(drawn.draw(st.integers(1, 10))):
        left, right = drawn.draw(st.sampled_from(known)), drawn.draw(st.sampled_from(known))
        if left + right not in known and len(left + right) < 8:
            merges.append((left, right))
            known.append(left + right)
    tokens = (*ALPHABET, *map("".join, merges))
    settings_ = {"marker": "none", "pretokenizer": "bytes", "special": NONE, "merging": "ranks"}
    found = written(
        Vocabulary(tuple(merges), tokens, **settings_), tmp_path_factory.mktemp("m") / "m"
    )
    ranks = {to_bytes(token): rank for rank, token in enumerate(tokens)}
    real = tiktoken.Encoding("m", pat_str="(?s).+", mergeable_ranks=ranks, special_tokens={})
    for text in drawn.draw(st.lists(st.text("aabc", min_size=1, max_size=14), max_size=8)):
        if text not in tokens:  # tiktoken takes it whole
            assert found.encode(text).ids == real.encode(text)


def test_whole_words_are_taken_whole(tmp_path):
    """Words that are tokens are taken before any merge, made or not; with an end marker that is refused."""
    tokens = (*ALPHABET, "lo", "low")
    vocabulary = Vocabulary(
        (("l", "o"),), tokens, marker="none", pretokenizer="bytes", special=NONE, whole_words=True
    )
    found = written(vocabulary, tmp_path / "m")
    assert found.encode("low lower").tokens == ["low", "Ġ", "lo", "w", "e", "r"]
    assert (
        json.loads((tmp_path / "m" / "tokenizer.json").read_text())["model"]["ignore_merges"]
        is True
    )
    with pytest.raises(VocabularyError, match="whole_words"):
        huggingface.write(Vocabulary((), ("l", "low"), whole_words=True), tmp_path / "n")


def test_steps_need_no_note(tmp_path):
    """Merged one place at a time, as the library does, nothing differs, so nothing is said."""
    merges = (("a", "b"), ("ab", "a"), ("aba", "b"), ("ab", "ab"))
    vocabulary = Vocabulary(merges, ("a", "b", "ab", "aba", "abab"), marker="none", merging="steps")
    assert beyond(huggingface.write(vocabulary, tmp_path / "m")) == []


@pytest.mark.parametrize("marker", ["suffix", "prefix"])
def test_words_of_bytes_may_be_marked(marker, tmp_path):
    """CLIP's way, "</w>" behind words of bytes, and "▁" before them encode alike, once all bytes are tokens there."""
    learned = learn(LINES, marker, "bytes")
    if marker == "suffix":
        with pytest.raises(VocabularyError, match="bytes that end words"):
            huggingface.write(learned, tmp_path / "m")
    spare = tuple(
        dict.fromkeys((*ALPHABET, *(f"{byte}</w>" for byte in ALPHABET * (marker == "suffix"))))
    )
    tokens = learned.tokens + tuple(token for token in spare if token not in set(learned.tokens))
    vocabulary = Vocabulary(learned.merges, tokens, marker=marker, pretokenizer="bytes")
    notes = huggingface.write(vocabulary, tmp_path / "m")
    assert beyond(notes) == []
    assert_agree(
        Encoder(vocabulary),
        huggingface.peer(tmp_path / "m", vocabulary),
        [*LINES, " 私は  x\t", "▁ </w> low"],
    )
    real = tokenizers.Tokenizer.from_file(str(tmp_path / "m" / "tokenizer.json"))
    assert real.decode(real.encode("größer 私は, low").ids) == "größer 私は, low"
