"""What is written and read of drawn vocabularies, and of drawn damage to files, stays as it was."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from golden import check, digest
from outcomes import CUTS, any_vocabulary, described, drawn, gist, outcome

from volt.formats import huggingface, tiktoken
from volt.formats.registry import (
    FORMATS,
    files_read,
    files_written,
    format_of,
    listed_pieces,
    read_merges,
    read_vocabulary,
    write_vocabulary,
)
from volt.formats.sentencepiece import charsmap, model_file, writing
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS

pytest.importorskip("sentencepiece")
pytest.importorskip("tokenizers")
FITTING = {
    "subword-nmt": ("whitespace", "whitespace", "unicode", "bytes"),
    "tiktoken": tuple(cut for cut in CUTS if cut.startswith("bytes")),
    "sentencepiece": tuple(cut for cut in CUTS if "m" in cut or "s" in cut[:2] or cut == "regex:[^ ]+"),
}
LISTS = ("fairseq", "marian", "opennmt", "tokens")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files are in the working folder. Tables of replacements are short, and not packed, which takes a second each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(charsmap, "pack", lambda table: b"")
    monkeypatch.setattr(writing, "CHANGED", (range(0xC0, 0x100),))
    monkeypatch.setattr(writing, "_of_library", lambda: ["ﬁ"])
    caches = writing._packed, writing._normal_items
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def content(path: Path) -> bytes:
    """Return the bytes of a file, or the text of a sentencepiece model."""
    return str(model_file._load(path)).encode() if path.suffix == ".model" else path.read_bytes()


@pytest.mark.parametrize("name", FORMATS)
def test_exports_of_any_vocabulary(name: str) -> None:
    """A vocabulary gives the bytes and notes that it gave, or is refused as it was; what is written is read alike."""

    def export(chance: Random) -> Any:
        vocabulary, folder = any_vocabulary(chance, FITTING.get(name, CUTS)), Path(str(chance.random()))
        vocabulary = chance.choice([vocabulary, vocabulary.closed(), vocabulary.closed(order="merges")])
        folder.mkdir()
        path = folder / chance.choice(["a", "a.json"])
        notes = write_vocabulary(vocabulary, path, to=name)
        written = {str(file.relative_to(folder)): digest(content(file)) for file in folder.rglob("*") if file.is_file()}
        merges = Path(f"{folder.name}.volt") if name in LISTS else None
        if merges:
            vocabulary.save(merges)
        found = read_vocabulary(path, format=name, merges=merges, pattern="gpt2" if name == "tiktoken" else None)
        names = files_written(path, to=name), files_read(path), files_read(path, format=name)
        looks = [outcome(lambda call=call: call(path)) for call in (format_of, listed_pieces, read_merges)]
        replaced = sorted(writing.replacements(vocabulary).items()) if name == "sentencepiece" else []
        return sorted(written.items()), [*map(gist, notes)], described(found), names, looks, replaced

    check(f"formats exports {name}", drawn(100, export))


CODES = ["#version: 0.2", "l o", "lo w</w>", "e r</w>", "o w", "lo w", "low er</w>"]
OLD = ["#version: 0.1", "l o", "o </w>", "lo w", "w </w>", "lo w</w>", "e r", "er </w>", "low er</w>"]
FILES = {
    "subword-nmt": ["\n".join(CODES), "\n".join(OLD), "\n".join(OLD[1:]), "l o 9\nlo w</w> 7\ne r</w> 7\no w 1"],
    "fairseq": ["l@@ 9\no@@ 8\nlow 7\n<unk> 5 #fairseq:overwrite\ner 0\nmadeupword0000 0\nw 1"],
    "marian": ['"</s>": 0\n"<unk>": 1\n"l@@": 2\n\'o@@\': 3\nlow: 5\n"\\u00e9@@": 4',
    "---\neos: 0\nUNK: 1\nlow: 2\ner: 3"],
    "opennmt": ["l@@\t9\no@@\t8\nlow\t7\n1\t3", "9\tl@@\n8.5\to@@\n7\tlow\n3e2\ter\n1\t5", "9\tl\n8\to\n7\tlow</w>"],
    "tokens": ["l\no\nlow</w>\ner</w>\nw</w>"],
}  # fmt: skip
ODD = ["", "x", "l o", "low", "l@@ 3", "xyz 4", "é 1.5", "</w> 0", "\r", " ", "low\t2", "2\tlow", '"q": 9', "o: -1",
       "-1", "1e999\tl", "nan\tl", "madeupword0000 3",
       "lo lo", "#version: 0.3", "▁ t", "Ġ t", "a b c", "a b 3", "</w>", "@@", "@@ 1", "'it''s': 4", '"\\q": 8',
       '"\\x41": 6']  # fmt: skip


def damaged(lines: list[str], chance: Random) -> str:
    """Return lines of which up to two are put elsewhere, repeated, replaced or dropped."""
    lines = [*lines]
    for _ in range(chance.randint(0, 2)):
        place, kind = chance.randrange(len(lines)), chance.randrange(4)
        if kind < 3:
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(ODD) if kind else lines[place])
        if kind != 1 and len(lines) > 1:
            del lines[place]
    return chance.choice(["\n", "\n", "\r\n"]).join(lines) + chance.choice(["\n", "\n", ""])


@pytest.mark.parametrize("name", FILES)
def test_damage_to_lines(name: str) -> None:
    """A file with odd lines is read as it was, or refused for the same line; it is recognised as it was."""
    Path("codes").write_text("\n".join(CODES) + "\n", encoding="utf-8")

    def read(chance: Random) -> Any:
        text, path = damaged(chance.choice(FILES[name]).split("\n"), chance), Path("a")
        path.write_bytes(text.encode())
        if chance.random() < 0.3:
            return format_of(path)
        if name == "subword-nmt" and chance.random() < 0.5:
            found = read_merges(path)
            return found.pairs, found.marker, found.spells_bytes, [*map(gist, found.notes)]
        listing = Path("codes.vocab") if name == "subword-nmt" else Path("codes")
        if name == "subword-nmt":
            listing.write_text(damaged(["l@@ 3", "o@@ 2", "low 5", "er 1", "w 1"], chance), encoding="utf-8")
            return described(read_vocabulary(listing, format=name, merges=path))
        return described(read_vocabulary(path, format=name, merges=listing))

    check(f"formats lines {name}", drawn(250, read))


LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
SPLIT = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}"}, "behavior": "Isolated", "invert": False}
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND, SPACE_RUNS = {"type": "Prepend", "prepend": "▁"}, {**SPACES, "pattern": {"Regex": r"\s+"}, "content": " "}
STRIP, NFC, LOWER = {"type": "Strip"}, {"type": "NFC"}, {"type": "Lowercase"}
META = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
WHITE, DIGITS = {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True}
NORMALIZERS = [[], [], [NFC], [LOWER], [NFC, LOWER], [LOWER, NFC], [NFC, LOWER, NFC], [{"type": "NFKC"}], [SPACES],
               [PREPEND, SPACES], [NFC, PREPEND, SPACES], [SPACE_RUNS, STRIP, LOWER], [STRIP],
               [{"type": "NFD"}]]  # fmt: skip
CUT_STEPS = [[LEVEL], [LEVEL], [SPLIT, {**LEVEL, "use_regex": False}], [WHITE], [WHITE], [WHITE, DIGITS], [META], [],
             [{**META, "prepend_scheme": "never"}], [{**META, "split": False}], [{**META, "prepend_scheme": "first"}],
             [{"type": "Metaspace", "replacement": "▁", "add_prefix_space": False}], [DIGITS, LEVEL], [DIGITS, META],
             [WHITE, {**META, "split": False}], [{**SPLIT, "pattern": {"String": " "}}], [DIGITS], [SPLIT], [SPLIT,
             META],
             [{"type": "Punctuation", "behavior": "Contiguous"}, LEVEL], [{"type": "Whitespace"}],
             [{**SPLIT, "pattern": {"Regex": r"\w+|\s"}, "behavior": "Removed", "invert": True}]]  # fmt: skip
VALUES = [
    None,
    [],
    {},
    0,
    -1,
    7,
    "x",
    "",
    True,
    False,
    "▁",
    "</w>",
    [["a", "b"]],
    {"type": "BPE"},
    1 << 21,
    "a b",
    ["a"],
]


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in JSON data, of tables of letters or bytes only some."""
    items = [*(data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ())]
    for key, value in items[-12:]:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(data: Any, chance: Random) -> Any:
    """Return JSON data of which one value is dropped or replaced."""
    data = json.loads(json.dumps(data))
    *path, last = chance.choice([*places(data)])
    place = data
    for key in path:
        place = place[key]
    if chance.random() < 0.3:
        del place[last]
    else:
        place[last] = chance.choice(VALUES)
    return data


def tokenizer(chance: Random) -> dict[str, Any]:
    """Return a tokenizer.json with drawn sections."""
    normalizer, cuts = chance.choice(NORMALIZERS), chance.choice(CUT_STEPS)
    is_bytes, is_marked = LEVEL["type"] in str(cuts), "Metaspace" in str(cuts) or SPACES in normalizer
    suffix = "</w>" if chance.random() < (0.02 if is_marked else 0.3) else None
    letters = [*(ALPHABET if is_bytes else "abt▁.1")]
    letters += [letter + "</w>" for letter in letters] * bool(suffix)
    made = [*letters[-6:], *letters[:3]]
    pairs = []
    for _ in range(chance.randint(0, 6)):
        pairs.append([chance.choice([one for one in made if "</w>" not in one] or ["a"]), chance.choice(made)])
        made.append("".join(pairs[-1]))
    special = ["<unk>", "<s>", "<|a|>", "<|a|>b", "é!", "zzz"]
    tokens = [
        *letters,
        *map("".join, pairs),
        *chance.sample(special, chance.randint(0, 6)),
        *" "[: chance.randint(0, 1)],
    ]
    fallback = chance.random() < 0.25
    tokens += [*BYTE_TOKENS[: chance.choice([256, 256, 3])]] * fallback
    vocab = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    flags = ("lstrip", "rstrip", "single_word", "normalized")
    added = [
        {
            "id": vocab.get(token, len(vocab) + number),
            "content": token,
            **{flag: chance.random() < 0.3 for flag in flags},
        }
        for number, token in enumerate(chance.sample([*special[:5], *made[-1:]], chance.randint(0, 4)))
    ]
    post = [None, None, {"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [{"Sequence": 1}] * 2}]
    chance.shuffle(pairs)
    return {
        "version": "1.0", "added_tokens": added, "post_processor": chance.choice(post),
        "normalizer": {"type": "Sequence",
        "normalizers": normalizer} if len(normalizer) > 1 else (normalizer or [None])[0],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts} if len(cuts) > 1 else (cuts or [None])[0],
        "truncation": chance.choice([None, None, {"max_length": 3}]), "padding": chance.choice([None, None,
        {"length": 3}]),
        "model": {
            "type": "BPE", "vocab": vocab, "merges": [" ".join(pair) if suffix else pair for pair in pairs],
            "unk_token": chance.choice([None, "<unk>", "<unk>", "a"]), "end_of_word_suffix": suffix,
            "byte_fallback": fallback, "ignore_merges": chance.random() < 0.3, "fuse_unk": chance.random() < 0.3,
            "dropout": chance.choice([None, None, 0.3]),
        },
    }  # fmt: skip


NAMES = [{}, {"eos_token": "<s>", "unk_token": {"content": "<unk>"}}, {"additional_special_tokens": ["<|a|>",
         {"content": "é!"}]},
         {"tokenizer_class": "GPT2TokenizerFast"}, {"tokenizer_class": "RobertaTokenizer", "mask_token": None},
         {"added_tokens_decoder": {"9": {"content": "<|a|>", "lstrip": True}, "x": {"content": "<s>"}},
         "bos_token": ""},
         {"add_prefix_space": True}, {"pad_token": "zzz", "bos_token": "<s>"},
         {"extra_special_tokens": {"a": "<|a|>"}}]  # fmt: skip


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_any_tokenizer_json(first: int) -> None:
    """Any sections, settings, ids and names in the folder are read as they were, or refused for the same reason."""

    def read(chance: Random) -> Any:
        data = tokenizer(chance)
        Path("tokenizer.json").write_text(json.dumps(changed(data, chance) if chance.random() < 0.3 else data))
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            Path(name).write_text(json.dumps(chance.choice(NAMES)))
        return described(huggingface.read(Path()))

    check(f"formats tokenizer.json {first}", drawn(60, read, first))


def test_any_folder_of_merges() -> None:
    """Merges over bytes with ids, and tokens that other files of the folder name, are read as they were."""

    def read(chance: Random) -> Any:
        vocab = {
            token: number
            for number, token in enumerate([*ALPHABET, "Ġt", "th", "Ġth", "(l", "Ã©", "<s>", "<|a|>", "zz", "a b"])
        }
        vocab = changed(vocab, chance) if chance.random() < 0.15 else vocab
        Path("vocab.json").write_text(json.dumps(vocab))
        rows = chance.sample(["Ġ t", "t h", "Ġt h", "Ġ th", "t h", "Ã ©"], chance.randint(2, 5))
        rows += ["( l"] * (chance.random() < 0.1)
        Path("merges.txt").write_text("\n".join(["#version: 0.2", *rows]) + "\n", encoding="utf-8")
        for name in ("special_tokens_map.json", "tokenizer_config.json"):
            Path(name).write_text(json.dumps(chance.choice(NAMES)))
        Path("added_tokens.json").write_text(chance.choice(["{}", '{"<n>": 300}', '{"<n>": -1, "<m>": 264}']))
        return described(read_vocabulary(chance.choice([Path(), Path("merges.txt")])))

    check("formats merges over bytes", drawn(100, read))


def test_any_ranks() -> None:
    """Ranks in lines and in a tekken.json, with and without a pattern, are read as they were."""

    def read(chance: Random) -> Any:
        words = chance.sample([b"th", b"the", b" the", b"(th", b"12", b"123", b"tthe", b"'s", b"abc", b"e1"], 5)
        tokens = [*(bytes([byte]) for byte in range(256)), *words]
        coded, pattern = (
            [base64.b64encode(token).decode() for token in tokens],
            chance.choice([None, "gpt2", "cl100k", r"\w+"]),
        )
        if chance.random() < 0.5:
            path, n = Path("a.tiktoken"), chance.randint(1, 2)
            rows = [f"{token} {rank * n + 5}" for rank, token in enumerate(coded)]
            if chance.random() < 0.5:
                at = chance.randrange(250, len(rows))
                rows[at] = chance.choice(
                    [rows[0], "IQ==", "!!! 3", "IUFC 5", "= 9", "IUFC 2097152", "IUFC 2097151", "", "a b c"]
                )
            path.write_text("\n".join(rows) + "\n")
        else:
            path = Path("tekken.json")
            numbers = {"default_vocab_size": chance.choice([262, 263, 264, 9]), "default_num_special_tokens": 3}
            data: Any = {
                "config": {"pattern": r"\w+|[^\w]+", **numbers},
                "vocab": [{"rank": rank, "token_bytes": token} for rank, token in enumerate(coded)],
                "special_tokens": [{"rank": 0, "token_str": "<unk>"}, {"rank": 2, "token_str": "[A]"}],
            }
            path.write_text(json.dumps(changed(data, chance) if chance.random() < 0.6 else data))
        if chance.random() < 0.2:
            found = read_merges(path)
            return found.pairs, found.marker, found.spells_bytes, [*map(gist, found.notes)]
        return described(
            tiktoken.read_with_pattern(
                path, pattern=pattern if path.suffix == ".tiktoken" or chance.random() < 0.05 else None
            )
        )

    check("formats ranks", drawn(150, read))


def test_any_sentencepiece_model() -> None:
    """A model of any pieces, scores and settings is read as it was, or refused for the same reason."""

    def read(chance: Random) -> Any:
        model = charsmap.model_class()()
        texts = ["a", "b", "▁", "a▁", "b▁", "<s>", "</s>", "<pad>", "ab", "▁a", "▁▁", "ab▁", "b▁a", "aab", "abab", "c"]
        model.pieces.add(piece="<unk>", type=2)
        ends = chance.random() < 0.25
        texts = [text for text in texts if not (ends and "▁" in text[:-1] and chance.random() < 0.9)]
        for piece in [
            "a",
            "b",
            "▁",
            *["a▁", "b▁"] * ends,
            *chance.sample(texts[5:], chance.randint(0, len(texts) - 5)),
        ]:
            kind = (
                3
                if "<" in piece
                else chance.choice([1, 1, 1, 1, 1, 1, 1, 5, 4 if "▁" not in piece and len(piece) > 2 else 1])
            )
            score = -float(chance.randint(0, 20)) - 20 * (len(piece) == 1) + 30 * (len(piece) == 2 and piece[1] == "▁")
            model.pieces.add(piece=piece, score=score, type=kind)
        spec, trainer = model.normalizer_spec, model.trainer_spec
        trainer.model_type = chance.choice([2] * 40 + [1, 3, 4])
        spec.name = chance.choice(["identity", "", "nmt_nfkc", "nfkc_cf", "nfkc", "nmt_nfkc_cf", "odd"])
        for name in ("add_dummy_prefix", "remove_extra_whitespaces"):
            setattr(spec, name, chance.random() < (0.95 if ends else 0.5))
        spec.escape_whitespaces = chance.random() < 0.98
        trainer.treat_whitespace_as_suffix = ends
        trainer.byte_fallback = chance.random() < 0.2
        for byte in BYTE_TOKENS * trainer.byte_fallback:
            model.pieces.add(piece=byte, type=6)
        if chance.random() < 0.15:
            odd = (
                ("", 0.0, 1),
                ("q", float("nan"), 1),
                ("a", 0.0, 1),
                ("q\0", 0.0, 1),
                ("▁q", 0.0, 4),
                ("q", 0.0, 3),
                ("<0x00>", 0, 6),
            )
            piece, score, kind = chance.choice(odd)
            model.pieces.add(piece=piece, score=score, type=kind)
        return described(model_file.vocabulary_of(model))

    check("formats sentencepiece models", drawn(500, read))
