"""tokenizer.json, alone or in a folder → vocabulary, with the ids of the file.

    1  check the model section, and read its tokens and merges              `tokens`
    2  find how text is normalised and cut into words: a `Scheme`
           of a file that VOLT wrote: the scheme that VOLT writes so        `_find_own_scheme`
           of another file                                                  `read_foreign`
    3  read roles and flags of special tokens from the folder               `folder`
    4  turn all this into a vocabulary, and note what differs               `tokens`, `import_notes`

Added tokens become user tokens. A token has a role only if the model, or another file in the
folder, says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

from volt.display import counted
from volt.errors import ConfigError, VocabularyError
from volt.formats import subword_nmt
from volt.formats.gpt2 import IDS_FILES, MERGES_FILES, find_merges_file
from volt.formats.huggingface import tokens, unigram
from volt.formats.huggingface.folder import (
    CONFIG,
    FILE,
    MAP,
    configurations,
    flags_of,
    load,
    role_tokens,
)
from volt.formats.huggingface.import_notes import note_import
from volt.formats.huggingface.pipeline_reading import flatten, read_foreign, refuse
from volt.formats.huggingface.pipeline_writing import (
    ENDED,
    Json,
    Scheme,
    as_object,
    check_flags,
    normalizers,
    pre_tokenizers,
    remove_end_merges,
    sequence,
)
from volt.formats.huggingface.split_patterns import can_spell, restore_split
from volt.formats.protocol import Pair, locate_errors
from volt.text.atoms import PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.patterns.published import GPT2, GPT2_GROUPED, name_of
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

# Parts of the schemes that VOLT writes
_PRETOKENIZERS = (
    "whitespace",
    "metaspace",
    "metaspace-runs",
    "metaspace-line",
    "unicode",
    "gpt2",
    "bytes",
)
_FORMS = ("none", "nfc", "nfkc")
_FOREIGN_ESCAPES = re.compile(
    r"\\[wWhH]"
)  # Oniguruma gives these another meaning, so VOLT writes none


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a tokenizer.json, or a folder that contains one, or merges over bytes with their ids.

    Raises VocabularyError, with file and entry, if the file is damaged, not BPE, or splits text as
    VOLT cannot.
    """
    if merges is not None:
        raise VocabularyError(
            f"{merges}: a tokenizer.json contains its own merges; remove the merges file"
        )
    if path.is_dir():
        if not (path / FILE).exists():
            return _read_merges_in(path)
        path = path / FILE
    data = load(path)
    configs = configurations(path)
    with locate_errors(path):
        return _vocabulary_of(data, configs)


def _vocabulary_of(data: Json, configs: Sequence[Json]) -> Vocabulary:
    """Return the vocabulary of a tokenizer.json.

    configs: the content of configuration files in its folder
    """
    tokens.check_version(data)
    original = remove_end_merges(data)
    end = SUFFIX if original is data else ENDED
    check_flags(original["model"])
    original, model = _read_model(original)
    vocab = tokens.model_vocab(model)
    pairs = list(tokens.model_merges(model))
    all_rows = tokens.added_tokens(original, vocab)
    rows = [row for row in all_rows if row.get(tokens.FOUND, True)]
    data = original | {"added_tokens": rows}
    by_id = sorted(rows, key=itemgetter("id"))
    added = tuple(dict.fromkeys(row["content"] for row in by_id))

    own = None
    if "scores" not in model:
        own = _find_own_scheme(data, model, added=added, end=end)
    scheme = own or read_foreign(data, model, added=added)
    if own is None or model.get("ignore_merges"):
        refuse(model, data, scheme)
    possible = tokens.possible_merges(pairs, marker=scheme.marker, unk=model.get("unk_token"))
    space_tokens = list[str]()
    if not scheme.cut.is_bytes:
        space_tokens = _find_space_tokens(rows, pairs)
    users = scheme.users or tuple(token for token in added if token not in space_tokens)
    is_own = own is not None and _is_written_by_volt(
        own, users, rows, is_signed=len(rows) < len(all_rows)
    )

    numbered = vocab | dict(map(itemgetter("content", "id"), rows))
    ids = dict(sorted(numbered.items(), key=itemgetter(1)))
    fields = tokens.read_tokens(
        scheme,
        model | {"ignore_merges": model.get("ignore_merges") or "scores" in model},
        ids=ids,
        merges=possible,
        token_of_role=role_tokens(data, configs),
        users=users,
        is_own=is_own,
    )
    may_strip = scheme.marker == "none" or scheme.cut.isolates_users
    flags = flags_of(configs).items()
    special = [{"content": token, "special": True} for token, row in flags if row["special"]]
    fields["special"] = tokens.set_flags(
        fields["special"], [*all_rows, *special], may_strip=may_strip
    )
    if "scores" in model:
        fields = unigram.scored_fields(fields, model)
    notes = list[str]()
    fields["provenance"] = {"format": "huggingface", "lost": notes}
    result = _build_vocabulary(fields)
    notes += note_import(data, result, is_own=is_own)
    notes += _note_dropped(len(pairs) - len(possible))
    notes += _note_spaces(rows, space_tokens)
    return result


def _read_model(data: Json) -> tuple[Json, Json]:
    """Return a tokenizer.json with its model as VOLT reads it, and the model."""
    if unigram.is_unigram(data):
        model = unigram.read_model(data)
        return data | {"model": model}, model
    return data, tokens.model_section(data)


def _note_dropped(n_merges: int) -> Iterator[str]:
    if n_merges:
        yield (
            f"{counted(n_merges, 'merge')} of parts that no other merge makes: left out, "
            "as they never apply."
        )


def _build_vocabulary(fields: Json) -> Vocabulary:
    try:
        return Vocabulary(**fields)
    except VocabularyError as error:
        section, index = error.place or ("", -1)
        place = f"model.merges, entry {index + 1}: " if section == "merges" else ""
        raise error.reworded(f"{place}{error.fault}") from None


def _note_spaces(rows: Sequence[Json], spaces: Sequence[str]) -> Iterator[str]:
    if spaces:
        yield (
            f"{PREFIX!r} in text is found as the added token {spaces[0]} there, "
            "and is a space here."
        )
    special = [row["content"] for row in rows if row.get("special")]
    if skipped := [token for token in spaces if token in special]:
        yield f"Decoding that skips special tokens drops {skipped[0]} there, and keeps its spaces here."


def _find_space_tokens(rows: Sequence[Json], merges: Sequence[Pair]) -> list[str]:
    """Return the added tokens that are runs of "▁" and results of merges, and that the library
    finds in raw text.

    In VOLT, they are ordinary tokens, which merges make from spaces.
    """
    results = set(map("".join, merges))
    raw = [row["content"] for row in rows if not row.get("normalized")]
    return [token for token in raw if set(token) == {PREFIX} and token in results]


def _is_written_by_volt(
    own: Scheme, users: tuple[str, ...], rows: Sequence[Json], *, is_signed: bool
) -> bool:
    """Check whether VOLT wrote a file.

    Its scheme alone does not prove it, because others may write the same one.

    own: the scheme that VOLT would have written
    users, rows: the user tokens and the added tokens of the file
    is_signed: whether rows have the key `FOUND`, which only VOLT writes
    """
    known = set(users)  # some files have thousands
    flags = {bool(row.get("normalized")) for row in rows if row["content"] in known}
    if own.users != users or not flags <= {own.normalizes_users}:
        return False
    return not users or is_signed or own.normalizes_users


def _read_merges_in(folder: Path) -> Vocabulary:
    path = find_merges_file(folder)
    if path is None:
        raise VocabularyError(
            f"{folder}: neither a tokenizer.json nor {MERGES_FILES[0]} with {IDS_FILES[0]}; give a tokenizer"
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
    if folder.suffix == ".json":
        return (path,)
    return folder / MAP, folder / CONFIG, folder / FILE


def recognises(path: Path, head: bytes) -> bool:
    """Check whether a path is a tokenizer.json, a folder with one, or a folder with merges.txt and
    vocab.json.
    """
    if path.is_dir():
        return (path / FILE).is_file() or find_merges_file(path) is not None
    keys = b'"added_tokens"', b'"truncation"', b'"pre_tokenizer"', b'"normalizer"', b'"model"'
    return head.lstrip().startswith(b"{") and any(key in head for key in keys)


def _find_own_scheme(
    data: Json, model: Json, *, added: tuple[str, ...], end: str = SUFFIX
) -> Scheme | None:
    """Return the scheme for which VOLT writes the normalizer and pre_tokenizer of a file; None if
    there is none.

    The user tokens of the scheme are the added tokens with or without lone marks ("</w>" and "▁"),
    or none.

    added: the added tokens
    end: how the file spells the lone token "</w>"
    """
    without_marks = tuple(token for token in added if token not in (SUFFIX, PREFIX))
    user_choices = dict.fromkeys((added, without_marks, ()))
    markers: tuple[Marker, ...] = ("none", "prefix")
    if model.get("end_of_word_suffix") == SUFFIX:
        markers = ("suffix",)
    names = [*_PRETOKENIZERS, *_guess_patterns(data.get("pre_tokenizer"))]
    forms = [Normalizer(form, lower).name for form, lower in product(_FORMS, (False, True))]
    for marker, name, form, users in product(markers, names, forms, user_choices):
        scheme = Scheme(marker, form, name, users, end=end)
        if users and not scheme.lone_marks.issuperset({*added}.difference(users)):
            continue
        if sequence("normalizers", normalizers(scheme)) == data.get("normalizer") and sequence(
            "pretokenizers", pre_tokenizers(scheme)
        ) == data.get("pre_tokenizer"):
            # The library puts "▁" before each segment between added tokens, and the scheme does not.
            is_other = not users and added and name.startswith("metaspace")
            return None if is_other else scheme
    return None


def _guess_patterns(section: Any) -> Iterator[str]:
    """Yield the names of pattern pre-tokenizers that VOLT may have written as this pre_tokenizer
    section.
    """
    steps = flatten(section, "pretokenizers")
    patterns: list[Any] = [as_object(step.get("pattern")).get("Regex") for step in steps]
    splits = patterns[:-1]
    are_ours = all(
        isinstance(pattern, str) and not _FOREIGN_ESCAPES.search(pattern) for pattern in splits
    )
    if steps and are_ours and splits not in ([], [GPT2], [GPT2_GROUPED]):
        # VOLT has names for these
        restored = tuple(map(restore_split, splits))
        name = name_of(restored)
        with suppress(ConfigError):
            if can_spell(restored):
                yield from (PreTokenizer(name).name, f"bytes+{PreTokenizer(name).name}")
    for step, pattern in zip(steps, patterns, strict=True):
        if step.get("type") == "Split" and step.get("invert") and pattern is not None:
            with suppress(ConfigError):
                yield PreTokenizer(f"regex:{pattern}").name
