"""Laws of tokenizer.json as published families write them: equal ids, a note for each difference, or an error.

Each file has the steps and added tokens of its family, and merges that `tokenizers` learned here. The documentation's
table of families says what each row of `FAMILIES` shows.
"""

from __future__ import annotations

import json
import pickle
import random
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from drawn import some
from exports import LINES

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.formats.check import check
from volt.formats.huggingface.pipeline_writing import replace_step
from volt.formats.registry import write_vocabulary
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.vocabulary import Vocabulary

tokenizers = pytest.importorskip("tokenizers")
PAGE = Path(__file__).parents[2] / "docs/pages/how-to/take-over-a-tokenizer.md"
ODD = (
    "½",
    "中文",
    "é",
    "e\u0301",
    "\u00a0",
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
)
SPANNING = (("▁", "▁"), ("▁▁", "▁"), ("e", "▁"), ("e▁", "t"))
GEMMAS = "'▁' in text is found as the added token ▁▁ there, and is a space here."
HARMLESS = (
    "Characters newer than",
    "Numbers newer than",
    "Tokens that the post-processor",
    "In a run of byte tokens",
)

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
    r"|\s+"
)
NFC, SPACES = {"type": "NFC"}, replace_step(" ", "▁")
PREPEND, DIGITS = {"type": "Prepend", "prepend": "▁"}, {"type": "Digits", "individual_digits": True}
RUNS = tuple(" " * n for n in range(24, 1, -1))


def level(*, use_regex: bool = True, adds_space: bool = False) -> dict:
    return {
        "type": "ByteLevel",
        "add_prefix_space": adds_space,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def split(
    pattern: str, behavior: str = "Isolated", *, kind: str = "Regex", invert: bool = False
) -> dict:
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def metaspace(scheme: str) -> dict:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}


GPT_J = ("<|endoftext|>", *RUNS, "\t\t", "\t\t\t")
LLAMA, GEMMA = ("<unk>", "<s>", "</s>"), ("<unk>", "<bos>", "\n", "\n\n", "▁▁", "▁▁▁", "<table>")
SENTENCES = [split(" ", "MergedWithPrevious", kind="String")]
FALCON = [
    {"type": "Punctuation", "behavior": "Contiguous"},
    level(),
    {"type": "Digits", "individual_digits": False},
]
FLAGS = {
    "<mask>": {"lstrip": True},
    "<|user|>": {"rstrip": True},
    "<|end|>": {"rstrip": True},
}  # of some tokens
FAMILIES = {  # family: normalizer, pre_tokenizer, added tokens, and what an import is: exact, a note, or an error
    "GPT-2, GPT-3, RoBERTa, BART, OPT": ([], [level()], ("<|endoftext|>", "<mask>"), "exact"),
    "GPT-NeoX, Pythia, OLMo": ([NFC], [level()], ("<|endoftext|>", "<|padding|>", *RUNS), "exact"),
    "CodeGen, Phi-2": ([], [level()], GPT_J, "exact"),
    "Llama 3, GPT-4": (
        [],
        [split(GPT4), level(use_regex=False)],
        ("<|begin_of_text|>", "<|eot_id|>"),
        "exact",
    ),
    "Qwen 2.5, Qwen 3": (
        [NFC],
        [split(GPT4.replace("{1,3}", "")), level(use_regex=False)],
        ("<|im_start|>", "<|im_end|>", "<think>"),
        "exact",
    ),
    "DeepSeek V3": (
        [],
        [split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(GPT4), level(use_regex=False)],
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
        [split(r" ?[^(\s|[.,!?…。，、।۔،])]+"), level(use_regex=False)],
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


@cache
def learned(*, is_bytes: bool) -> tuple[dict[str, int], list[list[str]]]:
    """Return the tokens and merges that `tokenizers` learns from `LINES`; of "▁", also merges that span words."""
    real = tokenizers.Tokenizer(tokenizers.models.BPE())
    cut, alphabet = (
        tokenizers.pre_tokenizers.Metaspace(prepend_scheme="never"),
        [*BYTE_TOKENS, "\t"],
    )
    if is_bytes:
        cut, alphabet = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), [*ALPHABET]
    real.pre_tokenizer = cut
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600, show_progress=False, special_tokens=alphabet
    )
    real.train_from_iterator(LINES, trainer)
    model = json.loads(real.to_str())["model"]
    vocab, merges = model["vocab"], model["merges"]
    for left, right in SPANNING * (not is_bytes):
        merges.append([left, right])
        vocab.setdefault(left + right, len(vocab))
    return vocab, merges


def file_of(family: str) -> dict:
    """Return a tokenizer.json with the family's steps and added tokens, and merges learned here."""
    normalizer, cuts, added, _ = FAMILIES[family]
    is_bytes = any(step["type"] == "ByteLevel" for step in cuts)
    vocab, merges = learned(is_bytes=is_bytes)
    vocab = dict(vocab)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    rows = []
    for place, token in enumerate(added):
        number = vocab.setdefault(token, len(vocab))
        rows.append({"id": number, "content": token, **flags, "normalized": token in RUNS})
        rows[-1] |= FLAGS.get(token, {}) | {"special": place % 3 != 2 and "▁▁" not in token}
    steps = [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    ]
    if not is_bytes:
        steps = [replace_step("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
        steps += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * (
            PREPEND in normalizer or bool(cuts)
        )
        steps = steps[: 3 if cuts == SENTENCES else None]
    data = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    data["model"] |= {
        "vocab": vocab,
        "merges": merges,
        "byte_fallback": not is_bytes,
        "fuse_unk": not is_bytes,
    }
    return data | {
        "added_tokens": rows,
        "normalizer": sequence("normalizers", normalizer),
        "pre_tokenizer": sequence("pretokenizers", cuts),
        "decoder": sequence("decoders", steps),
    }


def lines_for(added: tuple[str, ...]) -> list[str]:
    """Return lines of words, white space and odd characters, half of them with added tokens anywhere."""
    chance, words = random.Random(7), [*" ".join(LINES).split(" "), *ODD]
    parts = [*added, *[" ", "  ", "   ", "\t", "\n", "\n\n"]]
    lines = [
        "".join(chance.choice(words) + " " * chance.randrange(4) for _ in range(6))
        for _ in range(60)
    ]
    lines += [
        "".join(chance.choice(chance.choice((words, parts))) for _ in range(9)) for _ in range(160)
    ]
    return [
        *lines,
        *added,
        *(f"{token} a" for token in added),
        *(f"a{token}" for token in added),
        "",
        " ",
        "  ",
    ]


def sequence(name: str, steps: list[dict]) -> dict | None:
    return {"type": "Sequence", name: steps} if len(steps) > 1 else steps[0] if steps else None


def read(family: str, folder: Path) -> tuple[Vocabulary, object]:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(file_of(family)))
    return huggingface.read(path), tokenizers.Tokenizer.from_file(str(path))


def assert_same_ids(vocabulary: Vocabulary, real: object, lines: list[str]) -> None:
    """Batches have the ids of the library, and so have some of their lines alone and with spans."""
    encoder, theirs = (
        Encoder(vocabulary),
        [one.ids for one in real.encode_batch(lines, add_special_tokens=False)],
    )
    for line, ids, expected in zip(lines, encoder.encode_batch(lines), theirs, strict=True):
        assert ids.tolist() == expected, line
    spans = encoder.encode_spans(some(lines))
    for line, expected, offsets in zip(
        some(lines), some(theirs), pairwise(spans.offsets), strict=True
    ):
        assert encoder.encode_ids(line).tolist() == expected, line
        assert spans.ids[slice(*offsets)].tolist() == expected, line


def assert_same_text(vocabulary: Vocabulary, real: object, lines: list[str]) -> None:
    """Ids of lines and ids at random, but for bytes that are no text, are decoded as the library decodes them."""
    encoder, chance = Encoder(vocabulary), random.Random(3)
    numbers = [
        n for piece, n in vocabulary.ids.items() if piece not in (*BYTE_TOKENS, *ALPHABET[128:])
    ]
    numbers = [n for n in numbers if "\ufffd" not in real.decode([n])] + [
        vocabulary.ids[t] for t in vocabulary.special.all
    ]
    rows = [one.ids for one in real.encode_batch(lines, add_special_tokens=False)]
    rows += [chance.choices(numbers, k=6) for _ in range(200)]
    for skip in (False, True):
        expected = real.decode_batch(rows, skip_special_tokens=skip)
        assert encoder.decode_batch(rows, skip_special=skip) == expected
        assert [encoder.decode_ids(row, skip_special=skip) for row in some(rows)] == some(expected)
        assert [
            "".join(encoder.decode_stream(row, skip_special=skip)) for row in some(rows)
        ] == some(expected)


READ = [family for family, (*_, result) in FAMILIES.items() if result in ("exact", GEMMAS)]


@pytest.mark.parametrize("family", READ)
def test_a_family_has_the_ids_of_the_library(family: str, tmp_path: Path) -> None:
    """On words, white space, odd characters and added tokens in any order; "▁" in text unless a note excludes it. A
    file that `tokenizers` has saved again, with all its settings, is the same vocabulary."""
    vocabulary, real = read(family, tmp_path)
    real.save(str(tmp_path / "tokenizer.json"))
    assert huggingface.read(tmp_path / "tokenizer.json") == vocabulary
    _, _, added, result = FAMILIES[family]
    notes = [note for note in vocabulary.provenance["lost"] if not note.startswith(HARMLESS)]
    assert notes == [result] * (result != "exact")
    lines = [line for line in lines_for(added) if result == "exact" or "▁" not in line]
    assert_same_ids(vocabulary, real, lines)
    assert_same_text(vocabulary, real, lines)


@pytest.mark.parametrize("family", READ)
def test_a_family_keeps_its_ids_when_written_again(family: str, tmp_path: Path) -> None:
    """An export is a tokenizer.json with the ids of the original, and .volt files keep them, too."""
    vocabulary, real = read(family, tmp_path)
    lines = [line for line in lines_for(FAMILIES[family][2]) if "▁" not in line]
    vocabulary.save(tmp_path / "a.volt")
    loaded = Vocabulary.load(tmp_path / "a.volt")
    assert loaded == vocabulary
    assert_same_ids(loaded, real, lines)
    assert_same_text(pickle.loads(pickle.dumps(loaded)), real, lines)
    write_vocabulary(vocabulary, tmp_path / "again.json", to="huggingface")
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "again.json"))
    for line, one, other in zip(
        lines,
        *(t.encode_batch(lines, add_special_tokens=False) for t in (real, again)),
        strict=True,
    ):
        assert one.ids == other.ids, line
    assert huggingface.read(tmp_path / "again.json").special.flags == vocabulary.special.flags


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in READ])
def test_other_families_are_refused_with_a_remedy(family: str, tmp_path: Path) -> None:
    """The error names the step, and says what to do."""
    with pytest.raises(VocabularyError, match=f"{re.escape(FAMILIES[family][-1])}.*; "):
        read(family, tmp_path)


def test_the_documentation_lists_the_families() -> None:
    """Each row of the table has a family's name and what its import is."""
    words = {"exact": "exact", GEMMAS: "exact, except for '▁' in text"}
    rows = [
        f"| {family} | {words.get(result, 'refused')} |"
        for family, (*_, result) in FAMILIES.items()
    ]
    page = PAGE.read_text(encoding="utf-8")
    assert [row for row in rows if row not in page] == []


def written(
    folder: Path, model: dict, normalizer: list[dict], cuts: list[dict], added: list[dict]
) -> Path:
    """Write a tokenizer.json. added: contents and flags of the added tokens that are not usual"""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special", "normalized"), False)
    data = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    data["model"] |= model | {"vocab": dict(model["vocab"])}
    vocab = data["model"]["vocab"]
    rows = [{"id": vocab.setdefault(row["content"], len(vocab)), **flags, **row} for row in added]
    data |= {
        "normalizer": sequence("normalizers", normalizer),
        "pre_tokenizer": sequence("pretokenizers", cuts),
    }
    (folder / "tokenizer.json").write_text(json.dumps(data | {"added_tokens": rows}))
    return folder / "tokenizer.json"


SMALL = {
    "vocab": {token: n for n, token in enumerate(["<unk>", "a", "b", "▁", "ab"])},
    "merges": [["a", "b"]],
}
SMALL |= {"unk_token": "<unk>"}
UNMARKED = {**SMALL, "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3}, "fuse_unk": True}
SHORT = {"content": "  ", "normalized": True}
WHITE = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
NOTED = {  # a file that VOLT reads with other ids, and its note
    "late spaces": (SMALL, [SPACES], [], [SHORT], "found in normalised text there"),
    "late words": (
        SMALL,
        [WHITE],
        [{"type": "WhitespaceSplit"}],
        [{"content": "a b", "normalized": True}],
        "normalised",
    ),
    "late marks": (
        SMALL,
        [SPACES],
        [],
        [{"content": "▁▁", "normalized": True}],
        "found in normalised text there",
    ),
    "unknown words": (UNMARKED, [SPACES], [], [], "Unknown words in a row are one <unk> there"),
}


@pytest.mark.parametrize("case", NOTED)
def test_other_ids_are_announced(case: str, tmp_path: Path) -> None:
    """Where added tokens or unknown characters meet spaces that normalisation changes."""
    *file, note = NOTED[case]
    assert any(
        note in lost for lost in huggingface.read(written(tmp_path, *file)).provenance["lost"]
    )


WHOLE = {**SMALL, "ignore_merges": True}
REFUSED = {
    "words looked up in lines": (WHOLE, [SPACES], [], "looks up whole lines"),
    "the same for Gemma": (WHOLE, [SPACES], SENTENCES, "looks up whole lines"),
    "a cut at marks": (
        SMALL,
        [],
        [split("▁", kind="String"), metaspace("never")],
        "cuts text at '▁' before Metaspace",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_steps_that_volt_lacks_are_refused(case: str, tmp_path: Path) -> None:
    """A file whose words are cut or looked up otherwise raises an error with a remedy."""
    *file, message = REFUSED[case]
    with pytest.raises(VocabularyError, match=f"{message}.*; "):
        huggingface.read(written(tmp_path, *file, []))


@pytest.mark.parametrize("steps", [[PREPEND, SPACES], []])
def test_private_characters_are_text_without_user_tokens(steps: list[dict], tmp_path: Path) -> None:
    """Characters that may stand for user tokens get no "▁" of their own where there are no user tokens."""
    path = written(tmp_path, SMALL, steps, [metaspace("always")] * (not steps), [])
    lines = ["a\U0010c000b", "\U0010c000a", "a \U0010fffd\U0010c000 b"]
    assert_same_ids(huggingface.read(path), tokenizers.Tokenizer.from_file(str(path)), lines)


@pytest.mark.parametrize(
    ("normalizer", "cuts", "added"),
    [
        ([{"type": "Lowercase"}], [metaspace("always")], []),
        ([{"type": "NFC"}, {"type": "Lowercase"}], [metaspace("first")], []),
        ([SPACES], [], [{"content": "▁"}, {"content": "<t>"}]),
    ],
)
def test_an_export_is_read_back(
    normalizer: list[dict], cuts: list[dict], added: list[dict], tmp_path: Path
) -> None:
    """An imported vocabulary that is exported and imported again has the same ids."""
    first = huggingface.read(written(tmp_path, SMALL, normalizer, cuts, added))
    write_vocabulary(first, tmp_path / "again.json", to="huggingface")
    second = huggingface.read(tmp_path / "again.json")
    for line in ("a AB b", "▁a", "<t>▁ a", " Ab "):
        assert (
            Encoder(second).encode_ids(line).tolist() == Encoder(first).encode_ids(line).tolist()
        ), line


def test_a_check_sees_tokens_that_only_the_library_finds(tmp_path: Path) -> None:
    """An added token that VOLT does not find in text is a difference in a check of an import."""
    path = written(tmp_path, SMALL, [SPACES], [], [{"content": "<t>"}])
    blind = replace(
        vocabulary := huggingface.read(path),
        special=replace(vocabulary.special, user=(), control=("<t>",)),
    )
    assert check(vocabulary, path, "huggingface", ["a<t>b"]).is_complete
    assert not check(blind, path, "huggingface", ["a<t>b"]).is_complete


@pytest.mark.parametrize(
    "family", [family for family in READ if RUNS[0] not in FAMILIES[family][2]]
)
def test_white_space_around_added_tokens_is_theirs_if_flags_say_so(
    family: str, tmp_path: Path
) -> None:
    """With lstrip, rstrip or both on tokens that are not white space: the library's ids, and an export keeps flags."""
    data, chance = file_of(family), random.Random(5)
    for row in (row for row in data["added_tokens"] if row["content"].strip("\n▁")):
        row |= chance.choice(({"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}))
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    vocabulary, real = huggingface.read(path), tokenizers.Tokenizer.from_file(str(path))
    assert not [note for note in vocabulary.provenance["lost"] if "strip" in note]
    lines = [line for line in lines_for(FAMILIES[family][2]) if "▁" not in line]
    assert_same_ids(vocabulary, real, lines)
    write_vocabulary(vocabulary, tmp_path / "again.json", to="huggingface")
    again = huggingface.read(tmp_path / "again.json")
    assert again.special.flags == vocabulary.special.flags
    assert_same_ids(again, real, some(lines))
