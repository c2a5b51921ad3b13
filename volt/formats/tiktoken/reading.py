"""tiktoken's ranks file → byte-level vocabulary that has the ranks as ids, and joins by them.

>>> import base64, tempfile
>>> rows = [(bytes([byte]), byte) for byte in range(256)] + [(b"lo", 256), (b"low", 258)]
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write(b"".join(base64.b64encode(token) + b" %d\\n" % rank for token, rank in rows)) and file.flush()
...     vocabulary = read_with_pattern(Path(file.name), pattern="gpt2")
>>> vocabulary.ids["low"], len(vocabulary), vocabulary.pieces[257], vocabulary.merging
(258, 259, '', 'ranks')
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from volt.errors import ConfigError, VocabularyError
from volt.formats.patterns import choose
from volt.formats.tiktoken.joins import joins
from volt.formats.tiktoken.ranks import read_ranks
from volt.text.byte_alphabet import to_characters
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

NO_SPECIAL = SpecialTokens(None, None, None, None)


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a ranks file as a byte-level vocabulary; ids are the ranks.

    The file names no special tokens and no pattern: there are none of the former, and text is cut by GPT-2's pattern,
    if the tokens fit it. `provenance["lost"]` says what the file does not hold.
    Raises VocabularyError, with file and line, if it is damaged, or goes with another pattern.
    """
    return read_with_pattern(path, merges=merges)


def read_with_pattern(path: Path, *, merges: Path | None = None, pattern: str | None = None) -> Vocabulary:
    """The same with text cut by a pattern: the name of a published one, or a regular expression."""
    if merges is not None:
        raise VocabularyError(f"{merges}: tiktoken's ranks imply the merges; leave out the merges file")
    ranks = read_ranks(path)
    choice = choose(path, [token for token in ranks if token], pattern)
    lost = [*choice.notes, "The file names no special tokens: there are none, and text that spells one is text."]
    provenance = {"format": "tiktoken", "pattern": "given" if choice.is_given else "assumed", "lost": lost}
    return vocabulary_of(path, ranks, choice.pretokenizer, provenance=provenance)


def vocabulary_of(
    path: Path,
    ranks: Mapping[bytes, int],
    pretokenizer: PreTokenizer,
    *,
    special: SpecialTokens = NO_SPECIAL,
    special_ids: Mapping[str, int] | None = None,
    provenance: Mapping[str, object],
) -> Vocabulary:
    """The vocabulary of tokens with these ids, of which the lower ones are joined first.

    path: named in errors
    special_ids: the ids of the special tokens
    Raises VocabularyError if a token is spelled like a special token.
    """
    ordered = sorted(filter(None, ranks), key=ranks.__getitem__)
    spelled = {token: to_characters(token) for token in ordered}
    order = [""] * (1 + max([*ranks.values(), *(special_ids or {}).values()]))
    for token, piece in spelled.items():
        order[ranks[token]] = piece
    for piece, number in (special_ids or {}).items():
        order[number] = piece
    try:
        return Vocabulary(
            merges=tuple((spelled[left], spelled[right]) for left, right in joins(ordered)),
            tokens=tuple(spelled.values()),
            marker="none",
            pretokenizer=pretokenizer,
            special=special,
            provenance=provenance,
            merging="ranks",
            whole_words=True,
            order=tuple(order),
        )
    except (VocabularyError, ConfigError) as error:
        raise VocabularyError(f"{path}: {error}") from None
