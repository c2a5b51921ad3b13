"""Flags of the added tokens of a tokenizer.json: which tokens decoding skips, and which take white space.

The files are small, and have the steps of published ones. `tests/formats/test_model_families.py` has laws of families.
"""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import volt
from volt.errors import ConfigError
from volt.formats import huggingface
from volt.formats.check import check, probe_lines
from volt.formats.huggingface.pipeline_writing import replace_step
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS

tokenizers = pytest.importorskip("tokenizers")
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
LLAMAS = [{"type": "Prepend", "prepend": "▁"}, replace_step(" ", "▁")]
LLAMA_TEXT = [replace_step("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
LLAMA_TEXT += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
GEMMAS = [
    {"content": "<end_of_turn>", "special": True},
    {"content": "<|tool|>"},
    {"content": "<unused0>"},
]
PHI_3 = [
    {"content": "<s>", "special": True},
    {"content": "</s>", "rstrip": True},
    *(
        {"content": f"<|{name}|>", "special": True, "rstrip": True}
        for name in ("assistant", "end", "user")
    ),
    {"content": "<|endoftext|>", "special": True},
]
PROMPT = "<|user|>\nHello<|end|>\n<|assistant|>\nhe said: low<|end|>\n<|user|> \t\n lower  <|end|><|assistant|>\n"


def written(place: Path, added: list[dict], *, is_bytes: bool = True, **sections: object) -> Path:
    """Write a tokenizer.json of bytes, or with the steps of Llama 2. added: contents and flags of added tokens"""
    letters = [*ALPHABET] if is_bytes else ["<unk>", *BYTE_TOKENS, "▁", *"abdehilorsuw:"]
    merges = [["l", "o"], ["lo", "w"], ["h", "e"], ["he", "l"]] + [["▁", "lo"], ["▁", "he"]] * (
        not is_bytes
    )
    vocab = {token: number for number, token in enumerate([*letters, *map("".join, merges)])}
    usual = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    rows = [{"id": len(vocab) + number, **usual, **row} for number, row in enumerate(added)]
    data = json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str())
    data |= {"added_tokens": rows, "pre_tokenizer": LEVEL, "decoder": LEVEL}
    data["model"] |= {"vocab": vocab, "merges": merges}
    if not is_bytes:
        data |= {"normalizer": {"type": "Sequence", "normalizers": LLAMAS}, "pre_tokenizer": None}
        data |= {"decoder": {"type": "Sequence", "decoders": LLAMA_TEXT}}
        data["model"] |= {"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True}
    path = place / "tokenizer.json"
    path.write_text(json.dumps(data | sections))
    return path


def rows_of(vocabulary: volt.Vocabulary) -> list[list[int]]:
    """Return ids at random, half of them of special tokens, without bytes that are not text."""
    chance = random.Random(4)
    special = [vocabulary.ids[token] for token in vocabulary.special.all]
    plain = [
        n for token, n in vocabulary.ids.items() if token.isascii() and token not in BYTE_TOKENS
    ]
    return [[chance.choice(chance.choice((special, plain))) for _ in range(8)] for _ in range(200)]


def decoded(vocabulary: volt.Vocabulary, rows: list[list[int]]) -> list[list[str]]:
    """Return the text of rows, with special tokens and without."""
    encoder = volt.Encoder(vocabulary)
    return [encoder.decode_batch(rows, skip_special=skip) for skip in (False, True)]


def decoded_there(real: object, rows: list[list[int]]) -> list[list[str]]:
    return [real.decode_batch(rows, skip_special_tokens=skip) for skip in (False, True)]


@pytest.mark.parametrize("is_bytes", [True, False])
def test_decoding_skips_the_tokens_that_the_file_calls_special(
    is_bytes: bool, tmp_path: Path
) -> None:
    """Whatever their spelling, and after .volt files, pickling, shrinking, extending and an export."""
    path = written(tmp_path, GEMMAS, is_bytes=is_bytes)
    vocabulary, real = huggingface.read(path), tokenizers.Tokenizer.from_file(str(path))
    rows = rows_of(vocabulary)
    expected = decoded_there(real, rows)
    assert decoded(vocabulary, rows) == expected
    ids = real.encode("hi<|tool|>x<end_of_turn>").ids
    text = volt.Encoder(vocabulary).decode_ids(ids, skip_special=True)
    assert text == real.decode(ids)
    assert text.replace(" ", "") == "hi<|tool|>x"

    vocabulary.save(tmp_path / "a.volt")
    volt.write_vocabulary(vocabulary, tmp_path / "again.json", to="huggingface")
    for other in (
        volt.Vocabulary.load(tmp_path / "a.volt"),
        pickle.loads(pickle.dumps(vocabulary)),
        volt.read_vocabulary(tmp_path / "again.json"),
    ):
        assert other == vocabulary
        assert decoded(other, rows) == expected
    again = tokenizers.Tokenizer.from_file(str(tmp_path / "again.json"))
    assert decoded_there(again, rows) == expected

    (tmp_path / "text").write_text("low lower hello\n" * 9)
    counts = volt.count_words(tmp_path / "text", pretokenizer=vocabulary.pretokenizer)
    smaller = volt.shrink(vocabulary, counts, to=len(vocabulary) - 1).vocabulary
    larger = volt.search(
        volt.extend_bpe(vocabulary, counts, n_merges=1), select=vocabulary.size + 1
    ).vocabulary
    for other in (smaller, larger):
        assert other.special.flags == vocabulary.special.flags


def test_tokens_that_the_user_adds_are_skipped_by_the_usual_rule(tmp_path: Path) -> None:
    """Tokens of the file keep their flags; a new role makes a token special."""
    path = written(tmp_path, GEMMAS)
    special = volt.read_vocabulary(path, special=["<|new|>", "<url>"], eos="<unused0>").special
    assert special.skips == ("<end_of_turn>", "<unused0>", "<|new|>")


CONFIGS = [
    {"tokenizer_config.json": {"bos_token": "<|tool|>"}},
    {"special_tokens_map.json": {"cls_token": {"content": "<unused0>", "lstrip": False}}},
    {
        "tokenizer_config.json": {
            "added_tokens_decoder": {"<end_of_turn>": {"special": False}, "<|tool|>": {}}
        }
    },
]


@pytest.mark.parametrize("configs", CONFIGS)
def test_a_folder_names_special_tokens_too(configs: dict[str, dict], tmp_path: Path) -> None:
    """In tokenizer_config.json or special_tokens_map.json: decoding skips what transformers skips."""
    transformers = pytest.importorskip("transformers")
    path = written(tmp_path, GEMMAS)
    ids = tokenizers.Tokenizer.from_file(str(path)).get_vocab()
    (tmp_path / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast"}'
    )
    for name, config in configs.items():
        usual = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        named = config.get("added_tokens_decoder", {})
        numbered = {
            str(ids[token]): {"content": token, "special": True, **usual, **row}
            for token, row in named.items()
        }
        content = {"tokenizer_class": "PreTrainedTokenizerFast"} | config
        content |= {"added_tokens_decoder": numbered} if named else {}
        (tmp_path / name).write_text(json.dumps(content))
    theirs, vocabulary = (
        transformers.AutoTokenizer.from_pretrained(tmp_path),
        volt.read_vocabulary(tmp_path),
    )
    rows = rows_of(vocabulary)
    assert decoded(vocabulary, rows)[1] == [
        theirs.decode(row, skip_special_tokens=True) for row in rows
    ]


@pytest.fixture
def phi(tmp_path: Path) -> tuple[volt.Vocabulary, object]:
    """A small file with the steps and added tokens of Phi-3."""
    path = written(tmp_path, PHI_3, is_bytes=False)
    return huggingface.read(path), tokenizers.Tokenizer.from_file(str(path))


def test_prompts_of_phi_3_have_the_ids_of_the_library(
    phi: tuple[volt.Vocabulary, object], tmp_path: Path
) -> None:
    """The line ends after its added tokens are theirs, however the text is encoded; spans are the library's."""
    vocabulary, real = phi
    encoder, theirs = volt.Encoder(vocabulary), real.encode(PROMPT, add_special_tokens=False)
    assert encoder.encode_ids(PROMPT).tolist() == theirs.ids
    assert encoder.ids(encoder.encode(PROMPT)).tolist() == theirs.ids
    assert [ids.tolist() for ids in encoder.encode_batch([PROMPT, "low", PROMPT])][::2] == [
        theirs.ids
    ] * 2
    assert encoder.encode_batch([PROMPT], dropout=1e-12, seed=1)[0].tolist() == theirs.ids
    spans = encoder.encode_spans([PROMPT])
    assert spans.ids.tolist() == theirs.ids
    added = {vocabulary.ids[row["content"]] for row in PHI_3}
    ours = zip(spans.ids.tolist(), spans.starts.tolist(), spans.ends.tolist(), strict=True)
    expected = zip(theirs.ids, theirs.offsets, strict=True)
    assert [(start, end) for n, start, end in ours if n in added] == [
        span for n, span in expected if n in added
    ]

    vocabulary.save(tmp_path / "phi.volt")
    line = PROMPT.replace("\n", " ").replace("\t", "")
    expected_ids = real.encode(line, add_special_tokens=False).ids
    (tmp_path / "text").write_text(line + "\n")
    assert encoder.encode_text(f"{line}\n".encode(), form="ids").split() == [
        b"%d" % n for n in expected_ids
    ]
    assert encoder.encode_file(tmp_path / "text")[0].tolist() == expected_ids
    source = {
        "path": str(tmp_path / "text"),
        "epochs": 1,
        "transforms": [{"encode": {"vocabulary": "phi.volt"}}],
    }
    (tmp_path / "stream.yaml").write_text(json.dumps({"seed": 1, "sources": {"text": source}}))
    [encoded] = volt.Stream.from_config(tmp_path / "stream.yaml")
    assert encoder.ids(encoded.split(" ")).tolist() == expected_ids


def test_user_tokens_that_take_white_space() -> None:
    """Of a token that takes the white space on both sides none is left, in batches either; others keep theirs."""
    special = volt.SpecialTokens(user=("<m>", "<n>"), lstrip=("<m>",), rstrip=["<m>"])
    vocabulary = volt.Vocabulary(
        (), (*ALPHABET,), marker="none", pretokenizer="bytes", special=special
    )
    encoder = volt.Encoder(vocabulary)
    lines = ["a \n<m>\u3000 b", "a <n> b", " <m> <m><n> <m>\x1c", "<m>"]
    expected = [
        ["a", "<m>", "b"],
        ["a", "Ġ", "<n>", "Ġ", "b"],
        ["<m>", "<m>", "<n>", "<m>", "Ĝ"],
        ["<m>"],
    ]
    assert encoder.encode_lines(lines) == expected
    assert [encoder.encode(line) for line in lines] == expected
    batch = encoder.encode_batch(lines)
    assert [[vocabulary.pieces[n] for n in row] for row in batch] == expected
    assert special.spans(lines[0]) == [(1, 8)]


@pytest.mark.parametrize("name", ["skips", "lstrip", "rstrip"])
def test_only_special_tokens_have_flags(name: str) -> None:
    """A token that is not special is refused, and so is a single string."""
    with pytest.raises(ConfigError, match=f"{name}: '<x>' is not a special token; "):
        volt.SpecialTokens(user=("<url>",), **{name: ("<x>",)})
    with pytest.raises(ConfigError, match=r"did you mean .*=\(token,\)"):
        volt.SpecialTokens(user=("<url>",), **{name: "<url>"})


NOTED = {  # a difference: added tokens, sections of the file, and its note
    "whole words": (
        [{"content": "<m>", "single_word": True}],
        {},
        "<m> is found as a whole word only there",
    ),
    "no decoder": ([], {"decoder": None}, "decoded tokens have spaces between them there"),
    "another decoder": (
        [],
        {"decoder": {"type": "Fuse"}},
        "The decoder of the file is not imported",
    ),
    "white space taken first": (
        [{"content": "<m>", "lstrip": True}, {"content": "\t\t", "normalized": True}],
        {},
        r"<m> is found before '\t\t' there",
    ),
}


@pytest.mark.parametrize("case", NOTED)
def test_what_is_not_followed_is_announced(case: str, tmp_path: Path) -> None:
    """An import has a note; a file without the difference has none."""
    added, sections, note = NOTED[case]
    assert any(
        note in one
        for one in huggingface.read(written(tmp_path, added, **sections)).provenance["lost"]
    )
    assert huggingface.read(written(tmp_path, [])).provenance["lost"] == []


@pytest.mark.parametrize("special", [True, False])
def test_special_tokens_of_spaces_are_announced(special: bool, tmp_path: Path) -> None:
    """A token "▁▁" that merges make from spaces is an ordinary one in VOLT, so that decoding never skips it."""
    row = {"content": "▁▁", "special": special}
    path = written(tmp_path, [row], is_bytes=False)
    data = json.loads(path.read_text())
    data["model"]["vocab"]["▁▁"] = row["id"] = len(data["model"]["vocab"])
    data["model"]["merges"].append(["▁", "▁"])
    path.write_text(json.dumps(data))
    notes = huggingface.read(path).notes
    assert any("drops ▁▁ there, and keeps its spaces" in note for note in notes) == special


@pytest.mark.parametrize("token", ["<é>", "¡¿", "Ġx", "<x>", "<中>", "<à la>"])
def test_tokens_in_letters_of_bytes_are_announced(token: str, tmp_path: Path) -> None:
    """The library decodes such a token as bytes; the import and the export say so, and only where the texts differ."""
    path = written(tmp_path, [{"content": token}])
    vocabulary, real = huggingface.read(path), tokenizers.Tokenizer.from_file(str(path))
    ids = [vocabulary.ids[one] for one in ("a", token, "b")]
    assert volt.Encoder(vocabulary).decode_ids(ids) == f"a{token}b"
    differs = real.decode(ids) != f"a{token}b"
    exported = volt.write_vocabulary(vocabulary, tmp_path / "a.json", to="huggingface")
    for notes in (vocabulary.notes, exported, huggingface.read(tmp_path / "a.json").notes):
        assert (
            any(note.startswith(f"tokenizers decodes {token} as the bytes") for note in notes)
            == differs
        )
    assert differs == (token in ("<é>", "¡¿", "Ġx"))


def test_formats_that_cannot_store_white_space_around_tokens_announce_it(tmp_path: Path) -> None:
    """tiktoken finds tokens without the white space around them; tokenizers cannot find it in normalised text."""
    vocabulary = huggingface.read(written(tmp_path, [{"content": "<m>", "lstrip": True}]))
    notes = volt.write_vocabulary(
        vocabulary.closed(order="merges"), tmp_path / "a.tiktoken", to="tiktoken"
    )
    assert "In VOLT, and not there, white space next to a token belongs to it: <m>." in notes
    special = volt.SpecialTokens(user=("<m>",), rstrip=("<m>",))
    words = volt.Vocabulary((), ("a", "a</w>"), special=special)
    with pytest.raises(volt.errors.VocabularyError, match="'<m>' contains or takes white space"):
        volt.write_vocabulary(words, tmp_path / "a.json", to="huggingface")


def test_exports_name_tokens_whose_decoding_or_white_space_is_lost(tmp_path: Path) -> None:
    """Roles that VOLT shows and transformers skips, and white space that takes more of it; names are on one line."""
    blanks = ("\t", "<q>", "\n")
    special = volt.SpecialTokens(
        user=blanks, skips=("<q>",), lstrip=("\t", "<q>"), rstrip=("\n", "\t")
    )
    vocabulary = replace(
        huggingface.read(written(tmp_path, [])), special=special, order=(), provenance={}
    )
    notes = volt.write_vocabulary(vocabulary, tmp_path / "folder", to="huggingface")
    again = volt.read_vocabulary(tmp_path / "folder")
    assert (again.special.flags.get("lstrip"), again.special.flags.get("rstrip")) == (
        ("<q>",),
        None,
    )
    assert (
        r"Tokens of white space do not take more of it if the file is read back: '\t', '\n'."
        in notes
    )
    shown = [note for note in notes if "tokens with roles" in note]
    assert shown[0].endswith("not: <unk>, <s>, </s>, <pad>.")
    assert {*special.roles.values()} <= {*again.special.skipped}
    plain = replace(vocabulary, special=volt.SpecialTokens(user=("<q>",), lstrip=("<q>",)))
    others = volt.write_vocabulary(plain, tmp_path / "plain", to="huggingface")
    assert not any("roles" in note or "of white space" in note for note in others)


def test_notes_on_white_space_are_one_line(tmp_path: Path) -> None:
    """A note on a token that is a line end quotes it; the other formats name every token that takes white space."""
    vocabulary = huggingface.read(
        written(tmp_path, [{"content": "\n", "single_word": True}, {"content": "<m>"}])
    )
    assert any(
        note.startswith(r"The added token '\n' is found as a whole word")
        for note in vocabulary.notes
    )
    special = volt.SpecialTokens(user=("<m>", "<n>"), lstrip=("<m>",), rstrip=("<n>", "<m>"))
    bare = replace(vocabulary, special=special, order=(), provenance={})
    notes = volt.write_vocabulary(
        bare.closed(order="merges"), tmp_path / "a.tiktoken", to="tiktoken"
    )
    assert notes[-1].endswith("belongs to it: <m>, <n>.")


def test_flags_are_announced_where_ends_of_words_are_marked(tmp_path: Path) -> None:
    """With </w>, taking the white space between a word and a token would join them in VOLT: the flag is a note."""
    words = volt.Vocabulary((), ("a", "a</w>"), special=volt.SpecialTokens(None, None, None, None))
    volt.write_vocabulary(words, tmp_path / "a.json", to="huggingface")
    data = json.loads((tmp_path / "a.json").read_text())
    row = {
        "id": 2,
        "content": "<m>",
        "single_word": False,
        "lstrip": True,
        "rstrip": False,
        "normalized": False,
    }
    (tmp_path / "a.json").write_text(json.dumps(data | {"added_tokens": [row | {"special": True}]}))
    found = huggingface.read(tmp_path / "a.json")
    assert found.special.lstrip == ()
    assert any(
        "<m> takes the white space before it there (lstrip)" in note
        for note in found.provenance["lost"]
    )


def test_invalid_runs_of_byte_tokens(phi: tuple[volt.Vocabulary, object], tmp_path: Path) -> None:
    """Each byte of an invalid run is U+FFFD in tokenizers, and each invalid byte here, as in sentencepiece: announced.
    The bytes of a "▁" are that character in all three."""
    vocabulary, real = phi
    assert any(
        "In a run of byte tokens that is not UTF-8" in note
        for note in vocabulary.provenance["lost"]
    )
    encoder = volt.Encoder(vocabulary)

    def ids(data: bytes) -> list[int]:
        return [vocabulary.ids[BYTE_TOKENS[byte]] for byte in data]

    for data in (b"\xf0\x9f\x98", "▁".encode(), "é😀".encode(), b"\x80a"):
        rows = [ids(data) + real.encode("low").ids, ids(data)]
        expected = real.decode_batch(rows)
        if data != b"\x80a":
            assert encoder.decode_batch(rows) == expected
            assert [encoder.decode_ids(row) for row in rows] == expected
        assert ["".join(encoder.decode_stream(row)) for row in rows] == encoder.decode_batch(rows)
    mixed = ids("é".encode() + b"\xf0\x9f")
    assert (real.decode(mixed), encoder.decode_ids(mixed), encoder.decode_batch([mixed])) == (
        "����",
        "é��",
        ["é��"],
    )


def test_sentencepiece_shows_byte_tokens_alike_and_unknown_ones_otherwise(tmp_path: Path) -> None:
    """Byte tokens that are not text give sentencepiece's text; a note says how it shows <unk> and control tokens."""
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = iter(["low lower hello"] * 30)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines,
        model_prefix=str(tmp_path / "m"),
        vocab_size=280,
        model_type="bpe",
        byte_fallback=True,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "m.model"))
    vocabulary, chance = volt.read_vocabulary(tmp_path / "m.model"), random.Random(2)
    rows = [[chance.randrange(3, len(vocabulary)) for _ in range(9)] for _ in range(200)]
    rows += [[model.piece_to_id("l"), *map(model.piece_to_id, ("<0xE2>", "<0x96>", "<0x81>"))]]
    ours = volt.Encoder(vocabulary).decode_batch(rows)
    assert ours == [model.decode(row) for row in rows]
    assert any(
        "sentencepiece decodes <unk> to ' ⁇ '" in note for note in vocabulary.provenance["lost"]
    )
    assert model.decode([0]) == " ⁇ "


def test_spans_of_lines_with_and_without_tokens(phi: tuple[volt.Vocabulary, object]) -> None:
    """Every id of a line has a span in it, in order; the span of a token includes the white space that it takes."""
    vocabulary, _ = phi
    encoder, lines = volt.Encoder(vocabulary), ["low", PROMPT, "", "<|end|> \n", "é<|user|>  "]
    spans = encoder.encode_spans(lines)
    for line, (first, last) in zip(lines, pairwise(spans.offsets), strict=True):
        ends = spans.ends[first:last].tolist()
        assert ends == sorted(ends)
        assert not ends or ends[-1] == len(line)


def test_a_check_finds_white_space_that_a_token_does_not_take(tmp_path: Path) -> None:
    """The lines that --check encodes without TEXT have the line ends of chats, so a lost flag is a difference."""
    path = written(tmp_path, PHI_3)
    vocabulary = huggingface.read(path)
    without_flags = replace(vocabulary, special=replace(vocabulary.special, rstrip=()))
    lines = probe_lines(vocabulary)
    assert check(vocabulary, path, "huggingface", lines).is_complete
    assert not check(without_flags, path, "huggingface", lines).is_complete
