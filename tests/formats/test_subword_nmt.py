"""Laws of subword-nmt files: what is written encodes as VOLT does in the real library, what is read too."""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from drawn import examples
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import OutputError, VocabularyError
from volt.formats import subword_nmt as module
from volt.learn.bpe import learn_bpe
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
    "см. ниже: нижний, нижнего",
    "שלום עולם שלום",
    "مرحبا بالعالم",
    "東京都に行く 東京 京都",
    "👩\u200d👩\u200d👧 👩🏽 e\u0301tude ne\u0301e 각 한국어",
    "see <url>! <unk> </s> <0x41> a▁b \ufeffbom zero\u200bwidth con\x07trol @ @@@ x@@y",
]
MARKUP = """the lowest ab abc abab aaaa <unk> </s> </w> ▁ @@ \0 @@@@ x@@ 
    👩\u200d👩\u200d👧 нижн 東京 שלו e\u0301 \ufeff \x07 \x01"""
fragments = st.sampled_from(MARKUP.split())
texts = st.lists(
    fragments
    | st.just(" ")
    | st.characters(codec="utf-8")
    | st.sampled_from("\U0010f000\U0010fffd"),
    max_size=14,
).map("".join)


def learned(lines, kind, *, n_merges=300) -> Vocabulary:
    """A vocabulary of some kind from text; "pruned" and what follows keep a random half of what merges make."""
    counts = WordCounts.from_pairs(Counter(word for line in lines for word in line.split()))
    candidates = learn_bpe(counts, n_merges)
    made, keep = set(map("".join, candidates.merges)), Random(1)
    kept = [
        kind == "full" or token not in made or keep.random() < 0.5 for token in candidates.tokens
    ]
    tokens = tuple(token for token, good in zip(candidates.tokens, kept, strict=True) if good)
    counted = candidates.counts_at(candidates.n_tokens).tolist()
    vocabulary = Vocabulary(
        merges=tuple(candidates.merges),
        tokens=tokens,
        counts=tuple(n for n, good in zip(counted, kept, strict=True) if good)
        * (kind == "counted"),
    )
    return vocabulary.closed() if kind == "closed" else vocabulary


def written(vocabulary: Vocabulary):
    """What write says, what read gives back, and the library with the files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "codes")
        said = module.write(vocabulary, path)
        return said, module.read(path), module.peer(path, vocabulary)


def assert_agree(vocabulary: Vocabulary, peer, lines) -> None:
    """On lines whose words U+0020 separates."""
    lines = [" ".join(line.split()) for line in lines]
    assert peer.pieces(lines) == Encoder(vocabulary).encode_lines(lines)


@cache
def small(kind):
    vocabulary = learned(CORPUS, kind)
    return vocabulary, *written(vocabulary)


@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(lines=st.lists(texts, max_size=4))
@example(lines=["", " ", "aaaaaaa", *CORPUS])
def test_pieces_are_those_of_the_library(kind, lines):
    """On any text: characters that are unknown, that combine, that control, that run right to left."""
    vocabulary, _, _, peer = small(kind)
    assert_agree(vocabulary, peer, lines)


@pytest.mark.parametrize("kind", KINDS)
def test_reading_undoes_writing(kind):
    """Merges, tokens and counts come back, in their order."""
    vocabulary, _, back, _ = small(kind)
    assert back.fingerprint == vocabulary.fingerprint


CORPORA = [
    *(
        f"multi30k/{part}.{language}.gz"
        for language in ("en", "de", "fr", "cs")
        for part in ("train", "val")
    ),
    *(f"ted/{name}.txt.gz" for name in ("Cantonese", "Finnish", "Georgian", "Marathi", "Urdu")),
    *(f"bible/{name}.tsv.gz" for name in ("et", "eu", "hy", "lv", "sw", "uk")),
]


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_pieces_on_real_text(lines, corpus):
    """Learned on half of the lines, encoded on all: full, pruned (with counts) and closed."""
    text = lines(corpus, 1_000 if "train" in corpus else 600)
    for kind in ("full", "counted", "closed"):
        vocabulary = learned(text[::2], kind, n_merges=1_000)
        _, back, peer = written(vocabulary)
        assert back.fingerprint == vocabulary.fingerprint
        assert_agree(vocabulary, peer, text)


@pytest.mark.parametrize("filtered", [False, True])
def test_files_of_the_library_are_read(tmp_path, filtered):
    """Codes that subword-nmt learned, and the vocabulary that it counted, encode as in subword-nmt."""
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.get_vocab import get_vocab
    from subword_nmt.learn_bpe import learn_bpe as learn

    codes, path = io.StringIO(), tmp_path / "codes"
    learn(io.StringIO("\n".join(CORPUS[:-1] * 2)), codes, 100)
    path.write_text(codes.getvalue(), "utf-8")
    lines = [*CORPUS[:-1], "lowering unseen wider"]
    if filtered:
        with (tmp_path / "codes.vocab").open("w", encoding="utf-8") as listing:
            get_vocab(io.StringIO(BPE(codes).process_line(" ".join(CORPUS[:4]))), listing)
    vocabulary = module.read(path)
    assert module.recognises(path, path.read_bytes()[:4096])
    assert bool(vocabulary.scaffolding) == filtered
    assert_agree(vocabulary, module.peer(path, vocabulary), lines)
    if filtered:
        assert module.read(tmp_path / "codes.vocab", merges=path) == vocabulary


def old_codes(lines, n_merges) -> str:
    """What subword-nmt 0.1 learned: "</w>" is a symbol of its own. Merges by count, then the greatest pair."""
    words = {
        (*word, "</w>"): n
        for word, n in Counter(word for line in lines for word in line.split()).items()
    }
    rows = []
    for _ in range(n_merges):
        counts = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                counts[pair] += n
        best = max(counts, key=lambda pair: (counts[pair], pair), default=None)
        if counts[best] < 2:
            break
        rows.append(f"{best[0]} {best[1]}\n")
        words = {_joined(word, best): n for word, n in words.items()}
    return "".join(rows)


def _joined(word, pair) -> tuple[str, ...]:
    parts, place = [], 0
    while place < len(word):
        step = 1 + (word[place : place + 2] == pair)
        parts.append("".join(word[place : place + step]))
        place += step
    return tuple(parts)


@cache
def old(n_merges, header):
    """A vocabulary read from codes of version 0.1, and the library with them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "codes")
        path.write_text(header + old_codes(CORPUS[:-1] * 2, n_merges), "utf-8")
        assert module.recognises(path, path.read_bytes()[:4096])
        vocabulary = module.read(path)
        return vocabulary, module.peer(path, vocabulary)


@pytest.mark.parametrize(("n_merges", "header"), [(30, ""), (90, "#version: 0.1\n"), (250, "")])
@FEW
@given(lines=st.lists(texts, max_size=4))
@example(lines=["", "aaaaaaa low lowest ababab abab est er", *CORPUS])
def test_codes_of_version_01_cut_alike(n_merges, header, lines):
    """Codes that subword-nmt takes for 0.1 give its pieces, on any text."""
    assert_agree(*old(n_merges, header), lines)


@FEW
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=6), st.data())
def test_any_codes_of_version_01_cut_alike(choices, data):
    """Merges that nobody learned, some made or listed twice; ends of words are joined early, late or never."""
    known, rows = (
        ["</w>", "a", "b"],
        data.draw(st.just([]) | st.just([("b", "</w>"), ("a", "b"), ("b", "</w>")])),
    )
    for i, j in choices:
        inner = [text for text in known if not text.endswith("</w>")]
        rows.append((inner[i % len(inner)], known[j % len(known)]))
        known.append("".join(rows[-1]))
    assume(any(right != "</w>" for _, right in rows))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "codes")
        path.write_text("#version: 0.1\n" + "".join(f"{left} {right}\n" for left, right in rows))
        vocabulary = module.read(path)
        words = ["".join(word) for word in product("ab", repeat=4)]
        assert_agree(vocabulary, module.peer(path, vocabulary), words)


@cache
def with_users():
    """A vocabulary with user tokens, one the start of another and one a regex, and the library aware of them."""
    vocabulary = replace(
        learned(CORPUS, "pruned"), special=SpecialTokens(user=("#url", "#u", "é.*"))
    )
    with tempfile.TemporaryDirectory() as folder:
        module.write(vocabulary, Path(folder, "codes"))
        return vocabulary, module.peer(Path(folder, "codes"), vocabulary)


@FEW
@given(
    words=st.lists(
        fragments | st.sampled_from(["#url", "#u", "é.*", "#url#u", "#urlthe", "é.*lowest"])
    )
)
@example(words=["#url", "the", "#url", "#urlx", "#uThe", "éa"])
def test_user_tokens_are_glossaries(words):
    """Alone and before text, user tokens come out alike; the part of a word before one is cut as a word."""
    vocabulary, peer = with_users()
    assert_agree(vocabulary, peer, [" ".join(words), *words])
    assert peer.pieces(["the#url"])[0][-2:] == ["#url", "</w>"]


BASE = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>"))


@pytest.mark.parametrize(
    ("change", "named"),
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
def test_what_is_lost_is_named(change, named):
    """A vocabulary that does not come back as it was, or encodes otherwise, has a sentence that says why."""
    said, _, _ = written(replace(BASE, **change))
    assert any(named in sentence for sentence in said)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"marker": "prefix", "merges": (), "tokens": ("a",)}, "marker='suffix'"),
        ({"merges": (), "tokens": ()}, "no token"),
        ({"pretokenizer": PreTokenizer("bytes")}, "over bytes.*export to huggingface"),
        ({"merges": (), "tokens": (" ",)}, "' '"),
        ({"merges": (), "tokens": ("a", "\u2028</w>")}, r"u2028"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path, change, named):
    """With the reason, and nothing is written."""
    with pytest.raises(VocabularyError, match=named):
        module.write(replace(BASE, **change), tmp_path / "codes")
    assert list(tmp_path.iterdir()) == []


def test_both_files_or_none(tmp_path):
    """If the vocabulary cannot be written the codes are not either."""
    codes = tmp_path / "codes"
    codes.write_text("old")
    (tmp_path / "codes.vocab").mkdir()
    with pytest.raises(OutputError):
        module.write(BASE, codes)
    assert codes.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("codes", "listing", "named"),
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
    ],
)
def test_damage_is_named_with_its_place(tmp_path, codes, listing, named):
    """Old, truncated, dangling, repeated, negative, not UTF-8: VocabularyError with file and line."""
    (tmp_path / "codes").write_bytes(codes)
    if listing is not None:
        (tmp_path / "codes.vocab").write_bytes(listing)
    with pytest.raises(VocabularyError, match=named):
        module.read(tmp_path / "codes")


def test_a_missing_file_is_named(tmp_path):
    """With the reason."""
    with pytest.raises(VocabularyError, match="absent: cannot be read"):
        module.read(tmp_path / "absent")
