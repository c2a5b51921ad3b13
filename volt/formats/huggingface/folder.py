"""The files in the folder of a tokenizer that say which tokens have roles, and which tokens
decoding skips.

>>> configs = [{"eos_token": "<end>", "added_tokens_decoder": {"7": {"content": "<url>", "lstrip": True}}}]
>>> role_tokens({"model": {"unk_token": "<unk>"}}, configs)
{'unk': '<unk>', 'eos': '<end>'}
>>> flags_of(configs)
{'<end>': {'content': '<end>', 'special': True}, '<url>': {'content': '<url>', 'lstrip': True, 'special': None}}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from volt.errors import VocabularyError, shown_path
from volt.files.small_files import decode_text, read_bytes
from volt.formats.huggingface.pipeline_reading import flatten
from volt.formats.huggingface.pipeline_writing import Json, as_object
from volt.formats.huggingface.split_patterns import ADDS_SPACE
from volt.formats.huggingface.unigram import read_number
from volt.formats.protocol import MOST_DIGITS
from volt.text.special_tokens import ROLES
from volt.vocabulary.file_format import parsed_json

FILE = "tokenizer.json"
CONFIG = "tokenizer_config.json"
MAP = "special_tokens_map.json"
ADDED = "added_tokens.json"
MODEL = "config.json"
TEMPLATE = "chat_template.jinja"
# Keys of CONFIG and MAP whose values are several tokens
_DECODER = "added_tokens_decoder"
_SEVERAL = {"additional_special_tokens", "extra_special_tokens", _DECODER}
_ROBERTA: Json = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_END = "<|endoftext|>"
# Name of a class without "Tokenizer", or type of a model → special tokens that transformers uses by default
_CLASSES: dict[str, Json] = {
    "roberta": _ROBERTA,
    "bart": _ROBERTA,
    "longformer": _ROBERTA,
    "gpt2": {"unk_token": _END, "bos_token": _END, "eos_token": _END},
}


def load(path: Path, content: bytes | None = None) -> Json:
    """Return the JSON object in a file.

    content: the file's bytes; None if the file has not been read yet

    Raises VocabularyError, with file and line, if the file does not contain a JSON object.
    """
    content = content or read_bytes(path, kind=VocabularyError)
    remedy = ", so not JSON; download or export it again"
    text = decode_text(path, content, kind=VocabularyError, remedy=remedy)
    data = parsed_json(path, text, read_number)
    if not isinstance(data, dict):
        raise VocabularyError(
            f"{shown_path(path)}:1: contains no JSON object; give the file of a tokenizer"
        )
    return data


def configurations(path: Path) -> list[Json]:
    """Return the contents of MAP and CONFIG in the folder of a tokenizer.json."""
    if path.name != FILE:
        return []
    files = (path.with_name(MAP), path.with_name(CONFIG))
    return [load(file) for file in files if file.exists()]


def flags_of(configs: Iterable[Json]) -> dict[str, Json]:
    """Return token → its flags in configurations.

    A token with a role is special, even if a row says otherwise.
    """
    result = dict[str, Json]()
    for row in _named_tokens(configs):
        known = result.get(row["content"], {})
        special = known.get("special") or row.get("special")
        result[row["content"]] = known | row | {"special": special}
    return result


def _named_tokens(configs: Iterable[Json]) -> Iterator[Json]:
    entries = chain.from_iterable(config.items() for config in configs)
    # The entry _DECODER comes last, because its flags replace others.
    for key, value in sorted(entries, key=lambda entry: entry[0] == _DECODER):
        rows: Iterable[Any] = ()
        if key.endswith("_token"):
            rows = [value]
        if key in _SEVERAL:
            rows = value or ()
            if isinstance(value, dict):
                rows = value.values()
        for row in rows:
            flags = as_object(row) or {"content": row}
            if key != _DECODER:
                flags = flags | {"special": True}
            token = flags.get("content")
            if token and isinstance(token, str):
                yield flags


def role_tokens(data: Json, configs: Sequence[Json]) -> dict[str, str]:
    """Return role → token, as named by the model, by configurations, or by the post-processor."""
    result = {"unk": data["model"].get("unk_token")}
    sources: list[Json] = list(map(_role_names, configs))
    with suppress(LookupError, TypeError, AttributeError, VocabularyError):
        sources.append(dict(_read_post_processor(data)))  # a damaged section names no token
    for names in sources:
        result |= {role: token for role, token in names.items() if not result.get(role)}
    return {role: token for role, token in result.items() if isinstance(token, str)}


def _role_names(config: Json) -> dict[str, str]:
    result = dict[str, str]()
    for role in ROLES:
        value = config.get(f"{role}_token")
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            result[role] = value
    return result


def _read_post_processor(data: Json) -> Iterator[tuple[str, Any]]:
    """Yield ("bos", token) if a post-processor puts one token before a line, and ("eos", token) if
    it puts one after it.
    """
    for step in flatten(data.get("post_processor"), "processors"):
        parts = [part.get("SpecialToken", {}).get("id") for part in step.get("single", ())]
        if "cls" in step:  # as in RoBERTa
            parts = [step["cls"][0], None, step["sep"][0]]
        if parts[1:2] == [None]:
            yield "bos", parts[0]
        if parts[-2:-1] == [None]:
            yield "eos", parts[-1]


def folder_tokens(folder: Path) -> tuple[dict[str, str], dict[str, int], dict[str, Json]]:
    """Return role → token, token → id, and token → flags from a folder without a tokenizer.json."""
    configs = configurations(folder / FILE)
    name = _class_of(folder)
    if any(config.get("add_prefix_space") for config in configs):
        raise VocabularyError(f"{folder / CONFIG}: add_prefix_space {ADDS_SPACE}")
    if name == "blenderbot" and not any("add_prefix_space" in config for config in configs):
        raise VocabularyError(f"{folder}: Blenderbot's add_prefix_space {ADDS_SPACE}")

    ids = dict[str, int]()
    configs = [*configs, _CLASSES.get(name, {})]
    for config in configs:
        for number, row in as_object(config.get(_DECODER)).items():
            token = as_object(row).get("content")
            is_id = number.isdecimal() and len(number) <= MOST_DIGITS
            if is_id and isinstance(token, str):
                ids[token] = int(number)
    if (folder / ADDED).exists():
        for token, number in load(folder / ADDED).items():
            if type(number) is int and number >= 0:
                ids[token] = number
    flags = {token: {"content": token} for token in ids} | flags_of(configs)
    return role_tokens({"model": {}}, configs), ids, flags


def _class_of(folder: Path) -> str:
    """Return the class name of the tokenizer in a folder without "Tokenizer", or else the model's
    type, in lower case.

    Return "" if no file in the folder names one.
    """
    for file, key in (
        (CONFIG, "tokenizer_class"),
        (MODEL, "tokenizer_class"),
        (MODEL, "model_type"),
    ):
        if (folder / file).exists():
            name = load(folder / file).get(key)
            if isinstance(name, str):
                return name.removesuffix("Fast").removesuffix("Tokenizer").lower()
    return ""
