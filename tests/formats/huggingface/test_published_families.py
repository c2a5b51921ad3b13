"""Laws of tokenizer.json as published families write them: equal ids, a note for each difference,
or an error.

Each file has the steps and added tokens of its family, and merges that `tokenizers` learned in the
test. The documentation's table of families says what each row of `FAMILIES` shows.
"""

import json
import pickle
import random
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from formats.support import (
    DIGITS,
    NFC,
    PREPEND,
    SPACES,
    assert_same_text,
    changed,
    level,
    library_of,
    metaspace,
    read_both,
    split,
    tokenizer_json,
)
from support.drawn import some
from support.exports import LINES

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.formats.check import check
from volt.formats.huggingface.pipeline_writing import replace_step
from volt.formats.registry import write_vocabulary
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.vocabulary import Vocabulary

tokenizers = pytest.importorskip("tokenizers")
PAGE = Path(__file__).parents[3] / "docs/pages/how-to/take-over-a-tokenizer.md"
ODD = [
    "½",
    "中文",
    "é",
    "é",
    "\u3000",
    "😀",
    "▁",
    "▁▁",
    "\U0010c000",
    "</w>",
    "<s",
    "42",
    "'s",
    "!?",
    "\r",
    "\xa0",
]
SPANNING = (("▁", "▁"), ("▁▁", "▁"), ("e", "▁"), ("e▁", "t"))
GEMMAS = "'▁' in text is found as the added token ▁▁ there, and is a space here."
HARMLESS = (
    "Characters newer than",
    "Numbers newer than",
    "Tokens that the post-processor",
    "In a run of byte tokens",
)
GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RUNS = tuple(" " * n for n in range(24, 1, -1))
GPT_J = ("<|endoftext|>", *RUNS, "\t\t", "\t\t\t")
LLAMA = ("<unk>", "<s>", "</s>")
GEMMA = ("<unk>", "<bos>", "\n", "\n\n", "▁▁", "▁▁▁", "<table>")
BYTES = level(use_regex=False)
SENTENCES = [split(" ", "MergedWithPrevious", kind="String")]
FALCON = [
    {"type": "Punctuation", "behavior": "Contiguous"},
    level(),
    DIGITS | {"individual_digits": False},
]
FLAGS = {"<mask>": {"lstrip": True}, "<|user|>": {"rstrip": True}, "<|end|>": {"rstrip": True}}
# family: normalizer, pre_tokenizer, added tokens, and what an import is: exact, a note, or an error
FAMILIES = {
    "GPT-2, GPT-3, RoBERTa, BART, OPT": ([], [level()], ("<|endoftext|>", "<mask>"), "exact"),
    "GPT-NeoX, Pythia, OLMo": ([NFC], [level()], ("<|endoftext|>", "<|padding|>", *RUNS), "exact"),
    "CodeGen, Phi-2": ([], [level()], GPT_J, "exact"),
    "Llama 3, GPT-4": ([], [split(GPT4), BYTES], ("<|begin_of_text|>", "<|eot_id|>"), "exact"),
    "Qwen 2.5, Qwen 3": (
        [NFC],
        [split(GPT4.replace("{1,3}", "")), BYTES],
        ("<|im_start|>", "<|im_end|>", "<think>"),
        "exact",
    ),
    "DeepSeek V3": (
        [],
        [split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(GPT4), BYTES],
        ("<｜User｜>", "<｜begin▁of▁sentence｜>"),
        "exact",
    ),
    "Command R": ([NFC], [DIGITS, level()], ("<|START_OF_TURN_TOKEN|>",), "exact"),
    "Llama 2, Mistral 7B, ChatGLM 3, Baichuan 2": ([PREPEND, SPACES], [], LLAMA, "exact"),
    "Phi-3": ([PREPEND, SPACES], [], (*LLAMA, "<|user|>", "<|end|>"), "exact"),
    "TinyLlama, newer Llama 2": ([], [metaspace("first")], LLAMA, "exact"),
    "Yi, InternLM 2, Gemma": ([SPACES], [], LLAMA, "exact"),
    "Gemma 2, Gemma 3, SigLIP 2": ([SPACES], SENTENCES, GEMMA, GEMMAS),
    "BLOOM": (
        [],
        [split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), BYTES],
        ("<unk>", "<s>", "</s>", "<pad>"),
        "exact",
    ),
    "Blenderbot": (
        [],
        [level(adds_space=True)],
        ("<mask>",),
        "add_prefix_space puts a space before each line",
    ),
    "Falcon": ([], FALCON, ("<|endoftext|>",), "Digits cuts text after ByteLevel"),
}
READ = [family for family, (*_, result) in FAMILIES.items() if result in ("exact", GEMMAS)]


@cache
def learned(*, is_bytes):
    """Return the tokens and merges that `tokenizers` learns from `LINES`; without bytes, also
    merges that span words.
    """
    real = tokenizers.Tokenizer(tokenizers.models.BPE())
    cuts = tokenizers.pre_tokenizers
    real.pre_tokenizer = cuts.Metaspace(prepend_scheme="never")
    alphabet = [*BYTE_TOKENS, "\t"]
    if is_bytes:
        real.pre_tokenizer = cuts.ByteLevel(add_prefix_space=False)
        alphabet = [*ALPHABET]
    options = {"vocab_size": 600, "show_progress": False, "special_tokens": alphabet}
    real.train_from_iterator(LINES, tokenizers.trainers.BpeTrainer(**options))
    model = json.loads(real.to_str())["model"]
    vocab = model["vocab"]
    merges = model["merges"]
    for left, right in () if is_bytes else SPANNING:
        merges.append([left, right])
        vocab.setdefault(left + right, len(vocab))
    return vocab, merges


def file_of(family, folder):
    """Write a tokenizer.json with the family's steps and added tokens, and merges learned here."""
    normalizer, cuts, added, _ = FAMILIES[family]
    is_bytes = any(step["type"] == "ByteLevel" for step in cuts)
    vocab, merges = learned(is_bytes=is_bytes)
    numbers = dict(vocab)
    for token in added:
        numbers.setdefault(token, len(numbers))
    rows = [
        {
            "content": token,
            "normalized": token in RUNS,
            "special": place % 3 != 2 and "▁▁" not in token,
        }
        | FLAGS.get(token, {})
        for place, token in enumerate(added)
    ]
    steps = [replace_step("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    if cuts != SENTENCES and (PREPEND in normalizer or cuts):
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return tokenizer_json(
        folder,
        numbers,
        merges,
        added=rows,
        normalizer=normalizer,
        cuts=cuts,
        decoder=level() if is_bytes else {"type": "Sequence", "decoders": steps},
        byte_fallback=not is_bytes,
        fuse_unk=not is_bytes,
    )


def lines_for(family, *, marks=False):
    """Return lines of words, white space and odd characters, half of them with added tokens. marks:
    also with "▁"
    """
    added = FAMILIES[family][2]
    chance = random.Random(7)
    words = [*" ".join(LINES).split(" "), *ODD]
    parts = [*added, " ", "  ", "   ", "\t", "\n", "\n\n"]
    lines = [
        "".join(chance.choice(words) + " " * chance.randrange(4) for _ in range(6))
        for _ in range(60)
    ]
    lines += [
        "".join(chance.choice(chance.choice((words, parts))) for _ in range(9)) for _ in range(160)
    ]
    for token in added:
        lines += [token, f"{token} a", f"a{token}"]
    return [line for line in [*lines, "", " ", "  "] if marks or "▁" not in line]


def assert_same_ids(vocabulary, library, lines):
    """Check that the ids of a batch, of single lines, and of lines with spans are the library's."""
    encoder = Encoder(vocabulary)
    theirs = [row.ids for row in library.encode_batch(lines, add_special_tokens=False)]
    for line, ids, expected in zip(lines, encoder.encode_batch(lines), theirs, strict=True):
        assert ids.tolist() == expected, line
    spans = encoder.encode_spans(some(lines))
    offsets = pairwise(spans.offsets)
    for line, expected, place in zip(some(lines), some(theirs), offsets, strict=True):
        assert encoder.encode_ids(line).tolist() == expected, line
        assert spans.ids[slice(*place)].tolist() == expected, line


@pytest.mark.parametrize("family", READ)
def test_a_family_has_the_ids_of_the_library(family, tmp_path):
    """VOLT's ids and decoded text with a family's file are the library's for words, white space,
    odd characters and added tokens in any order, except for "▁" if a note says so. A file that
    `tokenizers` saved again gives an equal vocabulary.
    """
    path = file_of(family, tmp_path)
    vocabulary, library = read_both(path)
    library.save(str(path))
    assert huggingface.read(path) == vocabulary
    result = FAMILIES[family][-1]
    notes = [note for note in vocabulary.notes if not note.startswith(HARMLESS)]
    assert notes == ([] if result == "exact" else [result])
    lines = lines_for(family, marks=result == "exact")
    assert_same_ids(vocabulary, library, lines)
    assert_same_text(vocabulary, library, lines)


@pytest.mark.parametrize("family", READ)
def test_a_family_keeps_its_ids(family, tmp_path):
    """The ids of a family's file stay in a .volt file, in a pickled copy, and in an exported
    tokenizer.json.
    """
    path = file_of(family, tmp_path)
    vocabulary, library = read_both(path)
    lines = lines_for(family)
    vocabulary.save(tmp_path / "a.volt")
    loaded = Vocabulary.load(tmp_path / "a.volt")
    assert loaded == vocabulary
    assert_same_ids(loaded, library, lines)
    assert_same_text(pickle.loads(pickle.dumps(loaded)), library, lines)
    write_vocabulary(vocabulary, tmp_path / "again.json", to="huggingface")
    again = library_of(tmp_path / "again.json")
    ids = [
        [row.ids for row in each.encode_batch(lines, add_special_tokens=False)]
        for each in (library, again)
    ]
    assert ids[0] == ids[1]
    assert huggingface.read(tmp_path / "again.json").special.flags == vocabulary.special.flags


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in READ])
def test_other_families_are_refused(family, tmp_path):
    """The error for a family that VOLT cannot read names the step, and says what to do."""
    with pytest.raises(VocabularyError, match=f"{re.escape(FAMILIES[family][-1])}.*; "):
        huggingface.read(file_of(family, tmp_path))


def test_the_documentation_lists_the_families():
    """The page's table has a row for each family of `FAMILIES`, with the result of its import."""
    words = {"exact": "exact", GEMMAS: "exact, except for '▁' in text"}
    page = PAGE.read_text(encoding="utf-8")
    for family, (*_, result) in FAMILIES.items():
        assert f"| {family} | {words.get(result, 'refused')} |" in page


@pytest.mark.parametrize(
    "family", [family for family in READ if RUNS[0] not in FAMILIES[family][2]]
)
def test_added_tokens_take_white_space_if_flags_say_so(family, tmp_path):
    """If added tokens have lstrip or rstrip, ids are the library's, an export keeps the flags, and
    `check` finds differences if the flags are removed.
    """
    path = file_of(family, tmp_path)
    chance = random.Random(5)
    rows = json.loads(path.read_text())["added_tokens"]
    flags = ({"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True})
    for row in rows:
        if row["content"].strip("\n▁"):
            row |= chance.choice(flags)
    changed(path, added_tokens=rows)
    vocabulary, library = read_both(path)
    assert not [note for note in vocabulary.notes if "strip" in note]
    lines = lines_for(family)
    assert_same_ids(vocabulary, library, lines)
    write_vocabulary(vocabulary, tmp_path / "again.json", to="huggingface")
    again = huggingface.read(tmp_path / "again.json")
    assert again.special.flags == vocabulary.special.flags
    assert_same_ids(again, library, some(lines))
    special = replace(vocabulary.special, lstrip=(), rstrip=())
    blind = replace(vocabulary, special=special)
    names = [row["content"] for row in rows if "▁" not in row["content"]]
    texts = [f"a \n{name}\n b {name} a" for name in names]
    assert check(vocabulary, path, "huggingface", texts).is_complete
    assert not check(blind, path, "huggingface", texts).is_complete


def test_a_check_sees_tokens_that_only_the_library_finds(tmp_path):
    """`check` finds a difference if an added token is found in text by the library, and not by
    VOLT.
    """
    path = tokenizer_json(tmp_path, ALPHABET, cuts=[level()], added=[{"content": "<t>"}])
    vocabulary = huggingface.read(path)
    special = replace(vocabulary.special, user=(), control=("<t>",))
    blind = replace(vocabulary, special=special)
    assert check(vocabulary, path, "huggingface", ["a<t>b"]).is_complete
    assert not check(blind, path, "huggingface", ["a<t>b"]).is_complete
