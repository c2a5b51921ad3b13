"""Choose, for one call, the special tokens that become ids where a text contains them.

By default, an encoder finds only user tokens in text; other special tokens, such as "</s>", are
encoded like other text. A call may name other tokens to find, and tokens that are errors.
`make_tokens_findable` then returns a vocabulary with these tokens as user tokens, and with equal
ids.

>>> vocabulary = Vocabulary(merges=(), tokens=("a",), marker="none")
>>> make_tokens_findable(vocabulary, frozenset({"</s>"})).special.user
('</s>',)
>>> check_special_tokens(vocabulary, ["</s>"], "allowed_special")
frozenset({'</s>'})
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


def check_special_tokens(vocabulary: Vocabulary, special: Special, name: str) -> frozenset[str]:
    """Return the special tokens that an argument names. Raises ConfigError for any other token.

    special: the argument's value: "all", or tokens
    name: the argument's name, for errors
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


def finds_only_users(allowed: Special | None, disallowed: Special) -> bool:
    """Check whether a call finds user tokens only, and refuses no special token."""
    return allowed is None and isinstance(disallowed, tuple) and not disallowed


def choose_found_tokens(
    vocabulary: Vocabulary,
    allowed: Special | None,
    disallowed: Special,
    text: bytes,
    separator: int,
) -> frozenset[str]:
    """Return the special tokens to find in a text.

    allowed: "all", or tokens; None for user tokens
    disallowed: tokens, or "all" for all tokens that are not allowed
    text: UTF-8 lines, each followed by the byte `separator`

    Raises CorpusError if the text contains a disallowed token.
    """
    if allowed is None:
        found = frozenset(vocabulary.special.user)
    else:
        found = check_special_tokens(vocabulary, allowed, "allowed_special")
    refused = check_special_tokens(vocabulary, disallowed, "disallowed_special")
    if isinstance(disallowed, str):
        refused -= found
    match = _pattern_of(refused).search(text) if refused else None
    if match:
        line = 1 + text.count(separator, 0, match.start())
        fault = f"line {line}: the text contains the special token {quoted(match[0].decode())}"
        remedy = "allow it in allowed_special, or leave it out of disallowed_special"
        raise CorpusError(f"{fault}; {remedy}, so that it stays text")
    return found


def make_tokens_findable(vocabulary: Vocabulary, tokens: Set[str]) -> Vocabulary:
    """Return the vocabulary, with equal ids, whose user tokens are exactly these special tokens.

    Raises ConfigError if the words of some user tokens would end with the token "</w>", which the
    vocabulary lacks.
    """
    special = vocabulary.special
    not_control = tokens | set(special.roles.values())
    user = tuple(token for token in special.all if token in tokens)
    control = tuple(token for token in special.all if token not in not_control)
    changed = replace(vocabulary, special=replace(special, user=user, control=control), order=())
    if SUFFIX in changed.pieces and SUFFIX not in vocabulary.ids:
        token = min(tokens)
        fault = f"finding {quoted(token)} in text needs the token {SUFFIX!r}, which the vocabulary lacks"
        remedy = f"name it when you build the vocabulary: volt.SpecialTokens(user=[{token!r}])"
        raise ConfigError(f"allowed_special: {fault}; {remedy}")
    pieces = set(changed.pieces)
    order = (piece if piece in pieces else "" for piece in vocabulary.pieces)
    return replace(changed, order=tuple(order))


@lru_cache(maxsize=16)
def _pattern_of(tokens: frozenset[str]) -> re.Pattern[bytes]:
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile(b"|".join(re.escape(token.encode()) for token in longest_first))
