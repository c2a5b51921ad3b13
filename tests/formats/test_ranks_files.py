"""Laws of files of ranks: ids stay, text is cut by the pattern that goes with them, and no pattern is made up."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from drawn import examples
from exports import LINES, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.formats import check, tiktoken
from volt.formats.registry import format_of, read_vocabulary
from volt.formats.tiktoken import ranks
from volt.formats.tiktoken.ranks import TELLING, joins, vocabulary_of
from volt.text.byte_alphabet import to_characters
from volt.text.patterns.cut_tokens import cut_tokens, n_cut
from volt.text.patterns.published import NAMED, named_splitter
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens

pytest.importorskip("tiktoken")
FEW = settings(deadline=None, max_examples=examples(15))
PATTERNS = ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "qwen3.5", "tekken", "kimi2")
parts = st.sampled_from([" ", "a", "b", "c", "ab", "1", "22", "'s", "\n", "é", "中", ".", "\t"])


def rows(tokens: Mapping[bytes, int]) -> bytes:
    """A ranks file of these tokens."""
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in tokens.items())


def ranks_of(words: list[str], numbers: list[int]) -> dict[bytes, int]:
    """Every byte, then these words, with ranks from 256 on that leave out as many numbers."""
    found = {bytes([byte]): byte for byte in range(256)}
    rank = 255
    for word, skipped in zip(words, numbers, strict=False):
        rank += 1 + skipped
        found.setdefault(word.encode(), rank)
    return found


@given(
    st.lists(st.lists(parts, min_size=1, max_size=4).map("".join), max_size=30),
    st.lists(st.integers(0, 2), min_size=30, max_size=30),
    st.sampled_from(PATTERNS),
    st.lists(st.lists(parts, max_size=9).map("".join) | texts, max_size=5),
)
@FEW
def test_random_ranks_encode_as_in_tiktoken(
    words: list[str], numbers: list[int], pattern: str, lines: list[str]
) -> None:
    """Tokens that no two lower ranks make, or none at all, holes between ranks, any pattern: the library's ids."""
    ranks, cut = ranks_of(words, numbers), PreTokenizer.of_pattern(pattern, level="bytes")
    vocabulary = vocabulary_of(Path("r"), ranks, cut, provenance={})
    assert vocabulary.ids == {to_characters(token): rank for token, rank in ranks.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.tiktoken")
        path.write_bytes(rows(ranks))
        theirs = tiktoken.peer(path, vocabulary)
    lines = [*lines, "".join(words)]
    assert theirs.ids is not None
    assert [ids.tolist() for ids in Encoder(vocabulary).encode_batch(lines)] == theirs.ids(lines)


@given(st.lists(st.text("ab", min_size=1, max_size=6), unique=True, max_size=12))
@FEW
def test_joins_are_made_of_what_can_be_made(words: list[str]) -> None:
    """There is one pair for each token that some tree of tokens makes from single bytes, in the order of the tokens."""
    tokens = [b"a", b"b", *(word.encode() for word in words if len(word) > 1)]
    made = {b"a", b"b"}
    for token in sorted(tokens, key=len):
        if any({token[:i], token[i:]} <= made for i in range(1, len(token))):
            made.add(token)
    assert list(map(b"".join, joins(tokens))) == [
        token for token in tokens if len(token) > 1 and token in made
    ]


def naive_cut(tokens: list[bytes], pattern: str, texts: list[str]) -> set[bytes]:
    """The tokens, of two bytes each, that are in no word of these texts."""
    words = [word.encode() for text in texts for word in named_splitter(pattern).split(text)]
    whole = {word[i : i + 2] for word in words for i in range(len(word) - 1)}
    return {token for token in tokens if token not in whole}


@given(
    st.lists(texts, min_size=1, max_size=3),
    st.sampled_from((*PATTERNS, "deepseek3", "digits3-right")),
)
@FEW
def test_no_part_of_a_word_is_cut(lines: list[str], pattern: str) -> None:
    """Wherever it begins and ends, inside a character, too; a split that reads backwards counts as the others."""
    words = [word.encode() for line in lines for word in named_splitter(pattern).split(line)]
    inner = {
        word[i:j]
        for word in words
        for i in range(len(word))
        for j in range(i + 1, min(len(word), i + 7) + 1)
    }
    assert cut_tokens(sorted(inner), NAMED[pattern]) == []


def test_tokens_in_no_word_are_cut() -> None:
    """Beside all texts of three characters, one of each kind: what is in none of their words is cut, nothing else."""
    kinds = ["a", "A", "1", " ", "\n", ".", "s"]
    lines = ["".join((a, b, c)) for a in kinds for b in kinds for c in kinds]
    tokens = [(a + b).encode() for a in kinds for b in kinds]
    cut = {pattern: naive_cut(tokens, pattern, lines) for pattern in ("gpt2", "cl100k", "o200k")}
    for pattern, expected in cut.items():
        assert set(cut_tokens(tokens, NAMED[pattern])) == expected
    assert n_cut(tokens, {name: NAMED[name] for name in cut}) == {
        name: len(cut[name]) for name in cut
    }


def test_a_pattern_is_asked_for(tmp_path: Path) -> None:
    """GPT-2's is assumed where the tokens fit it, and said; a file of another is refused with the known ones that fit;
    so is one of many tokens that several fit. A pattern that is given is taken, with a word where it fits ill."""
    path = tmp_path / "r.tiktoken"
    path.write_bytes(rows(ranks_of(["low", "2016"], [0, 0])))
    assert "splits text by GPT-2's" in read_vocabulary(path).provenance["lost"][0]
    path.write_bytes(rows(ranks_of(["(low", ".x"], [0, 0])))
    with pytest.raises(
        VocabularyError, match=r"GPT-2's splits 2 of its 258 tokens, such as '\(low'.*cl100k 0"
    ):
        read_vocabulary(path)
    found = read_vocabulary(path, pattern="cl100k")
    assert found.pretokenizer == PreTokenizer.of_pattern("cl100k", level="bytes")
    assert "splits" in read_vocabulary(path, pattern="gpt2").provenance["lost"][0]
    with pytest.raises(ConfigError, match="no pattern is called"):
        read_vocabulary(path, pattern="cl200k")
    many = [
        f"{a}{b}{c}"
        for a in "abcdefghijklmnopqrstuvwxyz"
        for b in "abcdefghijklmnopqrst"
        for c in "abcdefghijklmnopqrst"
    ]
    path.write_bytes(rows(ranks_of(many, [0] * TELLING)))
    with pytest.raises(VocabularyError, match="several patterns fit"):
        read_vocabulary(path)


def test_a_published_file_is_known_by_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pattern needs no naming, and the check loads the library with it; another pattern is announced, another
    spelling of the same one is not."""
    path = tmp_path / "r.tiktoken"
    path.write_bytes(data := rows(ranks_of(["(low", ".x"], [0, 0])))
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setitem(ranks.KNOWN, digest[:16], ("a file of ours", "cl100k"))
    found = read_vocabulary(path)
    assert found.pretokenizer == PreTokenizer.of_pattern("cl100k", level="bytes")
    assert "a file of ours, known by its SHA-256" in found.provenance["lost"][0]
    assert check.check(found, path, "tiktoken", ["(low) (low", *LINES]).is_complete
    assert "ids differ" in read_vocabulary(path, pattern="llama3").provenance["lost"][0]
    spelled = NAMED["cl100k"][0].pattern.replace("(?i:[sdmt]|ll|ve|re)", "(?i:[sdmt]|(?:ll|ve|re))")
    assert "ids differ" not in read_vocabulary(path, pattern=spelled).provenance["lost"][0]


def test_digests_are_those_that_tiktoken_states() -> None:
    """Every ranks file of tiktoken's own code is known, with a pattern that cuts as the one beside its digest."""
    module = pytest.importorskip("tiktoken_ext.openai_public")
    stated = re.findall(
        r'\.tiktoken",\s+expected_hash="(\w+)"', Path(module.__file__).read_text(encoding="utf-8")
    )
    assert len(set(stated)) >= 4
    assert {digest[:16] for digest in stated} <= ranks.KNOWN.keys()
    assert {name for _, name in ranks.KNOWN.values()} <= NAMED.keys()


def test_a_pattern_that_others_fit_as_well_is_given_with_care(tmp_path: Path) -> None:
    """Tokens that several patterns leave whole do not prove the one that is given; near names are offered."""
    path = tmp_path / "r.tiktoken"
    path.write_bytes(rows(ranks_of(["(low", ".x"], [0, 0])))
    lost = " ".join(read_vocabulary(path, pattern="cl100k").provenance["lost"])
    assert "as well as cl100k" in lost
    assert "qwen2" in lost
    with pytest.raises(ConfigError, match=r"did you mean qwen2 or qwen3\.5\?"):
        read_vocabulary(path, pattern="qwen")


def test_the_check_loads_the_file_with_the_pattern_that_is_given(tmp_path: Path) -> None:
    """So text that GPT-2's pattern would cut otherwise agrees; a packed file is read, and checked, as well."""
    path = tmp_path / "r.gz"
    path.write_bytes(gzip.compress(rows(ranks_of([" (", "(low", "low"], [0, 3, 0]))))
    assert format_of(path) == "tiktoken"
    vocabulary = read_vocabulary(path, pattern="cl100k")
    agreement = check.check(vocabulary, path, "tiktoken", ["(low) (low", *LINES])
    assert agreement.is_complete
    assert agreement.n_equal_ids == 1 + len(LINES)


def test_special_tokens_take_no_rank(tmp_path: Path) -> None:
    """Whichever way the library is loaded, and wherever ranks leave numbers out, text gives the pieces of VOLT."""
    path, words = tmp_path / "r.tiktoken", [" a", " b", " c", " ab", " abc"]
    for skipped in ([0, 0, 0, 0, 0], [0, 2, 0, 0, 1], [5, 0, 1, 0, 0], [9, 9, 9, 9, 9]):
        path.write_bytes(rows(ranks_of(words, skipped)))
        vocabulary = read_vocabulary(path)
        for other in (
            vocabulary,
            replace(vocabulary, special=SpecialTokens(user=("<u>",)), order=()),
        ):
            assert tiktoken.peer(path, other).pieces(["abc", " a b c ab abc"]) == [
                ["a", "b", "c"],
                [f"Ġ{word[1:]}" for word in words],
            ]


def test_a_token_without_bytes_is_an_unused_id(tmp_path: Path) -> None:
    """One published file ends in a line "= 50256", which tiktoken reads."""
    (tmp_path / "r").write_bytes(rows(ranks_of([], [])) + b"= 256\n")
    found = read_vocabulary(tmp_path / "r")
    assert (len(found), found.kinds[-1]) == (257, "unused")


def tekken(**changed: object) -> dict[str, object]:
    """A small tekken.json."""
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(
            [*(bytes([byte]) for byte in range(256)), b"lo", b"low", b"never"]
        )
    ]
    config = {
        "pattern": r"\p{N}| ?\p{L}+|.",
        "default_vocab_size": 288,
        "default_num_special_tokens": 30,
    }
    special = [
        {"rank": rank, "token_str": token, "is_control": True}
        for rank, token in enumerate(("<unk>", "<s>", "[I]"))
    ]
    return {"config": config, "vocab": vocab, "special_tokens": special} | changed


def test_tekken_is_read_with_all_that_it_says(tmp_path: Path) -> None:
    """Special tokens come first and are never found in text; the pattern is the file's; tokens without ids are none."""
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(tekken()))
    found = read_vocabulary(path)
    assert found.pieces[:5] == ("<unk>", "<s>", "[I]", "<SPECIAL_3>", "<SPECIAL_4>")
    assert (found.special.unk, found.special.bos, found.special.eos) == ("<unk>", "<s>", None)
    assert (len(found), found.ids["low"], "never" in found) == (288, 287, False)
    lines = ["low <s> 12 [I] never", *LINES]
    assert check.check(found, path, format_of(path), lines).is_complete
    with pytest.raises(ConfigError, match="remove the pattern"):
        read_vocabulary(path, pattern="gpt2")
    path.write_text(json.dumps(tekken(special_tokens=None)))
    assert read_vocabulary(path).pieces[3:5] == ("[INST]", "[/INST]")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"config": {"pattern": "a"}}, "'default_vocab_size' is missing"),
        (
            {
                "config": {
                    "pattern": "a",
                    "default_vocab_size": 9999,
                    "default_num_special_tokens": 1,
                }
            },
            "do not match",
        ),
        (
            {
                "config": {
                    "pattern": "(?=a)",
                    "default_vocab_size": 288,
                    "default_num_special_tokens": 30,
                }
            },
            "pattern",
        ),
        ({"vocab": 3}, "'vocab' is missing or not a list"),
        ({"vocab": [{"rank": 0, "token_bytes": "?"}] * 300}, "vocab, row 1: found"),
        ({"special_tokens": [{"rank": 0}]}, "'special_tokens' must list each rank"),
        ({"special_tokens": [{"rank": 0, "token_str": ["<s>"]}]}, "at most once"),
        ({"special_tokens": [{"rank": 0, "token_str": "<SPECIAL_3>"}]}, "at most once"),
    ],
)
def test_damaged_tekken_is_refused(changed: dict[str, object], said: str, tmp_path: Path) -> None:
    """By file, and by row where there is one."""
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(tekken(**changed)))
    with pytest.raises(VocabularyError, match=f"tekken.json.*{said}"):
        tiktoken.read(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b"IQ== 0\n" * 99, mtime=0)[:-9], "truncated"),
        (rows(ranks_of(["ab"], [0]))[:1500], r"found|no token for the byte"),
        (b"IQ== 0\nIg== 4294967296\n", ":2: the rank 4294967296 is not an id"),
        (b"IQ== 0\nIg== 1\nIQ== 2\n", ":3: repeats the token b'!'"),
    ],
)
def test_damaged_ranks_are_refused(data: bytes, said: str, tmp_path: Path) -> None:
    """By file, and by line where there is one."""
    (tmp_path / "r").write_bytes(data)
    with pytest.raises(VocabularyError, match=rf"r:?.*{said.lstrip(':')}"):
        read_vocabulary(tmp_path / "r", format="tiktoken")
