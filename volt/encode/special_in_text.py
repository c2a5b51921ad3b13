"""Which special tokens a call finds in text, and which it refuses.

By default, an encoder finds the vocabulary's user tokens, and all other special tokens stay text. Here a call chooses
other tokens, and `finding` returns a vocabulary with these user tokens and equal ids.

>>> vocabulary = Vocabulary(merges=(), tokens=("a",), marker="none")
>>> finding(vocabulary, frozenset({"</s>"})).special.user, named_tokens(vocabulary, ["</s>"], "allowed_special")
(('</s>',), frozenset({'</s>'}))
"""

from __future__ import annotations

import re
from collections.abc import Collection, Set
from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypeAlias

from volt import arguments
from volt.errors import ConfigError, CorpusError, quoted
from volt.text.atoms import SUFFIX
from volt.vocabulary import Vocabulary

Special: TypeAlias = Literal["all"] | Collection[str]


def named_tokens(vocabulary: Vocabulary, special: Special, name: str) -> frozenset[str]:
    """Return the special tokens that an argument names. Raises ConfigError for any other token.

    special: "all", or tokens
    name: what errors call the argument
    """
    known = vocabulary.special.all
    if isinstance(special, str) and special == "all":
        return frozenset(known)
    remedy = f'give "all", or a set of tokens, such as {name}={{token}}'
    tokens = arguments.texts(arguments.several(special, name, one=remedy, remedy=remedy), name)
    for token in tokens:
        if token not in known:
            choices = ", ".join(map(quoted, known[:8]))
            if len(known) > 8:
                choices += ", …"
            fault = f"{name}: {quoted(token)} is not a special token of the vocabulary"
            raise ConfigError(f"{fault}; choose from {choices}")
    return frozenset(tokens)


def found_tokens(
    vocabulary: Vocabulary,
    allowed: Special | None,
    disallowed: Special,
    text: bytes,
    separator: int,
) -> frozenset[str]:
    """Return the special tokens that are found in text. Raises CorpusError if the text contains a disallowed one.

    allowed: "all", or tokens; None for user tokens
    disallowed: tokens, or "all" for all that are not allowed
    text: UTF-8 lines, each followed by the byte `separator`
    """
    if allowed is None:
        tokens = frozenset(vocabulary.special.user)
    else:
        tokens = named_tokens(vocabulary, allowed, "allowed_special")
    refused = named_tokens(vocabulary, disallowed, "disallowed_special")
    if isinstance(disallowed, str):
        refused -= tokens
    match = _finder(refused).search(text) if refused else None
    if match:
        line = 1 + text.count(separator, 0, match.start())
        fault = f"line {line}: the text contains the special token {quoted(match[0].decode())}"
        remedy = "allow it in allowed_special, or leave it out of disallowed_special, so that it stays text"
        raise CorpusError(f"{fault}; {remedy}")
    return tokens


def finding(vocabulary: Vocabulary, tokens: Set[str]) -> Vocabulary:
    """Return the vocabulary that finds exactly these special tokens in text; every id stays.

    Raises ConfigError if this needs the token "</w>", which ends words after user tokens, and the vocabulary lacks it.
    """
    special = vocabulary.special
    others = tokens | set(special.roles.values())
    user = tuple(token for token in special.all if token in tokens)
    control = tuple(token for token in special.all if token not in others)
    bare = replace(vocabulary, special=replace(special, user=user, control=control), order=())
    if SUFFIX in bare.pieces and SUFFIX not in vocabulary.ids:
        token = min(tokens)
        fault = f"finding {quoted(token)} in text needs the token {SUFFIX!r}, which the vocabulary lacks"
        remedy = f"name it when you build the vocabulary: volt.SpecialTokens(user=[{token!r}])"
        raise ConfigError(f"allowed_special: {fault}; {remedy}")
    known = set(bare.pieces)
    order = (piece if piece in known else "" for piece in vocabulary.pieces)
    return replace(bare, order=tuple(order))


@lru_cache(maxsize=16)
def _finder(tokens: frozenset[str]) -> re.Pattern[bytes]:
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(b"|".join(re.escape(token.encode()) for token in longest_first))
