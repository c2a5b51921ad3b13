"""What scripts call on tokenizers, tiktoken and sentencepiece, and what the same calls of `Encoder` return."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import volt
from volt import Encoder, SpecialTokens
from volt.errors import ConfigError, VocabularyError

LINES = ["low lower newest", "größe 再见 👍 é", "", "  two  spaces ", "<s> is text", "<url> too"]
USER = ("<url>", "<|end|>")


def made(marker: Any = "suffix", pretokenizer: str = "whitespace", *, byte_fallback: bool = False) -> Encoder:
    counts = volt.WordCounts.from_pairs({"low": 9, "lower": 7, "newest": 6, "größe": 5}, pretokenizer=pretokenizer)
    candidates = volt.learn_bpe(counts, 12, marker=marker)
    special = SpecialTokens(user=USER)
    found = volt.search(candidates, select=candidates.n_tokens, special=special, byte_fallback=byte_fallback)
    return Encoder(found.vocabulary.closed())


KINDS: dict[str, Callable[[], Encoder]] = {
    "suffix": made,
    "suffix, byte fallback": lambda: made(byte_fallback=True),
    "prefix": lambda: made("prefix"),
    "prefix, byte fallback": lambda: made("prefix", byte_fallback=True),
    "metaspace": lambda: made("none", "metaspace", byte_fallback=True),
    "bytes": lambda: made("none", "bytes"),
}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def encoder(request: pytest.FixtureRequest) -> Encoder:
    made: Encoder = request.param()
    return made


def test_a_stream_of_ids_gives_the_text(encoder: Encoder) -> None:
    """Whatever the ids, parts of characters too, joined text equals decoding at once; no part is empty."""

    @given(st.lists(st.integers(0, len(encoder.vocabulary) - 1), max_size=12))
    @settings(deadline=None, max_examples=examples(60))
    def law(ids: list[int]) -> None:
        parts = list(encoder.decode_stream(iter(ids)))
        assert "".join(parts) == encoder.decode_ids(ids)
        assert all(parts)

    law()
    for line in LINES:
        ids = encoder.encode_ids(line)
        assert "".join(encoder.decode_stream(ids)) == encoder.decode_ids(ids)


def test_text_arrives_as_soon_as_its_characters_are_whole() -> None:
    """The three bytes of one character give text after the third; what follows is not read before."""
    encoder, read = made("none", "bytes"), list[int]()

    def generated() -> Any:
        for number in encoder.encode_ids("a再b").tolist():
            read.append(number)
            yield number

    stream = encoder.decode_stream(generated())
    assert (next(stream), len(read)) == ("a", 1)
    assert (next(stream), len(read)) == ("再", 4)


def test_ends_are_added_as_in_sentencepiece(encoder: Encoder) -> None:
    """`add_bos` and `add_eos` of encode, for one line and many; `count` is the number of ids without them."""
    bos, eos = (encoder.vocabulary.ids[token] for token in ("<s>", "</s>"))
    for add_bos in (False, True):
        for add_eos in (False, True):
            rows = [[bos] * add_bos + encoder.encode_ids(line).tolist() + [eos] * add_eos for line in LINES]
            assert [encoder.encode_ids(line, add_bos=add_bos, add_eos=add_eos).tolist() for line in LINES] == rows
            batch = encoder.encode_batch(LINES, add_bos=add_bos, add_eos=add_eos)
            assert [one.tolist() for one in np.split(batch.ids, batch.offsets[1:-1])] == rows
            assert (batch.ids.dtype, batch.offsets.dtype) == (np.int32, np.int64)
    assert [encoder.count(line) for line in LINES] == [len(encoder.encode_ids(line)) for line in LINES]
    assert encoder.encode_batch([], add_bos=True).offsets.tolist() == [0]


def test_special_tokens_are_skipped(encoder: Encoder) -> None:
    """Roles, control tokens and <|…|> disappear, other user tokens and text that spells a role stay; many as one."""
    ids = [encoder.encode_ids(line + " <url><|end|>", add_bos=True, add_eos=True) for line in LINES]
    for row, line in zip(ids, encoder.decode_batch(ids, skip_special=True), strict=True):
        assert line == encoder.decode_ids(row, skip_special=True)
        assert "<url>" in line
        assert "<|end|>" not in line
    assert encoder.decode_batch(ids) == [encoder.decode_ids(row) for row in ids]


def test_tokens_are_bytes_as_in_tiktoken(tmp_path: Path) -> None:
    """`token_bytes` is decode_single_token_bytes; together, the bytes of a line's tokens are its text."""
    tiktoken = pytest.importorskip("tiktoken")
    from volt.formats.tiktoken.library import pattern_of

    encoder = made("none", "bytes")
    volt.write_vocabulary(encoder.vocabulary.closed(order="merges"), tmp_path / "ranks.tiktoken", to="tiktoken")
    rows = [line.split() for line in (tmp_path / "ranks.tiktoken").read_bytes().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    pattern = pattern_of(encoder.vocabulary.pretokenizer)
    library = tiktoken.Encoding("ranks", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    for line in LINES[:4]:
        tokens = [encoder.token_bytes(number) for number in encoder.encode_ids(line).tolist()]
        assert b"".join(tokens) == line.encode()
        assert tokens == [library.decode_single_token_bytes(number) for number in library.encode_ordinary(line)]


def test_ids_are_those_of_sentencepiece() -> None:
    """With its model and its options add_bos and add_eos."""
    spm = pytest.importorskip("sentencepiece")
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower newest"] * 50), model_writer=written, model_type="bpe", vocab_size=300,
        byte_fallback=True, minloglevel=2, hard_vocab_limit=False, normalization_rule_name="identity",
    )  # fmt: skip
    path = Path(volt.__file__).parent  # only for its name in errors
    from volt.stream.transforms.spm import processor_of

    library = processor_of(path, written.getvalue())
    from volt.formats.sentencepiece.charsmap import model_class
    from volt.formats.sentencepiece.model_file import vocabulary_of

    encoder = Encoder(vocabulary_of(model_class().FromString(written.getvalue())))
    for line in ("low newest", "größe 👍", ""):
        ids = encoder.encode_ids(line, add_bos=True, add_eos=True).tolist()
        assert ids == library.encode(line, add_bos=True, add_eos=True)
        assert encoder.decode_ids(ids, skip_special=True) == library.decode(ids)


def test_what_cannot_be_is_refused() -> None:
    """A role that the vocabulary lacks, ids out of range, and values of other types are named."""
    plain = Encoder(volt.Vocabulary((), ("a",), special=SpecialTokens(bos=None)))
    with pytest.raises(ConfigError, match="the vocabulary has no bos token; name one"):
        plain.encode_ids("a", add_bos=True)
    with pytest.raises(ConfigError, match="the vocabulary has no bos token"):
        plain.encode_batch(["a"], add_bos=True)
    with pytest.raises(VocabularyError, match="id 9 at position 1: ids go from 0 to 3"):
        list(plain.decode_stream([3, 9]))
    with pytest.raises(VocabularyError, match="id -1 at position 0"):
        plain.token_bytes(-1)
    calls: list[Callable[[], object]] = [
        lambda: plain.encode_ids("a", add_eos=1),  # type: ignore[arg-type]
        lambda: plain.decode_ids([3], skip_special="yes"),  # type: ignore[arg-type]
        lambda: plain.token_bytes("a"),  # type: ignore[arg-type]
        lambda: list(plain.decode_stream(["a"])),  # type: ignore[list-item]
        lambda: plain.count(b"a"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(ConfigError):
            call()
