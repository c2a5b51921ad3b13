"""Vocabulary → Hugging Face tokenizer.json, alone or in a folder that transformers loads.

`tokenizers` finds the same pieces and ids with the file as VOLT, except for differences that
`write` returns. All special tokens become "added tokens", which `tokenizers` finds in text, as in
published files; VOLT finds only user tokens. `tokenizers` cannot split the results of merges back
into their parts, so the vocabulary is closed first.

>>> import tempfile
>>> tokens = ("l", "o", "w</w>", "lo", "low</w>")
>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=tokens)
>>> with tempfile.TemporaryDirectory() as folder:
...     notes = write(vocabulary, Path(folder, "model"))
...     sorted(file.name for file in Path(folder, "model").iterdir()), len(notes)
(['special_tokens_map.json', 'tokenizer.json', 'tokenizer_config.json'], 1)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from volt.errors import ConfigError, VocabularyError, quoted, shown_path
from volt.files.atomic import new_folder, write_together
from volt.formats.huggingface import unigram
from volt.formats.huggingface.chat_template import template_text
from volt.formats.huggingface.folder import CONFIG, FILE, MAP, TEMPLATE
from volt.formats.huggingface.import_notes import note_byte_letters
from volt.formats.huggingface.pipeline_writing import (
    LONE_END,
    LONE_SPACE,
    Json,
    Scheme,
    add_end_merges,
    decoders,
    normalizers,
    pre_tokenizers,
    sequence,
)
from volt.formats.huggingface.split_patterns import can_spell, spell_split
from volt.formats.huggingface.tokens import FOUND, find_remade
from volt.formats.protocol import Pair, locate_errors, name_tokens
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import ALPHABET
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary


def merges_of(vocabulary: Vocabulary) -> list[Pair]:
    """Return the merges for a file, by rank, each once.

    If merging is "ranks", VOLT joins any two neighbours that spell the result of a merge. So all
    pairs of tokens that spell it become merges. Of these, `tokenizers` joins the pair of lowest
    rank first, and VOLT the leftmost pair. So of two pairs that can overlap, the left one gets the
    lower rank.

    >>> tokens = ("l", "o", "w", "lo", "low", "ow")
    >>> merges_of(Vocabulary((("l", "o"), ("lo", "w"), ("o", "w")), tokens, merging="ranks"))
    [('l', 'o'), ('l', 'ow'), ('lo', 'w'), ('o', 'w')]
    """
    if vocabulary.merging != "ranks":
        return list(dict.fromkeys(vocabulary.merges))
    results = dict.fromkeys(vocabulary.made)
    known = {*results, *vocabulary.atoms}
    return [pair for token in results for pair in _spell_by_pairs(token) if known.issuperset(pair)]


def _spell_by_pairs(token: str) -> Iterator[Pair]:
    """Yield all pairs of strings that spell a token.

    Of two pairs that can overlap in text, the left one comes first.
    """
    for size in range(1, len(token) // 2 + 1):
        cuts = [size, len(token) - size]
        if token.endswith(token[:size]) and not token.startswith(token[size:]):
            cuts.reverse()
        for cut in dict.fromkeys(cuts):
            yield token[:cut], token[cut:]


def write(
    vocabulary: Vocabulary, path: Path, *, chat_template: str | Path | None = None
) -> list[str]:
    """Write a folder, or one file if `path` ends in .json.

    Returns a sentence for each loss and difference.

    chat_template: a Jinja template, or a Path to a file with one, for `apply_chat_template`

    Raises VocabularyError if the format cannot store the vocabulary, ConfigError for a template
    that is not valid.
    """
    is_file = path.suffix == ".json"
    template = None
    if chat_template is not None:
        template = template_text(chat_template)
    if is_file and template is not None:
        raise ConfigError(
            f"{shown_path(path)}: a chat template needs a folder; "
            "give a path that does not end in .json"
        )
    with locate_errors(path):
        closed, tokenizer, config = contents(vocabulary)
    notes = [*note_closing(vocabulary, closed), *_note_differences(closed)]
    tokenizer_data = f"{unigram.text_of(tokenizer)}\n".encode()
    if is_file:
        write_together({path: tokenizer_data})
        return notes
    files = {
        path / MAP: _json(_name_special(closed.special)),
        path / CONFIG: _json(config),
        path / FILE: tokenizer_data,
    }
    if template is not None:
        files[path / TEMPLATE] = template.encode()
    elif (path / TEMPLATE).exists():
        notes.append(
            f"{shown_path(path / TEMPLATE)} is from before; "
            "transformers uses it unless you delete it."
        )
    with new_folder(path):
        write_together(files)
    return notes


def contents(vocabulary: Vocabulary) -> tuple[Vocabulary, Json, Json]:
    """Return what the folder of an export contains.

    The result has the closed vocabulary, its tokenizer.json, and its tokenizer_config.json, the
    last two as JSON data.
    """
    never_made: tuple[str, ...] = ()
    if vocabulary.normalizer.name == "none":
        never_made = vocabulary.special.user
    vocabulary = vocabulary.closed(exclude=never_made)
    _refuse(vocabulary)
    tokenizer = _tokenizer(vocabulary)
    decoder = {
        str(row["id"]): {key: row[key] for key in row if key not in ("id", FOUND)}
        for row in tokenizer["added_tokens"]
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **_name_special(vocabulary.special),
        "added_tokens_decoder": decoder,
        "clean_up_tokenization_spaces": False,
    }
    return vocabulary, tokenizer, config


def _name_special(special: SpecialTokens) -> Json:
    """Return the entries of special_tokens_map.json."""
    result: Json = {f"{role}_token": token for role, token in special.roles.items()}
    skipped = set(special.skipped).difference(special.roles.values())
    if others := [token for token in special.all if token in skipped]:
        result["additional_special_tokens"] = others
    return result


def files_written(path: Path) -> tuple[Path, ...]:
    if path.suffix == ".json":
        return (path,)
    return path / MAP, path / CONFIG, path / FILE


def _json(value: object) -> bytes:
    return f"{json.dumps(value, ensure_ascii=False, indent=1)}\n".encode()


def _refuse(vocabulary: Vocabulary) -> None:
    cut = vocabulary.pretokenizer
    marker = vocabulary.marker
    if lost := [atom for atom in vocabulary.atoms if atom not in vocabulary.ids]:
        raise VocabularyError(
            f"merges use {lost[0]!r}, which is not a token ({len(lost):,} characters in all); "
            "add these characters to the tokens, or remove their merges"
        )
    if not can_spell(cut.splits):
        raise VocabularyError(
            f"the pre-tokenizer {quoted(cut.name, 200)} reads text from its end, which tokenizers "
            "cannot do; count with another pattern, such as digits3"
        )
    if cut.isolates_users:
        raise VocabularyError(
            f"the pre-tokenizer {quoted(cut.name, 100)}, read from a tokenizer.json, cannot be "
            "written to one yet; give the file that it comes from"
        )
    if cut.has_own_pattern:
        _refuse_regex(cut)
    if marker == "suffix" and vocabulary.whole_words:
        raise VocabularyError(
            f"this format looks words up without {SUFFIX!r}, so whole_words needs the marker 'none'"
        )
    ends = {byte + SUFFIX for byte in ALPHABET}
    if marker == "suffix" and cut.is_bytes and not ends <= vocabulary.ids.keys():
        raise VocabularyError(
            "the vocabulary lacks tokens for bytes that end words, "
            "and this format drops unknown bytes; learn with",
            hint={"marker": "none"},
        )
    special = vocabulary.special
    if vocabulary.normalizer.steps and special.user and Scheme.of(vocabulary).normalizes_users:
        raise VocabularyError(
            f"tokenizers cannot find user tokens, such as {special.user[0]!r}, before the normalizer "
            f"{vocabulary.normalizer.label} and a '▁' in front of lines only; export without them"
        )
    spaced = special.spaced + special.lstrip + special.rstrip
    if spaced and Scheme.of(vocabulary).normalizes_users:
        raise VocabularyError(
            f"the user token {spaced[0]!r} contains or takes white space, "
            "which tokenizers cannot find in normalised text; export without it"
        )
    if marker == "prefix" and cut.keeps_spaces and not cut.is_bytes:
        raise VocabularyError(
            f"this format has no marker {marker!r} for words of the pre-tokenizer {cut.name!r}; "
            "learn with",
            hint={"marker": "none"},
        )


def _refuse_regex(cut: PreTokenizer) -> None:
    try:
        from tokenizers import Regex
    except ImportError:
        return
    for pattern in [spell_split(split) for split in cut.splits] or [cut.pattern]:
        try:
            Regex(pattern)
        except Exception as error:  # the library raises no narrower class
            raise VocabularyError(
                f"tokenizers cannot read the regex {pattern!r} ({error}); "
                "count with a regex that Oniguruma reads, too"
            ) from None


def _note_differences(vocabulary: Vocabulary) -> Iterator[str]:
    scheme = Scheme.of(vocabulary)
    special = vocabulary.special
    if vocabulary.counts:
        yield "The counts of the tokens are not in the file: the format has no place for them."
    if len(set(vocabulary.merges)) < len(vocabulary.merges) and vocabulary.merging != "ranks":
        yield "Merges that repeat an earlier one are not in the file: they have no effect."
    yield from _note_special(vocabulary)
    if vocabulary.is_unigram:
        yield from unigram.note_export(vocabulary)
    elif special.unk is None and not (vocabulary.byte_fallback or scheme.cut.is_bytes):
        yield (
            "Unknown characters leave nothing, but pieces on both sides of one may join there, "
            "and not in VOLT."
        )
    if special.user:
        yield from _note_users(scheme, name_tokens(special.user[:1]))
    if scheme.normalizes_users:
        if special.user and scheme.normalizer != "none":
            yield (
                "Text that normalisation turns into a user token becomes that token there, "
                "but stays text in VOLT."
            )
        yield "U+10C000 to U+10FFFD in text become U+FFFD there, and stay as they are in VOLT."
    if vocabulary.byte_fallback and vocabulary.marker == "suffix":
        if scheme.end == SUFFIX:
            yield (
                "An unknown last character becomes its bytes and four bytes for '</w>', "
                "as 'w' is not a token."
            )
        else:
            yield (
                f"The token '</w>' is spelled {scheme.end}, and two more tokens, after all others, "
                "help to make it."
            )
    if vocabulary.normalizer.form == "nfkc":
        yield (
            "Characters newer than the Unicode version of tokenizers, such as U+1FBF7 in 0.23, "
            "are not normalised."
        )
    if scheme.cut.has_own_pattern:
        yield (
            "The regex is read by another engine, whose \\w, \\d and \\b differ on rare characters, "
            "such as '¼'."
        )
        if vocabulary.marker == "prefix":
            yield "A word that itself begins with '▁' gets no second '▁' before it."
    if vocabulary.merging == "pairs" and (pair := next(find_remade(vocabulary.merges), None)):
        yield (
            f"If {pair[0]!r}, {pair[1]!r} occur twice in a row, the pieces may differ: "
            "VOLT merges both before it looks for lower ranks, but tokenizers does not."
        )


def _note_special(vocabulary: Vocabulary) -> Iterator[str]:
    special = vocabulary.special
    if others := [token for token in special.all if token not in special.user]:
        yield (
            f"transformers finds special tokens, such as {', '.join(others[:3])}, in text; "
            "VOLT finds only user tokens."
        )
    yield from note_byte_letters(vocabulary)
    roles = dict.fromkeys(special.roles.values())
    if shown := [token for token in roles if token not in special.skipped]:
        yield (
            "transformers leaves out tokens with roles where VOLT's decoder does not: "
            f"{name_tokens(shown)}."
        )
    strips = special.lstrip + special.rstrip
    if blank := [token for token in special.spaced if token.isspace() and token in strips]:
        yield (
            "Tokens of white space do not take more of it if the file is read back: "
            f"{name_tokens(blank)}."
        )


def note_closing(vocabulary: Vocabulary, closed: Vocabulary) -> Iterator[str]:
    extra = [token for token in vocabulary.scaffolding if token not in vocabulary.ids]
    if extra:
        added = "token is added, with the id"
        if len(extra) > 1:
            added = "tokens are added, with ids from"
        yield (
            f"{len(extra):,} {added} {closed.ids[extra[0]]:,}: merges make what VOLT splits back, "
            f"which tokenizers cannot do; an embedding needs {len(closed):,} rows; "
            "from now on, encode with Vocabulary.closed()."
        )


def _note_users(scheme: Scheme, example: str) -> Iterator[str]:
    cuts = f"User tokens, such as {example}, cut the words that they touch: "
    if scheme.normalizes_users:
        yield from _note_lone_marks(scheme, example)
    elif scheme.marker == "suffix":
        yield (
            f"{cuts}text before one ends in '</w>', and no lone '</w>' follows one at the end of a "
            "word, as in VOLT."
        )
    elif scheme.marker == "prefix":
        yield (
            f"{cuts}text after one starts with '▁', and no lone '▁' precedes one at the start of a "
            "word, as in VOLT."
        )
    elif not (scheme.cut.is_bytes or scheme.cut.splits or scheme.starts_segments):
        yield (
            f"Text is cut at user tokens, such as {example}, before it is cut into words: "
            "white space or symbols next to one may become other pieces than in VOLT."
        )


def _note_lone_marks(scheme: Scheme, example: str) -> Iterator[str]:
    lacks = list[str]()
    if scheme.starts_lines:
        lacks.append("'▁' in front")
    lone = dict[str, str]()
    if scheme.ends_users:
        lacks.append("lone '</w>'")
        lone[scheme.end] = LONE_END
        if not scheme.cut.splits:
            yield (
                f"Text right before a user token, as in x{example}, is encoded as if the word ended "
                "there."
            )
    if scheme.spaces_users:
        lone[PREFIX] = LONE_SPACE
    if lacks:
        yield f"A line that is just {example} gets no {' and no '.join(lacks)}."
    if scheme.pretokenizer == "gpt2":
        yield f"An apostrophe right after a user token, as in {example}'s, begins a contraction."
    for token, shown in lone.items():
        yield (
            f"A line that is just {token!r} becomes that token alone, "
            f"which the library shows as U+{ord(shown):X}."
        )


def _tokenizer(vocabulary: Vocabulary) -> Json:
    scheme = Scheme.of(vocabulary)
    special = vocabulary.special
    merge_model: Json = {
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
    model = unigram.write_model(vocabulary) if vocabulary.is_unigram else merge_model
    if scheme.end != SUFFIX:
        model = add_end_merges(model)
    ids = vocabulary.ids if vocabulary.is_unigram else model["vocab"]
    lone = list[str]()
    if scheme.ends_users:
        lone.append(scheme.end)
    if scheme.spaces_users and PREFIX in vocabulary.ids:
        lone.append(PREFIX)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(_added_tokens(scheme, special, ids, lone)),
        "normalizer": sequence("normalizers", normalizers(scheme)),
        "pre_tokenizer": sequence("pretokenizers", pre_tokenizers(scheme)),
        "post_processor": None,
        "decoder": sequence("decoders", decoders(scheme, byte_fallback=vocabulary.byte_fallback)),
        "model": model,
    }


def _added_tokens(
    scheme: Scheme, special: SpecialTokens, ids: Json, lone: Sequence[str]
) -> Iterator[Json]:
    """Yield a row for each special token and each lone mark.

    ids: the section "vocab"
    lone: the lone marks; VOLT, too, finds these and user tokens, so their rows lack the key `FOUND`
    """
    ours = {*special.user, *lone}
    for token in sorted({*special.all, *lone}, key=ids.__getitem__):
        row = {
            "id": ids[token],
            "content": token,
            "single_word": False,
            "lstrip": token in special.lstrip,
            "rstrip": token in special.rstrip,
            "normalized": scheme.normalizes_users and token in ours,
            "special": token not in lone and token in special.skipped,
        }
        if token not in ours:
            row[FOUND] = False
        yield row
