"""subword-nmt's codes at PATH, and its vocabulary at PATH.vocab ⇄ vocabulary.

    PATH           #version: 0.2     one merge a line, by rank; "</w>" ends a word, as in VOLT
                   l o
                   lo w</w>
    PATH.vocab     lo@@ 7            one token and its count a line; "@@" follows a token that
                   low 3             does not end a word

`read` also accepts codes of fastBPE (a count after each merge, no version line), codes of version
0.1, and GPT-2's merges.txt (`volt.formats.gpt2`), which looks like codes.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, filterfalse
from pathlib import Path

from volt.errors import CandidateError, VocabularyError
from volt.files.atomic import write_together
from volt.files.small_files import decode_text, read_bytes
from volt.formats import gpt2
from volt.formats import token_list as lists
from volt.formats.protocol import USUAL_SPECIAL, MergeList, Pair, Peer, require_library
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

VERSION = "#version: 0.2"
_OLD_VERSION = "#version: 0.1"
_SEPARATOR = "@@"
_MERGE = re.compile(r"([^ ]+) ([^ ]+)")
_COUNTED_MERGE = re.compile(r"([^ ]+) ([^ ]+) \d+")
_ASSUMED = (
    "No merge contains '</w>' or 'Ġ': VOLT assumes subword-nmt's codes, "
    "without merges at the end of a word."
)


def read_merges(path: str | Path, data: bytes) -> MergeList:
    r"""Return the merges in a codes file, or in GPT-2's merges.txt, whose characters stand for
    bytes.

    Raises CandidateError, with file and line, for anything else.

    >>> read_merges("codes", b"#version: 0.2\nl o\nlo w</w>\n").pairs
    [('l', 'o'), ('lo', 'w</w>')]
    """
    remedy = ", so neither subword-nmt codes nor a sentencepiece model; give one of these"
    lines = decode_text(path, data, kind=CandidateError, remedy=remedy).split("\n")
    if not data.strip():
        raise CandidateError(f"{path}:1: empty; learn the codes again")
    if not lines[-1]:
        lines.pop()
    version = ""
    if lines[0].startswith("#version:"):
        version = " ".join(
            lines[0].split()[:2]
        )  # "- Trained by `huggingface/tokenizers`" may follow
        if version not in (VERSION, _OLD_VERSION):
            raise CandidateError(
                f"{path}:1: expected {VERSION!r} or {_OLD_VERSION!r}, found {lines[0][:40]!r}; "
                "learn the codes again with subword-nmt 0.3"
            )

    is_counted = is_counted_line(lines[0])
    numbered = list[tuple[int, str, str]]()
    for number, line in enumerate(lines, 1):
        if number > 1 or not version:
            numbered.append((number, *_parse_merge(path, number, line, is_counted=is_counted)))
    pairs = [(left, right) for _, left, right in numbered]
    if gpt2.spells_bytes(pairs):
        return MergeList(pairs, "none", spells_bytes=True)

    marks_ends = any(SUFFIX in left + right for left, right in pairs)
    _refuse_other_merges(path, pairs, marks_ends=marks_ends)
    is_ambiguous = pairs and not marks_ends and set("".join(map("".join, pairs))) <= set(ALPHABET)
    if not is_counted and version != VERSION:
        pairs = list(_convert_version_01(path, numbered))
    notes = (_ASSUMED,) if is_ambiguous else ()
    return MergeList(pairs, "suffix", notes=notes)


def _refuse_other_merges(path: str | Path, pairs: Sequence[Pair], *, marks_ends: bool) -> None:
    if not marks_ends and any(left.startswith(PREFIX) for left, _ in pairs):
        raise CandidateError(
            f"{path}: its merges mark words by '▁' before them, not by '</w>', so they are not "
            "subword-nmt codes; give the tokenizer.json or the sentencepiece model that they come from"
        )
    bare = [(left.removesuffix(SUFFIX), right.removesuffix(SUFFIX)) for left, right in pairs]
    if gpt2.spells_bytes([pair for pair in bare if all(pair)]):
        raise CandidateError(
            f"{path}: its merges spell bytes, and mark word ends by '</w>', as CLIP's do, "
            "but do not say how words are cut; give the tokenizer.json of these merges"
        )


def _convert_version_01(path: str | Path, rows: Sequence[tuple[int, str, str]]) -> Iterator[Pair]:
    """Yield the merges of version 0.2 that split every word as merges of version 0.1 do.

    In 0.1, "</w>" is a separate symbol: x and "</w>" merge at some rank, or never. In 0.2, "x</w>"
    is one symbol from the start. So a merge (l, x) becomes two, (l, x) and (l, "x</w>"), unless x
    and "</w>" merge before it. A merge (l, "x</w>") is dropped if x and "</w>" have not merged.

    path: the file that errors name
    rows: line, left and right part of each merge

    >>> rows = [(1, "l", "o"), (2, "o", "</w>"), (3, "lo", "w"), (4, "b", "o</w>")]
    >>> list(_convert_version_01("codes", rows))
    [('l', 'o'), ('l', 'o</w>'), ('lo', 'w'), ('lo', 'w</w>'), ('b', 'o</w>')]
    """
    end_lines = {left: number for number, left, right in reversed(rows) if right == SUFFIX}
    known = {SUFFIX}
    without_end = set[str]()  # results that were made before they could merge with "</w>"
    converted = dict[Pair, None]()
    for number, left, right in rows:
        for part in (left, right):
            if len(part) > 1 and part not in known:
                raise CandidateError(
                    f"{path}:{number}: {part!r} is no character, and no earlier merge makes it; fix"
                )
        known.add(left + right)
        base = right.removesuffix(SUFFIX)
        is_unmade = base in without_end and end_lines.get(base, number) >= number
        if right == SUFFIX or (base != right and is_unmade):
            continue
        converted[left, right] = None
        can_end = len(right) == 1 or right in without_end
        if can_end and end_lines.get(right, number) >= number:
            converted[left, right + SUFFIX] = None
            without_end.add(left + right)

    results = set[str]()
    for pair in converted:  # drop merges whose parts no earlier merge makes
        if all(len(part.removesuffix(SUFFIX)) == 1 or part in results for part in pair):
            results.add("".join(pair))
            yield pair


def _parse_merge(path: str | Path, number: int, line: str, *, is_counted: bool) -> Pair:
    form = "two parts with one space"
    row = _MERGE
    if is_counted:
        form = "two parts and a count here, with a space"
        row = _COUNTED_MERGE
    match = row.fullmatch(line.rstrip("\r"))
    if match is None:
        raise CandidateError(
            f"{path}:{number}: a merge is {form} between, not {line[:60]!r}; fix it"
        )
    return match[1], match[2]


def is_counted_line(line: str) -> bool:
    """Check whether a line is a merge and its count, as fastBPE writes it."""
    return _COUNTED_MERGE.fullmatch(line.rstrip("\r")) is not None


def recognises(path: Path, head: bytes) -> bool:
    r"""Check whether a file has a version line, or lines of two strings, all or none with a count,
    some with "</w>".

    >>> heads = (b"l o\no </w>\n", b"the 5\nof 3\n", b"t h 9\nth e</w> 7\n")
    >>> [recognises(Path("codes"), head) for head in heads]
    [True, False, True]
    """
    if head.startswith(b"#version: 0."):
        return True
    rows = [line.rstrip(b"\r").split(b" ") for line in head.split(b"\n")[:-1]]
    sizes = set(map(len, rows))
    are_counted = sizes == {3} and all(row[2].isdigit() for row in rows)
    if not are_counted and sizes != {2}:
        return False
    return all(map(all, rows)) and any(row[1].endswith(b"</w>") for row in rows)


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write codes at PATH and tokens with counts at PATH.vocab.

    Returns a sentence for each difference.
    """
    _refuse(vocabulary)
    codes = "".join(f"{left} {right}\n" for left, right in vocabulary.merges)
    counts = vocabulary.counts or (1,) * vocabulary.size
    listing = ""
    for token, count in zip(vocabulary.tokens, counts, strict=True):
        piece = token.removesuffix(SUFFIX)
        if piece == token:
            piece += _SEPARATOR
        listing += f"{piece} {count}\n"
    write_together({_vocab_path(path): listing.encode(), path: f"{VERSION}\n{codes}".encode()})
    return list(_note_differences(vocabulary))


def files_written(path: Path) -> tuple[Path, ...]:
    return path, _vocab_path(path)


files_read = files_written


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read codes at PATH and the vocabulary at PATH.vocab, if it exists; or a vocabulary at PATH
    and codes at `merges`.

    Without a vocabulary, tokens are all characters in merges and all their results. Counts are
    dropped if all are 1.
    """
    codes = path
    listing = _vocab_path(path)
    if merges:
        codes = merges
        listing = path
    data = read_bytes(codes, kind=VocabularyError)
    try:
        candidates = read_merges(codes, data)
    except CandidateError as error:
        raise VocabularyError(str(error)) from None
    if candidates.spells_bytes:
        return gpt2.read(codes, candidates.pairs)

    results = dict.fromkeys(map("".join, candidates.pairs))
    counts: tuple[int, ...] = ()
    if merges or listing.exists():
        first = data.partition(b"\n")[0].decode()
        if not first.startswith(VERSION) and not is_counted_line(first):
            raise VocabularyError(
                f"{codes}:1: with codes of version 0.1 and a vocabulary, subword-nmt splits words "
                f"wrongly; remove {listing}, or learn the codes again with subword-nmt 0.3"
            )
        pieces, counts = zip(*_read_listing(listing), strict=True)
        if set(counts) == {1}:
            counts = ()
        tokens = _spell_tokens(pieces, results=results.keys())
    elif results:
        parts = dict.fromkeys(chain.from_iterable(candidates.pairs))
        tokens = (*filterfalse(results.__contains__, parts), *results)
    else:
        raise VocabularyError(
            f"{codes}: contains no merge, and has no .vocab file next to it; learn the codes again"
        )
    try:
        return Vocabulary(
            merges=tuple(candidates.pairs),
            tokens=tokens,
            counts=counts,
            provenance={"format": "subword-nmt", "lost": list(candidates.notes)},
        )
    except VocabularyError as error:
        section, index = error.place or ("merges", -1)
        place = f"{listing}:{index + 1}"
        if section == "merges":
            place = f"{codes}:{index + 2}"
        raise VocabularyError(f"{place}: {error.fault}") from None


def peer(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load codes in the library; merges over bytes, which only look like them, in `tokenizers`."""
    if vocabulary.pretokenizer.is_bytes:
        from volt.formats.huggingface.reference_tokenizer import peer_of_merges

        return peer_of_merges(path, vocabulary)
    with require_library("subword-nmt"):
        from subword_nmt.apply_bpe import BPE, read_vocabulary  # type: ignore[import-untyped]
    special = vocabulary.special
    listing = _vocab_path(path)
    retained = None
    if listing.exists():
        retained = read_vocabulary(io.StringIO(listing.read_text("utf-8")), None)
    first, *lines = path.read_text("utf-8").splitlines()
    if is_counted_line(first):
        lines = [line.rpartition(" ")[0] for line in (first, *lines)]
        first = VERSION
    elif first.startswith(VERSION):  # without what tokenizers adds
        first = VERSION
    codes = "".join(f"{line}\n" for line in (first, *lines))
    bpe = BPE(io.StringIO(codes), vocab=retained, glossaries=glossaries(special))

    def word_pieces(word: str) -> list[str]:
        *others, last = bpe.segment_tokens([word]) or [""]
        if not last:
            return []
        ends = [last, SUFFIX] if last in special.user else [last + SUFFIX]
        return [piece.removesuffix(_SEPARATOR) for piece in others] + ends

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        words = (line.strip("\r\n ").split(" ") for line in lines)
        return [list(chain.from_iterable(map(word_pieces, line))) for line in words]

    return Peer("subword-nmt", pieces)


def glossaries(special: SpecialTokens) -> list[str]:
    """Return the argument of --glossaries for user tokens: one regex, longer tokens first.

    >>> glossaries(SpecialTokens(user=("<a>", "<a>b", "c.")))
    ['(?:<a>b|<a>|c\\\\.)']
    """
    if not special.user:
        return []
    longest_first = sorted(special.user, key=len, reverse=True)
    return [f"(?:{'|'.join(map(re.escape, longest_first))})"]


def _spell_tokens(pieces: Iterable[str], *, results: Collection[str]) -> tuple[str, ...]:
    """Return the tokens that the pieces of PATH.vocab stand for.

    "x@@" is the token "x"; or "x@@</w>", if merges make that token, and do not make "x" or an
    earlier piece is "x".

    results: the results of merges

    >>> _spell_tokens(["lo@@", "w", "a@@", "a@@"], results={"lo", "a@@</w>"})
    ('lo', 'w</w>', 'a', 'a@@</w>')
    """
    tokens = list[str]()
    seen = set[str]()
    for piece in pieces:
        inner = piece.removesuffix(_SEPARATOR)
        token = piece + SUFFIX
        is_new = inner not in seen and (inner in results or len(inner) == 1)
        if inner != piece and (is_new or token not in results):
            token = inner
        tokens.append(token)
        seen.add(token)
    return tuple(tokens)


def _vocab_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.vocab")


def _refuse(vocabulary: Vocabulary) -> None:
    if vocabulary.pretokenizer.is_bytes:
        raise VocabularyError(
            "its merges are over bytes, and subword-nmt's over characters; export to huggingface"
        )
    if vocabulary.marker != "suffix":
        raise VocabularyError(
            f"marker {vocabulary.marker!r}: subword-nmt marks where words end; learn with",
            hint={"marker": "suffix"},
        )
    if not vocabulary.tokens:
        raise VocabularyError(
            "the vocabulary has no tokens, and subword-nmt ignores an empty one; add a token"
        )
    for token in (*vocabulary.tokens, *vocabulary.atoms):
        if " " in token or token.splitlines() != [token]:
            raise VocabularyError(
                f"token {token!r} contains a space or line end, which subword-nmt cannot store; "
                "count with",
                hint={"pretokenizer": "whitespace"},
            )


def _note_differences(vocabulary: Vocabulary) -> Iterator[str]:
    special = vocabulary.special
    cut = vocabulary.pretokenizer.name
    if vocabulary.normalizer.name != "none":
        yield (
            f"The normalizer {vocabulary.normalizer.label!r} is not exported: "
            "apply it before subword-nmt."
        )
    if cut == "whitespace":
        yield (
            "Only U+0020 separates words for subword-nmt; tabs, no-break and other spaces "
            "become part of words."
        )
    else:
        yield (
            f"The pre-tokenizer {cut!r} is not exported: give subword-nmt words separated by spaces."
        )
    if special.user:
        yield (
            f"User tokens are not exported: apply-bpe needs --glossaries "
            f"{shlex.quote(glossaries(special)[0])}. Text right before a user token, as in "
            f"x{special.user[0]}, still ends in '</w>'; no '</w>' follows the token."
        )
    if special.all[:4] != USUAL_SPECIAL.all:
        yield (
            f"The special tokens {', '.join(special.all[:4])} are not exported, nor are ids: "
            "subword-nmt has none."
        )
    if vocabulary.byte_fallback:
        yield (
            "Byte fallback is not exported: characters that the vocabulary lacks stay unchanged "
            "in subword-nmt."
        )
    tokens = [*vocabulary.atoms, *vocabulary.made]
    if joined := [token for token in tokens if token.endswith(_SEPARATOR + SUFFIX)]:
        yield (
            f"{joined[0]!r} (one of {len(joined)} such) ends a word with '@@', which is also "
            "subword-nmt's sign for a word that continues."
        )
    marked = [token for token in tokens if SUFFIX in token.removesuffix(SUFFIX)]
    marked += [left for left, _ in vocabulary.merges if left.endswith(SUFFIX)]
    if marked:
        yield (
            f"{marked[0]!r} contains '</w>' inside a word, which subword-nmt cannot tell from a "
            "word's end."
        )
    if zeros := vocabulary.counts.count(0):
        yield (
            f"{zeros} tokens have the count 0: with --vocabulary-threshold 1 or more subword-nmt "
            "drops them."
        )
    if set(vocabulary.counts) == {1}:
        yield "All counts are 1: when the files are read back, the vocabulary has no counts."


def _read_listing(path: Path) -> list[tuple[str, int]]:
    """Return the piece and the count of each line of PATH.vocab."""
    remedy = "write it with subword-nmt get-vocab, or remove it"
    lines = lists.read_lines(path, remedy=remedy)
    return [lists.parse_counted_line(path, number, line) for number, line in lines]
