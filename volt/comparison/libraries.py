"""Vocabulary files of other libraries → `Library`, which splits words if VOLT cannot.

    sentencepiece    models of any kind; VOLT splits by most BPE and unigram models
    tokenizers       tokenizer.json of any kind; VOLT cannot split by WordPiece

A library splits lines, but a comparison needs the pieces of single words. `_choose_front` chooses
what stands before a word, so that its pieces are those it has within a line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from volt.array_types import Flags, Longs
from volt.comparison.measures import Cuts, flatten_cuts
from volt.comparison.time_and_memory import Cost, measure_cost
from volt.errors import VocabularyError, missing
from volt.files.small_files import read_bytes
from volt.formats.check import plain_file
from volt.formats.registry import format_of, read_with_format
from volt.text.atoms import token_lengths
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.vocabulary import Vocabulary

Encode = Callable[[list[str]], Sequence[Sequence[int]]]  # lines → the ids of each
Cutter = Callable[[Sequence[str], str], Cuts]  # words, the name of their source → their pieces


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Library:
    """A vocabulary, and the library that splits words by it.

    name: name and version of the library
    size: number of tokens, without byte tokens
    lengths: (n_tokens,) int64, in characters
    always_types: (n_tokens,) bool, False for byte tokens (see `measures`)
    cut: splits words into indices of `tokens`
    """

    name: str
    size: int
    tokens: tuple[str, ...]
    lengths: Longs
    always_types: Flags
    cut: Cutter


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReadFile:
    """A vocabulary file and its content.

    model: the vocabulary if VOLT can split by the file, otherwise its library
    cost: the cost of reading
    problem: why VOLT cannot split words as the file says; or empty
    """

    path: str
    model: Vocabulary | Library
    cost: Cost
    problem: str = ""


def read_file(path: str, *, pattern: str | None = None) -> ReadFile:
    """Read a vocabulary file; if VOLT cannot split by it, load it in the library of its format.

    pattern: the split pattern, if the file contains none
    Raises VocabularyError if neither can read the file.
    """
    (model, problem), cost = measure_cost(_read_model, path, pattern)
    return ReadFile(path, model, cost, problem)


def _read_model(path: str, pattern: str | None) -> tuple[Vocabulary | Library, str]:
    """Return the content of a file, and the problem if VOLT cannot split by it."""
    try:
        vocabulary, _ = read_with_format(path, pattern=pattern)
        return vocabulary, ""
    except VocabularyError as error:
        reason = error.text(lambda _, pattern: f"{path}:{pattern}")
    library = load(path)
    if library is None:
        raise VocabularyError(reason) from None
    fault = reason.removeprefix(f"{path}: ").partition("; ")[0]
    return (
        library,
        f"{path}: {library.name} splits words by this file, because VOLT cannot: {fault}",
    )


def load(path: str | Path) -> Library | None:
    """Load a file in its own library; return None if it is damaged or no library reads it."""
    loaders = {"sentencepiece": load_sentencepiece, "huggingface": load_tokenizers}
    try:
        loader = loaders.get(format_of(path))
        with plain_file(path) as plain:
            return loader(plain) if loader else None
    except VocabularyError:
        return None


def load_sentencepiece(path: Path) -> Library:
    data = read_bytes(path, kind=VocabularyError)
    name, model = _load_with(
        "sentencepiece", path, lambda module: module.SentencePieceProcessor(model_proto=data)
    )
    tokens = {}
    for token_id in range(model.get_piece_size()):
        is_special = model.is_control(token_id) or model.is_unknown(token_id)
        if not (is_special or model.is_unused(token_id)):
            tokens[token_id] = model.id_to_piece(token_id)
    is_byte = [model.is_byte(token_id) for token_id in tokens]
    texts = ["?" if token in BYTE_TOKENS else token for token in tokens.values()]
    return _build_library(name, tokens, texts, is_byte=is_byte, encode=model.encode)


def load_tokenizers(path: Path) -> Library:
    if path.is_dir():
        path /= "tokenizer.json"
    name, tokenizer = _load_with(
        "tokenizers", path, lambda module: module.Tokenizer.from_file(str(path))
    )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    added = tokenizer.get_added_tokens_decoder().values()
    special_tokens = {token.content for token in added if token.special}
    special_tokens.add(_find_unknown_token(tokenizer))
    ids = tokenizer.get_vocab()
    ordered = sorted(ids, key=ids.__getitem__)
    tokens = {ids[token]: token for token in ordered if token not in special_tokens}

    model = tokenizer.model
    has_bytes = getattr(model, "byte_fallback", False)
    is_byte = [has_bytes and token in BYTE_TOKENS for token in tokens.values()]
    prefix = getattr(model, "continuing_subword_prefix", None) or ""
    suffix = getattr(model, "end_of_word_suffix", None) or ""
    texts = []
    for token, is_one_byte in zip(tokens.values(), is_byte, strict=True):
        texts.append("?" if is_one_byte else token.removeprefix(prefix).removesuffix(suffix))

    def encode(lines: list[str]) -> list[list[int]]:
        encodings = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    return _build_library(name, tokens, texts, is_byte=is_byte, encode=encode)


def _load_with(library: str, path: Path, load: Callable[[Any], Any]) -> tuple[str, Any]:
    """Return the library's name with its version, and what `load` makes of its module."""
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


def _find_unknown_token(tokenizer: Any) -> str:
    """Return the unknown token, or an empty text.

    The unknown token of a Unigram model is only in the JSON.
    """
    if hasattr(tokenizer.model, "unk_token"):
        return tokenizer.model.unk_token or ""
    token_id = json.loads(tokenizer.to_str())["model"].get("unk_id")
    return "" if token_id is None else tokenizer.id_to_token(token_id) or ""


def _build_library(
    name: str,
    tokens: Mapping[int, str],
    texts: Sequence[str],
    *,
    is_byte: Sequence[bool],
    encode: Encode,
) -> Library:
    """Return a library.

    tokens: the library's id → token, without special tokens
    texts: the text of each token without its marker; "?" for a byte token
    """
    token_indices = np.full(max(tokens, default=-1) + 2, -1, np.int64)  # the last for greater ids
    token_indices[list(tokens)] = np.arange(len(tokens))

    def cut(words: Sequence[str], _source: str = "") -> Cuts:
        front = _choose_front(encode, words)
        cuts = flatten_cuts(encode([front + word for word in words]))
        ids = token_indices[np.minimum(cuts.ids, len(token_indices) - 1)]
        return Cuts(ids, cuts.word_ends)

    always_types = ~np.array(is_byte, bool)
    return Library(
        name,
        size=int(always_types.sum()),
        tokens=tuple(tokens.values()),
        lengths=token_lengths(texts, marker="prefix"),
        always_types=always_types,
        cut=cut,
    )


def _choose_front(encode: Encode, words: Sequence[str]) -> str:
    """Return what to put before each word, so that it is split as in a line: a space or nothing.

    A space is right if "w w" is split into the pieces of "w" and then those of " w".
    """
    word = words[0] if words else ""
    alone, after_space, twice = map(list, encode([word, f" {word}", f"{word} {word}"]))
    return " " if twice == alone + after_space else ""
