"""What a vocabulary that was read from a tokenizer.json does not carry, or does differently, a sentence each.

>>> from volt.vocabulary import Vocabulary
>>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"))
>>> data = {"truncation": {"max_length": 5}, "model": {"vocab": vocabulary.ids, "unk_token": "<unk>"}}
>>> list(losses(data, vocabulary, is_own=True))
['Truncation is not carried: lines are encoded whole.']
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from volt.formats.huggingface.pipeline import Json
from volt.vocabulary import Vocabulary

_FLAGS = {
    "lstrip": "takes the white space in front with it",
    "rstrip": "takes the white space behind with it",
    "single_word": "is found as a whole word only",
}


def losses(data: Json, vocabulary: Vocabulary, *, is_own: bool) -> Iterator[str]:
    """A sentence for everything that differs. is_own: whether text is cut by sections that VOLT has written."""
    model = data["model"]
    yield from _id_losses(model["vocab"], vocabulary)
    yield from _model_losses(model, vocabulary)
    yield from _surrounding_losses(data)
    yield from _role_losses(data, vocabulary)
    if not is_own:
        yield from _cut_losses(vocabulary)
        yield from _added_losses(data, vocabulary)


def _id_losses(vocab: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """How ids change, and which tokens are left out."""
    if any(vocabulary.ids.get(token) != number for token, number in vocab.items()):
        yield "Ids differ from the file's: VOLT numbers unk, bos, eos, pad, user tokens, bytes, then the others."
    if others := [token for token in vocab if token not in vocabulary.ids]:
        yield f"{len(others):,} tokens that nothing makes are left out, such as {others[0]!r}."


def _model_losses(model: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """What the model does to words that VOLT does not."""
    knows_all = vocabulary.byte_fallback or vocabulary.pretokenizer.is_bytes
    if model.get("dropout"):
        yield f"The dropout of the file, {model['dropout']}, is not carried: give it when you encode."
    if model.get("fuse_unk") and not knows_all:
        yield f"A run of unknown characters is one {vocabulary.special.unk} there, and one for each character here."
    if model.get("unk_token") is None and not knows_all:
        yield f"Unknown characters are left out there, and become {vocabulary.special.unk} here."
    for left, right in remade(vocabulary.merges):
        yield remade_note(left, right)
        break


def _surrounding_losses(data: Json) -> Iterator[str]:
    """What is done to lines of ids when they are complete."""
    if data.get("truncation"):
        yield "Truncation is not carried: lines are encoded whole."
    if data.get("padding"):
        yield "Padding is not carried: lines have the length that they have."
    post = data.get("post_processor")
    if isinstance(post, dict) and post.get("type") != "ByteLevel":
        yield f"What the post-processor ({post.get('type')}) adds to a line is not added here."


def _cut_losses(vocabulary: Vocabulary) -> Iterator[str]:
    """How a foreign pipeline treats rare text."""
    if vocabulary.pretokenizer.name == "whitespace":
        yield "U+001C to U+001F are white space here, and part of words there."
    if vocabulary.pretokenizer.dummy_prefix:
        yield "A line that starts with a space or '▁' gets one more '▁' in front here."
    if vocabulary.normalizer.lowercase:
        yield "'Σ' at the end of a word is lowered to 'ς' here, and to 'σ' there."


def _role_losses(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """Tokens with a role that the library finds in text."""
    rows = data.get("added_tokens") or []
    if roles := [row["content"] for row in rows if row["content"] in vocabulary.special.all[:4]]:
        yield f"{', '.join(roles)} spelled out in text become these tokens there, and are plain text here."


def _added_losses(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """How the library finds added tokens in text, where VOLT finds user tokens."""
    users = [row for row in data.get("added_tokens") or [] if row["content"] in vocabulary.special.user]
    for flag, told in _FLAGS.items():
        if found := next((row["content"] for row in users if row.get(flag)), None):
            yield f"The added token {found} {told} there ({flag}), and does not here."
    normalized = next((row["content"] for row in users if row.get("normalized")), None)
    if normalized and vocabulary.normalizer.name != "none":
        yield f"The added token {normalized} is found in normalised text there, and in raw text here."
    if users:
        yield from _user_losses(vocabulary)


def _user_losses(vocabulary: Vocabulary) -> Iterator[str]:
    """What stands beside user tokens, and what no text may forge."""
    yield "U+10F000 to U+10FFFD in text become U+FFFD here, where there are user tokens."
    example = vocabulary.special.user[0]
    if vocabulary.marker == "suffix":
        yield (
            f"User tokens, such as {example}, cut words there: what stands before one ends in '</w>', and no lone "
            "'</w>' follows one."
        )
    if vocabulary.pretokenizer.dummy_prefix:
        yield (
            f"What follows a user token, such as {example}, may start with a '▁' there, and a line that starts with "
            "one does here."
        )
    if vocabulary.pretokenizer.name.startswith("regex:"):
        yield f"Text is cut at user tokens, such as {example}, before words are cut there, and after that here."


def remade_note(left: str, right: str) -> str:
    """What to say of a merge of `remade`.

    >>> remade_note("a", "b")[:38]
    "Where 'a', 'b' occur twice in a row th"
    """
    return (
        f"Where {left!r}, {right!r} occur twice in a row the cut may differ: VOLT merges both before it looks for "
        "merges of a lower rank, tokenizers does not."
    )


def remade(merges: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Merges whose token an earlier merge makes too, and may by a lower rank take from the next occurrence.

    >>> list(remade([("l", "o"), ("lo", "l")]))
    []
    """
    made, uses = set[str](), defaultdict[str, list[tuple[str, str]]](list)
    for left, right in merges:
        reached, waiting = {left + right}, [left + right] * (left + right in made)
        while waiting:
            part = waiting.pop()
            if (part, left) in uses[part]:
                yield left, right
                break
            new = {"".join(pair) for pair in uses[part]} - reached
            reached |= new
            waiting += new
        made.add(left + right)
        for part in {left, right}:
            uses[part].append((left, right))
