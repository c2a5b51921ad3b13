"""Add to a vocabulary the special tokens that its file does not name, although its publisher does.

tiktoken's files, for example, contain no special tokens: "<|endoftext|>" and its id, 100257 in
cl100k, are only in the publisher's documentation. The caller passes such tokens in one of two ways:

    special     user tokens, which are found in text and never split
    unk … pad   tokens with a role, which are not found in text

All pieces of the vocabulary keep their ids. A new token gets the requested id, which must be
unused, or the next one after all others. In the example, id 3 stays unused:

>>> none = SpecialTokens(None, None, None, None)
>>> vocabulary = Vocabulary((("l", "o"),), ("l", "o", "lo"), marker="none", special=none)
>>> result = with_special(vocabulary, {"<end>": 4}, eos="<end>")
>>> result.pieces, result.kinds[4], result.special.eos
(('l', 'o', 'lo', '', '<end>'), 'user', '<end>')

The notes of a vocabulary (`Vocabulary.notes`) on its special tokens are defined here, because
`add_unnamed` removes those that its tokens make obsolete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeAlias

from volt import arguments
from volt.display import counted
from volt.errors import ConfigError, quoted
from volt.text.atoms import SUFFIX
from volt.text.special_tokens import ROLES, Role, SpecialTokens
from volt.vocabulary.validation import MOST_IDS, UNUSED
from volt.vocabulary.vocabulary import Vocabulary

# token → the requested id; None requests no particular id
Ids: TypeAlias = Mapping[str, int | None]

_SPECIAL_REMEDY = "give a list of tokens, or a dict of tokens with their ids"
_ROLE_REMEDY = "give a token, or a dict of one token with its id"
END = "<|endoftext|>"
NAMES_NONE = (
    "The file names no special tokens, so text that spells one stays text. If its publisher names some, "
    "import the file with these tokens and their ids as special or eos."
)
FINDS_END = f"transformers finds GPT-2's {END!r} in text; to do the same, import the file with it as special."
FINDS_OTHERS = (
    "No file next to the merges names special tokens, but transformers finds those of the tokenizer's class in text; "
    "to do the same, import the file with them as special."
)


def with_special(
    vocabulary: Vocabulary,
    special: Iterable[str] | Ids = (),
    *,
    unk: str | Ids | None = None,
    bos: str | Ids | None = None,
    eos: str | Ids | None = None,
    pad: str | Ids | None = None,
) -> Vocabulary:
    """Add special tokens to a vocabulary, or make tokens that it has already special.

    special: user tokens, which are found in text and never split: a list, or a dict of tokens with
        ids or None
    unk, bos, eos, pad: the token with this role, which is not found in text; or a dict of the token
        and its id

    A token that loses its role to another one becomes a control token. Raises ConfigError if a
    requested id belongs to another token, or if a token has another id already.
    """
    if not isinstance(special, Mapping):
        one = "did you mean special=[token]?"
        tokens = arguments.texts(special, "special", one=one, remedy=_SPECIAL_REMEDY)
        special = dict.fromkeys(tokens)
    user_ids = _check_ids(special, "special")
    inputs = {"unk": unk, "bos": bos, "eos": eos, "pad": pad}
    role_ids = {role: _read_role(inputs[role], role) for role in ROLES if inputs[role] is not None}
    requested = _merge_requests([user_ids, *role_ids.values()])
    if not requested:
        return vocabulary

    tokens = []
    counts = []
    for token, count in zip_longest(vocabulary.tokens, vocabulary.counts):
        if token not in requested:
            tokens.append(token)
            if count is not None:
                counts.append(count)
    token_of_role = {role: next(iter(ids)) for role, ids in role_ids.items()}
    unordered = replace(
        vocabulary,
        special=_extend_special(vocabulary.special, user_ids, token_of_role),
        tokens=tuple(tokens),
        counts=tuple(counts),
        order=(),
    )
    return replace(unordered, order=tuple(_assign_ids(vocabulary, requested, unordered.pieces)))


def _read_role(value: object, role: Role) -> Ids:
    """Return the argument `unk`, `bos`, `eos` or `pad` of `with_special` as {token: requested id}."""
    if not isinstance(value, Mapping):
        return {arguments.text(value, role, remedy=_ROLE_REMEDY): None}
    if len(value) != 1:
        raise ConfigError(f"{role} names {len(value)} tokens; {_ROLE_REMEDY}")
    return _check_ids(value, role)


def _check_ids(ids: Mapping[Any, Any], argument: str) -> Ids:
    result = {}
    for token, number in ids.items():
        arguments.text(token, f"a token of {argument}")
        if number is not None:
            name = f"the id of {quoted(token)}"
            number = arguments.whole(number, name, low=0, high=MOST_IDS - 1)
        result[token] = number
    return result


def _merge_requests(requests: Iterable[Ids]) -> dict[str, int | None]:
    """Return several dicts of token → requested id as one.

    Raises ConfigError if two dicts request different ids for a token.
    """
    result = dict[str, int | None]()
    for request in requests:
        for token, number in request.items():
            known = result.setdefault(token, number)
            if known is None:
                result[token] = number
            elif number not in (None, known):
                raise ConfigError(
                    f"{quoted(token)} is given the ids {known} and {number}; remove one"
                )
    return result


def _extend_special(
    old: SpecialTokens, users: Iterable[str], token_of_role: Mapping[Role, str]
) -> SpecialTokens:
    """Return the special tokens of a vocabulary with further user tokens, and with new tokens for
    some roles.
    """
    roles = {role: token_of_role.get(role, getattr(old, role)) for role in ROLES}
    user = tuple(dict.fromkeys([*old.user, *users]))
    elsewhere = {*user, *roles.values()}
    candidates = dict.fromkeys([*old.control, *old.roles.values()])
    control = tuple(token for token in candidates if token not in elsewhere)
    result = replace(old, **roles, user=user, control=control, skips=None)
    if old.skips is None:
        return result
    changed = token_of_role.values()
    new = [token for token in result.skipped if token not in old.all or token in changed]
    return replace(result, skips=tuple(dict.fromkeys([*old.skips, *new])))


def _assign_ids(
    old: Vocabulary, requested: Mapping[str, int | None], pieces: Iterable[str]
) -> Iterator[str]:
    """Yield the piece of each id: pieces of `old` at their ids, new ones at their requested ids,
    all others last.

    pieces: all pieces of the result
    """
    token_of_id = dict[int, str]()
    for token, number in requested.items():
        if number is None or number == old.ids.get(token):
            continue
        if token in old.ids:
            raise ConfigError(
                f"{quoted(token)} has the id {old.ids[token]} already; remove the id {number}"
            )
        owner = token_of_id.get(number) or _piece_at(old, number)
        if owner:
            unused = f"from {len(old)} up"
            if UNUSED in old.pieces:
                unused = f"such as {old.pieces.index(UNUSED)}, or one {unused}"
            raise ConfigError(
                f"the id {number} of {quoted(token)} belongs to {quoted(owner)}; "
                f"choose an unused one, {unused}"
            )
        token_of_id[number] = token

    for number in range(max([len(old), *(number + 1 for number in token_of_id)])):
        yield token_of_id.get(number) or _piece_at(old, number)
    known = {*old.ids, *token_of_id.values()}
    yield from (token for token in dict.fromkeys((*requested, *pieces)) if token not in known)


def _piece_at(vocabulary: Vocabulary, number: int) -> str:
    if number < len(vocabulary):
        return vocabulary.pieces[number]
    return UNUSED


def add_unnamed(
    vocabulary: Vocabulary, *, special: Iterable[str] | Ids = (), **roles: str | Ids | None
) -> Vocabulary:
    """Add special tokens, as `with_special` does, to a vocabulary that was read from another
    library's file.

    The provenance of the result lists the new user tokens as "named". Notes that no longer hold are
    removed.
    """
    result = with_special(vocabulary, special, **roles)
    if result is vocabulary:
        return vocabulary
    new_note = {NAMES_NONE: "", FINDS_OTHERS: ""}  # note → its replacement; "" removes the note
    if END in result.special.user:
        new_note[FINDS_END] = ""
    new_note |= dict.fromkeys(note_control_tokens(vocabulary), "".join(note_control_tokens(result)))
    notes = [new_note.get(note, note) for note in vocabulary.notes]
    if SUFFIX in result.ids and SUFFIX not in vocabulary.ids:
        notes.append(note_lone_end(result))
    new_users = [token for token in result.special.user if token not in vocabulary.special.user]
    changes = {"lost": list(filter(None, notes)), "named": new_users}
    return replace(result, provenance={**vocabulary.provenance, **changes})


def unnamed_tokens(vocabulary: Vocabulary) -> tuple[str, ...]:
    """Return the user tokens that `add_unnamed` added, which the file of the vocabulary does not
    name.
    """
    added = vocabulary.provenance.get("named")
    if not isinstance(added, list | tuple):
        return ()
    return tuple(token for token in vocabulary.special.user if token in added)


def note_control_tokens(vocabulary: Vocabulary) -> list[str]:
    """Return a list with the note on control tokens; an empty list if the vocabulary has none."""
    n_control = vocabulary.kinds.count("control")
    if not n_control:
        return []
    first = vocabulary.pieces[vocabulary.kinds.index("control")]
    n_tokens = counted(n_control, "token")
    return [f"{n_tokens} that no merge makes: kept as control tokens, such as {first!r}."]


def note_lone_end(vocabulary: Vocabulary) -> str:
    """Return the note that VOLT added the token "</w>" to a vocabulary whose file lacks it."""
    return f"VOLT adds the token '</w>', id {vocabulary.ids[SUFFIX]}: it ends words after bytes or user tokens."
