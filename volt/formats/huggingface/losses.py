"""What a vocabulary that was read from a tokenizer.json does not carry, or does differently, a sentence each.

>>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"))
>>> data = {"truncation": {"max_length": 5}, "model": {"vocab": vocabulary.ids, "unk_token": "<unk>"}}
>>> list(losses(data, vocabulary, is_own=True))
['Truncation is not carried: lines are encoded whole.']
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from operator import itemgetter

from volt.display import counted
from volt.formats.huggingface.foreign import flat
from volt.formats.huggingface.pipeline import Json
from volt.formats.named import control_notes, lone_end_notes
from volt.text.byte_alphabet import ALPHABET
from volt.text.markers import PREFIX, SUFFIX
from volt.vocabulary import Vocabulary

_FLAGS = {  # of one token, and of several
    "lstrip": ("takes the white space in front with it", "take the white space in front with them"),
    "rstrip": ("takes the white space behind with it", "take the white space behind with them"),
    "single_word": ("is found as a whole word only", "are found as whole words only"),
}
_N_NAMED = 5  # tokens in one note


def losses(data: Json, vocabulary: Vocabulary, *, is_own: bool) -> Iterator[str]:
    """A sentence for everything that differs. is_own: whether text is cut by sections that VOLT has written."""
    model = data["model"]
    yield from _id_losses(model["vocab"], vocabulary)
    yield from _renumbered(data, model["vocab"])
    yield from _model_losses(model, vocabulary)
    yield from _surrounding_losses(data)
    if not is_own:
        yield from _cut_losses(data, vocabulary)
        yield from added_losses(data.get("added_tokens") or [], vocabulary, data)


def _id_losses(vocab: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """Which tokens are left out, and which are there for VOLT's sake."""
    yield from control_notes(vocabulary)
    kept = {*vocabulary.ids, *vocabulary.scaffolding}
    if lost := [token for token in vocab if token not in kept]:
        yield f"{counted(len(lost), 'token')} that nothing makes: left out, such as {lost[0]!r}, their ids not used."
    if vocabulary.marker == "suffix" and SUFFIX in vocabulary.ids and SUFFIX not in vocab:
        yield from lone_end_notes(vocabulary)


def _renumbered(data: Json, vocab: Json) -> Iterator[str]:
    """Name an added token that is not in model.vocab if the library gives it another id: it takes the next free one."""
    ids = dict[str, int]()
    for row in filter(itemgetter("content"), data.get("added_tokens") or []):
        token, number = row["content"], max([len(vocab), *(given + 1 for given in ids.values())])
        ids.setdefault(token, vocab.get(token, number))
        if ids[token] != row["id"]:
            yield f"The added token {token}, which model.vocab lacks, has the id {ids[token]} there, {row['id']} here."
            return


def _model_losses(model: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """What the model does to words that VOLT does not."""
    letters = {letter + end for letter in ALPHABET for end in {"", SUFFIX * (vocabulary.marker == "suffix")}}
    knows_all = vocabulary.byte_fallback or (vocabulary.pretokenizer.is_bytes and letters <= set(vocabulary.ids))
    if model.get("dropout"):
        yield f"The dropout of the file, {model['dropout']}, is not carried: give it when you encode."
    if model.get("fuse_unk") and model.get("unk_token") and not knows_all:
        yield f"A run of unknown characters is one {vocabulary.special.unk} there, and one for each character here."
    if not knows_all:
        yield from _unknown_losses(model, vocabulary)


def _unknown_losses(model: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """What becomes of unknown characters. unk_token counts in the library alone, not the role that files name."""
    unk, ours = model.get("unk_token"), vocabulary.special.unk
    here = f"are {ours} each here" if ours else "leave nothing here"
    if unk is None and ours is None:
        yield "Unknown characters leave nothing, but what stands on both sides of one may join there, and not here."
    elif unk is None:
        yield f"Unknown characters leave nothing there, as the model names no unk_token, and {here}."
    elif unk not in model["vocab"]:
        yield f"Text with unknown characters is refused there, as model.vocab lacks the unk_token {unk!r}; they {here}."
    elif unk != ours:
        yield f"Unknown characters become the token {unk!r} there, which is no special one, and {here}."


def _surrounding_losses(data: Json) -> Iterator[str]:
    """What is done to lines of ids when they are complete."""
    if data.get("truncation"):
        yield "Truncation is not carried: lines are encoded whole."
    if data.get("padding"):
        yield "Padding is not carried: lines have the length that they have."
    post = data.get("post_processor")
    if isinstance(post, dict) and post.get("type") == "TemplateProcessing" and _n_lines(post.get("single")) != 1:
        yield f"The template of the post-processor gives a line {_n_lines(post.get('single'))} times there, once here."
    if isinstance(post, dict) and post.get("type") != "ByteLevel":
        yield f"What the post-processor ({post.get('type')}) adds to a line is not added here."


def _n_lines(template: object) -> int:
    """How often a template of a post-processor gives a line.

    >>> _n_lines([{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}])
    1
    """
    return sum("Sequence" in part for part in template) if isinstance(template, list) else 1


def _cut_losses(data: Json, vocabulary: Vocabulary) -> Iterator[str]:
    """How a foreign pipeline treats rare text."""
    section = json.dumps(data.get("pre_tokenizer"))
    cut, steps = vocabulary.pretokenizer, section + json.dumps(data.get("normalizer"))
    if cut.keeps_spaces and not cut.is_bytes and json.dumps(PREFIX)[1:-1] not in steps:
        yield f"{PREFIX!r} in text is a space here, and a character of its own there."
    if '"Digits"' in section:
        yield "Numbers newer than Unicode 16 may be numbers there, and are not here."
    if vocabulary.normalizer.lowercase:
        yield "'Σ' at the end of a word is lowered to 'ς' here, and to 'σ' there."
    if vocabulary.normalizer.form != "none" and _lowers_last(data):
        yield "A mark that goes into one character with the small letter alone, as U+030A behind W, stays apart there."
    if vocabulary.normalizer.form != "none":
        yield "Characters newer than the Unicode version of tokenizers stay as they are there, and are normalised here."


def _lowers_last(data: Json) -> bool:
    """Whether nothing composes letters and marks behind a step that lowers letters.

    >>> _lowers_last({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}})
    True
    """
    kinds = [step.get("type") for step in flat(data.get("normalizer"), "normalizers")]
    return "Lowercase" in kinds and not {"NFC", "NFKC"} & {*kinds[kinds.index("Lowercase") :]}


def added_losses(rows: Sequence[Json], vocabulary: Vocabulary, data: Json) -> Iterator[str]:
    """How the library finds added tokens in text, where VOLT finds user tokens.

    rows: the added tokens with their flags, in the order in which the library adds them
    data: the tokenizer.json that they are from, or an empty object
    """
    users = [row for row in rows if row["content"] in vocabulary.special.user]
    for flag, verbs in _FLAGS.items():
        if found := [row["content"] for row in users if row.get(flag)]:
            yield f"{_subject(found)} {verbs[len(found) > 1]} there ({flag}), and not here."
    rewrites = vocabulary.normalizer.name != "none"
    names = [row["content"] for row in users if row.get("normalized")]
    if found := [name for name in names if rewrites or _is_rewritten(name, data)]:
        yield f"{_subject(found)} {'are' if len(found) > 1 else 'is'} found in normalised text there, in raw text here."
    if pair := _first_found([row for row in users if not rewrites]):
        yield f"The added token {pair[0]} is looked for before {pair[1]} there, and the longer of the two here."
    if both := [row["content"] for row in users if _is_made(row["content"], data, vocabulary)]:
        yield f"{_subject(both)} {'are' if len(both) > 1 else 'is'} made of other text as well there, and not here."
    if users:
        yield from _user_losses(vocabulary)


def _is_made(token: str, data: Json, vocabulary: Vocabulary) -> bool:
    """Whether the model, too, makes an added token, of text that may spell it otherwise: by spaces, bytes or marks."""
    model = data.get("model", {})
    rows = (row.split(" ") if isinstance(row, str) else row for row in model.get("merges", ()))
    plain = vocabulary.marker == "none" and vocabulary.normalizer.name == "none" and PREFIX not in token
    if token not in model.get("vocab", ()) or (
        plain and not (vocabulary.pretokenizer.is_bytes and not token.isascii())
    ):
        return False
    return len(token) == 1 or token in map("".join, rows)


def _subject(tokens: Sequence[str]) -> str:
    """Added tokens as the subject of a sentence.

    >>> _subject(["<a>"]), _subject(list("abcdefg"))
    ('The added token <a>', 'The added tokens a, b, c, d, e and 2 others')
    """
    return f"The added token{'s' * (len(tokens) > 1)} {_names(tokens)}"


def _names(tokens: Sequence[str]) -> str:
    shown, others = tokens[:_N_NAMED], tokens[_N_NAMED:]
    return ", ".join(shown) + (f" and {counted(len(others), 'other')}" if others else "")


def _first_found(rows: Sequence[Json]) -> tuple[str, str] | None:
    """An added token that is looked for in raw text, and one in normalised text that it may break.

    >>> _first_found([{"content": "<", "normalized": False}, {"content": "<e>", "normalized": True}])
    ('<', '<e>')
    """
    raw, later = ([row["content"] for row in rows if bool(row.get("normalized")) == side] for side in (False, True))
    return next(((one, other) for one, other in product(raw, later) if _overlap(one, other)), None)


def _overlap(one: str, other: str) -> bool:
    """Whether two strings may share characters of a text."""
    sizes = range(1, min(len(one), len(other)) + 1)
    ends = (one[-n:] == other[:n] or other[-n:] == one[:n] for n in sizes)
    return one in other or other in one or any(ends)


def _is_rewritten(token: str, data: Json) -> bool:
    """Whether a normalizer of spaces writes something in front of a token, too, or what it is found by.

    >>> _is_rewritten("lo", {"normalizer": {"type": "Prepend"}})
    True
    """
    section = json.dumps(data.get("normalizer"))
    return '"Prepend"' in section or (PREFIX in token and '"Replace"' in section)


def _user_losses(vocabulary: Vocabulary) -> Iterator[str]:
    """What stands beside user tokens."""
    names = _names(vocabulary.special.user)
    if vocabulary.marker == "suffix" and SUFFIX in vocabulary.ids:
        yield (
            f"User tokens ({names}) cut words there: what stands before one ends in '</w>', and no lone "
            "'</w>' follows one."
        )
    if vocabulary.pretokenizer.dummy_prefix:
        yield (
            f"What follows a user token ({names}) may start with a '▁' there, and a line that starts with one does "
            "here."
        )
    if vocabulary.pretokenizer.name.startswith("regex:"):
        yield f"Text is cut at user tokens ({names}) before words are cut there, and after that here."


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
    if len(set(map("".join, merges))) == len(merges):  # in less time than to look at each
        return
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
