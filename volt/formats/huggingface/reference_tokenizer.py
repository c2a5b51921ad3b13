"""Load a tokenizer.json in the library `tokenizers`, for its ids, and its pieces in VOLT's
spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.formats.gpt2 import IDS_FILES, find_ids_file, find_merges_file
from volt.formats.huggingface.folder import FILE, load
from volt.formats.huggingface.pipeline_writing import ENDED, restore_vocab
from volt.formats.huggingface.tokens import FOUND
from volt.formats.protocol import Peer, require_library
from volt.text.atoms import SUFFIX
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import unnamed_tokens


def peer(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load a tokenizer.json in the library `tokenizers`, and add the user tokens that VOLT added on
    import.

    In a file that VOLT wrote, tokens that only the library finds in text are marked, so that they
    do not count as differences.
    """
    if path.is_dir():
        if not (path / FILE).exists() and (merges := find_merges_file(path)):
            return peer_of_merges(merges, vocabulary)
        path = path / FILE
    with require_library("tokenizers"):
        from tokenizers import Tokenizer
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower class
        raise VocabularyError(
            f"{path}: tokenizers cannot load it ({error}); download or export it again"
        ) from None
    rows = load(path).get("added_tokens") or []
    only_theirs = tuple(row["content"] for row in rows if not row.get(FOUND, True))
    return _peer(tokenizer, vocabulary, unnamed_tokens(vocabulary), only_theirs)


def peer_of_merges(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load a merges.txt over bytes, and the file of ids in its folder, in the library `tokenizers`."""
    ids_file = find_ids_file(path)
    if ids_file is None:
        raise ConfigError(
            f"{shown_path(path)}: `tokenizers` needs the ids of tokens; add {IDS_FILES[0]} to the folder"
        )
    with require_library("tokenizers"):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(str(ids_file), str(path)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _peer(tokenizer, vocabulary, vocabulary.special.user, ())


def _peer(
    tokenizer: Any, vocabulary: Vocabulary, users: Sequence[str], only_theirs: tuple[str, ...]
) -> Peer:
    """Return the library's tokenizer as a peer. The peer has ids only if they equal VOLT's.

    users: tokens that the library has to find in raw text; those that it lacks get new ids
    only_theirs: tokens that the library finds in text, and VOLT does not
    """
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    if new := [token for token in users if token not in known]:
        from tokenizers import AddedToken

        tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in new])
    added = tokenizer.get_added_tokens_decoder().items()
    token_of_id = {number: token.content for number, token in added}
    token_of_id[tokenizer.token_to_id(ENDED)] = SUFFIX
    vocab = restore_vocab(tokenizer.get_vocab())
    shares_ids = all(vocab.get(piece, number) == number for piece, number in vocabulary.ids.items())

    def encode(lines: Sequence[str]) -> list[Any]:
        result: list[Any] = tokenizer.encode_batch(list(lines), add_special_tokens=False)
        return result

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        result = list[list[str]]()
        for line in encode(lines):
            numbered = zip(line.ids, line.tokens, strict=True)
            result.append([token_of_id.get(number) or token for number, token in numbered])
        return result

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [line.ids for line in encode(lines)]

    model = tokenizer.model
    unk = vocabulary.special.unk if vocabulary.is_unigram else getattr(model, "unk_token", None)
    if vocabulary.byte_fallback or getattr(model, "byte_fallback", False):
        unk = None
    return Peer("tokenizers", pieces, ids if shares_ids else None, only_theirs, unk)
