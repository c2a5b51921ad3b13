"""Small files of other libraries, and models that these libraries train."""

import base64
import io
import json
import random
from collections.abc import Mapping
from typing import Any

from support.drawn import some

from volt.encode.encoder import Encoder
from volt.formats import huggingface
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS

Step = dict[str, Any]
NFC = {"type": "NFC"}
LOWER = {"type": "Lowercase"}
PREPEND = {"type": "Prepend", "prepend": "▁"}
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
DIGITS = {"type": "Digits", "individual_digits": True}
WHITE = {"type": "WhitespaceSplit"}
NO_FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)


def level(*, use_regex=True, adds_space=False):
    flags = {"add_prefix_space": adds_space, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **flags}


def split(pattern, behavior="Isolated", *, kind="Regex", **options):
    step = {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": False}
    return step | options


def metaspace(place, *, cuts=False):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": place, "split": cuts}


def sequence(name, steps):
    return {"type": "Sequence", name: list(steps)} if steps else None


def tokenizer_json(
    place,
    vocab,
    merges=(),
    *,
    added=(),
    normalizer=(),
    cuts=(),
    decoder=None,
    sections=None,
    **model,
):
    """Write a tokenizer.json and return its path.

    Added tokens that are not in `vocab` get the next ids.

    place: the file, or its folder;  sections: other sections;  model: other settings of the model
    """
    ids = dict(vocab) if isinstance(vocab, Mapping) else {t: n for n, t in enumerate(vocab)}
    numbers = dict(ids)
    rows = [
        NO_FLAGS | {"id": numbers.setdefault(row["content"], len(numbers))} | row for row in added
    ]
    usual = {"type": "BPE", "unk_token": None, "fuse_unk": False, "byte_fallback": False}
    data = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": rows,
        "normalizer": sequence("normalizers", normalizer),
        "pre_tokenizer": sequence("pretokenizers", cuts),
        "post_processor": None,
        "decoder": decoder,
        "model": usual | {"vocab": ids, "merges": [list(pair) for pair in merges]} | model,
    }
    path = place if place.suffix == ".json" else place / "tokenizer.json"
    path.write_text(json.dumps(data | (sections or {})), encoding="utf-8")
    return path


def changed(path, **sections):
    """Replace sections of a tokenizer.json; "model" changes only the settings that it names."""
    data = json.loads(path.read_text(encoding="utf-8"))
    data["model"] |= sections.pop("model", {})
    path.write_text(json.dumps(data | sections), encoding="utf-8")
    return path


def library_of(path):
    """Load a tokenizer.json in `tokenizers`."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))


def read_both(path):
    """Return the vocabulary of a tokenizer.json, and the library with the file."""
    return huggingface.read(path), library_of(path)


def assert_ids_of_library(vocabulary, library, lines):
    """Check that each line has the library's ids."""
    theirs = library.encode_batch(list(lines), add_special_tokens=False)
    ours = Encoder(vocabulary).encode_batch(list(lines))
    for line, ids, expected in zip(lines, ours, theirs, strict=True):
        assert ids.tolist() == expected.ids, line


def assert_same_text(vocabulary, library, lines):
    """Check that the text of encoded lines and of random ids, without bytes that are not text, is
    the library's.
    """
    encoder = Encoder(vocabulary)
    chance = random.Random(3)
    bytes_alone = {*BYTE_TOKENS, *ALPHABET[128:]}
    numbers = [n for piece, n in vocabulary.ids.items() if piece not in bytes_alone]
    numbers = [n for n in numbers if "\ufffd" not in library.decode([n])]
    numbers += [vocabulary.ids[token] for token in vocabulary.special.all]
    rows = [row.ids for row in library.encode_batch(lines, add_special_tokens=False)]
    rows += [chance.choices(numbers, k=6) for _ in range(200)]
    for skip in (False, True):
        expected = library.decode_batch(rows, skip_special_tokens=skip)
        assert encoder.decode_batch(rows, skip_special=skip) == expected
        for row, text in zip(some(rows), some(expected), strict=True):
            assert encoder.decode_ids(row, skip_special=skip) == text
            assert "".join(encoder.decode_stream(row, skip_special=skip)) == text


BYTES = {bytes([byte]): byte for byte in range(256)}


def ranks_file(path, ranks):
    """Write a ranks file and return its path."""
    rows = (b"%b %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    path.write_bytes(b"".join(rows))
    return path


def ranks_of(words, skipped=()):
    """Return ranks of all bytes, then of words. skipped: how many ranks are left out before each
    word
    """
    result = dict(BYTES)
    gaps = iter(skipped)
    rank = 255
    for word in words:
        rank += 1 + next(gaps, 0)
        result.setdefault(word.encode(), rank)
    return result


def sentencepiece_model(lines, **options):
    """Return a model that sentencepiece trains on these lines; by default BPE, without
    normalisation.
    """
    import sentencepiece

    model = io.BytesIO()
    usual = {"model_type": "bpe", "normalization_rule_name": "identity", "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, minloglevel=2, **usual | options
    )
    return model.getvalue()
