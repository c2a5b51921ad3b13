"""Load a tokenizer.json in the library `tokenizers`, for its ids, and its pieces in VOLT's spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from volt.errors import ConfigError, VocabularyError, shown_path
from volt.formats.gpt2 import BESIDE, merges_in
from volt.formats.huggingface.pipeline_writing import ENDED, vocab_without_ends
from volt.formats.huggingface.reading import read
from volt.formats.huggingface.tokens import FILE, FOUND, load
from volt.formats.protocol import USUAL, Peer, needs
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import named_tokens


def peer_of_merges(path: Path, vocabulary: Vocabulary) -> Peer:
    """Load merges over bytes, with the ids in their folder, in the library `tokenizers`, as transformers does."""
    vocab = next((place for name in BESIDE if (place := path.with_name(name)).exists()), None)
    if vocab is None:
        raise ConfigError(
            f"{shown_path(path)}: `tokenizers` needs the ids of tokens; add {BESIDE[0]} to the folder"
        )
    with needs("tokenizers"):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(path)))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    return _peer(tokenizer, vocabulary.ids, vocabulary.special, vocabulary.special.user)


def _peer(
    tokenizer: Any,
    our_ids: Mapping[str, int] | None,
    special: SpecialTokens,
    users: Sequence[str] = (),
) -> Peer:
    """Return the library's tokenizer as a peer. It also finds `users` in raw text, with new ids for new tokens.

    our_ids: the ids that VOLT reads from the same file; None if VOLT cannot read it
    special: the special tokens of the vocabulary to compare with
    """
    if users:
        from tokenizers import AddedToken

        tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in users])
    vocab = vocab_without_ends(tokenizer.get_vocab())
    shares_ids = our_ids is not None and all(
        vocab.get(piece, number) == number for piece, number in our_ids.items()
    )
    named = {number: one.content for number, one in tokenizer.get_added_tokens_decoder().items()}
    named |= {tokenizer.token_to_id(ENDED): SUFFIX}

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        result = tokenizer.encode_batch(list(lines), add_special_tokens=False)
        spelled = [
            [named.get(n) or token for n, token in zip(one.ids, one.tokens, strict=True)]
            for one in result
        ]
        return [
            _spelled(tokenizer, line, tokens) for line, tokens in zip(lines, spelled, strict=True)
        ]

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in tokenizer.encode_batch(list(lines), add_special_tokens=False)]

    real = tokenizer.get_added_tokens_decoder().values()
    only_theirs = {*special.all}.difference(special.user)
    added = tuple(one.content for one in real if one.content in only_theirs and not one.normalized)
    return Peer("tokenizers", pieces, ids if shares_ids else None, added)


def _spelled(tokenizer: Any, line: str, tokens: list[str]) -> list[str]:
    """Return the tokens of a line in which each unknown token is replaced by the unknown character, as in VOLT."""
    model = tokenizer.model
    if model.unk_token not in tokens or model.byte_fallback:
        return tokens
    atoms, place, result = list(_atoms(tokenizer, line, model.end_of_word_suffix or "")), 0, []
    for token in tokens:
        result.append(atoms[place] if token == model.unk_token else token)
        length = len(result[-1])
        while length > 0:
            length, place = length - len(atoms[place]), place + 1
    return result


def _atoms(tokenizer: Any, line: str, suffix: str) -> Iterator[str]:
    """Yield the symbols from which `tokenizers` starts to merge; an added token is one symbol."""
    real = tokenizer.get_added_tokens_decoder().values()
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    raw = {one.content: one.content for one in real if not one.normalized}
    late = {normalize(one.content): one.content for one in real if one.normalized}
    is_first = True
    for part in _split(line, raw):
        for text in [part] if part in raw else _split(normalize(part), late):
            if token := raw.get(text) or late.get(text):
                yield token
            else:
                yield from _word_atoms(tokenizer, text, suffix, is_first=is_first)
            is_first = False


def _split(text: str, tokens: Iterable[str]) -> Iterator[str]:
    """Yield the parts of a text that are tokens, and those between them, without empty parts."""
    names = sorted(tokens, key=len, reverse=True)
    return filter(None, re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text])


def _word_atoms(tokenizer: Any, text: str, suffix: str, *, is_first: bool) -> Iterator[str]:
    cut = tokenizer.pre_tokenizer
    words = cut.pre_tokenize_str(text) if cut else [(text, None)]
    if not is_first and cut and b'"first"' in cut.__getstate__() and text[0] != PREFIX:
        words[0] = (
            words[0][0].removeprefix(PREFIX),
            None,
        )  # only a line's first part starts with "▁"
    for word, _ in words:
        atoms = (*word[:-1], word[-1] + suffix) if word else ()
        for is_unknown, run in groupby(atoms, lambda atom: tokenizer.token_to_id(atom) is None):
            symbols = list(run)
            yield from ["".join(symbols)] if is_unknown and tokenizer.model.fuse_unk else symbols


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
    rows = (load(file).get("added_tokens") or []) if result.added and file.exists() else []
    ours = {row["content"] for row in rows if not row.get(FOUND, True)}
    return replace(result, added=tuple(token for token in result.added if token in ours))


def _loaded(
    path: Path, vocabulary: Vocabulary | None, special: SpecialTokens, users: Sequence[str] = ()
) -> Peer:
    if path.is_dir() and not (path / FILE).exists() and (merges := merges_in(path)):
        return peer_of_merges(merges, read(path) if vocabulary is None else vocabulary)
    with needs("tokenizers"):
        from tokenizers import Tokenizer
    path = path / FILE if path.is_dir() else path
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower class
        raise VocabularyError(
            f"{path}: tokenizers cannot load it ({error}); download or export it again"
        ) from None
    return _peer(tokenizer, None if vocabulary is None else vocabulary.ids, special, users)
