"""GPT-2's merges.txt → vocabulary: merges over bytes, which look like subword-nmt's codes but mark no word ends.

Ids come from a vocab.json or encoder.json in the same folder. Without these files, bytes get the first ids, in GPT-2's
order, and the results of merges the next. No file names the pattern that splits text: VOLT assumes GPT-2's, and refuses
a file with a token that this pattern splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from volt.errors import VocabularyError
from volt.files.small_files import read_text
from volt.formats.huggingface import tokens as huggingface
from volt.formats.huggingface.pipeline_reading import added_losses, letter_notes
from volt.formats.huggingface.pipeline_writing import Json
from volt.text.atoms import SUFFIX
from volt.text.byte_alphabet import ALPHABET, to_bytes, whole_characters
from volt.text.patterns.cut_tokens import cut_tokens
from volt.text.patterns.published import NAMED
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import ROLES, SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.add_special_tokens import END, FINDS_END, FINDS_OTHERS, control_notes
from volt.vocabulary.file_format import parsed_json

BESIDE = ("vocab.json", "encoder.json")
MERGES = ("merges.txt", "vocab.bpe")
_CONTROLS = set(map(chr, (*range(9), 11, 12, *range(14, 32), 127)))


def spells_bytes(pairs: Sequence[tuple[str, str]]) -> bool:
    """Check whether merges join bytes in GPT-2's spelling, and some spell a space or a character of several bytes."""
    tokens = list(map("".join, pairs))
    if not set("".join(tokens)) <= set(ALPHABET):
        return False
    if any("Ġ" in token for token in tokens):
        return True
    texts = [text for token in tokens if (text := whole_characters(to_bytes(token))) is not None]
    in_text = len(texts) == len(tokens) and _CONTROLS.isdisjoint("".join(texts))
    return (
        in_text
        and not "".join(texts).isascii()
        and not any(token.endswith(SUFFIX) for token in tokens)
    )


def merges_in(folder: Path) -> Path | None:
    """Return the file of merges in a folder; None if the folder lacks it, or lacks a file of ids."""
    has_ids = any((folder / name).is_file() for name in BESIDE)
    return next((place for name in MERGES if has_ids and (place := folder / name).is_file()), None)


def read(path: Path, pairs: Sequence[tuple[str, str]]) -> Vocabulary:
    """Return the vocabulary of merges over bytes and of further files in their folder."""
    output = dict.fromkeys(map("".join, pairs))
    neighbour = next((place for name in BESIDE if (place := path.with_name(name)).exists()), None)
    listed = {} if neighbour is None else _listed(neighbour)
    ids = listed or {token: number for number, token in enumerate((*sorted(ALPHABET), *output))}
    if neighbour and (
        missing := next((token for token in (*ALPHABET, *output) if token not in ids), None)
    ):
        raise VocabularyError(
            f"{neighbour}: no id for {missing!r}, which {path.name} makes or uses; add it"
        )
    roles, added, flags = huggingface.folder_tokens(path.parent)
    ids = dict(sorted((ids | added).items(), key=itemgetter(1)))
    known = {*output, *ALPHABET}
    named_roles = {
        role: token
        for role, token in roles.items()
        if token in ids and huggingface.can_have_role(token)
    }
    unmade = [
        token
        for token in ids
        if token not in known and token not in flags and huggingface.can_be_special(token)
    ]
    user = tuple(token for token in ids if token in flags)
    unk, bos, eos, pad = map(named_roles.get, ROLES)
    special = SpecialTokens(unk, bos, eos, pad, user=user, control=tuple(unmade))
    special = huggingface.with_flags(special, list(flags.values()), strips=True)
    named = set(special.all)
    tokens = tuple(token for token in ids if token not in named and token in known)
    if cut := cut_tokens([to_bytes(token) for token in tokens], NAMED["gpt2"]):
        example = repr(cut[0].decode(errors="backslashreplace"))
        what = f"GPT-2's pattern, which VOLT assumes, cuts {len(cut):,} of its {len(tokens):,} tokens, such as {example}"
        raise VocabularyError(
            f"{path}: {what}; choose a file for GPT-2's pattern, such as r50k_base"
        )
    merges = huggingface.last_of_equal(pairs)
    try:
        vocabulary = Vocabulary(
            merges=merges,
            tokens=tokens,
            marker="none",
            pretokenizer=PreTokenizer("bytes"),
            special=special,
            merging=huggingface.merging_of(merges),
            order=huggingface.order_of(ids, special.all, tokens),
        )
    except VocabularyError as error:
        section, index = error.place or ("", 0)
        line = f":{index + 2}" if section == "merges" else ""
        raise VocabularyError(f"{path}{line}: {error.fault}") from None
    lost = list(_losses(path, vocabulary, neighbour, ids, flags))
    return replace(vocabulary, provenance={"format": "merges over bytes", "lost": lost})


def _listed(path: Path) -> dict[str, int]:
    data = parsed_json(path, read_text(path, kind=VocabularyError))
    if not isinstance(data, dict):
        raise VocabularyError(
            f"{path}:1: not an object of tokens with their ids; fix it, or move it elsewhere"
        )
    return huggingface.checked_ids(data, str(path))


def _losses(
    path: Path,
    output: Vocabulary,
    neighbours: Path | None,
    ids: Mapping[str, int],
    flags: Mapping[str, Json],
) -> Iterator[str]:
    tokens, special = output.tokens, output.special
    yield "The file names no pattern: VOLT splits text by GPT-2's, which splits none of the file's tokens."
    if neighbours is None:
        yield f"There is no {BESIDE[0]} next to {path.name}: ids number bytes, in GPT-2's order, then merges' results."
    elif len(special.control) > len(tokens):
        what = (
            f"{len(special.control):,} tokens of {neighbours.name}, such as {special.control[0]!r}"
        )
        yield f"No merge of {path.name} makes {what}: the file may be cut short; compare it with its source."
    else:
        yield from control_notes(output)
    retained = {*tokens, *special.all}
    if dropped := next((token for token in ids if token not in retained), None):
        yield f"Tokens that no merge makes are dropped, such as {dropped!r}; their ids are not used."
    yield from letter_notes(output)
    yield from added_losses(list(flags.values()), output, {})
    if END in output.special.control:
        yield FINDS_END
    elif output.special.control and not flags:
        yield FINDS_OTHERS
    if lacking := next((token for token in flags if token not in output.ids), None):
        yield f"The folder names {lacking} without an id, so transformers adds an id; import it as a special token."
