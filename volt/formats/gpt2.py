"""GPT-2's merges.txt → vocabulary: merges over bytes, which look like subword-nmt's codes but mark
no word ends.

Ids come from a vocab.json or encoder.json in the same folder. Without these files, bytes get the
first ids, in GPT-2's order, and the results of merges the next. No file names the pattern that
splits text: VOLT assumes GPT-2's, and refuses a file with a token that this pattern splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from volt.errors import VocabularyError
from volt.files.small_files import read_text
from volt.formats.huggingface import tokens
from volt.formats.huggingface.folder import folder_tokens
from volt.formats.huggingface.import_notes import note_added, note_byte_letters
from volt.formats.huggingface.pipeline_writing import Json, Scheme
from volt.formats.protocol import Pair
from volt.text.atoms import SUFFIX
from volt.text.byte_alphabet import ALPHABET, to_bytes, whole_characters
from volt.text.patterns.cut_tokens import cut_tokens
from volt.text.patterns.published import NAMED
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import END, FINDS_END, FINDS_OTHERS, note_control_tokens
from volt.vocabulary.file_format import parsed_json

IDS_FILES = ("vocab.json", "encoder.json")
MERGES_FILES = ("merges.txt", "vocab.bpe")
# Control characters that texts rarely contain, other than tab and line ends
_CONTROLS = set(map(chr, (*range(9), 11, 12, *range(14, 32), 127)))


def spells_bytes(pairs: Sequence[Pair]) -> bool:
    """Check whether merges are over bytes, as GPT-2 spells them: one character for each byte, "Ġ"
    for a space.

    They are if all their characters stand for bytes, and either a token contains "Ġ", or some
    tokens spell UTF-8 text with a character of several bytes, and no token marks the end of a word.
    """
    results = list(map("".join, pairs))
    if not set("".join(results)) <= set(ALPHABET):
        return False
    if any("Ġ" in token for token in results):
        return True
    texts = [whole_characters(to_bytes(token)) for token in results]
    text = "".join(filter(None, texts))
    is_text = None not in texts and _CONTROLS.isdisjoint(text)
    return is_text and not text.isascii() and not any(token.endswith(SUFFIX) for token in results)


def find_merges_file(folder: Path) -> Path | None:
    """Return the path of merges.txt or vocab.bpe in a folder.

    Return None if the folder has neither, or has no file of ids (vocab.json or encoder.json).
    """
    if not any((folder / name).is_file() for name in IDS_FILES):
        return None
    return next((folder / name for name in MERGES_FILES if (folder / name).is_file()), None)


def find_ids_file(path: Path) -> Path | None:
    """Return the path of vocab.json or encoder.json in the folder of a merges.txt; None if both are
    missing.
    """
    return next((path.with_name(name) for name in IDS_FILES if path.with_name(name).exists()), None)


def read(path: Path, pairs: Sequence[Pair]) -> Vocabulary:
    """Return the vocabulary of a file of merges over bytes, and of the files in its folder.

    path: the file of merges, whose merges are `pairs`
    """
    results = dict.fromkeys(map("".join, pairs))
    ids_file = find_ids_file(path)
    ids = {token: number for number, token in enumerate((*sorted(ALPHABET), *results))}
    if ids_file:
        ids = _read_ids(ids_file) or ids
    for token in (*ALPHABET, *results):
        if token not in ids:
            raise VocabularyError(
                f"{ids_file}: no id for {token!r}, which {path.name} makes or uses; add it"
            )
    roles, added, flags = folder_tokens(path.parent)
    ids = dict(sorted((ids | added).items(), key=itemgetter(1)))
    users = [token for token in ids if token in flags]
    scheme = Scheme("none", "none", "bytes", users=())
    fields = tokens.read_tokens(
        scheme,
        {"vocab": ids},
        ids=ids,
        merges=pairs,
        token_of_role=roles,
        users=users,
        is_own=False,
    )
    fields["special"] = tokens.set_flags(fields["special"], flags.values(), may_strip=True)
    names = fields["tokens"]
    if cut := cut_tokens(list(map(to_bytes, names)), NAMED["gpt2"]):
        raise VocabularyError(
            f"{path}: GPT-2's pattern, which VOLT assumes, cuts {len(cut):,} of its "
            f"{len(names):,} tokens, such as {cut[0].decode(errors='backslashreplace')!r}; "
            "choose a file for GPT-2's pattern, such as r50k_base"
        )
    try:
        vocabulary = Vocabulary(**fields)
    except VocabularyError as error:
        section, index = error.place or ("", 0)
        line = f":{index + 2}" if section == "merges" else ""
        raise VocabularyError(f"{path}{line}: {error.fault}") from None
    lost = list(_note_losses(path, vocabulary, ids_file, ids, flags))
    return replace(vocabulary, provenance={"format": "merges over bytes", "lost": lost})


def _read_ids(path: Path) -> dict[str, int]:
    data = parsed_json(path, read_text(path, kind=VocabularyError))
    if not isinstance(data, dict):
        raise VocabularyError(
            f"{path}:1: not an object of tokens with their ids; fix it, or move it elsewhere"
        )
    return tokens.checked_ids(data, str(path))


def _note_losses(
    path: Path,
    vocabulary: Vocabulary,
    ids_file: Path | None,
    ids: Mapping[str, int],
    flags: Mapping[str, Json],
) -> Iterator[str]:
    control = vocabulary.special.control
    yield (
        "The file names no pattern: VOLT splits text by GPT-2's, which splits none of the file's "
        "tokens."
    )
    if ids_file is None:
        yield (
            f"There is no {IDS_FILES[0]} next to {path.name}: ids number bytes, in GPT-2's order, "
            "then merges' results."
        )
    elif len(control) > vocabulary.size:
        yield (
            f"No merge of {path.name} makes {len(control):,} tokens of {ids_file.name}, such as "
            f"{control[0]!r}: the file may be cut short; compare it with its source."
        )
    else:
        yield from note_control_tokens(vocabulary)
    retained = set(vocabulary.ids)
    if dropped := next((token for token in ids if token not in retained), None):
        yield (
            f"Tokens that no merge makes are dropped, such as {dropped!r}; their ids are not used."
        )
    yield from note_byte_letters(vocabulary)
    yield from note_added(list(flags.values()), vocabulary, {})
    if END in control:
        yield FINDS_END
    elif control and not flags:
        yield FINDS_OTHERS
    if lacking := next((token for token in flags if token not in retained), None):
        yield (
            f"The folder names {lacking} without an id, so transformers adds an id; "
            "import it as a special token."
        )
