"""Laws of offsets: normalised characters, words and pieces have the spans of the text that they come from."""

import sys
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import encoders
from support.batches import HARD
from support.drawn import examples
from support.encoders import FEW, NORMALIZERS, USER, encoder, schemes
from support.slow_spans import rows_of, slow_offsets, slow_spans
from support.texts import NAMES, REGEXES, texts

from volt.encode.encoder import Encoder
from volt.encode.offsets import align
from volt.errors import ConfigError, CorpusError
from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes, to_characters
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import IF_ABSENT, PER_SEGMENT, PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary


def folded(text):
    """Replace the final sigma, whose form depends on its context."""
    return text.replace("ς", "σ")


# ---- alignment


@pytest.mark.parametrize("name", NAMES)
@given(text=texts)
@example(text="ΑΣ ΑΣΑ e\u0301\u0327 ﬁ")
@settings(max_examples=examples(50))
def test_alignment_covers_the_line(name, text):
    """The spans of `align` are in order and cover the line; normalising a span's text gives its
    characters.
    """
    normalizer = Normalizer.parse(name)
    [(normalized, spans)] = align(normalizer, [text])
    assert normalized == normalizer.normalize(text)
    assert spans.shape == (len(normalized), 2)
    pairs = [tuple(span) for span in spans.tolist()]
    groups = sorted(set(pairs))
    assert pairs == sorted(pairs)
    assert [start for start, _ in groups] == [0, *(end for _, end in groups)][: len(groups)]
    assert not groups or groups[-1][1] == len(text)
    parts = [normalizer.normalize(text[start:end]) for start, end in groups]
    assert folded("".join(parts)) == folded(normalized)
    assert [len(part) for part in parts] == [pairs.count(group) for group in groups]


@pytest.mark.parametrize(
    ("normalizer", "text", "spans"),
    [
        (Normalizer("nfc"), "xe\u0301y", [[0, 1], [1, 3], [3, 4]]),
        (Normalizer("nfkc"), "½a", [[0, 1], [0, 1], [0, 1], [1, 2]]),
        (Normalizer("nfkc"), "ㄱㅏx", [[0, 2], [2, 3]]),
        (Normalizer(lowercase=True), "İΣ", [[0, 1], [0, 1], [1, 2]]),
    ],
)
def test_alignment_of_known_lines(normalizer, text, spans):
    """`align` gives characters that were composed, expanded or reordered the spans of their
    origins.
    """
    [(_, found)] = align(normalizer, [text])
    assert found.tolist() == spans


def test_every_combining_character_belongs_to_the_character_before_it():
    """`align` puts a character that NFKC may join to the previous one into the span of that one."""
    combining = []
    for code in (*range(0xD800), *range(0xE000, sys.maxunicode + 1)):
        first = unicodedata.normalize("NFKD", chr(code))[0]
        if unicodedata.combining(first) or 0x1160 <= ord(first) < 0x1200:
            combining.append(chr(code))
    line = "".join(f"ガ{character}" for character in combining)
    [(text, spans)] = align(Normalizer("nfkc"), [line])
    assert text == unicodedata.normalize("NFKC", line)
    assert len(combining) > 900
    assert (spans[:, 1] - spans[:, 0]).max() == 2


def test_long_marks_are_aligned_in_linear_time():
    """`align` handles 100,000 marks on one letter, and 100,000 sigmas, without quadratic time."""
    line = "E" + "\u0301" * 100_000 + "Σ" * 100_000
    [(text, spans)] = align(Normalizer("nfc", lowercase=True), [line])
    assert len(text) == len(spans) == 200_000


# ---- the slow way


MARKED = ("metaspace", "metaspace-runs", "metaspace-line")
ADDING = [
    name + suffix
    for name in MARKED
    for suffix in ("", IF_ABSENT, PER_SEGMENT, IF_ABSENT + PER_SEGMENT)
]
MATCHING = (r"bytes+matches:\p{L}+| ", r"matches:[a-z]+|[^a-z ]| ", r"matches: ?\p{L}+|\p{N}+")
SPLITTING = ("bytes", r"bytes+split:\p{L}+| ", r"split: ?\p{L}+", "gpt2", "unicode", *MATCHING)
OTHERS = [*ADDING, *SPLITTING, "whitespace", *REGEXES]
WITH_USERS = SpecialTokens(
    user=("<url>", " x", "xy", "é▁!", "\t"), lstrip=("<url>",), rstrip=("xy",)
)
WITHOUT_UNK = replace(WITH_USERS, unk=None)


def build(pretokenizer, marker, normalizer, special, options):
    """Return the encoder of a few merges, which knows only some characters."""
    is_bytes = "bytes" in pretokenizer
    characters = [*to_characters("abelow é▁\n中".encode()), "▁"] if is_bytes else [*"abelowé▁ Ġ"]
    end = "</w>" if marker == "suffix" else ""
    atoms = [*characters, *(character + end for character in characters)]
    space = "Ġ" if is_bytes else "▁"
    merges = [
        ("l", "o"),
        ("lo", "w"),
        (space, "lo"),
        (space, space),
        ("▁", "low"),
        ("a", "b" + end),
    ]
    tokens = dict.fromkeys([*atoms, *map("".join, merges)])
    vocabulary = Vocabulary(
        tuple(merges),
        tuple(tokens),
        marker=marker,
        pretokenizer=PreTokenizer(pretokenizer),
        normalizer=Normalizer.parse(normalizer),
        special=special,
        byte_fallback="byte_fallback" in options and not is_bytes,
        fuse_unk="fuse_unk" in options,
    )
    return Encoder(vocabulary)


hostile_texts = st.lists(
    st.sampled_from(HARD) | encoders.fragments | st.characters(codec="utf-8"), max_size=10
).map("".join)


@given(
    st.lists(hostile_texts, max_size=3),
    st.sampled_from(OTHERS),
    st.sampled_from(["suffix", "prefix", "none"]),
    st.sampled_from(["none", "none", "nfc", "nfkc+lowercase", "lowercase"]),
    st.sampled_from([SpecialTokens(), WITH_USERS, WITHOUT_UNK, SpecialTokens(unk=None)]),
    st.sampled_from(["", "byte_fallback", "fuse_unk"]),
)
@settings(max_examples=examples(3000, share=30), deadline=None)
def test_spans_are_those_of_the_slow_way(lines, pretokenizer, marker, normalizer, special, options):
    """`encode_spans` returns the ids, spans and words that are found word by word and piece by
    piece; `encode_offsets` the pieces and spans.
    """
    made = build(pretokenizer, marker, normalizer, special, options)
    assert rows_of(made.encode_spans(lines, n_threads=1)) == slow_spans(made, lines)
    for line in lines:
        rows = slow_offsets(made.vocabulary, line, made._tables.pieces)
        assert made.encode_offsets(line) == [tuple(row[:3]) for row in rows]


@given(
    st.lists(hostile_texts, max_size=3),
    st.sampled_from(OTHERS),
    st.sampled_from(["none", "nfkc+lowercase"]),
    st.sampled_from(["", "byte_fallback"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_ids_and_characters_find_each_other(lines, pretokenizer, normalizer, options):
    """`char_to_token` returns the first id whose span contains a character; the other methods of
    `Spans` return what the flat arrays say.
    """
    made = build(pretokenizer, "none", normalizer, WITHOUT_UNK, options)
    spans = made.encode_spans(lines, n_threads=1)
    for index, (line, rows) in enumerate(zip(lines, rows_of(spans), strict=True)):
        for position in range(len(line) + 1):
            holders = [i for i, (_, start, end, _) in enumerate(rows) if start <= position < end]
            expected = holders[0] if holders else None
            assert spans.char_to_token(index, position) == expected
        for i, (_, start, end, word) in enumerate(rows):
            assert spans.token_to_chars(index, i) == (start, end)
            assert spans.token_to_word(index, i) == word
        for word in range(len(line) + 1):
            members = [i for i, row in enumerate(rows) if row[3] == word]
            expected = (members[0], members[-1] + 1) if members else None
            assert spans.word_to_tokens(index, word) == expected


def test_lines_and_ids_that_do_not_exist_are_refused():
    """The methods of `Spans` name the greatest line, or the greatest id of the line."""
    spans = encoder("none", "gpt2").encode_spans(["the low", ""])
    with pytest.raises(ConfigError, match="line is 2; give 1 or less"):
        spans.char_to_token(2, 0)
    with pytest.raises(ConfigError, match="index is 9; give 1 or less"):
        spans.token_to_chars(0, 9)
    with pytest.raises(ConfigError, match="position is -1; give 0 or more"):
        spans.char_to_token(0, -1)


@pytest.mark.parametrize(
    "call",
    [
        lambda text: encoder("none", "gpt2").encode_offsets(text),
        lambda text: encoder("none", "gpt2", "nfc").encode_spans([text]),
        PreTokenizer().split,
        PreTokenizer("gpt2").split,
        Normalizer("nfc").normalize,
    ],
)
def test_lone_surrogates_are_refused(call):
    """Functions that normalise, split or align text refuse a lone surrogate, and name its position."""
    message = r"lone surrogate U\+D800 at character 2 .*errors='replace'"
    with pytest.raises(CorpusError, match=message):
        call("ab\ud800")


# ---- pieces


@given(encoders.texts, schemes, st.sampled_from(NORMALIZERS), st.booleans(), st.booleans())
@example("\ue000a \ue001", encoders.LOSSLESS[-1], "none", False, False)  # private, like brackets
@settings(max_examples=examples(500))
def test_spans_hold_their_pieces(text, scheme, normalizer, has_users, byte_fallback):
    """`encode_offsets` returns the pieces of `encode`, with ordered spans that contain the pieces'
    text.

    Without normalisation, a span's text is the piece; the byte tokens of a character share its
    span.
    """
    marker, pretokenizer = scheme
    user = USER if has_users else ()
    made = encoder(marker, pretokenizer, normalizer, user, byte_fallback)
    rows = made.encode_offsets(text)
    assert [piece for piece, *_ in rows] == made.encode(text)
    assert [start for _, start, _ in rows] == sorted(start for _, start, _ in rows)
    assert [end for *_, end in rows] == sorted(end for *_, end in rows)
    for piece, start, end in rows:
        assert 0 <= start <= end <= len(text)
        source = text[start:end]
        normal = source if piece in user else Normalizer.parse(normalizer).normalize(source)
        if byte_fallback and piece in BYTE_TOKENS:
            shown = normal if pretokenizer == "whitespace" else f"{normal}▁"  # "▁" may show a space
            assert int(piece[3:5], 16) in (shown + ("ς" if "σ" in normal else "")).encode()
            continue
        bare = piece.removesuffix("</w>") if marker == "suffix" and piece not in user else piece
        if marker == "suffix" and pretokenizer == "whitespace":
            assert folded(bare) in folded(normal)
            assert bare == source or normalizer != "none"
        else:
            shown = bare.replace("▁", " ")
            normal = normal.replace("▁", " ")
            assert folded(shown.removeprefix(" ")) in folded(normal)
            assert normalizer != "none" or normal in (shown, shown.removeprefix(" "))


@given(encoders.texts, schemes, st.booleans())
@FEW
def test_spans_cover_the_line(text, scheme, has_users):
    """Without normalisation, the spans of `encode_offsets` cover all characters except white space."""
    rows = encoder(*scheme, user=USER if has_users else ()).encode_offsets(text)
    covered = {i for _, start, end in rows for i in range(start, end)}
    missing = {text[i] for i in set(range(len(text))) - covered}
    assert all(character.isspace() for character in missing)
    assert not missing or scheme not in encoders.LOSSLESS


@given(
    encoders.texts,
    st.sampled_from(["suffix", "prefix", "none"]),
    st.sampled_from(["bytes", r"bytes+split:\p{L}+| ", r"bytes+matches:\p{L}+| "]),
    st.booleans(),
)
@example("@@", "prefix", r"bytes+matches:\p{L}+| ", True)  # no "▁" before an isolated user token
@example("▁ ", "suffix", r"bytes+matches:\p{L}+| ", False)
@FEW
def test_spans_hold_pieces_of_bytes(text, marker, pretokenizer, has_users):
    """In GPT-2's byte alphabet, the text of a span of `encode_offsets` contains the bytes of its
    piece.
    """
    user = USER if has_users else ()
    made = encoder(marker, pretokenizer, user=user)
    rows = made.encode_offsets(text)
    pieces = [piece for piece, *_ in rows]
    spans = [span for _, *span in rows]
    assert pieces == made.encode(text)
    assert spans == sorted(spans)
    assert made.encode_spans([text]).ids.tolist() == made.encode_ids(text).tolist()
    for piece, start, end in rows:
        assert 0 <= start <= end <= len(text)
        if piece in user:
            assert text[start:end] == piece
        else:
            bare = piece.removesuffix("</w>") if marker == "suffix" else piece
            if marker == "prefix":
                bare = bare.removeprefix("▁")
            assert to_bytes(bare) in text[start:end].encode()
    if marker != "suffix" and "matches" not in pretokenizer:
        assert made.decode(pieces) == text


# ---- steps

STEPS = {
    "spaces": [["nfkc"], ["spaces"]],
    "strip": [["nfkc"], ["replace", " {2,}", "▁", "regex"], ["strip", True, True]],
    "literal": [["replace", "lo", "+++", "literal"], ["replace", " ", "", "literal"]],
    "prepend": [["nmt"], ["nfd"], ["accents"], ["lowercase"], ["prepend", "▁▁"]],
    "left": [["strip", True, False], ["replace", "a", "x", "regex"]],
}


@pytest.mark.parametrize(
    ("steps", "text", "spans"),
    [
        (
            STEPS["spaces"],
            "  a  ﬁ b ",
            ["a", "  ", "ﬁ", "ﬁ", " ", "b"],
        ),
        (STEPS["strip"], "  a  b c ", ["  ", "a", "  ", "b", " ", "c"]),
        (STEPS["literal"], "low lo ", ["lo", "lo", "lo", "w ", "lo", "lo", "lo"]),
        (STEPS["prepend"], "É\x01ΑΣ", ["É\x01", "É\x01", "É\x01", "Α", "Σ"]),
        (STEPS["left"], " \t ba", ["b", "a"]),
    ],
)
def test_steps_say_where_their_text_comes_from(steps, text, spans):
    """A removed text belongs to the character before it, unless it ends the line; a replacement
    shares the span of the replaced text.
    """
    [(normal, places)] = align(Normalizer.of_steps(steps), [text])
    assert normal == Normalizer.of_steps(steps).normalize(text)
    assert [text[start:end] for start, end in places.tolist()] == spans


@pytest.mark.parametrize("name", STEPS)
@given(st.lists(hostile_texts, min_size=1, max_size=4))
@example(["\t ▁", ""])  # the end of a line is removed, and the last one is empty
@settings(max_examples=examples(100), deadline=None)
def test_spans_of_steps_are_ordered(name, lines):
    """`align` returns the normalised line, with spans inside the line that begin and end in order."""
    normalizer = Normalizer.of_steps(STEPS[name])
    for line, (text, spans) in zip(lines, align(normalizer, lines), strict=True):
        assert text == normalizer.normalize(line)
        assert spans.shape == (len(text), 2)
        starts, ends = spans.T.tolist()
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        assert all(0 <= start <= end <= len(line) for start, end in zip(starts, ends, strict=True))


@given(st.lists(hostile_texts, max_size=3), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_steps_change_the_text_between_user_tokens_alone(lines, strips):
    """A user token keeps its span, and each segment between user tokens has the spans that it has
    as a line.
    """
    normalizer = Normalizer.of_steps([["strip", strips, True], ["lowercase"]])
    special = SpecialTokens(user=("<url>",))
    tokens = tuple("abelow<>ur ")
    words = PreTokenizer(r"split:[\s\S]+")
    made = Encoder(
        Vocabulary(
            (), tokens, marker="none", pretokenizer=words, normalizer=normalizer, special=special
        )
    )
    for line in lines:
        line = line.replace("<", "")
        joined = f" {line} <url> {line} "
        [left, right] = [made.encode_spans([f" {line} "]) for _ in range(2)]
        found = made.encode_spans([joined])
        shift = len(line) + 2
        after = shift + len("<url>")
        assert found.starts.tolist() == [*left.starts, shift, *(right.starts + after)]
        assert found.ends.tolist() == [*left.ends, after, *(right.ends + after)]


CHARACTERS = "abAB é½ﬁ\u0301\x01▁　㎏ÅﷺⅧゞ\t"


@pytest.mark.parametrize("removes_spaces", [True, False])
def test_spans_of_a_unigram_model_are_those_of_sentencepiece(removes_spaces, tmp_path):
    """The spans of a sentencepiece model start where sentencepiece's start, and end where they end,
    except inside a replacement.

    A "▁" before removed text at the start of a line is an exception.
    """
    library = pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    from volt.formats.sentencepiece import model_file
    from volt.formats.sentencepiece.charsmap import model_class

    model = model_class()()
    rules = library.SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto()
    model.normalizer_spec.CopyFrom(model_class().FromString(rules).normalizer_spec)
    model.normalizer_spec.remove_extra_whitespaces = removes_spaces
    model.normalizer_spec.add_dummy_prefix = True
    model.trainer_spec.model_type = 1
    pieces = [("<unk>", 2, 0.0), ("<s>", 3, 0.0), ("</s>", 3, 0.0)]
    pieces += [
        (text, 1, -float(len(text))) for text in ("▁", "a", "b", "▁a", "ab", "fi", "i", "kg")
    ]
    for text, kind, score in pieces:
        piece = model.pieces.add()
        piece.piece = text
        piece.type = kind
        piece.score = score
    path = tmp_path / "x.model"
    path.write_bytes(model.SerializeToString())
    processor = library.SentencePieceProcessor(model_file=str(path))
    made = Encoder(model_file.read(path))

    @given(st.text(st.sampled_from(CHARACTERS), max_size=15))
    @settings(max_examples=examples(600), deadline=None)
    @example("ab  ½ ﬁ b ")
    def check(line):
        proto = processor.encode(line, return_type="proto")
        spans = made.encode_spans([line])
        if not line or [piece.id for piece in proto.pieces] != spans.ids.tolist():
            return  # a line of removed characters
        n_before = [len(line.encode()[:end].decode(errors="ignore")) for end in range(999)]
        starts = [n_before[piece.begin] for piece in proto.pieces]
        ends = [n_before[piece.end] for piece in proto.pieces]
        first = int(starts[:1] != spans.starts[:1].tolist())
        assert not first or line.lstrip(" \t　")[0] in "\x01\u0301▁"
        assert spans.starts.tolist()[first:] == starts[first:]
        next_starts = [*starts[1:], len(line)]
        for i in range(first, len(ends)):
            is_inside = next_starts[i] < spans.ends[i]
            assert is_inside or spans.ends[i] == ends[i]

    check()
