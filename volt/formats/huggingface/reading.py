"""tokenizer.json, alone or in a folder → vocabulary, with the ids of the file.

Added tokens become user tokens. A token has a role only if the model, or another file in the folder, says so. Other
tokens that no merge makes become control tokens if possible, and otherwise are left out; their ids stay unused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from volt.errors import ConfigError, VocabularyError
from volt.formats import subword_nmt
from volt.formats.gpt2 import BESIDE, MERGES, merges_in
from volt.formats.huggingface import tokens
from volt.formats.huggingface.pipeline_reading import flat, losses, read_foreign, refuse
from volt.formats.huggingface.pipeline_writing import (
    ENDED,
    Json,
    Scheme,
    has_ends,
    normalizers,
    pre_tokenizers,
    sequence,
    without_ends,
)
from volt.formats.huggingface.split_patterns import original
from volt.formats.huggingface.tokens import CONFIG, FILE, FOUND, MAP
from volt.formats.protocol import located
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import GPT2, GPT2_GROUPED, name_of
from volt.text.patterns.splitter import Split
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

_NAMES = ("whitespace", "metaspace", "metaspace-runs", "metaspace-line", "unicode", "gpt2", "bytes")
_FORMS = ("none", "nfc", "nfkc")
_THEIRS = re.compile(r"\\[wWhH]")  # Oniguruma gives these another meaning


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a tokenizer.json, or a folder that contains one, or merges over bytes with their ids.

    Raises VocabularyError, with file and entry, if the file is damaged, not BPE, or splits text as VOLT cannot.
    """
    if merges is not None:
        raise VocabularyError(f"{merges}: a tokenizer.json contains its own merges; remove the merges file")
    if path.is_dir() and not (path / FILE).exists():
        return _read_merges_in(path)
    path = path / FILE if path.is_dir() else path
    data = tokens.load(path)
    end = ENDED if has_ends(data) else SUFFIX
    data = _found_by_us(without_ends(data))
    with located(path):
        model = tokens.model_section(data)
        vocab, pairs = tokens.model_vocab(model), list(tokens.model_merges(model))
    named, lost = tokens.role_tokens(path, model), list[str]()
    try:
        added = tokens.added_tokens(data, vocab)
        own = own_scheme(data, model, users=_users(data, added), end=end)
        scheme = own or read_foreign(data, model, added=added)
        users = scheme.users if own and scheme.users else added
        if own is None or model.get("ignore_merges"):
            refuse(model, data, scheme)
        is_own = own is not None and scheme.users == tuple(users)
        fields = tokens.read_tokens(scheme, model, tokens.all_ids(data, vocab), pairs, named, users, is_own=is_own)
        result = Vocabulary(**fields, provenance={"format": "huggingface", "lost": lost})
    except VocabularyError as error:
        section, index = error.place or ("", -1)
        place = f"model.merges, entry {index + 1}: " if section == "merges" else ""
        raise VocabularyError(f"{path}: {place}{error.fault if section else error}") from None
    except ConfigError as error:
        raise VocabularyError(f"{path}: {error}") from None
    lost += losses(data, result, is_own=is_own)
    return result


def _read_merges_in(folder: Path) -> Vocabulary:
    path = merges_in(folder)
    if path is None:
        raise VocabularyError(f"{folder}: neither a tokenizer.json nor {MERGES[0]} with {BESIDE[0]}; give a tokenizer")
    result = subword_nmt.read(path)
    if not result.pretokenizer.is_bytes:
        raise VocabularyError(f"{path}: no file says how these merges' text is split; give their tokenizer.json")
    return result


def files_read(path: Path) -> tuple[Path, ...]:
    """Return the files that VOLT reads in a folder, or in the folder of a tokenizer.json."""
    folder = path.parent if path.name == FILE else path
    return (path,) if folder.suffix == ".json" else (folder / MAP, folder / CONFIG, folder / FILE)


def recognises(path: Path, head: bytes) -> bool:
    """Check whether this is a tokenizer.json, or a folder with one, or with merges.txt and vocab.json."""
    if path.is_dir():
        return (path / FILE).is_file() or merges_in(path) is not None
    keys = b'"added_tokens"', b'"truncation"', b'"pre_tokenizer"', b'"normalizer"', b'"model"'
    return head.lstrip()[:1] == b"{" and any(key in head for key in keys)


def _found_by_us(data: Json) -> Json:
    """Return the file without the added tokens that VOLT, which wrote the file, does not find in text."""
    rows = data.get("added_tokens")
    if not isinstance(rows, list):
        return data
    return data | {"added_tokens": [row for row in rows if not isinstance(row, dict) or row.get(FOUND, True)]}


def _users(data: Json, added: Sequence[str]) -> tuple[str, ...]:
    """Return the user tokens of a file that VOLT wrote, whose other added tokens are not found in normalised text."""
    late = {row["content"] for row in data.get("added_tokens") or [] if row.get("normalized")}
    return tuple(token for token in added if (not late or token in late) and token not in (SUFFIX, PREFIX))


def own_scheme(data: Json, model: Json, *, users: tuple[str, ...], end: str = SUFFIX) -> Scheme | None:
    """Return the scheme for which VOLT writes the file's normalizer and pre_tokenizer; None if there is no such scheme.

    end: how the file spells the lone token "</w>"
    """
    names = [*_NAMES, *_patterns(data.get("pre_tokenizer"))]
    markers: tuple[Marker, ...] = ("suffix",) if model.get("end_of_word_suffix") == SUFFIX else ("none", "prefix")
    sections = data.get("normalizer"), data.get("pre_tokenizer")
    for marker, name, form, lower, result in product(markers, names, _FORMS, (False, True), dict.fromkeys((users, ()))):
        scheme = Scheme(marker, Normalizer(form, lower).name, name, result, end=end)
        if sections == (
            sequence("normalizers", normalizers(scheme)),
            sequence("pretokenizers", pre_tokenizers(scheme)),
        ):
            return scheme
    return None


def _patterns(cut: Any) -> Iterator[str]:
    """Yield the names of pattern pre-tokenizers that VOLT may have written as this pre_tokenizer section."""
    steps = flat(cut, "pretokenizers")
    patterns = [step["pattern"].get("Regex") if isinstance(step.get("pattern"), dict) else None for step in steps]
    splits = [pattern for pattern in patterns[:-1] if isinstance(pattern, str) and not _THEIRS.search(pattern)]
    usual: tuple[list[str], ...] = ([], [GPT2], [GPT2_GROUPED])  # VOLT has names for these
    if len(splits) == len(steps) - 1 and splits not in usual:
        name = name_of(tuple(Split(original(pattern)) for pattern in splits))
        with suppress(ConfigError):
            yield from (PreTokenizer(name).name, f"bytes+{PreTokenizer(name).name}")
    for step, pattern in zip(steps, patterns, strict=True):
        if step.get("type") == "Split" and step.get("invert") and pattern is not None:
            with suppress(ConfigError):
                yield PreTokenizer(f"regex:{pattern}").name
