r"""Hugging Face tokenizer.json, alone or in a folder that transformers loads ⇄ vocabulary.

Written: id for id the same strings, the same pieces on any text, but for what `write` returns. Only user tokens can be
"added tokens", because tokenizers would find the others, such as "</s>", in text, and VOLT never does; transformers is
told the same by `split_special_tokens`. Encoding adds no bos or eos.

Read: files of type BPE. Tokens stay in the order of their ids, behind unk, bos, eos, pad, user tokens and byte tokens,
so ids stay only in files that VOLT wrote. Added tokens that have no role become user tokens. Left out: tokens that
nothing makes, what a post-processor adds, dropout, fused unknowns. Where VOLT's rules differ from the library's, VOLT's
hold: tokens with a role are plain text in text, U+001C to U+001F are white space, a metaspace line that starts with a
space gets its "▁" all the same, and a final "Σ" is lowered to "ς".

>>> import json, tempfile
>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "lo", "low</w>"))
>>> with tempfile.TemporaryDirectory() as folder:
...     notes = write(vocabulary, Path(folder, "model"))
...     sorted(found.name for found in Path(folder, "model").iterdir()), notes
...     read(Path(folder, "model")).fingerprint == vocabulary.fingerprint
(['special_tokens_map.json', 'tokenizer.json', 'tokenizer_config.json'], [])
True
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, quoted
from volt.files.atomic import make_folder, write_atomic
from volt.formats.huggingface.losses import losses, remade, remade_note
from volt.formats.huggingface.oniguruma import spelled
from volt.formats.huggingface.pipeline import Json, Scheme, decoders, normalizers, pre_tokenizers, sequence
from volt.formats.huggingface.reading import (
    CONFIG,
    FILE,
    MAP,
    ROLES,
    added_tokens,
    check_whole_words,
    file_users,
    is_written,
    load,
    model_merges,
    model_section,
    model_vocab,
    not_whole,
    read_scheme,
    read_tokens,
    role_tokens,
)
from volt.text.markers import SUFFIX
from volt.vocabulary import Vocabulary


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write a folder, or one file if `path` ends in .json; what the format cannot carry or does differently.

    Raises VocabularyError if it cannot hold this vocabulary, OutputError if the place cannot be written to.
    """
    _refuse(vocabulary, path)
    notes, text = list(_notes(vocabulary)), _json(_tokenizer(vocabulary))
    if path.suffix == ".json":
        _write_file(path, text)
        return notes
    make_folder(path, parents=False)
    roles = {f"{role}_token": getattr(vocabulary.special, role) for role in ROLES}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **roles, "split_special_tokens": True}
    texts = _json(roles), _json(config | {"clean_up_tokenization_spaces": False}), text
    for place, content in zip(files_written(path), texts, strict=True):
        _write_file(place, content)
    return notes


def files_written(path: Path) -> tuple[Path, ...]:
    """The one file, or those of the folder.

    >>> [str(path) for path in files_written(Path("hf"))]
    ['hf/special_tokens_map.json', 'hf/tokenizer_config.json', 'hf/tokenizer.json']
    """
    return (path,) if path.suffix == ".json" else (path / MAP, path / CONFIG, path / FILE)


def files_read(path: Path) -> tuple[Path, ...]:
    """The files of the folder, also where the tokenizer.json in it is named."""
    return files_written(path.parent if path.name == FILE else path)


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a tokenizer.json, or the folder that holds one; see the top of this module.

    `provenance["lost"]` says what is not carried and what VOLT does differently.

    Raises VocabularyError, with file and place, if it is damaged, of another type, or cuts text in a way VOLT cannot.
    """
    if merges is not None:
        raise VocabularyError(f"{merges}: a tokenizer.json holds its merges itself; leave out the merges file")
    path = path / FILE if path.is_dir() else path
    data = load(path)
    model = model_section(path, data)
    vocabulary, pairs = model_vocab(path, model), list(model_merges(path, model))
    try:
        added = added_tokens(data, vocabulary)
        scheme = read_scheme(data, model, vocabulary, users=file_users(data, vocabulary, added))
        added = list(scheme.users) or added
        result = Vocabulary(**read_tokens(scheme, model, vocabulary, pairs, role_tokens(path, model), added))
    except (VocabularyError, ConfigError) as error:
        raise VocabularyError(f"{path}: {error}") from None
    if model.get("ignore_merges") and not scheme.takes_users_as_words:
        check_whole_words(path, result)
    lost = losses(data, result, is_own=is_written(data, scheme) and scheme.users == result.special.user)
    return replace(result, provenance={"format": "huggingface", "lost": list(lost)})


def recognises(path: Path, head: bytes) -> bool:
    """Whether this is a tokenizer.json, or a folder that holds one.

    >>> recognises(Path("a.json"), b'{"version": "1.0", "truncation": null'), recognises(Path("a.json"), b'{"a": 1}')
    (True, False)
    """
    if path.is_dir():
        return (path / FILE).is_file()
    return head.lstrip()[:1] == b"{" and (b'"added_tokens"' in head or b'"truncation"' in head)


def _write_file(path: Path, text: str) -> None:
    with write_atomic(path) as file:
        file.write(text.encode())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _refuse(vocabulary: Vocabulary, path: Path) -> None:
    """Raise VocabularyError if the format cannot hold this vocabulary."""
    scaffolding, cut, marker = vocabulary.scaffolding, vocabulary.pretokenizer, vocabulary.marker
    lost = [atom for atom in vocabulary.atoms if atom not in vocabulary.ids]
    if scaffolding:
        raise VocabularyError(
            f"{path}: the vocabulary is pruned: {len(scaffolding):,} tokens, such as {scaffolding[0]!r}, are made on "
            "the way and split back into their parts, but this format cannot split back: they would come out as "
            "pieces. Export Vocabulary.closed(), which keeps them as tokens"
        )
    if lost:
        raise VocabularyError(
            f"{path}: merges use {lost[0]!r}, which is no token ({len(lost):,} characters in all), and this format "
            "merges tokens only; add these characters to the tokens, or remove their merges"
        )
    if any(split.from_end for split in cut.splits):
        raise VocabularyError(
            f"{path}: the pre-tokenizer {quoted(cut.name, 200)} reads text from its end, which tokenizers cannot; "
            "count with a pattern that does not, such as digits3"
        )
    if cut.has_own_pattern:
        _refuse_regex(vocabulary, path)
    if marker != "none" and (cut.is_bytes or (marker == "prefix" and cut.keeps_spaces)):
        raise VocabularyError(
            f"{path}: this format cannot mark words by {marker!r} that the pre-tokenizer {cut.name!r} cuts; "
            "learn with marker='none'"
        )


def _refuse_regex(vocabulary: Vocabulary, path: Path) -> None:
    """Raise VocabularyError if the library, where it is installed, cannot read the regex that cuts words."""
    try:
        from tokenizers import Regex
    except ImportError:
        return
    cut = vocabulary.pretokenizer
    for pattern in [spelled(split.pattern) for split in cut.splits] or [cut.pattern]:
        try:
            Regex(pattern)
        except Exception as error:  # it raises nothing narrower
            raise VocabularyError(
                f"{path}: tokenizers cannot read the regex {pattern!r} ({error}); count with one that "
                "Oniguruma reads too"
            ) from None


def _notes(vocabulary: Vocabulary) -> Iterator[str]:
    """What the format cannot carry or does differently, a sentence each."""
    scheme, special = Scheme.of(vocabulary), vocabulary.special
    if vocabulary.counts:
        yield "The counts of the tokens are not in the file: the format has no place for them."
    if len(set(vocabulary.merges)) < len(vocabulary.merges):
        yield "Merges that repeat an earlier one are not in the file: they have no effect."
    if special.user:
        yield from _user_notes(scheme, special.user[0])
        yield from _word_notes(vocabulary, scheme)
    if vocabulary.byte_fallback and vocabulary.marker == "suffix":
        yield (
            "An unknown character that ends a word becomes its bytes and the four bytes of '</w>', where VOLT gives "
            "its bytes and the token '</w>'."
        )
    if vocabulary.normalizer.form == "nfkc":
        yield (
            "Characters newer than the Unicode version of tokenizers, such as U+1FBF7 in 0.23, stay as they are, "
            "where VOLT's NFKC changes them."
        )
    yield from _cut_notes(vocabulary, scheme)


def _cut_notes(vocabulary: Vocabulary, scheme: Scheme) -> Iterator[str]:
    """How words may be cut differently."""
    if scheme.cut.has_own_pattern:
        yield (
            "The regex is read by another engine (Oniguruma), whose \\w, \\d and \\b differ on rare characters, such "
            "as '¼': check your text with volt.formats.check."
        )
        if vocabulary.marker == "prefix":
            yield "A word that itself begins with '▁' gets no second '▁' in front."
    for left, right in remade(vocabulary.merges):
        yield remade_note(left, right)
        break


def _user_notes(scheme: Scheme, example: str) -> Iterator[str]:
    """How text around user tokens is treated differently."""
    if scheme.takes_users_as_words:
        yield (
            f"User tokens, such as {example}, are in the vocabulary but no 'added tokens'; a token with a role or a "
            "byte token that is spelled out right behind one is found where it is all that is left of the word."
        )
    elif scheme.ends_users:
        yield (
            f"The part of a word right before a user token, as in x{example}, is cut as if the word ended there; a "
            f"line that is just {example} gets no lone '</w>', and a line that is just '</w>' is one; the library "
            "shows this token as U+10FFFD."
        )
    elif scheme.marker == "suffix":
        yield (
            f"User tokens, such as {example}, cut the words that they touch: the part before one ends in '</w>', and "
            f"no lone '</w>' piece follows one that ends a word, as it does in VOLT."
        )
    elif scheme.marker == "prefix":
        yield (
            f"User tokens, such as {example}, cut the words that they touch: the part behind one starts with '▁', "
            "and no lone '▁' piece precedes one that starts a word, as it does in VOLT."
        )
    elif not scheme.cut.is_bytes and not scheme.cut.dummy_prefix and not scheme.cut.splits:
        yield (
            f"Text is cut at user tokens, such as {example}, before it is cut into words, where VOLT cuts it into "
            "words with the tokens in it: white space or symbols beside one may fall into other pieces."
        )
    if scheme.cut.dummy_prefix and not scheme.takes_users_as_words:
        yield (
            f"A line that begins with a user token, such as {example}, or with a space gets no further '▁' in front, "
            "as it does in VOLT: transformers and tokenizers cannot have both user tokens and that."
        )


def _word_notes(vocabulary: Vocabulary, scheme: Scheme) -> Iterator[str]:
    """What comes of handling user tokens in normalised text, and of ignore_merges."""
    if (scheme.takes_users_as_words or scheme.ends_users) and scheme.normalizer != "none":
        yield "Text that the normaliser turns into the spelling of a user token is one; VOLT looks at raw text."
    unmade = next(not_whole(vocabulary), None) if scheme.takes_users_as_words else None
    if unmade is not None:
        yield f"The word {unmade!r} is taken whole, for the sake of user tokens; VOLT's merges do not make it."


def _tokenizer(vocabulary: Vocabulary) -> Json:
    """The content of tokenizer.json."""
    scheme, special = Scheme.of(vocabulary), vocabulary.special
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": scheme.ends_users, "special": False}
    added = () if scheme.takes_users_as_words else special.user + (SUFFIX,) * scheme.ends_users
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": vocabulary.ids[token], "content": token, **flags} for token in added],
        "normalizer": sequence("normalizers", normalizers(scheme)),
        "pre_tokenizer": sequence("pretokenizers", pre_tokenizers(scheme)),
        "post_processor": None,
        "decoder": sequence("decoders", decoders(scheme, vocabulary.byte_fallback)),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": special.unk,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": SUFFIX if vocabulary.marker == "suffix" else None,
            "fuse_unk": False,
            "byte_fallback": vocabulary.byte_fallback,
            "ignore_merges": scheme.takes_users_as_words,
            "vocab": vocabulary.ids,
            "merges": [list(pair) for pair in dict.fromkeys(vocabulary.merges)],
        },
    }
