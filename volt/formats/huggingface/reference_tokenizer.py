"""Load a tokenizer.json in the library `tokenizers`, for its ids, and its pieces in VOLT's spelling."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.formats.gpt2 import BESIDE, ids_beside, merges_in
from volt.formats.huggingface.folder import FILE, load
from volt.formats.huggingface.pipeline_writing import ENDED, vocab_without_ends
from volt.formats.huggingface.reading import read
from volt.formats.huggingface.tokens import FOUND
from volt.formats.protocol import USUAL, Peer, needs
from volt.text.atoms import SUFFIX
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import named_tokens


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """Load the file in the library `tokenizers`. The peer has ids only if they are VOLT's ids, too."""
    vocabulary = None
    with suppress(VocabularyError):
        vocabulary = read(path)
    return _loaded(path, vocabulary, special)


def original(path: Path, vocabulary: Vocabulary, *, pattern: str | None = None) -> Peer:
    """Load an imported file in the library `tokenizers`, with the user tokens that were added on import.

    Tokens that only the library finds in text are differences, except in a file that VOLT wrote.
    """
    result = _loaded(path, vocabulary, vocabulary.special, named_tokens(vocabulary))
    file = path / FILE if path.is_dir() else path
    if not result.added or not file.exists():
        return replace(result, added=())
    rows = load(file).get("added_tokens") or []
    ours = {row["content"] for row in rows if not row.get(FOUND, True)}
    return replace(result, added=tuple(token for token in result.added if token in ours))


def peer_of_merges(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load merges over bytes, with the ids in their folder, in the library `tokenizers`, as transformers does."""
    ids_file = ids_beside(path)
    if ids_file is None:
        raise ConfigError(
            f"{shown_path(path)}: `tokenizers` needs the ids of tokens; add {BESIDE[0]} to the folder"
        )
    with needs("tokenizers"):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(str(ids_file), str(path)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = vocabulary.special
    return _peer(tokenizer, vocabulary, special, special.user)


def _loaded(
    path: Path, vocabulary: Vocabulary | None, special: SpecialTokens, users: Sequence[str] = ()
) -> Peer:
    if path.is_dir():
        if not (path / FILE).exists() and (merges := merges_in(path)):
            return peer_of_merges(merges, vocabulary or read(path))
        path = path / FILE
    with needs("tokenizers"):
        from tokenizers import Tokenizer
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower class
        raise VocabularyError(
            f"{path}: tokenizers cannot load it ({error}); download or export it again"
        ) from None
    return _peer(tokenizer, vocabulary, special, users)


def _peer(
    tokenizer: Any, vocabulary: Vocabulary | None, special: SpecialTokens, users: Sequence[str]
) -> Peer:
    """Return the library's tokenizer as a peer. It also finds `users` in raw text, with new ids for new tokens.

    vocabulary: what VOLT reads from the same file; None if VOLT cannot read it
    special: the special tokens of the vocabulary to compare with
    """
    if users:
        from tokenizers import AddedToken

        tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in users])
    added_tokens = tokenizer.get_added_tokens_decoder()
    names = {number: token.content for number, token in added_tokens.items()}
    names[tokenizer.token_to_id(ENDED)] = SUFFIX

    def encodings(lines: Sequence[str]) -> list[Any]:
        result: list[Any] = tokenizer.encode_batch(list(lines), add_special_tokens=False)
        return result

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        result = list[list[str]]()
        for line in encodings(lines):
            numbered = zip(line.ids, line.tokens, strict=True)
            result.append([names.get(number) or token for number, token in numbered])
        return result

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [line.ids for line in encodings(lines)]

    vocab = vocab_without_ends(tokenizer.get_vocab())
    ours = {} if vocabulary is None else vocabulary.ids
    shares_ids = vocabulary is not None and all(
        vocab.get(piece, number) == number for piece, number in ours.items()
    )
    only_theirs = {*special.all}.difference(special.user)
    raw = [token.content for token in added_tokens.values() if not token.normalized]
    added = tuple(token for token in raw if token in only_theirs)
    unk = None if tokenizer.model.byte_fallback else tokenizer.model.unk_token
    return Peer("tokenizers", pieces, ids if shares_ids else None, added, unk)
