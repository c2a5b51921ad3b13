"""Compare VOLT with the library that a file is for: count lines with the same pieces and ids (`Agreement`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from operator import eq
from pathlib import Path

from volt.encode.decoder import decode
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError, quoted
from volt.files.small_files import is_compressed, read_bytes
from volt.files.temporary import scratch_folder
from volt.formats.protocol import USUAL, Peer
from volt.formats.registry import FORMATS, format_module, peer_loader
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import named_tokens

N_SHOWN = 5
N_PROBED = 2_000  # tokens; each gives a few lines
_UNKNOWN = (
    "\u0e01",
    "😀",
    "é",
    "e\u0301",
    "\u0645\u0631",
    "中文",
    "\u200b",
    "\ue000",
    "1234567",
    "ÆØÅ",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A line, counted from 1, that the library encodes differently.

    ours, theirs: VOLT's and the library's pieces, or their ids if the pieces are equal
    """

    line: int
    ours: list[str]
    theirs: list[str]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The number of lines in which VOLT's encoder and a library agree.

    n_equal_ids: None if the library has no ids
    differences: the first few differences
    """

    library: str
    n_lines: int
    n_equal_pieces: int
    n_equal_ids: int | None
    differences: tuple[Difference, ...]

    @property
    def is_complete(self) -> bool:
        return self.n_equal_pieces == self.n_lines and self.n_equal_ids in (None, self.n_lines)


def check(vocabulary: Vocabulary, path: str | Path, format: str, lines: Sequence[str]) -> Agreement:
    """Compare our encoder with the library that loads the file exported to `path`, on these lines.

    Tokens that only the library finds in text, such as "</s>", are taken out of our lines, too.
    Raises ConfigError if the format has no library that encodes text.
    """
    peer_of = getattr(format_module(format), "peer_of", None)
    peer = (
        peer_of(Path(path), vocabulary)
        if peer_of
        else load_peer(path, format, special=vocabulary.special)
    )
    return compared(vocabulary, peer, lines)


def check_import(
    vocabulary: Vocabulary,
    path: str | Path,
    format: str,
    lines: Sequence[str],
    *,
    pattern: str | None = None,
) -> Agreement:
    """Compare our encoder, on these lines, with the library, set up as the imported file's publisher does it.

    vocabulary: the vocabulary read from the file
    pattern: the publisher's pattern, if the file does not name it
    """
    with plain_file(path) as plain:
        return compared(vocabulary, _original(vocabulary, plain, format, pattern), lines)


def _original(vocabulary: Vocabulary, path: Path, format: str, pattern: str | None) -> Peer:
    if (
        format == "subword-nmt" and vocabulary.pretokenizer.is_bytes
    ):  # these merges only look like subword-nmt's
        from volt.formats.huggingface.reference_tokenizer import peer_of_merges

        return peer_of_merges(path, vocabulary)
    original = getattr(format_module(format), "original", None)
    if format == "sentencepiece" and (named := named_tokens(vocabulary)):
        raise ConfigError(
            f"sentencepiece's model lacks the token {quoted(named[0])}; check without it"
        )
    if original is None:
        return load_peer(path, format, special=vocabulary.special)
    output: Peer = original(path, vocabulary, pattern=pattern)
    return output


@contextmanager
def plain_file(path: str | Path) -> Iterator[Path]:
    """Yield the path, or the path of a decompressed copy, because other libraries do not decompress."""
    path = Path(path)
    if not path.is_file() or not is_compressed(path, kind=VocabularyError):
        yield path
        return
    with scratch_folder() as folder:
        copy = folder / (path.stem or path.name)
        copy.write_bytes(read_bytes(path, kind=VocabularyError))
        yield copy


def compared(vocabulary: Vocabulary, peer: Peer, lines: Sequence[str]) -> Agreement:
    encoder = Encoder(vocabulary)
    ours, theirs = encoded(encoder, lines, peer.added), peer.pieces(lines)
    our_ids = [encoder.ids(pieces).tolist() for pieces in ours]
    their_ids = our_ids if peer.ids is None else peer.ids(lines)
    unequal = list[Difference]()
    for line, (pieces, others, *ids) in enumerate(
        zip(ours, theirs, our_ids, their_ids, strict=True), 1
    ):
        if pieces != others:
            unequal.append(Difference(line, pieces, others))
        elif ids[0] != ids[1]:
            unequal.append(Difference(line, *(list(map(str, one)) for one in ids)))
    return Agreement(
        library=peer.library,
        n_lines=len(lines),
        n_equal_pieces=sum(map(eq, ours, theirs)),
        n_equal_ids=None if peer.ids is None else sum(map(eq, our_ids, their_ids)),
        differences=tuple(unequal[:N_SHOWN]),
    )


def encoded(encoder: Encoder, lines: Sequence[str], added: Sequence[str]) -> list[list[str]]:
    """Return the pieces of each line, in which the tokens `added` are found, and the text between them is a line."""
    if not added:
        return encoder.encode_lines(lines)
    cut = re.compile(f"({'|'.join(map(re.escape, sorted(added, key=len, reverse=True)))})")
    parts = [list(filter(None, cut.split(line))) or [""] for line in lines]
    pieces = iter(encoder.encode_lines(list(chain.from_iterable(parts))))
    return [
        [
            piece
            for part, others in zip(line, islice(pieces, len(line)), strict=True)
            for piece in ([part] if part in added else others)
        ]
        for line in parts
    ]


def load_peer(path: str | Path, format: str, *, special: SpecialTokens = USUAL) -> Peer:
    """Load an exported file in its real library. Raises ConfigError if the format has no library."""
    load = peer_loader(format)
    if load is None:
        able = ", ".join(name for name in FORMATS if peer_loader(name))
        raise ConfigError(
            f"{format} only lists tokens, so that no library can encode with it; check one of: {able}"
        )
    return load(Path(path), special=special)


def probe_lines(vocabulary: Vocabulary) -> list[str]:
    """Return lines of one token, of two tokens with or without a space between, and with unknown characters.

    Around user tokens, there are line ends, too: those of chats.

    >>> probe_lines(Vocabulary(merges=(), tokens=("l", "o")))[:4]
    ['l', 'o', 'l o', 'lo']
    """
    step = max(1, len(vocabulary.tokens) // N_PROBED)
    texts = [
        " ".join(decode(vocabulary, [token]).splitlines()) for token in vocabulary.tokens[::step]
    ]
    texts = list(dict.fromkeys(text for text in texts if text.strip()))
    others = [*vocabulary.special.user, *_UNKNOWN]
    pairs = [f"{left} {right}" for left, right in pairwise(texts)]
    glued = [left + right for left, right in pairwise(texts)]
    mixed = [
        f"{text}{other} {other}" for text, other in zip(texts, others * len(texts), strict=False)
    ]
    chats = [
        f"{token}\n{text} {token}\n"
        for token, text in zip(vocabulary.special.user, texts, strict=False)
    ]
    joined = [left + right for left, right in pairwise(others)]
    return [*texts, *pairs, *glued, *others, *mixed[: N_PROBED // 4], *chats, *joined]
