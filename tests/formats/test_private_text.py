"""Files with user tokens and text with private characters, behind which VOLT hides such tokens: the libraries' ids."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest
from drawn import examples
from exports import LINES, assert_agree, fragments, learn
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.formats import huggingface, tiktoken

pytest.importorskip("tokenizers")
pytest.importorskip("tiktoken")

FEW = settings(deadline=None, max_examples=examples(20))
USER = ("<url>", "<u", "é!")
own = st.sampled_from("\U0010f000\U0010f001\U0010f002\U0010fffc\U0010fffd\U00100000")
lines_ = st.lists(
    st.lists(fragments | own | st.sampled_from(USER), max_size=9).map("".join),
    min_size=1,
    max_size=4,
)


@cache
def trained(cuts: str):
    """What tokenizers trains with added tokens, at byte level, and VOLT's encoder of its file."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    real = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not cuts)
    split = [pre_tokenizers.Split(Regex(cuts), "isolated")] if cuts else []
    real.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level])
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    lines = [
        *LINES,
        "\U0010f000\U0010f001 a\U0010f000\U0010f000",
    ] * 2  # merges of bytes of private characters
    real.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=400, special_tokens=list(USER), **options)
    )
    with tempfile.TemporaryDirectory() as folder:
        real.save(str(Path(folder, "tokenizer.json")))
        return real, Encoder(huggingface.read(Path(folder, "tokenizer.json")))


@pytest.mark.parametrize("cuts", ["", r" ?\p{L}+|\p{N}{1,2}|\s+(?!\S)|\s", r"\p{Co}+[^\n]?"])
@given(lines_)
@example(["\U0010f000", "a \U0010f001<url>\U0010f000 b", "\U0010fffd<u\U0010fffd\U0010fffd"])
@FEW
def test_files_with_added_tokens_are_read_to_the_same_ids(cuts, lines):
    """Whatever private characters the text holds, beside user tokens or without any."""
    real, encoder = trained(cuts)
    assert encoder.vocabulary.special.user == USER
    theirs = [row.ids for row in real.encode_batch(lines, add_special_tokens=False)]
    assert [row.tolist() for row in encoder.encode_batch(lines, n_threads=1)] == theirs
    assert [encoder.encode_ids(line).tolist() for line in lines] == theirs


@cache
def ranks():
    """A vocabulary of bytes with user tokens, and tiktoken with its file."""
    vocabulary = learn(LINES, "none", "bytes", user=("<url>", "é!"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tiktoken")
        tiktoken.write(vocabulary, path)
        return Encoder(vocabulary), tiktoken.peer(path, vocabulary)


@given(lines_)
@FEW
def test_tiktoken_gives_the_same_ids(lines):
    """What VOLT exports encodes alike in tiktoken, private characters included."""
    encoder, peer = ranks()
    assert_agree(encoder, peer, lines)
