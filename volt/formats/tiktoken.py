r"""tiktoken ranks file ⇄ byte-level vocabulary: a line for each token, its bytes in base64 and its rank.

tiktoken knows no merges: it joins the neighbours whose joint bytes have the lowest rank, and ranks are ids. So merges
are read back as the two parts that the bytes of a token fall into by the ranks below its own.

>>> dict(_recovered([b"a", b"b", b"c", b"ab", b"abc"]))
{b'ab': (b'a', b'b'), b'abc': (b'ab', b'c')}
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError, missing, quoted
from volt.files.atomic import write_atomic
from volt.files.whole import read_bytes
from volt.formats.byte_merges import other_pattern
from volt.formats.protocol import MOST_DIGITS, USUAL, Peer
from volt.text.byte_alphabet import ALPHABET, to_bytes, to_characters
from volt.text.gpt2 import cut_tokens
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

CLOSING_ORDER = "merges"  # ranks are ids, and tiktoken merges in their order
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write the ranks; what the file cannot carry or tiktoken does differently, a sentence each.

    A rank is the id of the token in VOLT. Only where ids do not follow the order of the merges are ranks numbered
    anew, from 0. Raises VocabularyError if tiktoken cannot hold this vocabulary.
    """
    _refuse(vocabulary, path)
    tokens = _in_merge_order(vocabulary)
    keeps_ids = tokens == list(vocabulary.tokens)
    first = vocabulary.ids[tokens[0]] if keeps_ids else 0
    lines = (f"{base64.b64encode(to_bytes(token)).decode()} {rank}\n" for rank, token in enumerate(tokens, first))
    notes = list(_notes(vocabulary, path, tokens, keeps_ids))
    with write_atomic(path) as file:
        file.write("".join(lines).encode())
    return notes


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a ranks file as a byte-level vocabulary that cuts text as GPT-2 does; tokens stay in the order of ranks.

    The file names no special tokens and no pattern: special tokens get VOLT's usual names, and a file that goes with
    another pattern is refused, as far as its tokens tell. `provenance["lost"]` says what the file does not hold.
    Raises VocabularyError, with file and line, if it is damaged, its tokens are none that merges make, or GPT-2's
    pattern cuts one of them.
    """
    if merges is not None:
        raise VocabularyError(f"{merges}: tiktoken's ranks imply the merges; leave out the merges file")
    ranks = _ranks_of_gpt2(path)
    tokens = sorted(ranks, key=ranks.__getitem__)
    pairs = dict(_recovered(tokens))
    for token in tokens:
        if len(token) > 1 and len(pairs[token]) != 2:
            raise VocabularyError(
                f"{path}: the token {token!r} of rank {ranks[token]} is not made of two of lower rank, but of "
                f"{len(pairs[token])}; no merges give this file. Restore it"
            )
    named = {token: to_characters(token) for token in tokens}
    merge_list = tuple((to_characters(left), to_characters(right)) for left, right in pairs.values())
    try:
        vocabulary = Vocabulary(
            merges=merge_list, tokens=tuple(named.values()), marker="none", pretokenizer=PreTokenizer("bytes")
        )
    except VocabularyError as error:
        raise VocabularyError(f"{path}: {error}") from None
    return replace(
        vocabulary, provenance={"format": "tiktoken", "lost": list(_losses(vocabulary, sorted(ranks.values())))}
    )


def _losses(vocabulary: Vocabulary, ranks: Sequence[int]) -> Iterator[str]:
    """What a file does not tell, and how ids change. ranks: in rising order."""
    yield "The file names no pattern: text is cut by GPT-2's, which fits all of its tokens."
    yield "The file names no special tokens: they get VOLT's usual names."
    first = len(vocabulary.special.all)
    if ranks[-1] - ranks[0] >= len(ranks):
        yield f"Ids differ from ranks, which leave out numbers: tokens are numbered from {first} in their order."
    elif ranks[0] != first:
        yield f"Ids differ from ranks: the token of rank {ranks[0]} has the id {first}, behind the special tokens."


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first lines are the base64 of bytes with ranks that count up.

    >>> recognises(Path("a.tiktoken"), b"IQ== 0\\nIg== 1\\n"), recognises(Path("list"), b"low 2\\nlo 1\\n")
    (True, False)
    """
    lines = head.split(b"\n")[:-1]
    rows = [line.split() for line in lines if line.strip()]
    if not rows or not all(len(row) == 2 and row[1].isdigit() for row in rows):
        return False
    try:
        data = [base64.b64decode(token, validate=True) for token, _ in rows]
    except binascii.Error:
        return False
    return len(data[0]) == 1 and all(int(b) == int(a) + 1 for (_, a), (_, b) in pairwise(rows))


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """tiktoken with the file loaded, GPT-2's pattern, and these special tokens; it finds the user's own in text.

    It has ids in common with VOLT if the file leaves room for the special tokens below its ranks.
    Raises MissingLibraryError if tiktoken is not installed.
    """
    ranks = _ranks_of_gpt2(path)
    shares_ids = min(ranks.values()) >= len(special.all)
    names = dict(enumerate(special.all, 0 if shares_ids else max(ranks.values()) + 1))
    encoding, found = _encoding(path.name, ranks, names), set(special.user)

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [encoding.encode(line, allowed_special=found, disallowed_special=()) for line in lines]

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        return [[names.get(number) or spelled(number) for number in line] for line in ids(lines)]

    def spelled(number: int) -> str:
        return to_characters(encoding.decode_single_token_bytes(number))

    return Peer("tiktoken", pieces, ids if shares_ids else None)


def _encoding(name: str, ranks: Mapping[bytes, int], names: Mapping[int, str]) -> Any:
    """The library's encoder with these ranks. names: the special tokens by their ids."""
    try:
        import tiktoken
    except ImportError:
        raise missing("tiktoken") from None
    return tiktoken.Encoding(
        name,
        pat_str=GPT2_PATTERN,
        mergeable_ranks=dict(ranks),
        special_tokens={token: number for number, token in names.items()},
    )


def _refuse(vocabulary: Vocabulary, path: Path) -> None:
    """Raise VocabularyError if tiktoken cannot hold this vocabulary."""
    scaffolding, cut = vocabulary.scaffolding, vocabulary.pretokenizer
    if not cut.is_bytes or vocabulary.marker != "none":
        raise VocabularyError(
            f"{path}: tiktoken works on bytes, but this vocabulary on the pre-tokenizer {cut.name!r} with the marker "
            f"{vocabulary.marker!r}; count with pretokenizer='bytes'"
        )
    if cut.name != "bytes":
        raise VocabularyError(
            f"{path}: a .tiktoken file holds no pattern and stands for GPT-2's, but words are cut by "
            f"{quoted(cut.name, 200)}; export to huggingface, which carries it, or count with pretokenizer='bytes'"
        )
    if scaffolding:
        raise VocabularyError(
            f"{path}: the vocabulary is pruned: {len(scaffolding):,} tokens, such as {scaffolding[0]!r}, are made on "
            "the way and split back into their parts, but tiktoken cannot split back: without them it would not reach "
            "the tokens behind. Export Vocabulary.closed(), which keeps them as tokens"
        )
    kept = set(vocabulary.tokens)
    missing = [atom for atom in ALPHABET if atom not in kept]
    foreign = [token for token in vocabulary.atoms if token not in ALPHABET]
    if missing or foreign:
        raise VocabularyError(
            f"{path}: tiktoken needs every byte as a token, and nothing else unmerged: {(missing or foreign)[0]!r} "
            f"{'is missing' if missing else 'is no byte'}; count with pretokenizer='bytes'"
        )
    if crossing := cut_tokens([to_bytes(token) for token in vocabulary.tokens]):
        raise VocabularyError(
            f"{path}: GPT-2's pattern, which VOLT cuts text by, cuts {len(crossing):,} of the tokens, such as "
            f"{to_characters(crossing[0])!r}, so they never occur, and the file would read as one for another pattern; "
            "remove them and their merges"
        )


def _in_merge_order(vocabulary: Vocabulary) -> list[str]:
    """The tokens, atoms first, then as the merges make them."""
    made = {token: rank for rank, token in reversed(list(enumerate(map("".join, vocabulary.merges))))}
    return sorted(vocabulary.tokens, key=lambda token: made.get(token, -1))


def _notes(vocabulary: Vocabulary, path: Path, tokens: Sequence[str], keeps_ids: bool) -> Iterator[str]:
    """What the file cannot carry or tiktoken does differently."""
    yield _snippet(vocabulary, path, keeps_ids)
    if vocabulary.counts:
        yield "The counts of the tokens are not in the file: the format has no place for them."
    if not keeps_ids:
        yield (
            "Ids differ from VOLT's: tiktoken merges in the order of ids, but here ids do not follow the merges, so "
            'tokens are numbered anew from 0; pieces are the same. Vocabulary.closed(order="merges") has ids that do.'
        )
    if vocabulary.normalizer.name != "none":
        yield f"tiktoken does not normalise: apply {vocabulary.normalizer.name} to a text before you encode it."
    if vocabulary.byte_fallback:
        yield "Byte fallback and its 256 tokens are not in the file; bytes as tokens never need it."
    yield from _special_notes(vocabulary)
    yield from _merge_notes(vocabulary, tokens)


def _special_notes(vocabulary: Vocabulary) -> Iterator[str]:
    """What becomes of the special tokens."""
    if vocabulary.special != USUAL:
        user = f" ({', '.join(vocabulary.special.user[:3])})" if vocabulary.special.user else ""
        yield (
            f"The names of the special tokens and the user tokens{user} are not in the file: read back, it has VOLT's "
            "usual ones."
        )
    if vocabulary.special.user:
        yield (
            f"Encode with encode(text, allowed_special={set(vocabulary.special.user)!r}, disallowed_special=()); "
            "tiktoken does not turn the private characters U+10F000 to U+10FFFD into U+FFFD as VOLT does where it has "
            "user tokens."
        )
    starts = [(a, b) for a in vocabulary.special.user for b in vocabulary.special.all if b != a and b.startswith(a)]
    if starts:
        yield f"Where {starts[0][1]} stands in text tiktoken may find {starts[0][0]}; VOLT takes the longer one."


def _merge_notes(vocabulary: Vocabulary, tokens: Sequence[str]) -> Iterator[str]:
    """Which merges tiktoken does not make, or makes in another way."""
    first = dict[str, tuple[str, str]]()
    for left, right in vocabulary.merges:
        first.setdefault(left + right, (left, right))
    if len(first) < len(vocabulary.merges):
        yield "Later merges that make a token again are not in the file: tiktoken knows one rank for each token."
    other = [
        token
        for data, parts in _recovered([to_bytes(token) for token in tokens])
        if tuple(map(to_characters, parts)) != first[token := to_characters(data)]
    ]
    if other:
        yield (
            f"tiktoken makes {len(other):,} tokens, such as {other[0]!r}, of other parts than the merges do, because "
            "lower ranks take theirs first: text that holds them may be cut differently."
        )


def _snippet(vocabulary: Vocabulary, path: Path, keeps_ids: bool) -> str:
    """How to load the file, with what it does not hold."""
    first = 0 if keeps_ids else len(vocabulary.tokens)
    special = {token: first + number for number, token in enumerate(vocabulary.special.all)}
    return (
        "The special tokens and the pattern that cuts text are not in the file; give them when you load it:\n"
        "    from tiktoken import Encoding, load\n"
        f"    ranks = load.load_tiktoken_bpe({str(path)!r})\n"
        f"    Encoding({path.stem!r}, pat_str=r{chr(34)}{GPT2_PATTERN}{chr(34)}, mergeable_ranks=ranks, "
        f"special_tokens={special!r})"
    )


def _ranks_of_gpt2(path: Path) -> dict[bytes, int]:
    """The ranks in a file. Raises VocabularyError if it is damaged or GPT-2's pattern cuts one of its tokens."""
    ranks = _ranks(path)
    if cut := cut_tokens(list(ranks)):
        raise VocabularyError(other_pattern(path, list(ranks), cut))
    return ranks


def _ranks(path: Path) -> dict[bytes, int]:
    """The ranks in a file, checked."""
    lines = read_bytes(path, kind=VocabularyError).split(b"\n")
    ranks, of_rank = dict[bytes, int](), dict[int, int]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        token, rank = _row(path, number, line)
        if token in ranks or rank in of_rank:
            what = f"the token {token!r}" if token in ranks else f"the rank {rank}, as line {of_rank[rank]} does,"
            raise VocabularyError(f"{path}:{number}: repeats {what}; remove one line")
        ranks[token], of_rank[rank] = rank, number
    missing = next((byte for byte in range(256) if bytes([byte]) not in ranks), None)
    if missing is not None:
        raise VocabularyError(f"{path}: no token for the byte 0x{missing:02X}: cut short or none of tiktoken's files")
    return ranks


def _row(path: Path, number: int, line: bytes) -> tuple[bytes, int]:
    """The token and the rank of one line."""
    parts = line.split()
    try:
        token, rank = base64.b64decode(parts[0], validate=True), parts[1].decode("ascii")
    except (ValueError, IndexError):
        token, rank = b"", ""
    if len(parts) != 2 or not token or not rank.isdigit() or len(rank) > MOST_DIGITS:
        shown = line[:60].decode(errors="replace")
        raise VocabularyError(f"{path}:{number}: found {shown!r} where a token in base64 and a rank, 0 or more, belong")
    return token, int(rank)


def _recovered(tokens: Sequence[bytes]) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Each token of several bytes, given by rank, with the parts that it falls into by the ranks below its own."""
    ranks = dict[bytes, int]()
    for rank, token in enumerate(tokens):
        if len(token) > 1:
            yield token, _parts(token, ranks)
        ranks[token] = rank


def _parts(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, ...]:
    """tiktoken's algorithm: join the neighbours with the lowest joint rank, the first of equals, while there are any.

    >>> _parts(b"aaa", {b"a": 0, b"aa": 1})
    (b'aa', b'a')
    """
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 1:
        found = ((ranks.get(left + right, len(ranks)), place) for place, (left, right) in enumerate(pairwise(parts)))
        rank, place = min(found)
        if rank == len(ranks):
            break
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return tuple(parts)
