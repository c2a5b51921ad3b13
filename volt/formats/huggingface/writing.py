"""Vocabulary → Hugging Face tokenizer.json, alone or in a folder that transformers loads.

The file has the same ids and gives the same pieces, except for differences that `write` returns. Only user tokens
become "added tokens", all of which `tokenizers` finds in text; VOLT never finds other special tokens, such as "</s>".

>>> import tempfile
>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "lo", "low</w>"))
>>> with tempfile.TemporaryDirectory() as folder:
...     notes = write(vocabulary, Path(folder, "model"))
...     sorted(file.name for file in Path(folder, "model").iterdir()), notes
(['special_tokens_map.json', 'tokenizer.json', 'tokenizer_config.json'], [])
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from volt.errors import VocabularyError, quoted
from volt.files.atomic import new_folder, write_together
from volt.formats.huggingface.pipeline_reading import remade
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
from volt.formats.huggingface.reading import not_whole
from volt.formats.huggingface.split_patterns import spelled
from volt.formats.huggingface.tokens import CONFIG, FILE, MAP
from volt.formats.protocol import located, refuse_scaffolding
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import ALPHABET
from volt.text.pretokenizer import IF_ABSENT
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
    with located(path):
        _refuse(vocabulary)
    notes, text = list(_notes(vocabulary)), _json(_tokenizer(vocabulary))
    if path.suffix == ".json":
        write_together({path: text.encode()})
        return notes
    special = vocabulary.special
    named: Json = {f"{role}_token": token for role, token in special.roles.items()}
    if others := [token for token in special.control if token not in special.roles.values()]:
        named["additional_special_tokens"] = others
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
        "split_special_tokens": not _is_met(special),
        "clean_up_tokenization_spaces": False,
    }
    texts = _json(named), _json(config), text
    with new_folder(path):
        write_together(dict(zip(files_written(path), map(str.encode, texts), strict=True)))
    return notes


def _is_met(special: SpecialTokens) -> bool:
    """Check whether a user token has a role. If so, transformers must look for all tokens with roles in text."""
    return not {*special.roles.values(), *special.control}.isdisjoint(special.user)


def files_written(path: Path) -> tuple[Path, ...]:
    return (path,) if path.suffix == ".json" else (path / MAP, path / CONFIG, path / FILE)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def _refuse(vocabulary: Vocabulary) -> None:
    cut, marker = vocabulary.pretokenizer, vocabulary.marker
    refuse_scaffolding(vocabulary, "tokenizers")
    if lost := [atom for atom in vocabulary.atoms if atom not in vocabulary.ids]:
        what = f"merges use {lost[0]!r}, which is not a token ({len(lost):,} characters in all)"
        raise VocabularyError(f"{what}; add these characters to the tokens, or remove their merges")
    if any(split.from_end for split in cut.splits):
        what = f"the pre-tokenizer {quoted(cut.name, 200)} reads text from its end, which tokenizers cannot do"
        raise VocabularyError(f"{what}; count with another pattern, such as digits3")
    if cut.isolates_users or cut.name.endswith(IF_ABSENT):
        what = f"the pre-tokenizer {quoted(cut.name, 100)}, read from a tokenizer.json, cannot be written to one yet"
        raise VocabularyError(f"{what}; give the file that it comes from")
    if cut.has_own_pattern:
        _refuse_regex(vocabulary)
    if marker == "suffix" and vocabulary.whole_words:
        raise VocabularyError(f"this format looks words up without {SUFFIX!r}, so whole_words needs the marker 'none'")
    if marker == "suffix" and cut.is_bytes and not {byte + SUFFIX for byte in ALPHABET} <= vocabulary.ids.keys():
        what = "the vocabulary lacks tokens for bytes that end words, and this format drops unknown bytes; learn with"
        raise VocabularyError(what, hint={"marker": "none"})
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
    yield from _special_notes(vocabulary)
    if special.user:
        yield from _user_notes(scheme, special.user[0])
        if (scheme.takes_users_as_words or scheme.normalizes_users) and scheme.normalizer != "none":
            yield "Text that normalisation turns into a user token becomes that token there, but stays text in VOLT."
        if scheme.takes_users_as_words and (unmade := next(not_whole(vocabulary), None)) is not None:
            yield f"The word {unmade!r} is taken whole there because of user tokens; VOLT's merges do not make it."
        yield "U+10F000 to U+10FFFD in text become U+FFFD there, and stay as they are in VOLT."
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


def _special_notes(vocabulary: Vocabulary) -> Iterator[str]:
    special, tokens = vocabulary.special, set(vocabulary.tokens)
    if special.control:
        yield (
            f"Control tokens, such as {special.control[0]}, are not found in text, as in VOLT, and tokenizer.json does "
            "not name them: for a chat template, load the folder by AutoTokenizer with split_special_tokens=False."
        )
    unmet = [token for token in special.all if token not in special.user]
    if _is_met(special) and unmet:
        yield f"transformers finds {', '.join(unmet[:3])} in text, too, because it must find user tokens with roles."
    reserved = (token for token in vocabulary.ids if token not in tokens and token not in special.user)
    words = (token for token in reserved if vocabulary.pretokenizer.split(token) == [token])
    if vocabulary.whole_words and (word := next(words, None)):
        yield f"A word that is spelled like a special token, such as {word}, is this token there, and text in VOLT."


def _user_notes(scheme: Scheme, example: str) -> Iterator[str]:
    if scheme.takes_users_as_words:
        exception = "if text after one is spelled like a role's token or a byte token up to the word's end, it is found"
        yield f"User tokens, such as {example}, are not 'added tokens'; {exception}."
    elif scheme.normalizes_users:
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
    lacks = ["'▁' in front"] * scheme.cut.dummy_prefix + ["lone '</w>'"] * scheme.ends_users
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
        "fuse_unk": False,
        "byte_fallback": vocabulary.byte_fallback,
        "ignore_merges": vocabulary.whole_words or scheme.takes_users_as_words,
        "vocab": vocabulary.ids,
        "merges": [list(pair) for pair in merges_of(vocabulary)],
    }
    model = model if scheme.end == SUFFIX else with_ends(model)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    flags |= {"normalized": scheme.normalizes_users, "special": False}
    lone = (scheme.end,) * scheme.ends_users + (PREFIX,) * (scheme.spaces_users and PREFIX in vocabulary.ids)
    added = () if scheme.takes_users_as_words else special.user + lone
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": model["vocab"][token], "content": token, **flags} for token in added],
        "normalizer": sequence("normalizers", normalizers(scheme)),
        "pre_tokenizer": sequence("pretokenizers", pre_tokenizers(scheme)),
        "post_processor": None,
        "decoder": sequence("decoders", decoders(scheme, vocabulary.byte_fallback)),
        "model": model,
    }
