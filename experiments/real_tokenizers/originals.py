"""A tokenizer's file → the library that it was published for, with the file loaded by that library itself.

Only tiktoken's files need more than they hold: their pattern, which `declarations` has from the code of their packages.
Ids are those of plain text: no special tokens around a line, and of control tokens in text whatever the library does.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from experiments.real_tokenizers.declarations import declared
from experiments.real_tokenizers.finding import Found, Kind, content

Rows = list[list[int]]
Encode = Callable[[Sequence[str]], Rows]


class NoOriginalError(Exception):
    """There is nothing to compare with: the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Original:
    """A library with a file loaded.

    library: its name and version
    encode: lines → the ids of each, with one thread
    pieces: the text or bytes of each id, as far as the library tells them
    pattern: what VOLT is reported beside the file; None where the file holds all
    """

    library: str
    encode: Encode
    pieces: Callable[[], dict[int, bytes | str]]
    pattern: str | None = None


def load(found: Found) -> Original:
    """The original of a file. Raises NoOriginalError if the library or what belongs to the file is not there."""
    try:
        return LOADERS[found.kind](found.path)
    except ImportError as error:
        raise NoOriginalError(f"{error.name} is not installed") from None
    except (RuntimeError, ValueError, OSError, KeyError) as error:
        raise NoOriginalError(f"its library refuses it: {error}") from None


def _tiktoken(path: Path) -> Original:
    import tiktoken

    data = content(path)
    if (known := declared(data)) is None:
        raise NoOriginalError("the file names no pattern, and none is declared for its content")
    rows = (line.split() for line in data.splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    encoding = tiktoken.Encoding(
        known.name, pat_str=known.pattern, mergeable_ranks=ranks, special_tokens={}
    )

    def encode(lines: Sequence[str]) -> Rows:
        return [encoding.encode_ordinary(line) for line in lines]

    return Original(
        _named("tiktoken"),
        encode,
        lambda: {rank: token for token, rank in ranks.items()},
        known.known_as,
    )


def _tekken(path: Path) -> Original:
    tekken = import_module("mistral_common.tokens.tokenizers.tekken")
    tokenizer = tekken.Tekkenizer.from_file(path)

    def encode(lines: Sequence[str]) -> Rows:
        return [tokenizer.encode(line, bos=False, eos=False) for line in lines]

    def pieces() -> dict[int, bytes | str]:
        plain = range(tokenizer.num_special_tokens, tokenizer.n_words)
        return {number: tokenizer.id_to_byte_piece(number) for number in plain}

    return Original(_named("mistral-common"), encode, pieces)


def _sentencepiece(path: Path) -> Original:
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_proto=content(path))

    def encode(lines: Sequence[str]) -> Rows:
        found: Rows = model.encode(list(lines), num_threads=1)
        return found

    return Original(
        _named("sentencepiece"),
        encode,
        lambda: {number: model.id_to_piece(number) for number in range(len(model))},
    )


def _huggingface(path: Path) -> Original:
    from tokenizers import Tokenizer

    return _of_huggingface(Tokenizer.from_str(content(path).decode()), _named("tokenizers"))


def _folder(path: Path) -> Original:
    """GPT-2's two files as transformers loads them."""
    from transformers import GPT2Tokenizer

    vocab, merges = (path / "vocab.json", path / "merges.txt")
    if not vocab.is_file():
        vocab, merges = (path / "encoder.json", path / "vocab.bpe")
    listed = json.loads(vocab.read_text("utf-8"))
    pairs: Any = [tuple(row.split(" ")) for row in merges.read_text("utf-8").split("\n")[1:] if row]
    library = f"{_named('transformers')}, {_named('tokenizers')}"
    return _of_huggingface(GPT2Tokenizer(vocab=listed, merges=pairs).backend_tokenizer, library)


def _merges(path: Path) -> Original:
    """A list of merges has its ids in the file beside it."""
    if not any((path.parent / name).is_file() for name in ("vocab.json", "encoder.json")):
        raise NoOriginalError("a list of merges alone names no ids and no alphabet")
    return _folder(path.parent)


def _clip(path: Path) -> Original:
    tokenizer = import_module("open_clip.tokenizer").SimpleTokenizer(bpe_path=str(path))

    def encode(lines: Sequence[str]) -> Rows:
        return [tokenizer.encode(line) for line in lines]

    return Original(_named("open-clip-torch"), encode, lambda: dict(tokenizer.decoder))


def _of_huggingface(tokenizer: Any, library: str) -> Original:
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def encode(lines: Sequence[str]) -> Rows:
        return [
            row.ids for row in tokenizer.encode_batch_fast(list(lines), add_special_tokens=False)
        ]

    def pieces() -> dict[int, bytes | str]:
        return {
            number: piece for piece, number in tokenizer.get_vocab(with_added_tokens=True).items()
        }

    return Original(library, encode, pieces)


def one_thread() -> None:
    """Tell libraries that read it from the environment to use one thread; before they are imported."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"


def _named(package: str) -> str:
    return f"{package} {version(package)}"


LOADERS: dict[Kind, Callable[[Path], Original]] = {
    "tiktoken": _tiktoken,
    "tekken": _tekken,
    "sentencepiece": _sentencepiece,
    "tokenizer.json": _huggingface,
    "vocab + merges": _folder,
    "merges": _merges,
    "clip merges": _clip,
}
