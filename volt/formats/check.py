"""Compare VOLT's encoder with the library for which a file was written, line by line.

`check` loads the file in the library (a `Peer`), lets both encode the same lines, and counts the
lines with equal pieces and with equal ids (`Agreement`). `probe_lines` builds lines that are likely
to show differences.

A library reports two kinds of text otherwise than VOLT. Neither is a difference, so
`encode_as_library` changes VOLT's pieces accordingly:

    tokens found in text   a library may find special tokens, such as "</s>", in text; VOLT does not
    unknown characters     a library may report one token, "<unk>"; VOLT reports the characters
"""

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

N_SHOWN = 5  # differences in an `Agreement`
N_PROBED = 2_000  # tokens of a vocabulary from which probe lines are built, at most
# Texts that few vocabularies contain: scripts, emoji, combining marks, private and invisible characters.
_RARE_TEXTS = (
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
    """A line that VOLT and the library encode differently.

    line: the line's number, from 1
    ours, theirs: VOLT's and the library's pieces of the line; or their ids, if the pieces are equal
    """

    line: int
    ours: list[str]
    theirs: list[str]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The numbers of lines that VOLT and a library encode alike.

    n_equal_pieces, n_equal_ids: the lines with equal pieces, and with equal ids; None if the
        library has no ids
    differences: the first `N_SHOWN` differences
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
    """Encode lines with VOLT and with the library that loads a file, and compare the results.

    vocabulary: the vocabulary that was written to the file, or read from it
    path, format: the file, and the name of its format

    Raises ConfigError if the format has no library that encodes text.
    """
    load_peer = peer_loader(format)
    if load_peer is None:
        able = ", ".join(name for name in FORMATS if peer_loader(name))
        raise ConfigError(
            f"no library can encode with a file of {format} alone; check one of: {able}"
        )
    with plain_file(path) as plain:
        return _compare(vocabulary, load_peer(plain, vocabulary), lines)


@contextmanager
def plain_file(path: str | Path) -> Iterator[Path]:
    """Yield the path of an uncompressed file: `path`, or a temporary copy if the file at `path` is
    compressed.
    """
    path = Path(path)
    if not path.is_file() or not is_compressed(path, kind=VocabularyError):
        yield path
        return
    with scratch_folder() as folder:
        copy = folder / (path.stem or path.name)
        copy.write_bytes(read_bytes(path, kind=VocabularyError))
        yield copy


def _compare(vocabulary: Vocabulary, peer: Peer, lines: Sequence[str]) -> Agreement:
    encoder = Encoder(vocabulary)
    our_pieces = encode_as_library(encoder, lines, peer.added, unk=peer.unk)
    our_ids = [encoder.ids(pieces).tolist() for pieces in our_pieces]
    their_pieces = peer.pieces(lines)
    their_ids = our_ids
    n_equal_ids = None
    if peer.ids is not None:
        their_ids = peer.ids(lines)
        n_equal_ids = sum(map(eq, our_ids, their_ids))

    differences = list[Difference]()
    for index in range(len(lines)):
        ours = our_pieces[index]
        theirs = their_pieces[index]
        if ours == theirs:
            ours = list(map(str, our_ids[index]))
            theirs = list(map(str, their_ids[index]))
        if ours != theirs:
            differences.append(Difference(index + 1, ours, theirs))

    n_equal_pieces = sum(map(eq, our_pieces, their_pieces))
    shown = tuple(differences[:N_SHOWN])
    return Agreement(peer.library, len(lines), n_equal_pieces, n_equal_ids, shown)


def encode_as_library(
    encoder: Encoder, lines: Sequence[str], added: Sequence[str], *, unk: str | None = None
) -> list[list[str]]:
    """Return VOLT's pieces of each line, as a library that finds and hides more would report them.

    added: tokens that the library finds in text; each becomes one piece, and VOLT encodes the text
        between them
    unk: the token that the library reports for unknown characters; it replaces VOLT's pieces for
        them
    """
    parts_of_lines = [[line] for line in lines]
    if added:
        longest_first = sorted(added, key=len, reverse=True)
        any_added = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
        parts_of_lines = [list(filter(None, any_added.split(line))) or [""] for line in lines]
    encoded_parts = iter(encoder.encode_lines(list(chain.from_iterable(parts_of_lines))))

    result = list[list[str]]()
    for parts in parts_of_lines:
        pieces = list[str]()
        for part in parts:
            part_pieces = next(encoded_parts)
            pieces += [part] if part in added else part_pieces
        result.append(pieces)
    if unk is None or unk != encoder.vocabulary.special.unk:
        return result
    known = encoder.vocabulary.ids
    return [[piece if piece in known else unk for piece in pieces] for pieces in result]


def probe_lines(vocabulary: Vocabulary) -> list[str]:
    """Build lines from a vocabulary's tokens, its user tokens, and rare texts, which the vocabulary
    may lack.

    The lines are: tokens alone; pairs of neighbouring tokens, with and without a space between
    them; rare texts and user tokens alone, after a token, and in pairs; and, as in chats, user
    tokens next to line ends.

    >>> probe_lines(Vocabulary(merges=(), tokens=("l", "o")))[:4]
    ['l', 'o', 'l o', 'lo']
    """
    user = vocabulary.special.user
    step = max(1, len(vocabulary.tokens) // N_PROBED)
    decoded = (decode(vocabulary, [token]) for token in vocabulary.tokens[::step])
    single_lines = (" ".join(text.splitlines()) for text in decoded)
    texts = list(dict.fromkeys(text for text in single_lines if text.strip()))
    rare = [*user, *_RARE_TEXTS]

    spaced = [f"{left} {right}" for left, right in pairwise(texts)]
    adjacent = [left + right for left, right in pairwise(texts)]
    after_tokens = [
        f"{text}{other} {other}" for text, other in zip(texts, cycle(rare), strict=False)
    ]
    chats = [f"{token}\n{text} {token}\n" for token, text in zip(user, texts, strict=False)]
    rare_pairs = [left + right for left, right in pairwise(rare)]
    return [*texts, *spaced, *adjacent, *rare, *after_tokens[: N_PROBED // 4], *chats, *rare_pairs]
