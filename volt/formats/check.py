"""Compare VOLT with the library that a file is for: count lines with the same pieces and ids (`Agreement`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, cycle, pairwise
from operator import eq
from pathlib import Path

from volt.encode.decoder import decode
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.files.small_files import is_compressed, read_bytes
from volt.files.temporary import scratch_folder
from volt.formats.protocol import Peer
from volt.formats.registry import FORMATS, peer_loader
from volt.vocabulary import Vocabulary

N_SHOWN = 5
N_PROBED = 2_000  # tokens; each gives a few lines
_UNKNOWN = [
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
]


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
    """Compare our encoder with the library that loads a file, on these lines.

    vocabulary: the vocabulary that was written to the file, or read from it

    Tokens that only the library finds in text, such as "</s>", are taken out of our lines, too.
    Raises ConfigError if the format has no library that encodes text.
    """
    load = peer_loader(format)
    if load is None:
        able = ", ".join(name for name in FORMATS if peer_loader(name))
        raise ConfigError(
            f"{format} only lists tokens, so that no library can encode with it; "
            f"check one of: {able}"
        )
    with plain_file(path) as plain:
        return compared(vocabulary, load(plain, vocabulary), lines)


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
    our_pieces = encoded(encoder, lines, peer.added, unk=peer.unk)
    our_ids = [encoder.ids(pieces).tolist() for pieces in our_pieces]
    their_pieces = peer.pieces(lines)
    their_ids = our_ids
    if peer.ids is not None:
        their_ids = peer.ids(lines)

    differences = list[Difference]()
    for line in range(len(lines)):
        if our_pieces[line] != their_pieces[line]:
            differences.append(Difference(line + 1, our_pieces[line], their_pieces[line]))
        elif our_ids[line] != their_ids[line]:
            ours = list(map(str, our_ids[line]))
            theirs = list(map(str, their_ids[line]))
            differences.append(Difference(line + 1, ours, theirs))

    return Agreement(
        library=peer.library,
        n_lines=len(lines),
        n_equal_pieces=sum(map(eq, our_pieces, their_pieces)),
        n_equal_ids=None if peer.ids is None else sum(map(eq, our_ids, their_ids)),
        differences=tuple(differences[:N_SHOWN]),
    )


def encoded(
    encoder: Encoder, lines: Sequence[str], added: Sequence[str], *, unk: str | None = None
) -> list[list[str]]:
    """Return VOLT's pieces of each line, as a library's would be.

    added: tokens that the library finds in text; the text between them is encoded like a line
    unk: the token by which the library replaces unknown characters; VOLT's pieces then hide them, too
    """
    parts = [[line] for line in lines]
    if added:
        longest_first = sorted(added, key=len, reverse=True)
        cut = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
        parts = [list(filter(None, cut.split(line))) or [""] for line in lines]
    encoded_parts = iter(encoder.encode_lines(list(chain.from_iterable(parts))))

    result = list[list[str]]()
    for line in parts:
        pieces = list[str]()
        for part in line:
            part_pieces = next(encoded_parts)
            pieces += [part] if part in added else part_pieces
        result.append(pieces)
    if unk is None or unk != encoder.vocabulary.special.unk:
        return result
    names = {piece: piece for piece in encoder.vocabulary.ids}
    return [[names.get(piece, unk) for piece in pieces] for pieces in result]


def probe_lines(vocabulary: Vocabulary) -> list[str]:
    """Return lines of one token, of two tokens with or without a space between, and with unknown characters.

    Around user tokens, there are line ends, too: those of chats.

    >>> probe_lines(Vocabulary(merges=(), tokens=("l", "o")))[:4]
    ['l', 'o', 'l o', 'lo']
    """
    user = vocabulary.special.user
    step = max(1, len(vocabulary.tokens) // N_PROBED)
    decoded = (decode(vocabulary, [token]) for token in vocabulary.tokens[::step])
    single_lines = (" ".join(text.splitlines()) for text in decoded)
    texts = list(dict.fromkeys(text for text in single_lines if text.strip()))
    others = [*user, *_UNKNOWN]

    spaced = [f"{left} {right}" for left, right in pairwise(texts)]
    glued = [left + right for left, right in pairwise(texts)]
    mixed = [f"{text}{other} {other}" for text, other in zip(texts, cycle(others), strict=False)]
    chats = [f"{token}\n{text} {token}\n" for token, text in zip(user, texts, strict=False)]
    joined = [left + right for left, right in pairwise(others)]
    return [*texts, *spaced, *glued, *others, *mixed[: N_PROBED // 4], *chats, *joined]
