"""Compare the calls in docs/pages/reference/peers.md with tokenizers, tiktoken and sentencepiece.

Each library learns or reads a small model, and VOLT reads the model's file: ids and texts must be equal.
"""

import io
import re
from itertools import cycle, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import ids_of
from support.merges import LINES
from support.places import ROOT

import volt
from volt.encode.encoder import Encoder
from volt.errors import ArgumentError, ConfigError, CorpusError, VocabularyError
from volt.vocabulary import Vocabulary

pytestmark = pytest.mark.filterwarnings(
    "ignore::volt.errors.VoltWarning"
)  # see tests/formats/test_registry.py
tokenizers = pytest.importorskip("tokenizers", reason="pip install 'volt-vocab[interop]'")
tiktoken = pytest.importorskip("tiktoken")
sentencepiece = pytest.importorskip("sentencepiece")

CORPUS = [
    *LINES,
    "the lower the newest, the widest: don't 42",
    "größer größte naïve café 😀👍🏽 我们 在",
] * 3
TEXTS = ["the newest lower", "", "größer 😀 x", "don't 42\n 42", "  two  spaces ", "we我们\u2581x"]
PLAIN = [text for text in TEXTS if "\n" not in text and "\u2581" not in text]
ROLES = ["<unk>", "<s>", "</s>", "<pad>"]
END = "<|end|>"
any_text = st.lists(
    st.sampled_from([*"the lowr", "é", "😀", "我", "\n", "  ", "newest"]), max_size=12
).map("".join)


@pytest.fixture(scope="module")
def huggingface(tmp_path_factory):
    """A tokenizer of bytes with the usual roles, learned by tokenizers, and VOLT's encoder of its file."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, show_progress=False, special_tokens=ROLES, initial_alphabet=alphabet
    )
    theirs.train_from_iterator(CORPUS, trainer)
    ids = [(token, theirs.token_to_id(token)) for token in ("<s>", "</s>")]
    theirs.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", ids)
    path = tmp_path_factory.mktemp("tokenizers") / "tokenizer.json"
    theirs.save(str(path))
    vocabulary = volt.read_vocabulary(path, unk="<unk>", bos="<s>", eos="</s>", pad="<pad>")
    return Encoder(vocabulary), theirs


@pytest.fixture(scope="module")
def openai(tmp_path_factory, huggingface):
    """An encoding of tiktoken with two special tokens, and VOLT's encoder of its ranks."""
    import base64

    from volt.formats.tiktoken.reading import GPT2_PATTERN
    from volt.text.byte_alphabet import to_bytes

    pieces = [piece for piece in huggingface[0].vocabulary.pieces if piece and piece not in ROLES]
    ranks = {to_bytes(piece): rank for rank, piece in enumerate(pieces)}
    special = {END: len(ranks), "<|sep|>": len(ranks) + 1}
    theirs = tiktoken.Encoding(
        "small", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens=special
    )
    path = tmp_path_factory.mktemp("tiktoken") / "small.tiktoken"
    rows = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    path.write_bytes(b"".join(rows))
    return Encoder(volt.read_vocabulary(path, pattern="gpt2", special=special)), theirs


def trained(texts, path, **options):
    """Return VOLT's encoder of a new model of sentencepiece, and the library's."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type="bpe",
        minloglevel=2,
        normalization_rule_name="identity",
        **options,
    )
    path.write_bytes(model.getvalue())
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return Encoder(volt.read_vocabulary(path)), theirs


@pytest.fixture(scope="module")
def google(tmp_path_factory):
    """A model of sentencepiece with byte fallback and four roles, and VOLT's encoder of its file."""
    return trained(
        [text for text in CORPUS if "\u2581" not in text],
        tmp_path_factory.mktemp("sentencepiece") / "small.model",
        vocab_size=420,
        byte_fallback=True,
        pad_id=3,
        character_coverage=0.98,
        remove_extra_whitespaces=False,
    )


Pair = tuple[Encoder, Any]


def test_ids_pieces_and_texts(huggingface, openai, google):
    """Single calls and batches give the ids, pieces, counts and decoded texts of each library."""
    ours, theirs = huggingface
    expected = theirs.encode_batch(PLAIN, add_special_tokens=False)
    assert [ours.encode(text) for text in PLAIN] == [line.tokens for line in expected]
    rows = {
        ours: [line.ids for line in expected],
        openai[0]: openai[1].encode_batch(PLAIN),
        google[0]: google[1].encode(PLAIN),
    }
    for encoder, ids in rows.items():
        batch = encoder.encode_batch(PLAIN)
        lengths = list(map(len, ids))
        assert [encoder.encode_ids(text).tolist() for text in PLAIN] == ids_of(batch) == ids
        assert list(map(encoder.count, PLAIN)) == batch.counts.tolist() == lengths
    for ours, texts in (
        (openai[0], openai[1].decode_batch(rows[openai[0]])),
        (google[0], google[1].decode(rows[google[0]])),
    ):
        assert ours.decode_batch(rows[ours]) == list(map(ours.decode_ids, rows[ours])) == texts
    assert google[0].encode(PLAIN[0]) == google[1].encode(PLAIN[0], out_type=str)
    assert huggingface[0].vocabulary.id_of("<s>") == theirs.token_to_id("<s>")
    assert google[0].vocabulary.id_of("\u2581the") == google[1].piece_to_id("\u2581the")
    assert openai[0].vocabulary.id_of("the") == openai[1].encode_single_token("the")


def test_ids_with_bos_and_eos(huggingface, google):
    """add_bos and add_eos equal a template of tokenizers, and sentencepiece's arguments of these names."""
    ours, theirs = huggingface
    rows = [line.ids for line in theirs.encode_batch(TEXTS)]
    assert ids_of(ours.encode_batch(TEXTS, add_bos=True, add_eos=True)) == rows
    assert [ours.encode_ids(text, add_bos=True, add_eos=True).tolist() for text in TEXTS] == rows
    ours, theirs = google
    for bos, eos in product((False, True), repeat=2):
        expected = theirs.encode(PLAIN, add_bos=bos, add_eos=eos)
        assert ids_of(ours.encode_batch(PLAIN, add_bos=bos, add_eos=eos)) == expected


def test_special_tokens_in_text(openai):
    """Allowed special tokens are found as tiktoken finds them; without them, they are text."""
    ours, theirs = openai
    text = f"the{END}lower {END}<|sep|> <|end"
    for allowed in ("all", {END}, {"<|sep|>"}, set()):
        expected = theirs.encode(text, allowed_special=allowed, disallowed_special=())
        assert ours.encode_ids(text, allowed_special=allowed).tolist() == expected, allowed
        assert ours.encode_batch([text, "x"], allowed_special=allowed)[0].tolist() == expected
    assert ours.encode_ids(text, allowed_special=()).tolist() == theirs.encode_ordinary(text)


def test_special_tokens_that_tokenizers_finds(huggingface):
    """tokenizers' switch encode_special_tokens is allowed_special=(); without it, all are found."""
    ours, theirs = huggingface
    text = "the</s>lower <unk><pad>"
    for as_text, allowed in ((False, "all"), (True, ())):
        theirs.encode_special_tokens = as_text
        expected = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode_ids(text, allowed_special=allowed).tolist() == expected
    theirs.encode_special_tokens = False


@pytest.mark.parametrize(
    ("allowed", "disallowed", "is_refused"),
    [
        ((), "all", True),
        ({"<|sep|>"}, "all", True),
        ((), {END}, True),
        ({END}, "all", False),
        ((), {"<|sep|>"}, False),
    ],
)
def test_disallowed_special_tokens(openai, allowed, disallowed, is_refused):
    """A disallowed token raises where tiktoken raises, and the error names the token and the line."""
    ours, theirs = openai
    text = f"the {END} lower"
    options = {"allowed_special": allowed, "disallowed_special": disallowed}
    if not is_refused:
        expected = theirs.encode(text, allowed_special={*allowed}, disallowed_special=disallowed)
        assert ours.encode_ids(text, **options).tolist() == expected
        return
    with pytest.raises(ValueError, match="special token"):
        theirs.encode(text, allowed_special={*allowed}, disallowed_special=disallowed)
    message = r"line 2: the text contains the special token '<\|end\|>'"
    with pytest.raises(CorpusError, match=message):
        ours.encode_batch(["x", text], **options)
    with pytest.raises(CorpusError, match="line 1: "):
        ours.encode_ids(text, **options)


def test_bytes_of_tokens(openai):
    """token_bytes equals decode_single_token_bytes of tiktoken for every id; joined, they equal decode_bytes."""
    ours, theirs = openai
    expected = [theirs.decode_single_token_bytes(number) for number in range(theirs.n_vocab)]
    assert list(map(ours.token_bytes, range(theirs.n_vocab))) == expected
    part = theirs.encode("𝄞")[:2]
    assert b"".join(map(ours.token_bytes, part)) == theirs.decode_bytes(part)
    assert theirs.decode_bytes(part) in (b"\xf0", b"\xf0\x9d", b"\xf0\x9d\x84")
    for wrong in (-1, theirs.n_vocab):
        with pytest.raises(VocabularyError, match=f"id {wrong} at position 0: ids go from 0 to "):
            ours.token_bytes(wrong)


def test_streamed_decoding(huggingface):
    """After each id, decode_stream has yielded the text of tokenizers' DecodeStream, or more complete characters."""
    from tokenizers.decoders import DecodeStream

    ours, theirs = huggingface
    for text in TEXTS:
        ids = theirs.encode(text, add_special_tokens=False).ids
        stream, shown, passed = DecodeStream(skip_special_tokens=False), "", []
        yielded = {}
        for part in ours.decode_stream(number for number in ids if not passed.append(number)):
            yielded[len(passed)] = yielded.get(len(passed), "") + part
        for n, number in enumerate(ids, 1):
            shown += stream.step(theirs, number) or ""
            assert "".join(part for place, part in yielded.items() if place <= n).startswith(shown)
        assert "".join(yielded.values()) == shown == text


@given(st.data())
@settings(max_examples=60)
def test_streamed_text_joins_to_decode(huggingface, google, data):
    """The parts that `decode_stream` yields join to the text of `decode_ids`, for any ids; no part
    is empty.
    """
    for ours in (huggingface[0], google[0], SUFFIX):
        ids = data.draw(st.lists(st.integers(0, len(ours.vocabulary) - 1), max_size=12))
        for skip in (False, True):
            parts = list(ours.decode_stream(iter(ids), skip_special=skip))
            assert (
                "".join(parts)
                == ours.decode_ids(ids, skip_special=skip)
                == ours.decode_batch([ids], skip_special=skip)[0]
            )
            assert "" not in parts


SUFFIX = Encoder(
    Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "l</w>", "▁"), byte_fallback=True)
)


def test_streamed_text_comes_at_once(huggingface):
    """`decode_stream` yields each text before it requests the next id, so that an endless iterable
    can be decoded.
    """
    ours = huggingface[0]
    requested = []

    def endless():
        for number in cycle(ours.encode_ids("the")):
            requested.append(number)
            yield number

    first = next(ours.decode_stream(endless()))
    assert first == ours.decode_ids(requested)
    assert len(requested) == 1


def test_padding_and_truncation(huggingface):
    """`pad` and `truncate` give the ids and mask of tokenizers, on both sides; truncation keeps bos
    and eos.
    """
    ours, theirs = huggingface
    for side in ("right", "left"):
        for most, width in [(None, None), (6, None), (6, 6), (6, 9), (3, 4), (2, 2)]:
            theirs.no_truncation()
            if most:
                theirs.enable_truncation(most)
            theirs.enable_padding(
                direction=side,
                pad_id=ours.vocabulary.id_of("<pad>"),
                pad_token="<pad>",
                length=width,
            )
            expected = theirs.encode_batch(TEXTS)
            batch = ours.encode_batch(TEXTS, add_bos=True, add_eos=True, truncate=most)
            padded = ours.pad(batch, pad_to=width, side=side)
            assert padded.ids.tolist() == [line.ids for line in expected]
            assert padded.mask.astype(int).tolist() == [line.attention_mask for line in expected]
    theirs.no_truncation()
    theirs.no_padding()


def test_padding_names_the_longest_line(huggingface):
    """A width below the longest line is an error with this line, its length and both remedies."""
    ours = huggingface[0]
    batch = ours.encode_batch(["the", "the newest lower x", ""])
    message = rf"line 2, the longest line, has {batch.counts[1]} ids, more than pad_to, 2; pass pad_to={batch.counts[1]} or"
    with pytest.raises(ConfigError, match=message):
        ours.pad(batch, pad_to=2)
    assert ours.pad([]).ids.shape == (0, 0)
    assert ours.pad(ours.encode_batch([""])).mask.shape == (1, 0)
    for truncate, fault in (
        (1, "truncate is 1; give 2 or more"),
        (10**20, "give 2,147,483,647 or less"),
    ):
        with pytest.raises(ConfigError, match=fault):
            ours.encode_batch(["the"], add_bos=True, add_eos=True, truncate=truncate)


def test_offsets_and_words(huggingface):
    """Spans cover the characters that tokenizers' offsets cover, and numbers of words are equal."""
    ours, theirs = huggingface
    spans = ours.encode_spans(TEXTS)
    lines = theirs.encode_batch(TEXTS, add_special_tokens=False)
    rows = zip(spans.ids, zip(spans.starts, spans.ends, strict=True), spans.words, strict=True)
    expected = [
        row for line in lines for row in zip(line.ids, line.offsets, line.word_ids, strict=True)
    ]
    assert list(rows) == expected
    assert np.diff(spans.offsets).tolist() == list(map(len, lines))
    assert spans.ids.tolist() == ours.encode_batch(TEXTS).ids.tolist()


def test_offsets_of_one_text(openai, google):
    """Starts equal tiktoken's offsets; spans equal sentencepiece's if no piece is part of a character."""
    ours, theirs = openai
    for text in TEXTS:
        _, starts = theirs.decode_with_offsets(theirs.encode(text))
        assert [start for _, start, _ in ours.encode_offsets(text)] == starts
    ours, theirs = google
    assert ours.encode_offsets("the newest lower") == spans_of(theirs, "the newest lower")


def spans_of(theirs, text):
    """Return pieces of sentencepiece with their spans."""
    pieces = theirs.encode(text, return_type="proto").pieces
    return [(one.piece, one.begin, one.end) for one in pieces]


def test_decoding_without_special_tokens(huggingface, google):
    """skip_special gives tokenizers' text, and sentencepiece's for bos, eos and pad."""
    ours, theirs = huggingface
    rows = [line.ids for line in theirs.encode_batch(TEXTS)]
    batch = ours.encode_batch(TEXTS, add_bos=True, add_eos=True)
    assert ours.decode_batch(batch, skip_special=True) == theirs.decode_batch(
        rows, skip_special_tokens=True
    )
    assert ours.decode_batch(batch) == theirs.decode_batch(rows, skip_special_tokens=False)
    assert [ours.decode_ids(row, skip_special=True) for row in rows] == ours.decode_batch(
        batch, skip_special=True
    )
    assert ours.decode_ids(rows[0], skip_special={"<s>"}) == f"{TEXTS[0]}</s>"
    ours, theirs = google
    ids = [1, *theirs.encode("the newest"), 2, 3]
    assert ours.decode_ids(ids, skip_special=True) == theirs.decode(ids) == "the newest"


def test_markers_of_chats_are_skipped():
    """User tokens that are spelled <|…|> are skipped, as in an export; others are text."""
    special = volt.SpecialTokens(user=("<url>", END))
    ours = Encoder(Vocabulary(merges=(), tokens=("a", "a</w>"), special=special))
    ids = ours.encode_ids(f"a <url> {END}", add_bos=True)
    assert ours.decode_ids(ids, skip_special=True).split() == ["a", "<url>"]
    assert ours.decode_ids(ids).split() == ["<s>a", "<url>", END]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_arrays_of_arrow(kind, huggingface):
    """An array or a chunked array, sliced or not, encodes as the list of its strings."""
    ours = huggingface[0]
    whole = pa.array(["cut", *TEXTS], kind)
    chunked = pa.chunked_array([whole.slice(1, 2), whole.slice(3), whole.slice(0, 0)])
    expected = ids_of(ours.encode_batch(TEXTS))
    for array in (whole.slice(1), chunked):
        assert ids_of(ours.encode_batch(array)) == expected
    assert len(ours.encode_batch(pa.array([], kind))) == 0
    assert len(ours.encode_batch(pa.array([""], kind))) == 1


def test_damaged_arrays_of_arrow(huggingface):
    """Nulls, other types and strings that are not UTF-8 are errors that name what was found."""
    ours = huggingface[0]
    with pytest.raises(ConfigError, match=r"lines\[1\] is null"):
        ours.encode_batch(pa.array(["a", None]))
    for wrong in (pa.array([1]), pa.table({"a": ["b"]}), pa.scalar("a")):
        with pytest.raises(ArgumentError, match="give an array of the type string or large_string"):
            ours.encode_batch(wrong)
    for data in (b"a\xffb", b"\xff", b"\xc3"):
        buffers = [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
        damaged = pa.Array.from_buffers(pa.string(), 1, buffers)
        with pytest.raises(CorpusError, match="UTF-8"):
            ours.encode_batch(damaged)


def test_missing_roles_and_unknown_special_tokens(openai, tmp_path):
    """A role that the vocabulary lacks, or a token that is not special, is an error with the next step."""
    ours = openai[0]
    for call, role in (
        (lambda: ours.encode_ids("a", add_bos=True), "bos"),
        (lambda: ours.pad([[1]]), "pad"),
    ):
        remedy = rf"name one: volt.read_vocabulary\(path, {role}=TOKEN\)"
        with pytest.raises(ConfigError, match=f"no {role} token; {remedy}"):
            call()
    with pytest.raises(ConfigError, match="allowed_special: 'the' is not a special token of the"):
        ours.encode_ids("a", allowed_special={"the"})
    with pytest.raises(ArgumentError, match='give "all", or a set of tokens'):
        ours.encode_ids("a", allowed_special=END)
    words = Encoder(Vocabulary(merges=(), tokens=("a", "a</w>")))
    with pytest.raises(ConfigError, match=r"needs the token '</w>', which the vocabulary lacks"):
        words.encode_ids("a</s>", allowed_special={"</s>"})


@given(any_text)
@settings(max_examples=40)
def test_allowed_tokens_keep_every_other_id(huggingface, openai, text):
    """Text without special tokens has equal ids whichever are allowed, and all ids decode with the one encoder."""
    for ours in (huggingface[0], openai[0]):
        plain = ours.encode_ids(text)
        assert ours.encode_ids(text, allowed_special="all").tolist() == plain.tolist()
        assert ours.encode_ids(text, allowed_special=()).tolist() == plain.tolist()
        token = ours.vocabulary.special.all[0]
        marked = ours.encode_ids(text + token + text, allowed_special={token})
        assert ours.decode_ids(marked) == text + token + text


def test_spans_and_unknown_characters_differ_from_sentencepiece(tmp_path):
    """Spans and unknown characters differ from sentencepiece only as the list on the page of calls
    says.
    """
    ours, theirs = trained(
        ["two men walk"] * 9, tmp_path / "a.model", vocab_size=40, hard_vocab_limit=False
    )
    assert ours.encode_offsets("two men")[-1] == ("▁men", 4, 7)
    assert spans_of(theirs, "two men")[-1] == ("▁men", 3, 7)
    text = "two 中 men"
    assert spans_of(theirs, text)[-1][2] == len(text.encode())
    ids = ours.encode_ids(text, add_bos=True, add_eos=True).tolist()
    assert ids == theirs.encode(text, add_bos=True, add_eos=True)
    assert theirs.decode(ids) == "two  ⁇  men"
    assert ours.decode_ids(ids) == "<s> two <unk> men</s>"
    assert ours.decode_ids(ids, skip_special=True) == "two  men"
    assert (theirs.piece_to_id("xyz"), ours.vocabulary.id_of("xyz")) == (theirs.unk_id(), None)


def test_errors_and_roles_differ(openai, google, huggingface):
    """Surrogates, refused special tokens and roles differ from other libraries as the list on the
    page of calls says.
    """
    ours, theirs = openai
    assert ours.vocabulary.id_of("Ġ") == theirs.encode_single_token(" ")
    assert theirs.decode(theirs.encode("a\ud800b")) == "a\ufffdb"
    expected = theirs.encode(END, allowed_special="all")
    assert ours.encode_ids(END, disallowed_special="all").tolist() == expected
    refusing = {"allowed_special": set(), "disallowed_special": "all"}
    for call, error in (
        (lambda: theirs.encode_single_token("xyzxyz"), KeyError),
        (lambda: ours.encode_ids("a\ud800b"), CorpusError),
        (lambda: google[1].encode("a\ud800b"), RuntimeError),
        (lambda: huggingface[1].encode("a\ud800b"), TypeError),
        (lambda: ours.encode_ids(END, **refusing), CorpusError),
        (lambda: theirs.encode(END, **refusing), ValueError),
    ):
        with pytest.raises(error):
            call()
    assert len(huggingface[1].encode("a")) == huggingface[0].count("a") + 2
    assert huggingface[1].token_to_id("xyzxyz") is None


def test_the_table_names_calls_that_exist():
    """Each row of the page has a call in every column, or a dash; its names are methods of the class in the column."""
    page = (ROOT / "docs/pages/reference/peers.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    peers = (tokenizers.Tokenizer, tiktoken.Encoding, sentencepiece.SentencePieceProcessor)
    assert len(rows) > 20
    for _, *cells in rows[2:]:
        for cell, kind in zip(cells, (Encoder, *peers), strict=True):
            pattern = r"–|`(?:len\(|b\"\"\.join\(map\()?(?:encoder\.)?(\w+).*`"
            call = re.fullmatch(pattern, cell.strip())
            assert call, cell
            if call[1] not in (None, "vocabulary", "decoders"):
                assert hasattr(kind, call[1]), (kind, call[1])
