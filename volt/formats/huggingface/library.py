"""The tokenizers library with a tokenizer.json loaded: lines → its pieces, in VOLT's spelling, and its ids.

>>> import tempfile
>>> from volt.formats.huggingface.writing import write
>>> from volt.vocabulary import Vocabulary
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = write(Vocabulary(merges=(("l", "o</w>"),), tokens=("l", "o</w>", "lo</w>")), Path(folder, "model"))
...     peer(Path(folder, "model")).pieces(["lo x"])
[['lo</w>', 'x</w>']]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError, missing
from volt.formats.huggingface.reading import FILE
from volt.formats.huggingface.writing import read
from volt.formats.protocol import USUAL, Peer
from volt.text.markers import PREFIX
from volt.text.special_tokens import SpecialTokens


def peer(path: Path, *, special: SpecialTokens = USUAL) -> Peer:
    """tokenizers with the file loaded; it has ids in common with VOLT if VOLT wrote the file.

    Raises MissingLibraryError if tokenizers is not installed, VocabularyError if it refuses the file.
    """
    path = path / FILE if path.is_dir() else path
    tokenizer = _loaded(path)
    try:
        shares_ids = read(path).ids == tokenizer.get_vocab()
    except VocabularyError:
        shares_ids = False
    added = {number: one.content for number, one in tokenizer.get_added_tokens_decoder().items()}

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        found = tokenizer.encode_batch(list(lines), add_special_tokens=False)
        named = [[added.get(n) or token for n, token in zip(one.ids, one.tokens, strict=True)] for one in found]
        return [_spelled(tokenizer, line, tokens) for line, tokens in zip(lines, named, strict=True)]

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in tokenizer.encode_batch(list(lines), add_special_tokens=False)]

    return Peer("tokenizers", pieces, ids if shares_ids else None)


def _loaded(path: Path) -> Any:
    """The library's tokenizer."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise missing("tokenizers") from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # it raises nothing narrower
        raise VocabularyError(f"{path}: tokenizers cannot load it ({error}); restore the file") from None


def _spelled(tokenizer: Any, line: str, tokens: list[str]) -> list[str]:
    """The tokens of a line with unknown characters as themselves, which is how VOLT spells them."""
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
    """The symbols that tokenizers starts to merge from; an added token is one."""
    real = tokenizer.get_added_tokens_decoder().values()
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    whole = any(one.normalized and not one.special for one in real)
    added = {normalize(one.content) if whole else one.content: one.content for one in real}
    line = normalize(line) if whole else line
    names = sorted(added, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, names))})", line) if names else [line]
    for number, part in enumerate(parts):
        if part in added:
            yield added[part]
        elif part:
            text = part if whole else normalize(part)
            cut = tokenizer.pre_tokenizer
            words = cut.pre_tokenize_str(text) if cut else [(text, None)]
            if (number or not parts[0]) and cut and b'"first"' in cut.__getstate__() and text[0] != PREFIX:
                words[0] = (words[0][0].removeprefix(PREFIX), None)  # only a line's first part has it
            yield from chain.from_iterable((*word[:-1], word[-1] + suffix) for word, _ in words if word)
