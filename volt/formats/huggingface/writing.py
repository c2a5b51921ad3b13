"""Vocabulary → Hugging Face tokenizer.json, alone or in a folder that transformers loads.

The file has the same ids and gives the same pieces, except for differences that `write` returns. All special tokens
become "added tokens", which `tokenizers` finds in text, as in published files; VOLT finds only user tokens there.
Merges cannot split tokens back there, so a pruned vocabulary is closed first.

>>> import tempfile
>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "lo", "low</w>"))
>>> with tempfile.TemporaryDirectory() as folder:
...     notes = write(vocabulary, Path(folder, "model"))
...     sorted(file.name for file in Path(folder, "model").iterdir()), len(notes)
(['special_tokens_map.json', 'tokenizer.json', 'tokenizer_config.json'], 1)
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, quoted, shown_path
from volt.files.atomic import new_folder, write_together
from volt.formats.huggingface.chat_template import template_text
from volt.formats.huggingface.pipeline_reading import letter_notes, remade
from volt.formats.huggingface.pipeline_writing import (
    LONE_END,
    LONE_SPACE,
    Json,
    Scheme,
    decoders,
    normalizers,
    pre_tokenizers,
    sequence,
    with_ends,
)
from volt.formats.huggingface.split_patterns import spelled
from volt.formats.huggingface.tokens import CONFIG, FILE, FOUND, MAP, TEMPLATE
from volt.formats.protocol import located, named
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

Pair = tuple[str, str]


def merges_of(vocabulary: Vocabulary) -> list[Pair]:
    """Return each merge once, by rank. If merging is "ranks", return all pairs of tokens that spell merges' results.

    If two pairs spell the same token, `tokenizers` joins the pair of lower rank first, and VOLT the leftmost pair. So
    of two pairs that can overlap, the left one gets the lower rank.

    >>> tokens = ("l", "o", "w", "lo", "low", "ow")
    >>> merges_of(Vocabulary((("l", "o"), ("lo", "w"), ("o", "w")), tokens, merging="ranks"))
    [('l', 'o'), ('l', 'ow'), ('lo', 'w'), ('o', 'w')]
    """
    if vocabulary.merging != "ranks":
        return list(dict.fromkeys(vocabulary.merges))
    output = dict.fromkeys(map("".join, vocabulary.merges))
    known = {*output, *vocabulary.atoms}
    return [pair for token in output for pair in _pairs(token, known)]


def _pairs(token: str, known: Collection[str]) -> Iterator[Pair]:
    """Yield the pairs of tokens that spell a token; of two pairs that can overlap, the left one first."""
    half = len(token) // 2
    for place in range(1, half + 1):
        places = (place, len(token) - place)
        is_right = token.endswith(token[:place]) and not token.startswith(token[place:])
        for at in dict.fromkeys(reversed(places) if is_right else places):
            if token[:at] in known and token[at:] in known:
                yield token[:at], token[at:]


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write a folder, or one file if `path` ends in .json. Returns a sentence for each loss and difference."""
    return write_with_template(vocabulary, path, chat_template=None)


def write_with_template(
    vocabulary: Vocabulary, path: Path, *, chat_template: str | Path | None
) -> list[str]:
    """Write a folder with a chat template. Returns what `write` returns.

    chat_template: a Jinja template, or a Path to a file with one, for `apply_chat_template`

    Raises VocabularyError if the format cannot store the vocabulary, ConfigError for a template that is not valid.
    """
    template = None if chat_template is None else template_text(chat_template)
    if template is not None and path.suffix == ".json":
        raise ConfigError(
            f"{shown_path(path)}: a chat template needs a folder; give a path that does not end in .json"
        )
    with located(path):
        closed, tokenizer, config = contents(vocabulary)
    notes = [*closing_notes(vocabulary, closed), *_notes(closed)]
    if path.suffix == ".json":
        write_together({path: _json(tokenizer).encode()})
        return notes
    if template is None and (path / TEMPLATE).exists():
        notes.append(
            f"{shown_path(path / TEMPLATE)} is from before; transformers uses it unless you delete it."
        )
    texts = {
        path / MAP: _json(_names(closed.special)),
        path / CONFIG: _json(config),
        path / FILE: _json(tokenizer),
    }
    texts |= {} if template is None else {path / TEMPLATE: template}
    with new_folder(path):
        write_together({place: text.encode() for place, text in texts.items()})
    return notes


def contents(vocabulary: Vocabulary) -> tuple[Vocabulary, Json, Json]:
    """Return the closed vocabulary that the library can store, its tokenizer.json, and its tokenizer_config.json."""
    has_normalizer = vocabulary.normalizer.name != "none"
    vocabulary = vocabulary.closed(
        exclude=() if has_normalizer else vocabulary.special.user
    )  # never made from text
    _refuse(vocabulary)
    tokenizer = _tokenizer(vocabulary)
    rows = [
        {key: row[key] for key in row if key not in ("id", FOUND)}
        for row in tokenizer["added_tokens"]
    ]
    numbers = (str(row["id"]) for row in tokenizer["added_tokens"])
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **_names(vocabulary.special),
        "added_tokens_decoder": dict(zip(numbers, rows, strict=True)),
        "clean_up_tokenization_spaces": False,
    }
    return vocabulary, tokenizer, config


def _names(special: SpecialTokens) -> Json:
    roles: Json = {f"{role}_token": token for role, token in special.roles.items()}
    others = [
        token for token in special.all if token in special.skipped and token not in roles.values()
    ]
    return roles | ({"additional_special_tokens": others} if others else {})


def files_written(path: Path) -> tuple[Path, ...]:
    return (path,) if path.suffix == ".json" else (path / MAP, path / CONFIG, path / FILE)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _refuse(vocabulary: Vocabulary) -> None:
    cut, marker = vocabulary.pretokenizer, vocabulary.marker
    if lost := [atom for atom in vocabulary.atoms if atom not in vocabulary.ids]:
        what = f"merges use {lost[0]!r}, which is not a token ({len(lost):,} characters in all)"
        raise VocabularyError(f"{what}; add these characters to the tokens, or remove their merges")
    if any(split.from_end for split in cut.splits):
        what = f"the pre-tokenizer {quoted(cut.name, 200)} reads text from its end, which tokenizers cannot do"
        raise VocabularyError(f"{what}; count with another pattern, such as digits3")
    if cut.isolates_users:
        what = f"the pre-tokenizer {quoted(cut.name, 100)}, read from a tokenizer.json, cannot be written to one yet"
        raise VocabularyError(f"{what}; give the file that it comes from")
    if cut.has_own_pattern:
        _refuse_regex(vocabulary)
    if marker == "suffix" and vocabulary.whole_words:
        raise VocabularyError(
            f"this format looks words up without {SUFFIX!r}, so whole_words needs the marker 'none'"
        )
    if (
        marker == "suffix"
        and cut.is_bytes
        and not {byte + SUFFIX for byte in ALPHABET} <= vocabulary.ids.keys()
    ):
        what = "the vocabulary lacks tokens for bytes that end words, and this format drops unknown bytes; learn with"
        raise VocabularyError(what, hint={"marker": "none"})
    special = vocabulary.special
    spaced = (*special.spaced, *special.lstrip, *special.rstrip)
    if spaced and Scheme.of(vocabulary).normalizes_users:
        what = f"the user token {spaced[0]!r} contains or takes white space"
        raise VocabularyError(
            f"{what}, which tokenizers cannot find in normalised text; export without it"
        )
    if marker == "prefix" and cut.keeps_spaces and not cut.is_bytes:
        what = f"this format has no marker {marker!r} for words of the pre-tokenizer {cut.name!r}; learn with"
        raise VocabularyError(what, hint={"marker": "none"})


def _refuse_regex(vocabulary: Vocabulary) -> None:
    try:
        from tokenizers import Regex
    except ImportError:
        return
    cut = vocabulary.pretokenizer
    for pattern in [spelled(split.pattern) for split in cut.splits] or [cut.pattern]:
        try:
            Regex(pattern)
        except Exception as error:  # the library raises no narrower class
            what = f"tokenizers cannot read the regex {pattern!r} ({error})"
            raise VocabularyError(f"{what}; count with a regex that Oniguruma reads, too") from None


def _notes(vocabulary: Vocabulary) -> Iterator[str]:
    scheme, special = Scheme.of(vocabulary), vocabulary.special
    if vocabulary.counts:
        yield "The counts of the tokens are not in the file: the format has no place for them."
    if len(set(vocabulary.merges)) < len(vocabulary.merges) and vocabulary.merging != "ranks":
        yield "Merges that repeat an earlier one are not in the file: they have no effect."
    if only := [token for token in special.all if token not in special.user]:
        names = ", ".join(only[:3])
        yield f"transformers finds special tokens, such as {names}, in text; VOLT finds only user tokens."
    yield from letter_notes(vocabulary)
    if shown := [
        token for token in dict.fromkeys(special.roles.values()) if token not in special.skipped
    ]:
        yield f"transformers leaves out tokens with roles where VOLT's decoder does not: {named(shown)}."
    if blank := [
        token
        for token in special.spaced
        if token.isspace() and token in special.lstrip + special.rstrip
    ]:
        yield f"Tokens of white space do not take more of it if the file is read back: {named(blank)}."
    if special.unk is None and not (vocabulary.byte_fallback or scheme.cut.is_bytes):
        yield "Unknown characters leave nothing, but pieces on both sides of one may join there, and not in VOLT."
    if special.user:
        yield from _user_notes(scheme, named(special.user[:1]))
        if scheme.normalizes_users and scheme.normalizer != "none":
            yield "Text that normalisation turns into a user token becomes that token there, but stays text in VOLT."
    if scheme.normalizes_users:
        yield "U+10C000 to U+10FFFD in text become U+FFFD there, and stay as they are in VOLT."
    if vocabulary.byte_fallback and vocabulary.marker == "suffix":
        if scheme.end == SUFFIX:
            yield "An unknown last character becomes its bytes and four bytes for '</w>', as 'w' is not a token."
        else:
            yield f"The token '</w>' is spelled {scheme.end}, and two more tokens, after all others, help to make it."
    if vocabulary.normalizer.form == "nfkc":
        yield "Characters newer than the Unicode version of tokenizers, such as U+1FBF7 in 0.23, are not normalised."
    if scheme.cut.has_own_pattern:
        yield "The regex is read by another engine, whose \\w, \\d and \\b differ on rare characters, such as '¼'."
        if vocabulary.marker == "prefix":
            yield "A word that itself begins with '▁' gets no second '▁' before it."
    if vocabulary.merging == "pairs" and (pair := next(remade(vocabulary.merges), None)):
        what = f"If {pair[0]!r}, {pair[1]!r} occur twice in a row, the pieces may differ"
        yield f"{what}: VOLT merges both before it looks for lower ranks, but tokenizers does not."


def closing_notes(vocabulary: Vocabulary, closed: Vocabulary) -> Iterator[str]:
    if extra := [token for token in vocabulary.scaffolding if token not in vocabulary.ids]:
        added = (
            "token is added, with the id" if len(extra) == 1 else "tokens are added, with ids from"
        )
        why = "merges make what VOLT splits back, which tokenizers cannot do"
        use = (
            f"an embedding needs {len(closed):,} rows; from now on, encode with Vocabulary.closed()"
        )
        yield f"{len(extra):,} {added} {closed.ids[extra[0]]:,}: {why}; {use}."


def _user_notes(scheme: Scheme, example: str) -> Iterator[str]:
    if scheme.normalizes_users:
        yield from _end_user_notes(scheme, example)
    elif scheme.marker == "suffix":
        ends = "text before one ends in '</w>', and no lone '</w>' follows one at the end of a word, as in VOLT"
        yield f"User tokens, such as {example}, cut the words that they touch: {ends}."
    elif scheme.marker == "prefix":
        starts = "text after one starts with '▁', and no lone '▁' precedes one at the start of a word, as in VOLT"
        yield f"User tokens, such as {example}, cut the words that they touch: {starts}."
    elif not scheme.cut.is_bytes and not scheme.cut.splits:
        others = "white space or symbols next to one may become other pieces than in VOLT"
        yield f"Text is cut at user tokens, such as {example}, before it is cut into words: {others}."


def _end_user_notes(scheme: Scheme, example: str) -> Iterator[str]:
    if scheme.ends_users and not scheme.cut.splits:
        yield f"Text right before a user token, as in x{example}, is encoded as if the word ended there."
    lacks = ["'▁' in front"] * scheme.starts_lines + ["lone '</w>'"] * scheme.ends_users
    if lacks:
        yield f"A line that is just {example} gets no {' and no '.join(lacks)}."
    if scheme.pretokenizer == "gpt2":
        yield f"An apostrophe right after a user token, as in {example}'s, begins a contraction."
    lone = {scheme.end: LONE_END} if scheme.ends_users else {}
    lone |= {PREFIX: LONE_SPACE} if scheme.spaces_users else {}
    for token, shown in lone.items():
        yield f"A line that is just {token!r} becomes that token alone, which the library shows as U+{ord(shown):X}."


def _tokenizer(vocabulary: Vocabulary) -> Json:
    scheme, special = Scheme.of(vocabulary), vocabulary.special
    model: Json = {
        "type": "BPE",
        "dropout": None,
        "unk_token": special.unk,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": SUFFIX if vocabulary.marker == "suffix" else None,
        "fuse_unk": vocabulary.fuse_unk,
        "byte_fallback": vocabulary.byte_fallback,
        "ignore_merges": vocabulary.whole_words,
        "vocab": vocabulary.ids,
        "merges": [list(pair) for pair in merges_of(vocabulary)],
    }
    model = model if scheme.end == SUFFIX else with_ends(model)
    lone = (scheme.end,) * scheme.ends_users + (PREFIX,) * (
        scheme.spaces_users and PREFIX in vocabulary.ids
    )
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(scheme, special, model["vocab"], lone),
        "normalizer": sequence("normalizers", normalizers(scheme)),
        "pre_tokenizer": sequence("pretokenizers", pre_tokenizers(scheme)),
        "post_processor": None,
        "decoder": sequence("decoders", decoders(scheme, vocabulary.byte_fallback)),
        "model": model,
    }


def _added_tokens(
    scheme: Scheme, special: SpecialTokens, ids: Json, lone: tuple[str, ...]
) -> list[Json]:
    """Return a row for each special token and each lone mark. Only user tokens are found in normalised text."""
    ours, rows = {*special.user, *lone}, list[Json]()
    for token in sorted({*special.all, *lone}, key=ids.__getitem__):
        flags = {
            "single_word": False,
            "lstrip": token in special.lstrip,
            "rstrip": token in special.rstrip,
        }
        flags |= {"normalized": scheme.normalizes_users and token in ours}
        flags |= {"special": token not in lone and token in special.skipped}
        rows.append(
            {"id": ids[token], "content": token, **flags}
            | ({} if token in ours else {FOUND: False})
        )
    return rows
