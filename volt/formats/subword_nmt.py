"""subword-nmt, both ways: codes at PATH, one merge a line behind a version line; tokens and counts at PATH.vocab.

Codes of fastBPE, which have a count behind each merge and no version line, mean the same and are read, too.

Codes write the end of a word as "</w>", as VOLT does; the vocabulary writes "@@" behind a piece that does not end one.
Given both files (`subword-nmt apply-bpe -c PATH --vocabulary PATH.vocab`), subword-nmt splits what the vocabulary lacks
back into the parts of its merge, as VOLT does.

>>> _theirs("lo"), _theirs("w</w>")
('lo@@', 'w')
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from volt.errors import CandidateError, VocabularyError, missing
from volt.files.atomic import write_together
from volt.files.whole import read_bytes, read_text
from volt.formats import byte_merges
from volt.formats.codes import VERSION, is_counted_line, read_merges, recognises
from volt.formats.protocol import USUAL, MergeList, Peer
from volt.text.markers import SUFFIX
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

__all__ = ["files_read", "files_written", "glossaries", "peer", "read", "read_merges", "recognises", "write"]
_JOINED = "@@"


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write codes at PATH and tokens with counts at PATH.vocab (1 each if the vocabulary has none); returns what
    subword-nmt will do differently, a sentence each.

    Raises VocabularyError if the marker is not "suffix", or a token holds what ends a line or a field.
    """
    _check(vocabulary)
    codes = "".join(f"{left} {right}\n" for left, right in vocabulary.merges)
    counts = vocabulary.counts or (1,) * vocabulary.size
    listing = "".join(f"{_theirs(token)} {n}\n" for token, n in zip(vocabulary.tokens, counts, strict=True))
    write_together({_beside(path): listing.encode(), path: f"{VERSION}\n{codes}".encode()})
    return list(_differences(vocabulary))


def files_written(path: Path) -> tuple[Path, ...]:
    """The codes, and the vocabulary beside them.

    >>> [str(path) for path in files_written(Path("codes"))]
    ['codes', 'codes.vocab']
    """
    return path, _beside(path)


files_read = files_written


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Codes, and the vocabulary beside them (PATH.vocab) if there is one; or, with `merges`, a vocabulary at PATH and
    its codes there. Without a vocabulary the tokens are all characters that merges mention and all that they make.

    Counts that are all 1 are those of a vocabulary that had none. Raises VocabularyError with file and line.
    """
    codes, listing = (path, _beside(path)) if merges is None else (merges, path)
    found = _codes(codes)
    if found.spells_bytes:
        return byte_merges.read(codes, found.pairs)
    pairs = tuple(found.pairs)
    if merges is not None or listing.exists():
        _refuse_01(codes, listing)
        pieces, counts = zip(*_listing(listing), strict=True)
        tokens = _ours(pieces, made=set(map("".join, pairs)))
    elif not pairs:
        raise VocabularyError(f"{codes}: holds no merge, and no vocabulary lies beside it; restore the codes")
    else:
        tokens, counts = _all_tokens(pairs), ()
    try:
        return Vocabulary(
            merges=pairs,
            tokens=tokens,
            counts=() if set(counts) == {1} else counts,
            provenance={"format": "subword-nmt", "lost": list(found.notes)},
        )
    except VocabularyError as error:
        section, index = error.place or ("merges", -1)
        place, line = (codes, index + 2) if section == "merges" else (listing, index + 1)
        raise VocabularyError(f"{place}:{line}: {error.message}") from None


def _refuse_01(codes: Path, listing: Path) -> None:
    """Raise VocabularyError where old codes would be used with a vocabulary: subword-nmt splits their last part into
    nothing and an empty piece."""
    first = read_text(codes, kind=VocabularyError).partition("\n")[0]
    if not first.startswith(VERSION) and not is_counted_line(first):
        raise VocabularyError(
            f"{codes}:1: codes of version 0.1 with the vocabulary {listing}, which even subword-nmt cannot split back "
            "by; remove the vocabulary, or learn the codes again with subword-nmt 0.3"
        )


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """The library with these codes, the vocabulary beside them, and user tokens as its glossaries; a lone "</w>" is put
    behind those that end a word, as VOLT does. Raises as `read` does, MissingLibraryError."""
    try:
        from subword_nmt.apply_bpe import BPE, read_vocabulary  # type: ignore[import-untyped]
    except ImportError:
        raise missing("subword-nmt") from None
    if read(path).pretokenizer.is_bytes:
        raise VocabularyError(f"{path}: merges over bytes, which subword-nmt does not know; give its own codes")
    listing = _beside(path)
    kept = read_vocabulary(io.StringIO(listing.read_text("utf-8")), None) if listing.exists() else None
    bpe = BPE(io.StringIO(_uncounted(path)), vocab=kept, glossaries=glossaries(special))

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [[piece for word in line.strip("\r\n ").split(" ") for piece in word_pieces(word)] for line in lines]

    def word_pieces(word: str) -> list[str]:
        *others, last = bpe.segment_tokens([word]) or [""]
        ends = [last, SUFFIX] if last in special.user else [last + SUFFIX]
        return [*(piece.removesuffix(_JOINED) for piece in others), *ends] if last else []

    return Peer("subword-nmt", pieces)


def _uncounted(path: Path) -> str:
    """The codes as subword-nmt reads them, where fastBPE wrote them."""
    text = path.read_text("utf-8")
    if not is_counted_line(text.partition("\n")[0]):
        return text
    return "".join([f"{VERSION}\n", *(f"{line.rpartition(' ')[0]}\n" for line in text.splitlines())])


def glossaries(special: SpecialTokens) -> list[str]:
    """What --glossaries takes for user tokens: one regex, in which a longer token goes before its start.

    >>> glossaries(SpecialTokens(user=("<a>", "<a>b", "c.")))
    ['(?:<a>b|<a>|c\\\\.)']
    """
    longest_first = sorted(special.user, key=len, reverse=True)
    return [f"(?:{'|'.join(map(re.escape, longest_first))})"] if longest_first else []


def _theirs(token: str) -> str:
    """How the vocabulary file spells a token."""
    return token.removesuffix(SUFFIX) if token.endswith(SUFFIX) else token + _JOINED


def _ours(pieces: Iterable[str], *, made: Collection[str]) -> tuple[str, ...]:
    """The tokens that a vocabulary file means. What ends with "@@" ends no word, unless only that can be meant.

    >>> _ours(["lo@@", "w", "w@@", "a@@"], made={"lo", "a@@</w>", "w@@</w>"})
    ('lo', 'w</w>', 'w', 'a')
    >>> _ours(["a@@", "a@@", "bc@@"], made={"a@@</w>", "bc@@</w>"})
    ('a', 'a@@</w>', 'bc@@</w>')
    """
    tokens, seen = list[str](), set[str]()
    for piece in pieces:
        inner, final = piece.removesuffix(_JOINED), piece + SUFFIX
        joined = inner != piece and (final not in made or (inner not in seen and (inner in made or len(inner) == 1)))
        tokens.append(inner if joined else final)
        seen.add(tokens[-1])
    return tuple(tokens)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.vocab")


def _check(vocabulary: Vocabulary) -> None:
    """Raise VocabularyError if subword-nmt's files cannot hold the vocabulary."""
    if vocabulary.marker != "suffix":
        raise VocabularyError(
            f"marker {vocabulary.marker!r}: subword-nmt marks where words end; learn with marker='suffix'"
        )
    if vocabulary.pretokenizer.is_bytes:
        raise VocabularyError("its merges are over bytes, and subword-nmt's over characters; export to huggingface")
    if not vocabulary.tokens:
        raise VocabularyError("the vocabulary holds no token, which subword-nmt takes for no vocabulary at all")
    for token in (*vocabulary.tokens, *vocabulary.atoms):
        if " " in token or token.splitlines() != [token]:
            raise VocabularyError(
                f"token {token!r} holds a space or what ends a line, which subword-nmt's files cannot; count with "
                "pretokenizer='whitespace'"
            )


def _differences(vocabulary: Vocabulary) -> Iterator[str]:
    """A sentence for everything that the files do not carry, or that subword-nmt does otherwise."""
    yield from _text_differences(vocabulary)
    yield from _spelling_differences(vocabulary)
    zeros = vocabulary.counts.count(0)
    if zeros:
        yield f"{zeros} tokens have the count 0: with --vocabulary-threshold 1 or more subword-nmt leaves them out."
    if vocabulary.counts and set(vocabulary.counts) == {1}:
        yield "All counts are 1, which stands for no counts when the files are read back."


def _text_differences(vocabulary: Vocabulary) -> Iterator[str]:
    special = vocabulary.special
    if vocabulary.normalizer.name != "none":
        yield f"The normaliser {vocabulary.normalizer.name!r} is not carried: apply it before subword-nmt."
    if vocabulary.pretokenizer.name == "whitespace":
        yield "Only U+0020 separates words for subword-nmt; tabs, no-break and other spaces become part of words."
    else:
        yield (
            f"The pre-tokeniser {vocabulary.pretokenizer.name!r} is not carried: give subword-nmt pre-tokens with a "
            "space between them."
        )
    if special.user:
        yield (
            f"User tokens are not carried: apply-bpe needs --glossaries {shlex.quote(glossaries(special)[0])}. "
            f"Then the part of a word right before one, as in x{special.user[0]}, is still cut as if the word ended "
            "there; no '</w>' is shown behind one that ends a word."
        )
    if special.all[:4] != USUAL.all:
        yield f"The special tokens {', '.join(special.all[:4])} are not carried, nor are ids: subword-nmt has none."
    if vocabulary.byte_fallback:
        yield "Byte fallback is not carried: what the vocabulary lacks stays as it is in subword-nmt."


def _spelling_differences(vocabulary: Vocabulary) -> Iterator[str]:
    made = [*vocabulary.atoms, *map("".join, vocabulary.merges)]
    joined = [token for token in made if token.endswith(_JOINED + SUFFIX)]
    if joined:
        yield (
            f"{joined[0]!r} (one of {len(joined)} such) ends a word with the text '@@', which reads like the sign that "
            "subword-nmt puts where a word goes on."
        )
    marked = [token for token in made if SUFFIX in token.removesuffix(SUFFIX)]
    marked += [left for left, _ in vocabulary.merges if left.endswith(SUFFIX)]
    if marked:
        yield f"{marked[0]!r} holds the text '</w>' inside a word, which subword-nmt cannot tell from a word's end."


def _codes(path: Path) -> MergeList:
    try:
        return read_merges(path, read_bytes(path, kind=VocabularyError))
    except CandidateError as error:
        raise VocabularyError(str(error)) from None


def _listing(path: Path) -> list[tuple[str, int]]:
    """The pieces and counts of a vocabulary file, as it spells them."""
    lines = read_text(path, kind=VocabularyError).split("\n")
    rows = [_row(path, number, line) for number, line in enumerate(lines[: None if lines[-1] else -1], 1)]
    if not rows:
        raise VocabularyError(f"{path}: empty; write it with subword-nmt get-vocab, or remove it")
    return rows


def _row(path: Path, number: int, line: str) -> tuple[str, int]:
    piece, _, count = line.rstrip("\r").partition(" ")
    if not piece or not count.isdecimal():
        raise VocabularyError(f"{path}:{number}: a line is a piece, a space and a count, not {line[:60]!r}")
    return piece, int(count)


def _all_tokens(pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """
    >>> _all_tokens([("l", "o"), ("lo", "w</w>")])
    ('l', 'o', 'w</w>', 'lo', 'low</w>')
    """
    made = dict.fromkeys(map("".join, pairs))
    return (*dict.fromkeys(part for pair in pairs for part in pair if part not in made), *made)
