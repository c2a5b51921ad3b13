"""Laws of decoding flat ids: the lines are those of `decode`, for any vocabulary and any size of blocks."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.batches import ENCODERS, PRETOKENIZERS, ids_of
from support.drawn import examples

import volt.encode.decoder
from volt.encode.decoder import Decoder, decode
from volt.encode.encoder import Encoder
from volt.errors import CorpusError, VocabularyError
from volt.kernels.decode import SHORT
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

MARKERS = ("suffix", "prefix", "none")
# Of one to four bytes each; spaces of all kinds, line ends, what spells markers, and some of the byte-level alphabet.
CHARACTERS = (
    *"ab </w>▁\n\r\x00\u2003é中😀\ufffd",
    *(ALPHABET[byte] for byte in "▁é\n 中😀".encode()),
)
USERS = ("<url>", "▁", "▁▁x", "é</w>é", "<a-user-token-of-many-letters>")
# Runs of bytes that matter: "▁", one cut short, one after a broken start, a surrogate, spaces, a line end.
RUNS = (
    b"\xe2\x96\x81",
    b"\xe2\x96",
    b"\xf0\x90\xe2\x96\x81",
    b"\x81",
    b"\xed\xa0\x80",
    b" ",
    b"\n",
    "é".encode(),
)
Rows = list[list[int]]


@st.composite
def vocabularies(draw):
    """Any pre-tokenizer with any marker, with user tokens and byte tokens or without; short and long tokens."""
    pretokenizer, marker = draw(st.sampled_from(PRETOKENIZERS)), draw(st.sampled_from(MARKERS))
    special = SpecialTokens(user=tuple(draw(st.lists(st.sampled_from(USERS), unique=True))))
    byte_fallback = draw(st.booleans())
    parts = draw(st.lists(st.sampled_from(CHARACTERS), min_size=1, unique=True))
    if marker == "suffix":
        parts += [part + "</w>" for part in parts]
    merges = []
    for left, right in draw(
        st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=12)
    ):
        merges.append((parts[-1 - left % len(parts)], parts[-1 - right % len(parts)]))
        parts.append("".join(merges[-1]))
    reserved = {*special.all, *BYTE_TOKENS, "</w>"}
    tokens = tuple(part for part in dict.fromkeys(parts) if part not in reserved)
    return Vocabulary(
        tuple(merges),
        tokens,
        marker=marker,
        pretokenizer=PreTokenizer.parse(pretokenizer),
        special=special,
        byte_fallback=byte_fallback,
    )


@st.composite
def vocabularies_and_rows(draw):
    """Any ids in any lines, with runs of byte tokens."""
    vocabulary = draw(vocabularies())
    some = st.integers(0, len(vocabulary.pieces) - 1).map(lambda number: [number])
    named = [number for piece, number in vocabulary.ids.items() if piece not in BYTE_TOKENS]
    words = some | st.sampled_from(named).map(lambda number: [number])
    if vocabulary.byte_fallback:
        words |= st.sampled_from(RUNS).map(
            lambda run: [vocabulary.ids[BYTE_TOKENS[byte]] for byte in run]
        )
    row = st.lists(words, max_size=12).map(lambda parts: list(chain.from_iterable(parts)))
    return vocabulary, draw(st.lists(row, max_size=6))


def flat(rows):
    offsets = np.array([0, *accumulate(map(len, rows))], np.int64)
    return np.array(list(chain.from_iterable(rows)), np.int32), offsets


def plain(vocabulary, rows):
    return [decode(vocabulary, [vocabulary.pieces[number] for number in row]) for row in rows]


def joined(lines):
    return "".join(line + "\n" for line in lines).encode()


def suffixed(*pieces, pretokenizer="unicode"):
    """Return a vocabulary in which the token "</w>" has no text if spaces are kept, and one line of these pieces."""
    special = SpecialTokens(user=("<url>",))
    vocabulary = Vocabulary(
        (),
        ("a", "a</w>", "▁"),
        pretokenizer=PreTokenizer.parse(pretokenizer),
        special=special,
        byte_fallback=True,
    )
    return vocabulary, [[vocabulary.ids[piece] for piece in pieces]]


@settings(max_examples=examples(300))
@given(case=vocabularies_and_rows(), size=st.sampled_from([1, 40, volt.encode.decoder.BLOCK_SIZE]))
@example(case=suffixed("<0xC3>", "</w>", "<0xA9>"), size=40)
@example(case=suffixed("</w>", "▁", "a", "<url>", "</w>"), size=1)
@example(case=suffixed("<url>", "</w>", "<0x20>", "</w>", pretokenizer="whitespace"), size=1)
@example(case=suffixed("<0xE2>", "<0x96>", "<0x81>", "▁", "a"), size=1)
def test_lines_equal_decode(case, size):
    """For any ids, vocabulary and block size, `decode_line`, `decode_lines` and `decode_bytes` give
    the lines of `decode`.
    """
    vocabulary, rows = case
    decoder, expected = Decoder.of(vocabulary), plain(vocabulary, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(volt.encode.decoder, "BLOCK_SIZE", size)
        assert decoder.decode_lines(*flat(rows)) == expected
        assert decoder.decode_bytes(*flat(rows)) == joined(expected)
        for most_at_once in (2, 1_000):
            patch.setattr(volt.encode.decoder, "_MOST_AT_ONCE", most_at_once)
            assert [decoder.decode_line(np.array(row, np.int32)) for row in rows] == expected


@settings(max_examples=examples(200))
@given(
    runs=st.lists(st.binary(max_size=6) | st.sampled_from(RUNS), max_size=8), breaks=st.booleans()
)
def test_invalid_bytes_are_replaced_line_by_line(runs, breaks):
    """In GPT-2's byte alphabet, an incomplete character at a line's end does not swallow the next
    line's beginning.
    """
    vocabulary = Vocabulary((), ALPHABET, marker="none", pretokenizer=PreTokenizer.parse("bytes"))
    if not breaks:
        runs = [run.replace(b"\n", b"") for run in runs]
    rows = [[vocabulary.ids[ALPHABET[byte]] for byte in run] for run in runs]
    expected = [run.decode(errors="replace") for run in runs]
    assert Decoder.of(vocabulary).decode_lines(*flat(rows)) == expected


@settings(max_examples=examples(200))
@given(
    case=vocabularies_and_rows(),
    spaces=st.tuples(*[st.sampled_from(["", " ", "   "])] * 2),
    data=st.data(),
)
def test_ids_as_text(case, spaces, data):
    """`decode_text` decodes ids in text, with any spaces and line ends, as `decode` decodes their
    pieces.
    """
    vocabulary, rows = case
    ending = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = [spaces[0] + (" " + spaces[1]).join(map(str, row)) + spaces[1] for row in rows]
    text = "".join(line + ending for line in lines)
    if rows and lines[-1]:
        text = text.removesuffix(data.draw(st.sampled_from(["", "\n", "\r\n"])))
    assert Decoder.of(vocabulary).decode_text(text.encode()) == joined(plain(vocabulary, rows))


@settings(max_examples=examples(300))
@given(
    rows=st.lists(
        st.lists(st.sampled_from(["4", "5", "05", "6", "-1", "a", "1.0", "٤", "9" * 30]))
    ),
    ending=st.sampled_from(["\n", "\r\n"]),
)
@example(rows=[["4"], ["5", "6"]], ending="\r\n")
def test_faults_of_id_text_are_reported_with_line_and_place(rows, ending):
    """The error of `decode_text` names the first word that is not an id, with its line and
    position.
    """
    decoder = Decoder.of(Vocabulary((), ("a</w>", "b")))
    text = "".join(" ".join(row) + ending for row in rows).encode()
    words = [
        (line, place, word) for line, row in enumerate(rows, 1) for place, word in enumerate(row)
    ]
    bad = [row for row in words if row[2] not in ("4", "5", "05")]
    if not bad:
        assert decoder.decode_text(text).count(b"\n") == len(rows)
        return
    line, place, word = bad[0]
    with pytest.raises((CorpusError, VocabularyError)) as caught:
        decoder.decode_text(text, place=lambda index: f"a.ids:{index + 1}")
    expected = f"{word!r} is not an id; ids are whole numbers with spaces between them"
    if word in ("6", "9" * 30):
        expected = f"id {word} at position {place}: ids go from 0 to 5"
    assert str(caught.value) == f"a.ids:{line}: {expected}"


def test_arrays_of_all_kinds():
    """`decode_lines` decodes read-only, strided and empty arrays of any integer type, and refuses
    floats.
    """
    decoder, rows = Decoder.of(Vocabulary((), ("a</w>", "b"))), [[5, 4, 4], [], [4]]
    ids, offsets = flat(rows)
    fixed, strided = ids.copy(), np.repeat(ids, 2)[::2]
    fixed.flags.writeable = False
    for given_ids in (fixed, strided, ids.astype(np.int64), ids.astype(np.uint16)):
        assert decoder.decode_lines(given_ids, offsets.astype(np.int32)) == ["ba a", "", "a"]
    assert decoder.decode_lines(ids, offsets[1:]) == ["", "a"]
    assert (
        decoder.decode_lines(ids, offsets[:0]) == decoder.decode_lines(ids[:0], offsets[:1]) == []
    )
    assert decoder.decode_bytes(ids[:0], offsets[:1]) == decoder.decode_text(b"") == b""
    with pytest.raises(TypeError):
        decoder.decode_lines(ids.astype(float), offsets)


@pytest.mark.parametrize("bad", [-1, 6, 2**31 - 1, -(2**31), 2**32 + 4])
def test_ids_out_of_range_are_reported(bad):
    """The error of `decode_lines` names an id that is out of range, and its position."""
    ids = np.array([4, bad], np.int32 if -(2**31) <= bad < 2**31 else np.int64)
    with pytest.raises(VocabularyError, match=f"id {bad} at position 1: ids go from 0 to 5"):
        Decoder.of(Vocabulary((), ("a</w>", "b"))).decode_lines(ids, np.array([0, 2]))


@pytest.mark.parametrize("offsets", [[0, 3], [-1, 2], [0, 2, 1], [1, 0]])
def test_offsets_that_do_not_fit_are_refused(offsets):
    """`decode_lines` refuses offsets that decrease or lie outside the ids, which compiled code
    would follow.
    """
    with pytest.raises(VocabularyError, match="offsets must not decrease, or lie outside 0 to 2"):
        Decoder.of(Vocabulary((), ("a</w>", "b"))).decode_lines(
            np.array([4, 5], np.int32), np.array(offsets)
        )


@pytest.mark.parametrize("size", [1, 7, 40, 64])
def test_lines_of_every_length_in_blocks_of_every_size(size, monkeypatch):
    """Wherever a block of decoded text ends, in words, spaces or empty lines, `decode_lines` gives
    whole lines.
    """
    monkeypatch.setattr(volt.encode.decoder, "BLOCK_SIZE", size)
    vocabularies = [
        Vocabulary((("b", "é</w>"),), ("a</w>", "bé</w>", "b", "é</w>")),
        Vocabulary((("▁", "a"),), ("▁", "▁a", "a"), marker="prefix"),
        Vocabulary((), ("a", "b"), marker="none"),
    ]
    for vocabulary in vocabularies:
        rows = [[4 + (i + n) % 2 for i in range(n)] for n in [*range(60), *[0] * 200, 5]]
        decoder, expected = Decoder.of(vocabulary), plain(vocabulary, rows)
        assert decoder.decode_lines(*flat(rows)) == expected
        assert decoder.decode_bytes(*flat(rows)) == joined(expected)


def test_a_line_longer_than_a_block():
    """`decode_lines` decodes a line, and a token, that are longer than a block of decoded text."""
    merges = tuple((left := "ab" * 2**power, left) for power in range(17))
    vocabulary = Vocabulary((("a", "b"), *merges), ("a", "b", "c</w>", "ab" * 2**17))
    rows = [[4, 6], [7] * 4 + [6], [6], [4] * 400_000 + [6], []]
    expected = ["ac", "ab" * 2**19 + "c", "c", "a" * 400_000 + "c", ""]
    assert Decoder.of(vocabulary).decode_lines(*flat(rows)) == expected


def test_threads_and_processes_share_a_decoder():
    """Eight threads that share a `Decoder`, and copies that outlive it, give equal lines."""
    vocabulary = Vocabulary((), ("é</w>", "b", "中"))
    decoder, rng = Decoder.of(vocabulary), np.random.default_rng(0)
    batches = [rng.integers(0, 7, (50, 20)).tolist() for _ in range(100)]
    expected = [plain(vocabulary, rows) for rows in batches]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda rows: decoder.decode_lines(*flat(rows)), batches)) == expected
        lines = pool.map(decoder.decode_line, np.array(batches[0], np.int32))
        assert list(lines) == expected[0]
    copies = [pickle.loads(pickle.dumps(decoder)), copy.deepcopy(decoder), copy.copy(decoder)]
    decoder = None  # its arrays are freed
    for one in copies:
        assert one.decode_lines(*flat(batches[0])) == expected[0]
        assert one.decode_line(np.array(batches[0][0], np.int32)) == expected[0][0]


def test_tokens_of_each_length():
    """`decode_lines` restores tokens of all lengths around SHORT, from which on texts are stored
    differently.
    """
    texts = {"é" + "ab" * n for n in range(SHORT)} | {"x" * n for n in range(1, SHORT + 3)}
    cut = PreTokenizer("unicode")
    vocabulary = Vocabulary((), tuple(texts), marker="none", pretokenizer=cut, whole_words=True)
    ids = np.arange(4, 4 + len(texts))
    lines = Decoder.of(vocabulary).decode_lines(ids, np.array([0, len(texts)]))
    assert lines == ["".join(vocabulary.tokens)]


@pytest.mark.parametrize(
    "name", ["multi30k/train.de.gz", "ted/Georgian.txt.gz", "ted/Cantonese.txt.gz"]
)
def test_real_text_decodes_as_line_by_line(name, lines):
    """For real text and a vocabulary of each kind, `decode_lines` gives the lines of `decode`."""
    text = lines(name, 1_500)
    for encoder in ENCODERS:
        encoded = encoder.encode_batch(text)
        decoded = Decoder.of(encoder.vocabulary).decode_lines(encoded.ids, encoded.offsets)
        assert decoded == plain(encoder.vocabulary, ids_of(encoded))


def test_the_command_decodes_ids_of_several_files(run):
    """`volt decode --form ids` decodes all files, and reports file and line of a word that is not an id."""
    Vocabulary((), ("a</w>", "b")).save("v.volt")
    Path("a.ids").write_bytes(b"5 4 4\r\n\n4")
    Path("b.ids").write_bytes(b"4\n" * 300_000 + b"4 99\n")
    command = ["decode", "--form", "ids", "-m", "v.volt"]
    assert run(*command, "a.ids", "a.ids").stdout == b"ba a\n\na\n" * 2
    fault = b"b.ids:300001: id 99 at position 1: ids go from 0 to 5"
    assert fault in run(*command, "b.ids", status=1).stderr


@pytest.mark.parametrize("marker", ["none", "prefix"])
@pytest.mark.parametrize("data", [b"\xec\x8e\x91", "▁".encode(), "é".encode()])
def test_unused_ids_have_no_text(marker, data):
    """An unused id at any place in a line, even between the bytes of a character, does not change
    the decoded text.
    """
    order = ("<unk>", "<s>", "</s>", "<pad>", *BYTE_TOKENS, "", "a")
    encoder = Encoder(Vocabulary((), ("a",), marker=marker, byte_fallback=True, order=order))
    ids = [order.index(token) for token in ("a", *(BYTE_TOKENS[byte] for byte in data), "a")]
    unused = order.index("")
    line = encoder.decode_ids(ids)
    for place in range(len(ids) + 1):
        row = [*ids[:place], unused, *ids[place:]]
        assert encoder.decode_ids(row) == line
        assert encoder.decode_batch([row, [], row]) == [line, "", line]
