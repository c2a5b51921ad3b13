"""Laws of subword-nmt's files: the library encodes as VOLT does, files read back, losses have
notes.
"""

import io
import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import CORPORA, keep_half, learn

from volt.encode.encoder import Encoder
from volt.errors import OutputError, VocabularyError
from volt.formats import subword_nmt as module
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

pytest.importorskip("subword_nmt")

FEW = settings(deadline=None, max_examples=examples(40))
KINDS = ["full", "pruned", "closed", "counted"]
CORPUS = [
    "the lower the newest, the widest lowest low aaaaaaaa abababab",
    "zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich",
    "см. ниже: нижний, нижнего שלום עולם שלום مرحبا بالعالم",
    "東京都に行く 東京 京都 👩\u200d👩\u200d👧 👩🏽 e\u0301tude ne\u0301e 각 한국어",
    "see <url>! <unk> </s> <0x41> a▁b \ufeffbom zero\u200bwidth con\x07trol @ @@@ x@@y",
]
FRAGMENTS = """the lowest ab abc abab aaaa <unk> </s> </w> ▁ @@ \0 @@@@ x@@
    👩\u200d👩\u200d👧 нижн 東京 שלו e\u0301 \ufeff \x07 \x01 \U0010f000 \U0010fffd"""
fragments = st.sampled_from(FRAGMENTS.split())
texts = st.lists(fragments | st.just(" ") | st.characters(codec="utf-8"), max_size=14).map("".join)


def learned(lines, kind, *, n_merges=300):
    """Learn a vocabulary. In all kinds but "full", only a random half of the merges' results are
    tokens.
    """
    vocabulary = learn(lines, "suffix", "whitespace", n_merges=n_merges, counts=kind == "counted")
    if kind != "full":
        vocabulary = keep_half(vocabulary)
    return vocabulary.closed() if kind == "closed" else vocabulary


def written(vocabulary):
    """Return the notes of writing a vocabulary, the vocabulary read back, and the library with the
    files.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "codes")
        return module.write(vocabulary, path), module.read(path), module.peer(path, vocabulary)


def assert_agree(vocabulary, peer, lines):
    """Check that pieces are equal, on lines whose words U+0020 separates."""
    lines = [" ".join(line.split()) for line in lines]
    assert peer.pieces(lines) == Encoder(vocabulary).encode_lines(lines)


@cache
def case(kind):
    vocabulary = learned(CORPUS, kind)
    return vocabulary, *written(vocabulary)


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(lines=st.lists(texts, max_size=4))
@example(lines=["", " ", "aaaaaaa", *CORPUS])
def test_subword_nmt_encodes_alike(kind, lines):
    """For any text, with unknown, combining, control and right-to-left characters, subword-nmt's
    pieces with the written files are VOLT's.
    """
    vocabulary, _, _, peer = case(kind)
    assert_agree(vocabulary, peer, lines)


@pytest.mark.parametrize("kind", KINDS)
def test_files_read_back(kind):
    """Written files read back to a vocabulary with the same fingerprint."""
    vocabulary, _, again, _ = case(kind)
    assert again.fingerprint == vocabulary.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_real_text_encodes_alike(lines, corpus):
    """On each corpus, subword-nmt's pieces with a vocabulary that was learned on half of the lines
    are VOLT's on all lines.
    """
    text = lines(corpus, 1_000 if "train" in corpus else 600)
    for kind in ("full", "counted", "closed"):
        vocabulary = learned(text[::2], kind, n_merges=1_000)
        _, again, peer = written(vocabulary)
        assert again.fingerprint == vocabulary.fingerprint
        assert_agree(vocabulary, peer, text)


@pytest.mark.parametrize("is_filtered", [False, True])
def test_files_of_the_library_are_read(tmp_path, is_filtered):
    """VOLT encodes as subword-nmt does with codes that subword-nmt learned, alone or with the
    vocabulary that it counted.
    """
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.get_vocab import get_vocab
    from subword_nmt.learn_bpe import learn_bpe as learn_codes

    codes = io.StringIO()
    learn_codes(io.StringIO("\n".join(CORPUS[:-1] * 2)), codes, 100)
    path = tmp_path / "codes"
    path.write_text(codes.getvalue(), "utf-8")
    if is_filtered:
        with (tmp_path / "codes.vocab").open("w", encoding="utf-8") as listing:
            get_vocab(io.StringIO(BPE(codes).process_line(" ".join(CORPUS[:2]))), listing)
    vocabulary = module.read(path)
    assert module.recognises(path, path.read_bytes()[:4096])
    assert bool(vocabulary.scaffolding) == is_filtered
    assert_agree(vocabulary, module.peer(path, vocabulary), [*CORPUS[:-1], "lowering unseen wider"])
    if is_filtered:
        assert module.read(tmp_path / "codes.vocab", merges=path) == vocabulary


def old_codes(lines, n_merges):
    """Return the codes that subword-nmt 0.1 learns: "</w>" is a symbol; of equally frequent pairs,
    the greatest one is merged.
    """
    words = Counter((*word, "</w>") for line in lines for word in line.split())
    rows = []
    for _ in range(n_merges):
        counts = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                counts[pair] += count
        best = max(counts, key=lambda pair: (counts[pair], pair), default=None)
        if counts[best] < 2:
            break
        rows.append(f"{best[0]} {best[1]}\n")
        words = {joined(word, best): count for word, count in words.items()}
    return "".join(rows)


def joined(word, pair):
    """Return a word, a tuple of symbols, in which each occurrence of a pair is one symbol."""
    parts = []
    place = 0
    while place < len(word):
        size = 1 + (word[place : place + 2] == pair)
        parts.append("".join(word[place : place + size]))
        place += size
    return tuple(parts)


def read_with_library(codes):
    """Return the vocabulary of codes, and the library with the codes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "codes")
        path.write_text(codes, "utf-8")
        assert module.recognises(path, path.read_bytes()[:4096])
        vocabulary = module.read(path)
        return vocabulary, module.peer(path, vocabulary)


@cache
def old(n_merges, header):
    return read_with_library(header + old_codes(CORPUS[:-1] * 2, n_merges))


@pytest.mark.parametrize(("n_merges", "header"), [(30, ""), (90, "#version: 0.1\n"), (250, "")])
@FEW
@given(lines=st.lists(texts, max_size=4))
@example(lines=["", "aaaaaaa low lowest ababab abab est er", *CORPUS])
def test_codes_of_version_01_encode_alike(n_merges, header, lines):
    """VOLT encodes any text as subword-nmt does with learned codes of version 0.1."""
    assert_agree(*old(n_merges, header), lines)


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=6), st.booleans()
)
@example(choices=[(0, 1), (0, 0), (0, 0), (0, 4), (1, 6)], repeats=False)  # "aa" never ends
def test_any_codes_of_version_01_encode_alike(choices, repeats):
    """VOLT encodes as subword-nmt does with arbitrary codes of version 0.1, in which merges repeat,
    and "</w>" is joined early, late or never.
    """
    known = ["</w>", "a", "b"]
    rows = [("b", "</w>"), ("a", "b"), ("b", "</w>")] if repeats else []
    for i, j in choices:
        inner = [text for text in known if not text.endswith("</w>")]
        rows.append((inner[i % len(inner)], known[j % len(known)]))
        known.append("".join(rows[-1]))
    assume(any(right != "</w>" for _, right in rows))
    codes = "".join(f"{left} {right}\n" for left, right in rows)
    words = ["".join(word) for word in product("ab", repeat=4)]
    assert_agree(*read_with_library(f"#version: 0.1\n{codes}"), words)


@cache
def with_users():
    special = SpecialTokens(user=("#url", "#u", "é.*"))
    vocabulary = replace(learned(CORPUS, "pruned"), special=special)
    return vocabulary, written(vocabulary)[2]


@FEW
@given(
    st.lists(fragments | st.sampled_from(["#url", "#u", "é.*", "#url#u", "#urlthe", "é.*lowest"]))
)
@example(["#url", "the", "#url", "#urlx", "#uThe", "éa"])
def test_user_tokens_are_glossaries(words):
    """subword-nmt with user tokens as glossaries gives VOLT's pieces for user tokens alone and
    before text, even if one begins another or contains signs of regexes.
    """
    vocabulary, peer = with_users()
    assert_agree(vocabulary, peer, [" ".join(words), *words])
    assert peer.pieces(["the#url"])[0][-2:] == ["#url", "</w>"]


BASE = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>"))


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"normalizer": Normalizer("nfc")}, "normalizer 'nfc'"),
        ({"pretokenizer": PreTokenizer("unicode")}, "pre-tokenizer 'unicode'"),
        ({"special": SpecialTokens(user=("<url>",))}, "--glossaries '(?:<url>)'"),
        ({"special": SpecialTokens(bos="<bos>")}, "<bos>"),
        ({"byte_fallback": True}, "Byte fallback"),
        ({"counts": (3, 0, 2, 1)}, "--vocabulary-threshold"),
        ({"counts": (1, 1, 1, 1)}, "All counts are 1"),
        ({"merges": (("@", "@</w>"),), "tokens": ("@", "@@</w>")}, "'@@'"),
        ({"merges": (("a</w>", "b"),), "tokens": ("b",)}, "'</w>'"),
    ],
)
def test_each_loss_has_a_note(change, note):
    """Writing a vocabulary with a property that the files lack, or that subword-nmt handles
    differently, returns a note on this property.
    """
    assert any(note in each for each in written(replace(BASE, **change))[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"marker": "prefix", "merges": (), "tokens": ("a",)}, "marker='suffix'"),
        ({"merges": (), "tokens": ()}, "no token"),
        ({"pretokenizer": PreTokenizer("bytes")}, "over bytes.*export to huggingface"),
        ({"merges": (), "tokens": (" ",)}, "' '"),
        ({"merges": (), "tokens": ("a", "\u2028</w>")}, r"u2028"),
    ],
)
def test_other_vocabularies_are_refused(tmp_path, change, message):
    """A vocabulary that subword-nmt cannot encode with is refused with a reason, and no file is
    written.
    """
    with pytest.raises(VocabularyError, match=message):
        module.write(replace(BASE, **change), tmp_path / "codes")
    assert list(tmp_path.iterdir()) == []


def test_both_files_are_written_or_neither(tmp_path):
    """If PATH.vocab cannot be written, the old codes at PATH stay."""
    codes = tmp_path / "codes"
    codes.write_text("old")
    (tmp_path / "codes.vocab").mkdir()
    with pytest.raises(OutputError):
        module.write(BASE, codes)
    assert codes.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("codes", "listing", "message"),
    [
        (b"l o\nlow w</w>\n", None, "codes:2: .*'low'"),
        (b"#version: 0.3\nl o\n", None, "codes:1: .*learn the codes again"),
        (b"#version: 0.1\nl o\n", b"l@@ 3\n", "codes:1: .*splits words wrongly; remove"),
        (b"#version: 0.2\nl o\nx\n", None, "codes:3: "),
        (b"#version: 0.2\nl o\n\xff", None, "codes:3: "),
        (b"#version: 0.2\nlo w</w>\n", None, "codes:2: .*'lo'"),
        (b"#version: 0.2\nl o\n", b"l@@ 3\nl@@ 2\n", "vocab:2: .*repeats"),
        (b"#version: 0.2\nl o\n", b"l@@ 3\nlx@@ 2\n", "vocab:2: .*no merge makes"),
        (b"#version: 0.2\nl o\n", b"l@@ 3\no@@ -2\n", "vocab:2: "),
        (b"#version: 0.2\nl o\n", b"l@@ 3\n\xff 2\n", "vocab:2: "),
        (b"#version: 0.2\nl o\n", b"l@@ 3\no@@", "vocab:2: "),
        (b"#version: 0.2\nl o\n", b"", "vocab: empty"),
        (b"", None, "codes:1: "),
        (None, None, "codes: cannot be read"),
    ],
)
def test_damage_is_reported_by_file_and_line(tmp_path, codes, listing, message):
    """Old, truncated, dangling, repeated, negative, misencoded and missing codes or vocabularies
    are refused. The error names the file and the line.
    """
    for name, data in {"codes": codes, "codes.vocab": listing}.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
    with pytest.raises(VocabularyError, match=message):
        module.read(tmp_path / "codes")
