"""Vocabulary files of other libraries → `Library`: the file's library splits words if VOLT cannot.

sentencepiece    models of any kind, unigram ones above all
tokenizers       tokenizer.json of any kind, such as WordPiece and Unigram
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volt.comparison.measures import Cuts, cuts_of
from volt.comparison.time_and_memory import Cost, measured
from volt.errors import VocabularyError, missing
from volt.files.small_files import read_bytes
from volt.formats.check import plain_file
from volt.formats.registry import format_of, read_with_format
from volt.learn.candidates import Longs
from volt.text.atoms import token_lengths
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.vocabulary import Vocabulary

Encode = Callable[[list[str]], Sequence[Sequence[int]]]
Cutter = Callable[[Sequence[str], str], Cuts]  # arguments: words, and the name of their source


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """A vocabulary, and the library that splits words by it. `cut` returns indices of `tokens`.

    always: (n_tokens,) bool, False for byte tokens
    """

    name: str
    size: int
    tokens: tuple[str, ...] = field(repr=False)
    lengths: Longs = field(repr=False)
    always: NDArray[np.bool_] = field(repr=False)
    cut: Cutter = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ReadFile:
    """A vocabulary file and its content.

    problem: why VOLT itself cannot split words as the file says; or empty
    """

    path: str
    model: Vocabulary | Library = field(repr=False)
    cost: Cost
    problem: str = ""


def read_file(path: str, *, pattern: str | None = None) -> ReadFile:
    """Read a vocabulary.

    If VOLT cannot encode as the file's library does, load the file in that library.
    """
    (model, problem), cost = measured(_model_of, path, pattern)
    return ReadFile(path, model, cost, problem)


def _model_of(path: str, pattern: str | None) -> tuple[Vocabulary | Library, str]:
    try:
        vocabulary, _ = read_with_format(path, pattern=pattern)
        return vocabulary, ""
    except VocabularyError as error:
        reason = error.text(lambda _, pattern: f"{path}:{pattern}")
    library = load(path)
    if library is None:
        raise VocabularyError(reason) from None
    why = reason.removeprefix(f"{path}: ").partition("; ")[0]
    return library, f"{path}: {library.name} splits words by this file, because VOLT cannot: {why}"


def load(path: str | Path) -> Library | None:
    """Load a file in its own library; return None if it is damaged or no library reads it."""
    loaders = {"sentencepiece": of_sentencepiece, "huggingface": of_tokenizers}
    try:
        loader = loaders.get(format_of(path))
        with plain_file(path) as plain:
            return loader(plain) if loader else None
    except VocabularyError:
        return None


def _loaded(library: str, path: Path, load: Callable[[Any], Any]) -> tuple[str, Any]:
    try:
        module = import_module(library)
    except ImportError:
        raise missing(library) from None
    try:
        return f"{library} {module.__version__}", load(module)
    except Exception as error:  # tokenizers raises no narrower class
        raise VocabularyError(
            f"{path}: {library} cannot load it ({error}); download or export it again"
        ) from None


def of_sentencepiece(path: Path) -> Library:
    data = read_bytes(path, kind=VocabularyError)
    name, model = _loaded(
        "sentencepiece", path, lambda module: module.SentencePieceProcessor(model_proto=data)
    )
    types = {}
    for number in range(model.get_piece_size()):
        if not (model.is_control(number) or model.is_unknown(number) or model.is_unused(number)):
            types[number] = model.id_to_piece(number)
    is_byte = [model.is_byte(number) for number in types]
    texts = ["?" if piece in BYTE_TOKENS else piece for piece in types.values()]
    return _library(name, types, texts, is_byte=is_byte, encode=model.encode)


def of_tokenizers(path: Path) -> Library:
    if path.is_dir():
        path /= "tokenizer.json"
    name, tokenizer = _loaded(
        "tokenizers", path, lambda module: module.Tokenizer.from_file(str(path))
    )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    added = tokenizer.get_added_tokens_decoder().values()
    left_out = {token.content for token in added if token.special}
    left_out.add(_unknown(tokenizer))
    vocab = tokenizer.get_vocab()
    tokens = [token for token in sorted(vocab, key=vocab.__getitem__) if token not in left_out]

    model = tokenizer.model
    has_bytes = getattr(model, "byte_fallback", False)
    is_byte = [has_bytes and token in BYTE_TOKENS for token in tokens]
    prefix = getattr(model, "continuing_subword_prefix", None) or ""
    suffix = getattr(model, "end_of_word_suffix", None) or ""
    texts = []
    for token, is_one_byte in zip(tokens, is_byte, strict=True):
        texts.append("?" if is_one_byte else token.removeprefix(prefix).removesuffix(suffix))

    def encode(lines: list[str]) -> list[list[int]]:
        encodings = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    types = {vocab[token]: token for token in tokens}
    return _library(name, types, texts, is_byte=is_byte, encode=encode)


def _unknown(tokenizer: Any) -> str:
    """Return the unknown token; only the JSON contains a Unigram model's."""
    if hasattr(tokenizer.model, "unk_token"):
        return tokenizer.model.unk_token or ""
    number = json.loads(tokenizer.to_str())["model"].get("unk_id")
    return "" if number is None else tokenizer.id_to_token(number) or ""


def _library(
    name: str,
    types: Mapping[int, str],
    texts: Sequence[str],
    *,
    is_byte: Sequence[bool],
    encode: Encode,
) -> Library:
    """Return a library. types: id → token; texts: the text of each token, "?" for a byte token"""
    numbers = np.full(max(types, default=-1) + 2, -1, np.int64)
    numbers[list(types)] = np.arange(len(types))

    def cut(words: Sequence[str], _source: str = "") -> Cuts:
        front = _front(encode, words)
        cuts = cuts_of(encode([front + word for word in words]))
        return Cuts(numbers[np.minimum(cuts.ids, len(numbers) - 1)], cuts.ends)

    lengths = token_lengths(texts, marker="prefix")
    always = ~np.array(is_byte, bool)
    return Library(name, int(always.sum()), tuple(types.values()), lengths, always, cut)


def _front(encode: Encode, words: Sequence[str]) -> str:
    """Return " " if the library splits a word within a line as it splits a space and the word."""
    word = words[0] if words else ""
    alone, spaced, both = map(list, encode([word, f" {word}", f"{word} {word}"]))
    return " " if both == alone + spaced else ""
