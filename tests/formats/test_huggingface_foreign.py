"""Laws of tokenizer.json that others wrote: whatever is read gives the ids of the library, and keeps every id."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from exports import LINES, learn

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.text.byte_alphabet import ALPHABET

tokenizers = pytest.importorskip("tokenizers")

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
PATTERNS = (
    LLAMA,
    r"\p{N}{1,3}",
    "[一-龥]+",
    r"\s?\p{L}+",
    r"[\r\n]",
    r"\w+|[^\w\s]+",
    " ?[^(\\s|[.,!?])]+",
    r"(?>\p{N}{1,2})",
)
BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
CHARACTERS = "abAB'sStTllre  \n\r\t--.,!?()123456²½٣ éß中文😀\u200d\u0301\x1c\u3000_\u166d\u061d"


def split(
    pattern: str, behavior: str = "Isolated", *, kind: str = "Regex", invert: bool = False
) -> dict:
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def level(*, use_regex: bool) -> dict:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def metaspace(scheme: str, *, cuts: bool) -> dict:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cuts}


SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND = {"type": "Prepend", "prepend": "▁"}
DIGITS = {"type": "Digits", "individual_digits": True}
WHITE = {"type": "WhitespaceSplit"}
CUTS = {  # normalizer steps, pre_tokenizer steps, and the suffix of words
    "gpt2": ([], [level(use_regex=True)], None),
    "llama3": ([], [split(LLAMA), level(use_regex=False)], None),
    "digits": ([{"type": "NFC"}], [DIGITS, level(use_regex=True)], None),
    "deepseek": (
        [],
        [split(r"\p{N}{1,3}"), split("[一-龥]+"), split(LLAMA), level(use_regex=False)],
        None,
    ),
    "words": ([], [{"type": "Whitespace"}], None),
    "white, digits": ([], [WHITE, {"type": "Punctuation", "behavior": "Isolated"}, DIGITS], None),
    "marked words": ([{"type": "Lowercase"}], [WHITE, metaspace("always", cuts=False)], None),
    "suffix": ([], [WHITE], "</w>"),
    "clip": (
        [
            {"type": "NFC"},
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Lowercase"},
        ],
        [split(CLIP, "Removed", invert=True), level(use_regex=True)],
        "</w>",
    ),
    "llama2": ([PREPEND, SPACES], [], None),
    "gemma": ([SPACES], [split(" ", "MergedWithPrevious", kind="String")], None),
    "metaspace": ([], [metaspace("always", cuts=True)], None),
    "first": ([], [metaspace("first", cuts=False)], None),
    "never": ([], [metaspace("never", cuts=True)], None),
}
SPANNING = [
    ("▁", "▁"),
    ("e", "▁"),
    ("e▁", "t"),
]  # tokens of several words, where nothing cuts at spaces


def text(chance: random.Random) -> str:
    return "".join(chance.choice(CHARACTERS) for _ in range(chance.randrange(24)))


def file_of(kind: str, chance: random.Random) -> dict:
    """A tokenizer.json of this kind: merges that are drawn, ids in any order and with holes, added tokens."""
    normalizer, cut, suffix = CUTS[kind]
    is_bytes = any(step["type"] == "ByteLevel" for step in cut)
    atoms = list(ALPHABET) if is_bytes else [*"abcdelorstw'.,-12▁é中", "😀"]
    atoms += [atom + suffix for atom in atoms] if suffix else []
    pairs, made = [], [atom for atom in atoms if atom[0].isalpha() or atom[0] in "Ġ▁" or is_bytes]
    spans = not is_bytes and (not cut or not cut[-1].get("split", True) or kind == "gemma")
    while len(pairs) < 60:
        pair = chance.choice(made), chance.choice(made)
        inner = [part for part in pair if "▁" in part[1:] or (part is pair[1] and "▁" in part)]
        if (
            (suffix and pair[0].endswith(suffix))
            or (inner and not is_bytes)
            or len("".join(pair)) > 12
            or pair in pairs
        ):
            continue
        pairs.append(pair)
        made.append("".join(pair))
    pairs += SPANNING * spans
    tokens = list(dict.fromkeys([*atoms, *map("".join, pairs)]))
    special = ["<|startoftext|>", "<|endoftext|>", "<unk>"]
    chance.shuffle(tokens := [*tokens, *special, "<unused>"])
    ids = dict(zip(tokens, sorted(chance.sample(range(len(tokens) + 9), len(tokens))), strict=True))
    flags = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[token], "content": token, **flags} for token in special],
        "normalizer": {"type": "Sequence", "normalizers": normalizer} if normalizer else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cut} if cut else None,
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": suffix,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": is_bytes and not suffix and chance.random() < 0.5,
            "vocab": ids,
            "merges": pairs,
        },
    }


def assert_same_ids(data: dict, lines: list[str], folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data))
    real, vocabulary = tokenizers.Tokenizer.from_file(str(path)), huggingface.read(path)
    encoder = Encoder(vocabulary)
    theirs = [found.ids for found in real.encode_batch(lines, add_special_tokens=False)]
    for line, ids, expected in zip(lines, encoder.encode_batch(lines), theirs, strict=True):
        assert ids.tolist() == expected, (line, vocabulary.pretokenizer.name)
    assert {piece: real.token_to_id(piece) for piece in vocabulary.ids} == vocabulary.ids


@pytest.mark.parametrize("kind", CUTS)
def test_ids_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    """Any ids, any merges, tokens whose parts come in several ways, added tokens in text: the ids of the library."""
    chance = random.Random(kind)
    lines = [text(chance) for _ in range(60)]
    lines += [f"{text(chance)}<|endoftext|>{text(chance)}" for _ in range(20)]
    for _ in range(3):
        assert_same_ids(
            file_of(kind, chance),
            [*lines, "", " ", "<|endoftext|>", "<unk><unk>  a <unk> "],
            tmp_path,
        )


WHITE_STEPS = [
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Replace", "pattern": {"String": "\t"}, "content": " "},
]


@pytest.mark.parametrize("white", WHITE_STEPS)
def test_steps_about_white_space_are_read_only_where_it_is_dropped(
    white: dict, tmp_path: Path
) -> None:
    """Elsewhere they change the ids, so a file with such a step gives the library's ids, or is refused."""
    read = []
    for kind in CUTS:
        data = file_of(kind, random.Random(kind))
        data["normalizer"] = {"type": "Sequence", "normalizers": [white, *CUTS[kind][0]]}
        with suppress(VocabularyError):
            assert_same_ids(data, ["  ab \t ba  a\tb ", " ", ""], tmp_path)
            read.append(kind)
    assert read == ["words", "white, digits", "marked words", "suffix", "clip"]


def step(chance: random.Random) -> dict:
    kind = chance.randrange(6)
    if kind < 3:
        behavior = chance.choice(BEHAVIORS) if chance.random() < 0.5 else "Isolated"
        return split(chance.choice(PATTERNS), behavior, invert=chance.random() < 0.25)
    if kind == 3:
        return {"type": "Digits", "individual_digits": chance.random() < 0.5}
    if kind == 4:
        return {"type": "Punctuation", "behavior": chance.choice(BEHAVIORS)}
    return {"type": chance.choice(["WhitespaceSplit", "Whitespace", "BertPreTokenizer"])}


def test_steps_that_are_read_cut_alike(tmp_path: Path) -> None:
    """Any sequence of steps either cuts bytes into the words of the library, or is refused."""
    chance, n_read = random.Random(7), 0
    data = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    data["model"]["vocab"] = {atom: number for number, atom in enumerate(ALPHABET)}
    for _ in range(90):
        steps = [
            *(step(chance) for _ in range(chance.randrange(1, 4))),
            level(use_regex=chance.random() < 0.3),
        ]
        data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
        (tmp_path / "a.json").write_text(json.dumps(data))
        try:
            cut = huggingface.read(tmp_path / "a.json").pretokenizer
        except VocabularyError:
            continue
        real, n_read = tokenizers.Tokenizer.from_str(json.dumps(data)).pre_tokenizer, n_read + 1
        for line in (text(chance) for _ in range(8)):
            assert cut.split(line) == [word for word, _ in real.pre_tokenize_str(line)], (
                steps,
                line,
            )
    assert n_read > 25


@pytest.mark.parametrize("kind", ["gpt2", "llama3", "deepseek"])
def test_export_and_import_keep_every_id(kind: str, tmp_path: Path) -> None:
    """A file that was read, written and read again numbers every piece as before, and cuts alike."""
    chance = random.Random(kind)
    data = file_of(kind, chance)
    data["model"]["ignore_merges"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    first = huggingface.read(tmp_path / "tokenizer.json")
    huggingface.write(first, tmp_path / "again.json")
    second = huggingface.read(tmp_path / "again.json")
    assert second.ids == first.ids
    lines = [text(chance) for _ in range(50)]
    assert (
        Encoder(second).encode_batch(lines).ids.tolist()
        == Encoder(first).encode_batch(lines).ids.tolist()
    )


def test_only_named_tokens_have_roles(tmp_path: Path) -> None:
    """Nobody invents special tokens: those that no file names are None; one token may have several roles."""
    data = file_of("llama3", random.Random(1))
    data["model"]["unk_token"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": {"content": "<|endoftext|>"}})
    )
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<|endoftext|>", "pad_token": "<none>"})
    )
    special = huggingface.read(tmp_path).special
    assert special.roles == {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
    assert set(special.user) == {"<|startoftext|>", "<|endoftext|>", "<unk>"}


def template(*parts: str) -> dict:
    """A template with one line, "A", among these tokens."""
    kinds = [
        {"Sequence": {"id": "A", "type_id": 0}}
        if part == "A"
        else {"SpecialToken": {"id": part, "type_id": 0}}
        for part in parts
    ]
    return {"type": "TemplateProcessing", "single": kinds, "pair": kinds}


ROBERTA = {"type": "RobertaProcessing", "sep": ["<|endoftext|>", 0], "cls": ["<|startoftext|>", 0]}


@pytest.mark.parametrize(
    ("section", "roles"),
    [
        (template("<|startoftext|>", "A"), {"bos": "<|startoftext|>"}),
        (template("A", "<|endoftext|>"), {"eos": "<|endoftext|>"}),
        (
            {
                "type": "Sequence",
                "processors": [level(use_regex=False), template("<|startoftext|>", "A", "<unk>")],
            },
            {"bos": "<|startoftext|>", "eos": "<unk>"},
        ),
        (ROBERTA, {"bos": "<|startoftext|>", "eos": "<|endoftext|>"}),
        (template("<|startoftext|>", "<unk>", "A"), {}),
        (template("A"), {}),
        ({"type": "RobertaProcessing", "cls": 3, "sep": []}, {}),
        ({"type": "TemplateProcessing", "single": [1]}, {}),
        (7, {}),
    ],
)
def test_the_post_processor_names_the_tokens_around_a_line(
    section: dict, roles: dict, tmp_path: Path
) -> None:
    """The token before a line is bos, and the one after it eos, as transformers adds them; other files come first."""
    data = file_of("llama3", random.Random(1)) | {"post_processor": section}
    data["model"]["unk_token"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    special = huggingface.read(tmp_path / "tokenizer.json").special
    assert special.roles == roles
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<unk>", "eos_token": "<unk>"})
    )
    assert huggingface.read(tmp_path).special.roles == {"bos": "<unk>", "eos": "<unk>"}


def test_bos_of_a_template_gives_the_ids_of_the_library(tmp_path: Path) -> None:
    """With add_bos and add_eos, ids are what `tokenizers` adds around a line."""
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(file_of("llama3", random.Random(1))))
    names = "<|startoftext|>", "<|endoftext|>"
    ids = [(name, tokenizer.token_to_id(name)) for name in names]
    parts = f"{names[0]} $A {names[1]}"
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=parts, special_tokens=ids
    )
    tokenizer.save(str(tmp_path / "a.json"))
    encoder = Encoder(huggingface.read(tmp_path / "a.json"))
    assert (
        encoder.encode_ids("de 12", add_bos=True, add_eos=True).tolist()
        == tokenizer.encode("de 12").ids
    )


def test_spaces_are_read_after_the_advised_change(tmp_path: Path) -> None:
    """Tokens with spaces are refused; with what the error says, all ids are those of the file as it was."""
    lines = ["1. e4 e5 2. Nf3 Nc6 3. Bb5", "12. O-O a6", " e4  x1-0 "] * 3
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[unknown]"))
    pattern = tokenizers.Regex(r" ?\d+\.|\. ?| ?[-\w]+|[#+]\s+")
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=60, special_tokens=["[unknown]"], show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    data = json.loads(tokenizer.to_str())
    (tmp_path / "a.json").write_text(json.dumps(data))
    advice = "write '▁' in model.vocab and model.merges, and after the other steps, put Metaspace with prepend_scheme"
    with pytest.raises(VocabularyError, match=f"contains a space.*{advice} never and split false"):
        huggingface.read(tmp_path / "a.json")
    model = data["model"]
    model["vocab"] = {token.replace(" ", "▁"): number for token, number in model["vocab"].items()}
    model["merges"] = [[part.replace(" ", "▁") for part in pair] for pair in model["merges"]]
    cuts = [data["pre_tokenizer"], metaspace("never", cuts=False)]
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": cuts}
    (tmp_path / "a.json").write_text(json.dumps(data))
    encoder = Encoder(huggingface.read(tmp_path / "a.json"))
    assert encoder.encode_batch(lines).ids.tolist() == [
        n for line in lines for n in tokenizer.encode(line).ids
    ]


REFUSED = [
    ({"normalizer": {"type": "NFD"}}, "the normalizer NFD is not NFC"),
    ({"normalizer": {"type": "BertNormalizer"}}, "the normalizer BertNormalizer"),
    ({"pre_tokenizer": None}, "no pre_tokenizer, but VOLT's words contain no spaces"),
    ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "UnicodeScripts"),
    ({"pre_tokenizer": split("a*?")}, "lazy quantifier.*VOLT cannot cut by this pattern"),
    ({"pre_tokenizer": split("ab", "MergedWithNext")}, "'ab' is MergedWithNext.*one character"),
    (
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}},
        "add_prefix_space puts a space",
    ),
    (
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [level(use_regex=True), DIGITS]}},
        "after ByteLevel",
    ),
    (
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split("a"), WHITE]}},
        "a later step drops text",
    ),
    ({"pre_tokenizer": {"type": "Metaspace", "replacement": "_"}}, "Metaspace with '_'"),
    (
        {
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [DIGITS, metaspace("always", cuts=False)],
            }
        },
        "Metaspace puts",
    ),
    ({"pre_tokenizer": [1]}, r"found \[1\] instead of an object"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_what_volt_cannot_cut_is_refused_by_name(change: dict, said: str, tmp_path: Path) -> None:
    """The refusal names the file, what was found and what to do."""
    data = file_of("words", random.Random(2)) | change
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(VocabularyError, match=rf"tokenizer\.json: .*{said}"):
        huggingface.read(tmp_path / "tokenizer.json")


def test_ignored_merges_and_marks_are_refused(tmp_path: Path) -> None:
    """A word that is looked up without its mark is none that VOLT could look up."""
    data = file_of("suffix", random.Random(3))
    data["model"]["ignore_merges"] = True
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(
        VocabularyError, match=r"ignore_merges looks words up without their mark \(suffix\)"
    ):
        huggingface.read(tmp_path / "tokenizer.json")


def test_a_folder_of_merges_and_ids(tmp_path: Path) -> None:
    """vocab.json with merges.txt: ids stay, and tokens that files beside them name are found in text."""
    trained = learn(LINES, "none", "bytes")
    pieces = ["<s>", *trained.tokens, "<|end|>"]
    (tmp_path / "vocab.json").write_text(
        json.dumps({piece: number for number, piece in enumerate(pieces)})
    )
    rows = chain(["#version: 0.2"], map(" ".join, trained.merges))
    (tmp_path / "merges.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<mask>": len(pieces)}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    vocabulary = huggingface.read(tmp_path)
    peer = huggingface.peer(tmp_path, vocabulary)
    assert [vocabulary.ids[piece] for piece in (*pieces, "<mask>")] == [*range(len(pieces) + 1)]
    assert (vocabulary.special.eos, vocabulary.special.control) == ("<|end|>", ("<s>",))
    lines = [*LINES, "a<mask> b <|end|>", " <mask>"]
    assert [Encoder(vocabulary).encode_ids(line).tolist() for line in lines] == peer.ids(lines)


ID_0 = {
    "vocab.json": {},
    "added_tokens.json": {"<mask>": 0},
    "tokenizer_config.json": {"added_tokens_decoder": {"0": {"content": "<mask>"}}},
}


@pytest.mark.parametrize("name", ID_0)
def test_a_folder_may_give_the_id_0_to_a_special_token(name: str, tmp_path: Path) -> None:
    """Whichever file beside merges.txt gives it."""
    pieces = ["<mask>" if name == "vocab.json" else "", *ALPHABET, "Ġt"]
    (tmp_path / "vocab.json").write_text(
        json.dumps({piece: n for n, piece in enumerate(pieces) if piece})
    )
    (tmp_path / "merges.txt").write_text("#version: 0.2\nĠ t\n", encoding="utf-8")
    if ID_0[name]:
        (tmp_path / name).write_text(json.dumps(ID_0[name]))
    assert huggingface.read(tmp_path).pieces == ("<mask>", *pieces[1:])


@pytest.mark.parametrize("kind", ["words", "suffix", "clip"])
def test_what_is_not_written_back_is_refused(kind: str, tmp_path: Path) -> None:
    """A vocabulary whose words tokenizer.json cuts in a way that is only read is refused, and nothing is written."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(file_of(kind, random.Random(kind))))
    with pytest.raises(VocabularyError, match="give the file that it comes from"):
        huggingface.write(huggingface.read(tmp_path / "tokenizer.json"), tmp_path / "again.json")
    assert not (tmp_path / "again.json").exists()
