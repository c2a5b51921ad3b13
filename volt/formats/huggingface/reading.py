"""tokenizer.json, alone or in a folder → vocabulary, with the ids of the file.

Added tokens become user tokens. A token has a role only if the model, or another file in the folder, says so. Other
tokens that no merge makes become control tokens if possible, and otherwise are left out; their ids stay unused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from volt.display import counted
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
        raise VocabularyError(
            f"{merges}: a tokenizer.json contains its own merges; remove the merges file"
        )
    if path.is_dir() and not (path / FILE).exists():
        return _read_merges_in(path)
    path = path / FILE if path.is_dir() else path
    data = tokens.load(path)
    end = ENDED if has_ends(data) else SUFFIX
    whole = without_ends(data)
    data, is_signed = _found_by_us(whole)
    with located(path):
        model = tokens.model_section(data)
        vocab, pairs = tokens.model_vocab(model), list(tokens.model_merges(model))
    named, lost = tokens.role_tokens(path, data), list[str]()
    try:
        tokens.added_tokens(whole, vocab)
        added = tokens.added_tokens(data, vocab)
        own = own_scheme(data, model, added=tuple(added), end=end)
        if own and not own.users and added and own.pretokenizer.startswith("metaspace"):
            own = None  # the library puts "▁" before each segment between added tokens
        scheme = own or read_foreign(data, model, added=added)
        possible = tokens.possible_merges(pairs, marker=scheme.marker, unk=model.get("unk_token"))
        spaces = tokens.runs_of_spaces(data, pairs) if not scheme.cut.is_bytes else []
        users = (
            scheme.users
            if own and scheme.users
            else [token for token in added if token not in spaces]
        )
        if own is None or model.get("ignore_merges"):
            refuse(model, data, scheme)
        is_own = own is not None and scheme.users == tuple(users)
        known = set(users)  # some files have thousands
        late = {
            bool(row.get("normalized"))
            for row in data.get("added_tokens") or []
            if row["content"] in known
        }
        is_own = is_own and late <= {scheme.normalizes_users}
        is_own = is_own and (
            not users or is_signed or scheme.normalizes_users
        )  # others write user tokens alike
        fields = tokens.read_tokens(
            scheme, model, tokens.all_ids(data, vocab), possible, named, users, is_own=is_own
        )
        strips = scheme.marker == "none" or scheme.cut.isolates_users
        fields["special"] = tokens.with_flags(
            fields["special"], tokens.flagged_rows(path, whole), strips=strips
        )
        result = Vocabulary(**fields, provenance={"format": "huggingface", "lost": lost})
    except VocabularyError as error:
        section, index = error.place or ("", -1)
        place = f"model.merges, entry {index + 1}: " if section == "merges" else ""
        raise VocabularyError(f"{path}: {place}{error.fault if section else error}") from None
    except ConfigError as error:
        raise VocabularyError(f"{path}: {error}") from None
    lost += losses(data, result, is_own=is_own)
    if (n := len(pairs) - len(possible)) > 0:
        lost.append(
            f"{counted(n, 'merge')} of parts that no other merge makes: left out, as they never apply."
        )
    lost += [
        f"{PREFIX!r} in text is found as the added token {one} there, and is a space here."
        for one in spaces[:1]
    ]
    return result


def _read_merges_in(folder: Path) -> Vocabulary:
    path = merges_in(folder)
    if path is None:
        raise VocabularyError(
            f"{folder}: neither a tokenizer.json nor {MERGES[0]} with {BESIDE[0]}; give a tokenizer"
        )
    result = subword_nmt.read(path)
    if not result.pretokenizer.is_bytes:
        raise VocabularyError(
            f"{path}: no file says how these merges' text is split; give their tokenizer.json"
        )
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


def _found_by_us(data: Json) -> tuple[Json, bool]:
    """Return the file without the added tokens that VOLT does not find in text, and whether it has any: VOLT's do."""
    rows = data.get("added_tokens")
    if not isinstance(rows, list):
        return data, False
    left = [row for row in rows if not isinstance(row, dict) or row.get(FOUND, True)]
    return data | {"added_tokens": left}, len(left) < len(rows)


def own_scheme(
    data: Json, model: Json, *, added: tuple[str, ...], end: str = SUFFIX
) -> Scheme | None:
    """Return the scheme for which VOLT writes the file's normalizer and pre_tokenizer; None if there is no such scheme.

    added: the added tokens; its user tokens are all of them except lone marks, or none
    end: how the file spells the lone token "</w>"
    """
    choices = dict.fromkeys(
        (added, tuple(token for token in added if token not in (SUFFIX, PREFIX)), ())
    )
    names = [*_NAMES, *_patterns(data.get("pre_tokenizer"))]
    markers: tuple[Marker, ...] = (
        ("suffix",) if model.get("end_of_word_suffix") == SUFFIX else ("none", "prefix")
    )
    sections = data.get("normalizer"), data.get("pre_tokenizer")
    for marker, name, form, lower, result in product(
        markers, names, _FORMS, (False, True), choices
    ):
        scheme = Scheme(marker, Normalizer(form, lower).name, name, result, end=end)
        if sections == (
            sequence("normalizers", normalizers(scheme)),
            sequence("pretokenizers", pre_tokenizers(scheme)),
        ) and (not result or scheme.lone_marks.issuperset({*added}.difference(result))):
            return scheme
    return None


def _patterns(cut: Any) -> Iterator[str]:
    """Yield the names of pattern pre-tokenizers that VOLT may have written as this pre_tokenizer section."""
    steps = flat(cut, "pretokenizers")
    patterns = [
        step["pattern"].get("Regex") if isinstance(step.get("pattern"), dict) else None
        for step in steps
    ]
    splits = [
        pattern
        for pattern in patterns[:-1]
        if isinstance(pattern, str) and not _THEIRS.search(pattern)
    ]
    usual: tuple[list[str], ...] = ([], [GPT2], [GPT2_GROUPED])  # VOLT has names for these
    if len(splits) == len(steps) - 1 and splits not in usual:
        name = name_of(tuple(Split(original(pattern)) for pattern in splits))
        with suppress(ConfigError):
            yield from (PreTokenizer(name).name, f"bytes+{PreTokenizer(name).name}")
    for step, pattern in zip(steps, patterns, strict=True):
        if step.get("type") == "Split" and step.get("invert") and pattern is not None:
            with suppress(ConfigError):
                yield PreTokenizer(f"regex:{pattern}").name
