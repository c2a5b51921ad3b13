"""Laws of the model and the added tokens of tokenizer.json: ids, flags, and merges in any order."""

import json
import pickle
from dataclasses import replace
from itertools import pairwise, product

import pytest
from formats.support import (
    PREPEND,
    SPACES,
    WHITE,
    assert_ids_of_library,
    assert_same_text,
    level,
    library_of,
    read_both,
    tokenizer_json,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.formats import huggingface
from volt.formats.huggingface.pipeline_writing import replace_step
from volt.formats.huggingface.tokens import find_merging, find_remade
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.vocabulary import Vocabulary
from volt.vocabulary.validation import joins_later

tokenizers = pytest.importorskip("tokenizers")


@pytest.mark.parametrize(
    ("vocab", "added", "message"),
    [
        ({}, [], "model.vocab is missing, empty"),
        ({"l": 0}, [("<x>", 9000), ("<y>", 9000)], "'<y>' has the id 9000, which '<x>' has"),
        ({"l": 0, "o": 2}, [("<x>", 2)], "'<x>' has the id 2, which 'o' has"),
        ({"l": 0}, [("l", 9000)], "'l' has the id 9000, not its id in model.vocab"),
        ({"l": 0}, [("<x>", -1)], "'<x>' has the id -1, not its id"),
        ({"l": 0, "o": 0}, [], "the same id 0"),
        ({"l": -1}, [], "'l' has the id -1"),
        ({"l": "1"}, [], "'l' has the id '1'"),
        *(
            case
            for number in (1 << 21, 10**12, 10**30)
            for case in (
                ({"l": 0, "o": number}, [], "'o' has the id"),
                ({"l": 0}, [("o", number)], "'o' has the id"),
            )
        ),
    ],
)
def test_ids_belong_to_one_token(vocab, added, message, tmp_path):
    """Missing, repeated, invalid and huge ids are refused, huge ones before they take memory."""
    rows = [{"content": token, "id": number} for token, number in added]
    path = tokenizer_json(tmp_path, vocab, added=rows, cuts=[level()])
    with pytest.raises(VocabularyError, match=rf"tokenizer\.json: .*{message}"):
        huggingface.read(path)


def test_byte_tokens_are_complete_or_absent(tmp_path):
    """With byte_fallback and no byte token, unknown characters stay unknown. With some of the byte
    tokens, the file is refused.
    """
    options = {"cuts": [WHITE], "unk_token": "a", "byte_fallback": True}
    assert not huggingface.read(tokenizer_json(tmp_path, "ab", **options)).byte_fallback
    path = tokenizer_json(tmp_path, ["a", "<0x41>"], **options)
    with pytest.raises(VocabularyError, match=r"only 1 of the 256 byte tokens .*'<0x00>' is not"):
        huggingface.read(path)


TOKENS = ["".join(letters) for n in (1, 2, 3, 4) for letters in product("ab", repeat=n)]
PAIRS = [(left, right) for left, right in product(TOKENS, TOKENS) if len(left + right) <= 4]
TEXTS = ["".join(letters) for letters in product("ab", repeat=6)]


@st.composite
def lists_of_merges(draw):
    """Draw merges in any order, such that some merge makes each part."""
    merges = draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=14, unique=True))
    made = set()
    while not made or not all(map(made.issuperset, merges)):
        merges = [pair for pair in merges if not made or made.issuperset(pair)]
        made = {"a", "b", *map("".join, merges)}
    return merges


def merges_file(folder, merges):
    vocab = list(dict.fromkeys([*"abc", *map("".join, merges)]))
    return tokenizer_json(folder, vocab, merges, cuts=[WHITE])


@settings(max_examples=examples(25), deadline=None)
@given(merges=lists_of_merges())
def test_merges_in_any_order_have_the_ids_of_the_library(merges, tmp_path_factory):
    """If merges precede the merges of their parts, VOLT's ids are the library's, and merging is by
    "steps".
    """
    path = merges_file(tmp_path_factory.mktemp("merges"), merges)
    assert_ids_of_library(*read_both(path), TEXTS)
    known = {"a", "b"}
    in_order = True
    for pair in merges:
        in_order = in_order and known.issuperset(pair)
        known.add("".join(pair))
    assert in_order or (find_merging(merges) == "steps" and joins_later(merges))


def test_a_part_that_nothing_makes_is_refused():
    """A part of a merge that is not a character, and that no merge makes, is refused."""
    with pytest.raises(VocabularyError, match="'ab' is neither a character nor made by a merge"):
        Vocabulary((("ab", "c"), ("b", "c")), ("a", "b", "c", "abc"), merging="steps")


def test_a_saved_vocabulary_keeps_the_order_of_merges(tmp_path):
    """A vocabulary whose merges precede those of their parts is equal after saving and loading."""
    merges = (("a", "ab"), ("b", "b"), ("a", "b"))
    vocabulary = huggingface.read(merges_file(tmp_path, merges))
    vocabulary.save(tmp_path / "a.volt")
    assert Vocabulary.load(tmp_path / "a.volt") == vocabulary
    assert (vocabulary.merges, vocabulary.merging) == (merges, "steps")


def test_of_equal_merges_the_last_counts(tmp_path):
    """A merge that is listed twice has its later rank, in VOLT as in `tokenizers`."""
    path = merges_file(tmp_path, [("a", "b"), ("b", "c"), ("a", "b")])
    vocabulary = huggingface.read(path)
    assert_ids_of_library(vocabulary, library_of(path), ["abc ab"])
    assert Encoder(vocabulary).encode("abc ab") == ["a", "bc", "ab"]


GEMMAS = [{"content": "<turn>", "special": True}, {"content": "<|tool|>"}, {"content": "<unused0>"}]
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
LOW = [("l", "o"), ("lo", "w"), ("h", "e"), ("he", "l")]


def file_of(folder, added, *, is_bytes=True):
    """Write a tokenizer.json of bytes, or with the steps of Llama 2. added: the rows of added
    tokens
    """
    if is_bytes:
        return tokenizer_json(
            folder,
            [*ALPHABET, *map("".join, LOW)],
            LOW,
            added=added,
            cuts=[level()],
            decoder=level(),
        )
    steps = [replace_step("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    merges = [*LOW, ("▁", "lo"), ("▁", "he")]
    return tokenizer_json(
        folder,
        ["<unk>", *BYTE_TOKENS, "▁", *"abdehilorsuw:", *map("".join, merges)],
        merges,
        added=added,
        normalizer=[PREPEND, SPACES],
        decoder={"type": "Sequence", "decoders": steps},
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )


@pytest.mark.parametrize("is_bytes", [True, False])
def test_decoding_skips_the_tokens_that_the_file_calls_special(is_bytes, tmp_path):
    """Decoding skips the tokens that the file flags as special, as the library does. The flags stay
    in .volt files, pickled copies and exports, and in a smaller or larger vocabulary.
    """
    path = file_of(tmp_path, GEMMAS, is_bytes=is_bytes)
    vocabulary, library = read_both(path)
    lines = ["hi<|tool|>x<turn>"]
    vocabulary.save(tmp_path / "a.volt")
    volt.write_vocabulary(vocabulary, tmp_path / "again.json", to="huggingface")
    copies = (
        Vocabulary.load(tmp_path / "a.volt"),
        pickle.loads(pickle.dumps(vocabulary)),
        volt.read_vocabulary(tmp_path / "again.json"),
    )
    for copy in (vocabulary, *copies):
        assert copy == vocabulary
        assert_same_text(copy, library, lines)
    assert_same_text(vocabulary, library_of(tmp_path / "again.json"), lines)

    (tmp_path / "text").write_text("low lower hello\n" * 9)
    counts = volt.count_words(tmp_path / "text", pretokenizer=vocabulary.pretokenizer)
    smaller = volt.shrink(vocabulary, counts, to=len(vocabulary) - 1).vocabulary
    candidates = volt.extend_bpe(vocabulary, counts, n_merges=1)
    larger = volt.search(candidates, select=vocabulary.size + 1).vocabulary
    assert smaller.special.flags == larger.special.flags == vocabulary.special.flags


def test_tokens_that_the_user_adds_are_skipped_by_the_usual_rule(tmp_path):
    """If the caller names tokens, those of the file keep their flags, a new token like <|…|> is
    special, and a new role makes a token special.
    """
    path = file_of(tmp_path, GEMMAS)
    special = volt.read_vocabulary(path, special=["<|new|>", "<url>"], eos="<unused0>").special
    assert special.skips == ("<turn>", "<unused0>", "<|new|>")


@pytest.fixture
def phi(tmp_path):
    """Return the vocabulary of a small file with Phi-3's steps and added tokens, and the library
    with the file.
    """
    path = file_of(tmp_path, PHI_3, is_bytes=False)
    return read_both(path)


def test_prompts_of_phi_3_have_the_ids_of_the_library(phi, tmp_path):
    """Added tokens with rstrip take the white space after them, as in the library, in every call
    that encodes: lines, batches, with dropout, spans, text, files and streams.
    """
    vocabulary, library = phi
    encoder = Encoder(vocabulary)
    theirs = library.encode(PROMPT, add_special_tokens=False)
    assert encoder.encode_ids(PROMPT).tolist() == theirs.ids
    assert encoder.ids(encoder.encode(PROMPT)).tolist() == theirs.ids
    assert encoder.encode_batch([PROMPT, "low"])[0].tolist() == theirs.ids
    assert encoder.encode_batch([PROMPT], dropout=1e-12, seed=1)[0].tolist() == theirs.ids
    added = {vocabulary.ids[row["content"]] for row in PHI_3}
    lines = [PROMPT, "low", "", "<|end|> \n", "é<|user|>  "]
    spans = encoder.encode_spans(lines)
    places = list(zip(spans.ids.tolist(), spans.starts.tolist(), spans.ends.tolist(), strict=True))
    for line, (first, last) in zip(lines, pairwise(spans.offsets), strict=True):
        ends = [end for _, _, end in places[first:last]]
        assert ends == sorted(ends)
        assert not ends or ends[-1] == len(line)
    ours = [(start, end) for number, start, end in places[: len(theirs.ids)] if number in added]
    expected = zip(theirs.ids, theirs.offsets, strict=True)
    assert ours == [span for number, span in expected if number in added]

    vocabulary.save(tmp_path / "phi.volt")
    line = PROMPT.replace("\n", " ").replace("\t", "")
    ids = library.encode(line, add_special_tokens=False).ids
    (tmp_path / "text").write_text(line + "\n")
    assert encoder.encode_text(f"{line}\n".encode(), form="ids").split() == [b"%d" % n for n in ids]
    assert encoder.encode_file(tmp_path / "text")[0].tolist() == ids
    steps = [{"encode": {"vocabulary": "phi.volt"}}]
    source = {"path": str(tmp_path / "text"), "epochs": 1, "transforms": steps}
    (tmp_path / "stream.yaml").write_text(json.dumps({"seed": 1, "sources": {"text": source}}))
    [pieces] = volt.Stream.from_config(tmp_path / "stream.yaml")
    assert encoder.ids(pieces.split(" ")).tolist() == ids


def test_user_tokens_that_take_white_space():
    """A user token with lstrip and rstrip takes all white space around it, in lines and in batches;
    other tokens take none.
    """
    special = volt.SpecialTokens(user=("<m>", "<n>"), lstrip=("<m>",), rstrip=["<m>"])
    vocabulary = Vocabulary((), ALPHABET, marker="none", pretokenizer="bytes", special=special)
    encoder = Encoder(vocabulary)
    lines = {
        "a \n<m>\u3000 b": ["a", "<m>", "b"],
        "a <n> b": ["a", "Ġ", "<n>", "Ġ", "b"],
        " <m> <m><n> <m>\x1c": ["<m>", "<m>", "<n>", "<m>", "Ĝ"],
        "<m>": ["<m>"],
    }
    assert encoder.encode_lines([*lines]) == [*lines.values()]
    assert [*map(encoder.encode, lines)] == [*lines.values()]
    batch = encoder.encode_batch([*lines])
    assert [[vocabulary.pieces[n] for n in row] for row in batch] == [*lines.values()]
    assert special.spans("a \n<m>\u3000 b") == [(1, 8)]


@pytest.mark.parametrize("name", ["skips", "lstrip", "rstrip"])
def test_only_special_tokens_have_flags(name):
    """`SpecialTokens` refuses a flag for a token that is not special, and a string instead of a
    list.
    """
    with pytest.raises(ConfigError, match=f"{name}: '<x>' is not a special token; "):
        volt.SpecialTokens(user=("<url>",), **{name: ("<x>",)})
    with pytest.raises(ConfigError, match=r"did you mean .*=\(token,\)"):
        volt.SpecialTokens(user=("<url>",), **{name: "<url>"})


def test_exports_name_tokens_whose_flags_are_lost(tmp_path):
    """Notes of an export name roles that transformers skips, tokens of white space that take more
    white space, and, for other formats, all tokens that take white space.
    """
    special = volt.SpecialTokens(
        user=("\t", "<q>", "\n"), skips=("<q>",), lstrip=("\t", "<q>"), rstrip=("\n", "\t")
    )
    plain = huggingface.read(file_of(tmp_path, []))
    vocabulary = replace(plain, special=special, order=(), provenance={})
    notes = volt.write_vocabulary(vocabulary, tmp_path / "folder", to="huggingface")
    again = volt.read_vocabulary(tmp_path / "folder").special
    assert (again.lstrip, again.rstrip) == (("<q>",), ())
    assert {*special.roles.values()} <= {*again.skipped}
    note = r"Tokens of white space do not take more of it if the file is read back: '\t', '\n'."
    assert note in notes
    assert any(note.endswith("decoder does not: <unk>, <s>, </s>, <pad>.") for note in notes)
    quiet = replace(vocabulary, special=volt.SpecialTokens(user=("<q>",), lstrip=("<q>",)))
    others = volt.write_vocabulary(quiet, tmp_path / "quiet", to="huggingface")
    assert not any("roles" in note or "of white space" in note for note in others)
    notes = volt.write_vocabulary(
        quiet.closed(order="merges"), tmp_path / "a.tiktoken", to="tiktoken"
    )
    assert notes[-1].endswith("white space next to a token belongs to it: <q>.")


def test_a_strip_in_normalised_text_is_refused(tmp_path):
    """A user token that takes white space cannot be exported if the library finds user tokens in
    normalised text.
    """
    special = volt.SpecialTokens(user=("<m>",), rstrip=("<m>",))
    words = Vocabulary((), ("a", "a</w>"), special=special)
    with pytest.raises(VocabularyError, match="'<m>' contains or takes white space"):
        huggingface.write(words, tmp_path / "a.json")


def test_invalid_runs_of_byte_tokens_have_a_note(phi):
    """A run of byte tokens that is not UTF-8 decodes to U+FFFD for each byte in `tokenizers`, and
    for each invalid byte in VOLT; a note says so.
    """
    vocabulary, library = phi
    assert any("In a run of byte tokens that is not UTF-8" in note for note in vocabulary.notes)
    encoder = Encoder(vocabulary)

    def ids(data):
        return [vocabulary.ids[BYTE_TOKENS[byte]] for byte in data]

    for data in (b"\xf0\x9f\x98", "▁".encode(), "é😀".encode()):
        rows = [ids(data) + library.encode("low").ids, ids(data)]
        expected = library.decode_batch(rows)
        assert encoder.decode_batch(rows) == expected
        assert [encoder.decode_ids(row) for row in rows] == expected
        assert ["".join(encoder.decode_stream(row)) for row in rows] == expected
    mixed = ids("é".encode() + b"\xf0\x9f")
    assert library.decode(mixed) == "\ufffd" * 4
    assert encoder.decode_ids(mixed) == "é\ufffd\ufffd"


@pytest.mark.parametrize(
    ("merges", "expected"),
    [
        ("a b|ab c|b c|a bc", []),
        ("a b|x y|xy x|a b", []),
        ("b c|a bc|a b|abc ab|ab c", [("ab", "c")]),
    ],
)
def test_merges_whose_second_use_may_fail_are_found(merges, expected):
    """`find_remade` yields a merge that makes a token again, if a merge of lower rank joins this
    token with the merge's left part.
    """
    assert list(find_remade([tuple(merge.split(" ")) for merge in merges.split("|")])) == expected
