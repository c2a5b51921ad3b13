"""Added tokens of a tokenizer.json, and the roles that the files beside it give to tokens.

>>> added_tokens({"added_tokens": [{"id": 5, "content": "<b>"}, {"id": 4, "content": "<a>"}]}, {"l": 0})
['<a>', '<b>']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError
from volt.formats.huggingface.model import ADDED, CONFIG, FILE, MAP, Json, load
from volt.formats.protocol import MOST_DIGITS
from volt.text.markers import BYTE_TOKENS, SUFFIX
from volt.text.special_tokens import LONGEST, ROLES

_ROBERTA: Json = {
    **{"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>", "unk_token": "<unk>"},
    **{"pad_token": "<pad>", "mask_token": {"content": "<mask>", "lstrip": True}},
}
_CLASSES: dict[str, Json] = {
    **dict.fromkeys(("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer"), _ROBERTA),
    "GPT2Tokenizer": dict.fromkeys(("unk_token", "bos_token", "eos_token"), "<|endoftext|>"),
}


def added_tokens(data: Json, vocab: Mapping[str, int]) -> list[str]:
    """The added tokens, in the order of their ids. Raises VocabularyError if they are damaged."""
    rows = data.get("added_tokens") or []
    shapes = isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("content"), str) and type(row.get("id")) is int for row in rows
    )
    if not shapes:
        raise VocabularyError("added_tokens must be a list of objects with 'id' and 'content'; restore the file")
    owners = {number: token for token, number in vocab.items()}
    for row in rows:
        if row["id"] < 0 or vocab.get(row["content"], row["id"]) != row["id"]:
            raise VocabularyError(f"added token {row['content']!r} has the id {row['id']}, not its own; restore it")
        if (other := owners.setdefault(row["id"], row["content"])) != row["content"]:
            raise VocabularyError(
                f"added token {row['content']!r} has the id {row['id']}, which {other!r} has; restore one"
            )
    return list(dict.fromkeys(row["content"] for row in sorted(rows, key=lambda row: int(row["id"]))))


def all_ids(data: Json, vocab: Mapping[str, int]) -> dict[str, int]:
    """The ids of the model's tokens and of the added ones, in their order.

    >>> all_ids({"added_tokens": [{"id": 4, "content": "<a>"}]}, {"l": 0})
    {'l': 0, '<a>': 4}
    """
    found = dict(vocab) | {row["content"]: row["id"] for row in data.get("added_tokens") or []}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def role_tokens(path: Path, model: Json) -> dict[str, str]:
    """Role → its token, for the tokens with a role that the model and the files beside it name."""
    found = {"unk": model.get("unk_token")}
    for name in (MAP, CONFIG):
        beside = path.with_name(name)
        if path.name == FILE and beside.exists():
            found |= {role: value for role, value in role_names(load(beside)) if not found.get(role)}
    return {role: token for role, token in found.items() if isinstance(token, str)}


def role_names(config: Json) -> Iterator[tuple[str, Any]]:
    """Role → what a config names for it, if it is text.

    >>> dict(role_names({"eos_token": {"content": "</s>"}}))["eos"]
    '</s>'
    """
    for role in ROLES:
        value = config.get(f"{role}_token")
        yield role, value.get("content") if isinstance(value, dict) else value


def folder_tokens(folder: Path) -> tuple[dict[str, str], dict[str, int], dict[str, Json]]:
    """The tokens that the files of a folder without a tokenizer.json name.

    Returns role → its token, the ids of those with an id there, and all of them with their flags.
    Raises VocabularyError if the folder asks for a space before each text.
    """
    configs = [load(folder / name) for name in (MAP, CONFIG) if (folder / name).exists()]
    if any(config.get("add_prefix_space") for config in configs):
        raise VocabularyError(
            f"{folder / CONFIG}: add_prefix_space puts a space before each text that starts with none, which VOLT "
            "cannot; set it to false, and put the space there yourself"
        )
    found = [_of_class(config) for config in configs[-1:]] + configs[::-1]
    roles, added, flags = dict[str, str](), dict[str, int](), dict[str, Json]()
    for config in found:
        roles |= {role: text for role, text in role_names(config) if isinstance(text, str)}
        added |= _decoded(config.get("added_tokens_decoder"))
        for row in _named(config):
            flags[row["content"]] = flags.get(row["content"], {}) | row
    if (folder / ADDED).exists():
        listed = load(folder / ADDED).items()
        added |= {token: number for token, number in listed if type(number) is int and number >= 0}
    return roles, added, {token: {"content": token} for token in added} | flags


def _of_class(config: Json) -> Json:
    """The tokens that the class of a tokenizer has where no file names others.

    >>> _of_class({"tokenizer_class": "GPT2TokenizerFast"})["eos_token"]
    '<|endoftext|>'
    """
    return _CLASSES.get(str(config.get("tokenizer_class")).removesuffix("Fast"), {})


def _named(config: Json) -> Iterator[Json]:
    """The special tokens that a config names, each with its flags.

    >>> [*_named({"sep_token": "</s>", "additional_special_tokens": ["<a>"], "add_bos_token": True})]
    [{'content': '</s>'}, {'content': '<a>'}]
    """
    for key, value in config.items():
        listed = {"additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"}
        several = value if key in listed else [value] if key.endswith("_token") else ()
        for row in several.values() if isinstance(several, dict) else several or ():
            text = row.get("content") if isinstance(row, dict) else row
            if isinstance(text, str) and text:
                yield {"content": text} | (row if isinstance(row, dict) else {})


def _decoded(rows: Any) -> dict[str, int]:
    """The ids of the tokens of a tokenizer_config.json.

    >>> _decoded({"5": {"content": "<b>"}})
    {'<b>': 5}
    """
    found = rows.items() if isinstance(rows, dict) else ()
    return {
        row["content"]: int(number)
        for number, row in found
        if number.isdecimal()
        and len(number) <= MOST_DIGITS
        and isinstance(row, dict)
        and isinstance(row.get("content"), str)
    }


def can_be_special(token: str) -> bool:
    """Whether a special token may be spelled so.

    >>> can_be_special("<s>"), can_be_special("a b")
    (True, False)
    """
    plain = token.split() == [token] and token.isprintable() and len(token) <= LONGEST
    return plain and token not in BYTE_TOKENS and not token.endswith(SUFFIX)
