"""Add to a vocabulary the special tokens that its file does not name, although its publisher does.

>>> none = SpecialTokens(None, None, None, None)
>>> result = with_special(Vocabulary((("l", "o"),), ("l", "o", "lo"), special=none), {"<end>": 4}, eos="<end>")
>>> result.pieces, result.kinds[4], result.special.eos
(('l', 'o', 'lo', '', '<end>', '</w>'), 'user', '<end>')
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, TypeAlias

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, quoted
from volt.text.atoms import SUFFIX
from volt.text.special_tokens import ROLES, Role, SpecialTokens
from volt.vocabulary.validation import MOST_IDS, UNUSED
from volt.vocabulary.vocabulary import Vocabulary

# token → its id; None for the id that it has, or else a free one
Ids: TypeAlias = Mapping[str, int | None]
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
    """Add special tokens to a vocabulary. Known tokens keep their ids; new ones get the requested or the next id.

    special: tokens that are found in text and never split: a list, or a dict of tokens with ids or None
    unk, bos, eos, pad: the token with this role, which is not looked for in text; or a dict of the token and its id

    A token that loses its role becomes a control token. Raises ConfigError if an id belongs to another token.
    """
    if not isinstance(special, Mapping):
        one = "did you mean special=[token]?"
        special = dict.fromkeys(arguments.texts(special, "special", one=one, remedy=_SPECIAL))
    users = _checked(special, "special")
    inputs = {"unk": unk, "bos": bos, "eos": eos, "pad": pad}
    roles = {role: _role_ids(inputs[role], role) for role in ROLES if inputs[role] is not None}
    requested = _agreed([users, *roles.values()])
    if not requested:
        return vocabulary

    tokens = []
    counts = []
    for token, count in zip_longest(vocabulary.tokens, vocabulary.counts):
        if token not in requested:
            tokens.append(token)
            if count is not None:
                counts.append(count)
    role_tokens = {role: next(iter(ids)) for role, ids in roles.items()}
    bare = replace(
        vocabulary,
        special=_special(vocabulary.special, users, role_tokens),
        tokens=tuple(tokens),
        counts=tuple(counts),
        order=(),
    )
    return replace(bare, order=tuple(_numbered(vocabulary, requested, bare.pieces)))


def _role_ids(named: object, role: Role) -> Ids:
    if not isinstance(named, Mapping):
        return {arguments.text(named, role, remedy=_ROLE): None}
    if len(named) != 1:
        raise ConfigError(f"{role} names {len(named)} tokens; {_ROLE}")
    return _checked(named, role)


def _checked(ids: Mapping[Any, Any], name: str) -> Ids:
    result = {}
    for token, number in ids.items():
        arguments.text(token, f"a token of {name}")
        if number is not None:
            place = f"the id of {quoted(token)}"
            number = arguments.whole(number, place, low=0, high=MOST_IDS - 1)
        result[token] = number
    return result


def _agreed(parts: Iterable[Ids]) -> dict[str, int | None]:
    result = dict[str, int | None]()
    for token, number in chain.from_iterable(part.items() for part in parts):
        known = result.setdefault(token, number)
        if None not in (known, number) and known != number:
            raise ConfigError(f"{quoted(token)} is given the ids {known} and {number}; remove one")
        if known is None:
            result[token] = number
    return result


def _special(old: SpecialTokens, users: Iterable[str], roles: Mapping[Role, str]) -> SpecialTokens:
    named = {role: roles.get(role, getattr(old, role)) for role in ROLES}
    user = tuple(dict.fromkeys([*old.user, *users]))
    others = dict.fromkeys([*old.control, *old.roles.values()])
    taken = {*user, *named.values()}
    control = tuple(token for token in others if token not in taken)
    result = replace(old, **named, user=user, control=control, skips=None)
    if old.skips is None:
        return result
    new = [token for token in result.skipped if token not in old.all or token in roles.values()]
    return replace(result, skips=tuple(dict.fromkeys([*old.skips, *new])))


def _numbered(
    old: Vocabulary, requested: Mapping[str, int | None], pieces: Iterable[str]
) -> Iterator[str]:
    """Yield the pieces by id: old ones at their ids, new ones at their requested ids, all others at the end."""
    placed = dict[int, str]()
    for token, number in requested.items():
        if number is None or number == old.ids.get(token):
            continue
        if token in old.ids:
            raise ConfigError(
                f"{quoted(token)} has the id {old.ids[token]} already; remove the id {number}"
            )
        owner = placed.get(number) or _piece_at(old, number)
        if owner:
            fault = f"the id {number} of {quoted(token)} belongs to {quoted(owner)}"
            unused = f"from {len(old)} up"
            if UNUSED in old.pieces:
                unused = f"such as {old.pieces.index(UNUSED)}, or one {unused}"
            raise ConfigError(f"{fault}; choose an unused one, {unused}")
        placed[number] = token

    for number in range(max([len(old), *(number + 1 for number in placed)])):
        yield placed.get(number) or _piece_at(old, number)
    known = {*old.ids, *placed.values()}
    yield from (token for token in dict.fromkeys((*requested, *pieces)) if token not in known)


def _piece_at(vocabulary: Vocabulary, number: int) -> str:
    if number < len(vocabulary):
        return vocabulary.pieces[number]
    return UNUSED


NAMES_NONE = (
    "The file names no special tokens, so text that spells one stays text. If its publisher names some, "
    "import the file with these tokens and their ids as special or eos."
)
END = "<|endoftext|>"
FINDS_END = f"transformers finds GPT-2's {END!r} in text; to do the same, import the file with it as special."
FINDS_OTHERS = (
    "No file next to the merges names special tokens, but transformers finds those of the tokenizer's class in text; "
    "to do the same, import the file with them as special."
)


def named(
    vocabulary: Vocabulary, *, special: Iterable[str] | Ids = (), **roles: str | Ids | None
) -> Vocabulary:
    """Add special tokens, as `with_special` does, to a vocabulary whose file does not name them.

    The provenance lists the new user tokens as "named"; notes that no longer hold are removed.
    """
    result = with_special(vocabulary, special, **roles)
    if result is vocabulary:
        return vocabulary
    # note → the note that replaces it; "" to remove it
    changed = {NAMES_NONE: "", FINDS_OTHERS: ""}
    if END in result.special.user:
        changed[FINDS_END] = ""
    changed |= dict.fromkeys(control_notes(vocabulary), "".join(control_notes(result)))
    notes = [changed.get(note, note) for note in vocabulary.notes]
    if SUFFIX in result.ids and SUFFIX not in vocabulary.ids:
        notes.append(lone_end_note(result))
    lost = [note for note in notes if note]
    new = [token for token in result.special.user if token not in vocabulary.special.user]
    return replace(result, provenance={**vocabulary.provenance, "lost": lost, "named": new})


def control_notes(vocabulary: Vocabulary) -> list[str]:
    """Return a list with the note on control tokens; empty if there are none."""
    n_control = vocabulary.kinds.count("control")
    if not n_control:
        return []
    first = vocabulary.pieces[vocabulary.kinds.index("control")]
    number = counted(n_control, "token")
    return [f"{number} that no merge makes: kept as control tokens, such as {first!r}."]


def lone_end_note(vocabulary: Vocabulary) -> str:
    """Return the note on a lone "</w>" that the file does not contain."""
    return f"VOLT adds the token '</w>', id {vocabulary.ids[SUFFIX]}: it ends words after bytes or user tokens."


def named_tokens(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the user tokens that were added on import because the vocabulary's file does not name them."""
    named = vocabulary.provenance.get("named")
    if not isinstance(named, list | tuple):
        return ()
    return tuple(token for token in vocabulary.special.user if token in named)
