"""A vocabulary → the vocabulary with special tokens that its publisher names, but its file does not.

A token that the vocabulary has keeps its id. A new one takes the requested id, or the next one after all others. The
notes on unnamed special tokens, in the provenance of a foreign vocabulary, are updated.

>>> none = SpecialTokens(None, None, None, None)
>>> result = with_special(Vocabulary((("l", "o"),), ("l", "o", "lo"), special=none), {"<end>": 4}, eos="<end>")
>>> result.pieces, result.kinds[4], result.special.eos
(('l', 'o', 'lo', '', '<end>', '</w>'), 'user', '<end>')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, quoted
from volt.text.characters import SUFFIX
from volt.text.special_tokens import ROLES, Role, SpecialTokens
from volt.vocabulary.ids import MOST_IDS, UNUSED
from volt.vocabulary.vocabulary import Vocabulary

Ids: TypeAlias = Mapping[str, int | None]  # a token → its id, or None for one that it has or that is free
_SPECIAL = "give a list of tokens, or a dict of tokens with their ids"
_ROLE = "give a token, or a dict of one token with its id"


def with_special(
    vocabulary: Vocabulary,
    special: Iterable[str] | Ids = (),
    *,
    unk: str | Ids | None = None,
    bos: str | Ids | None = None,
    eos: str | Ids | None = None,
    pad: str | Ids | None = None,
) -> Vocabulary:
    """Add special tokens to a vocabulary. Every id stays; new ids may leave unused ones between.

    special: tokens that are found in text and never split, with their ids or None, or a list without ids
    unk, bos, eos, pad: the token with this role, which alone is not looked for in text; a dict gives its id, too

    A text token that is named here becomes special. If a role changes to another token, its old token becomes a control
    token. Raises ConfigError if an id belongs to another token, or a token cannot be a special token.
    """
    inputs = {"unk": unk, "bos": bos, "eos": eos, "pad": pad}
    users = _user_ids(special)
    roles = {role: _role_ids(inputs[role], role) for role in ROLES if inputs[role] is not None}
    requested = _agreed([users, *roles.values()])
    if not requested:
        return vocabulary
    named = _special(vocabulary.special, list(users), {role: next(iter(ids)) for role, ids in roles.items()})
    counts = vocabulary.counts or (None,) * vocabulary.size
    retained = [
        (token, count) for token, count in zip(vocabulary.tokens, counts, strict=True) if token not in requested
    ]
    bare = replace(
        vocabulary,
        special=named,
        tokens=tuple(token for token, _ in retained),
        counts=tuple(count for _, count in retained if count is not None),
        order=(),
    )
    return replace(bare, order=tuple(_numbered(vocabulary, requested, bare.pieces)))


def _user_ids(special: object) -> Ids:
    if isinstance(special, Mapping):
        return _checked(special, "special")
    return dict.fromkeys(arguments.texts(special, "special", one="did you mean special=[token]?", remedy=_SPECIAL))


def _role_ids(named: object, role: Role) -> Ids:
    if not isinstance(named, Mapping):
        return {arguments.text(named, role, remedy=_ROLE): None}
    if len(named) != 1:
        raise ConfigError(f"{role} names {len(named)} tokens; {_ROLE}")
    return _checked(named, role)


def _checked(ids: Mapping[object, object], name: str) -> Ids:
    return {
        arguments.text(token, f"a token of {name}"): None
        if number is None
        else arguments.whole(number, f"the id of {quoted(str(token))}", low=0, high=MOST_IDS - 1)
        for token, number in ids.items()
    }


def _agreed(parts: Iterable[Ids]) -> dict[str, int | None]:
    """Return all tokens with their ids. Raises ConfigError if a token is given two ids."""
    result = dict[str, int | None]()
    for token, number in chain.from_iterable(part.items() for part in parts):
        known = result.setdefault(token, number)
        if None not in (known, number) and known != number:
            raise ConfigError(f"{quoted(token)} is given the ids {known} and {number}; leave one out")
        result[token] = number if known is None else known
    return result


def _special(old: SpecialTokens, users: list[str], roles: Mapping[Role, str]) -> SpecialTokens:
    """Return the special tokens with further ones; tokens that lose a role become control tokens."""
    named = {role: roles.get(role, getattr(old, role)) for role in ROLES}
    user = tuple(dict.fromkeys([*old.user, *users]))
    left = dict.fromkeys([*old.control, *old.roles.values()])
    control = tuple(token for token in left if token not in user and token not in named.values())
    return SpecialTokens(**named, user=user, control=control)


def _numbered(old: Vocabulary, requested: Mapping[str, int | None], pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces by id: old ones at their ids, new ones at requested ids, and the others after all."""
    placed = dict[int, str]()
    for token, number in requested.items():
        if number is None or number == old.ids.get(token):
            continue
        if token in old.ids:
            raise ConfigError(f"{quoted(token)} has the id {old.ids[token]} already; leave out the id {number}")
        if taken := placed.get(number) or (number < len(old) and old.pieces[number]):
            raise ConfigError(
                f"the id {number} of {quoted(token)} belongs to {quoted(str(taken))}; choose an unused one, "
                f"{_unused(old)}"
            )
        placed[number] = token
    for number in range(max([len(old), *(number + 1 for number in placed)])):
        yield placed.get(number) or (old.pieces[number] if number < len(old) else UNUSED)
    known = {*old.ids, *placed.values()}
    yield from (token for token in dict.fromkeys((*requested, *pieces)) if token not in known)


def _unused(old: Vocabulary) -> str:
    """Describe the unused ids.

    >>> _unused(Vocabulary((), ("a",), special=SpecialTokens(None, None, None, None), order=("", "a")))
    'such as 0, or one from 2 up'
    """
    hole = next((number for number, piece in enumerate(old.pieces) if piece == UNUSED), None)
    return f"from {len(old)} up" if hole is None else f"such as {hole}, or one from {len(old)} up"


NAMES_NONE = (
    "The file names no special tokens: text that spells one is text. To have those that its publisher names, "
    "import it with them and their ids as special or eos."
)
END = "<|endoftext|>"
FINDS_END = f"transformers finds {END!r} in text, as GPT-2's; import it with this special token for that."
FINDS_OTHERS = (
    "No file beside the merges names special tokens, and transformers finds those of the tokenizer's class in text; "
    "import it with them as special for that."
)
_LONE_END = "The token '</w>', id {}, is VOLT's: it ends words behind bytes or user tokens."


def named(vocabulary: Vocabulary, *, special: Iterable[str] | Ids = (), **roles: str | Ids | None) -> Vocabulary:
    """Add special tokens to a vocabulary that was read from a file which does not name them.

    special, roles: as in `with_special`, roles being unk, bos, eos and pad

    The provenance lists the new user tokens as "named"; notes that no longer hold are removed.
    """
    result = with_special(vocabulary, special, **roles)
    if result is vocabulary:
        return vocabulary
    new = [token for token in result.special.user if token not in vocabulary.special.user]
    lost = [*_left(vocabulary, result)]
    if SUFFIX in result.ids and SUFFIX not in vocabulary.ids:
        lost += lone_end_notes(result)
    return replace(result, provenance={**vocabulary.provenance, "lost": lost, "named": new})


def _left(old: Vocabulary, new: Vocabulary) -> Iterator[str]:
    """Yield the notes on a vocabulary that also hold for the new one."""
    changed = {NAMES_NONE: "", FINDS_OTHERS: "", FINDS_END: "" if END in new.special.user else FINDS_END}
    changed |= dict.fromkeys(control_notes(old), "".join(control_notes(new)))
    for loss in old.provenance.get("lost", ()):
        if now := changed.get(loss, loss):
            yield now


def control_notes(vocabulary: Vocabulary) -> list[str]:
    """Return the note on tokens that no merge makes."""
    control = [token for token, kind in zip(vocabulary.pieces, vocabulary.kinds, strict=True) if kind == "control"]
    number = counted(len(control), "token")
    return [f"{number} that nothing makes: kept as control tokens, such as {name!r}." for name in control[:1]]


def lone_end_notes(vocabulary: Vocabulary) -> list[str]:
    """Return the note on a lone "</w>" that the file does not hold."""
    return [_LONE_END.format(vocabulary.ids[SUFFIX])]


def named_tokens(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the tokens found in text that the file of a vocabulary does not name."""
    inputs = vocabulary.provenance.get("named")
    return tuple(token for token in vocabulary.special.user if isinstance(inputs, list | tuple) and token in inputs)
