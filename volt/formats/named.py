"""What is said of special tokens that a file does not name, and what is left of it once they are named beside it.

>>> named_tokens(named(Vocabulary((), ("a", "<b>"), whole_words=True), special=["<b>"]))
('<b>',)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from volt.display import counted
from volt.text.markers import SUFFIX
from volt.vocabulary import Vocabulary
from volt.vocabulary.naming import Ids, with_special

NAMES_NONE = (
    "The file names no special tokens: text that spells one is text. To have those that its publisher names, read it "
    "with special={TOKEN: ID} or eos={TOKEN: ID}."
)
END = "<|endoftext|>"
FINDS_END = f"transformers finds {END!r} in text, as GPT-2's; read it with special=[{END!r}] for that."
FINDS_OTHERS = (
    "No file beside the merges names special tokens, and transformers finds those of the tokenizer's class in text; "
    "read it with special=[TOKEN, …] for that."
)
_LONE_END = "The token '</w>', id {}, is VOLT's: it ends words behind bytes or user tokens."


def named(vocabulary: Vocabulary, *, special: Iterable[str] | Ids = (), **roles: str | Ids | None) -> Vocabulary:
    """A vocabulary as it was read, with special tokens that its file does not name.

    roles: unk, bos, eos and pad, see `volt.vocabulary.naming.with_special`, which raises

    Its provenance has the user tokens among them, "named", and no sentence that they make false.
    """
    found = with_special(vocabulary, special, **roles)
    if found is vocabulary:
        return vocabulary
    new = [token for token in found.special.user if token not in vocabulary.special.user]
    lost = [*_left(vocabulary, found)]
    if SUFFIX in found.ids and SUFFIX not in vocabulary.ids:
        lost += lone_end_notes(found)
    return replace(found, provenance={**vocabulary.provenance, "lost": lost, "named": new})


def _left(old: Vocabulary, new: Vocabulary) -> Iterator[str]:
    """What was said of a vocabulary and holds of the new one as well."""
    changed = {NAMES_NONE: "", FINDS_OTHERS: "", FINDS_END: "" if END in new.special.user else FINDS_END}
    changed |= dict.fromkeys(control_notes(old), "".join(control_notes(new)))
    for loss in old.provenance.get("lost", ()):
        if now := changed.get(loss, loss):
            yield now


def control_notes(vocabulary: Vocabulary) -> list[str]:
    """What to say of tokens that nothing makes."""
    control = [token for token, kind in zip(vocabulary.pieces, vocabulary.kinds, strict=True) if kind == "control"]
    number = counted(len(control), "token")
    return [f"{number} that nothing makes: kept as control tokens, such as {name!r}." for name in control[:1]]


def lone_end_notes(vocabulary: Vocabulary) -> list[str]:
    """What to say of a lone "</w>" that the file does not hold."""
    return [_LONE_END.format(vocabulary.ids[SUFFIX])]


def named_tokens(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The tokens found in text that the file of a vocabulary does not name."""
    given = vocabulary.provenance.get("named")
    return tuple(token for token in vocabulary.special.user if isinstance(given, list | tuple) and token in given)
