"""Laws of tiktoken's ranks: which merges they imply, which pattern splits text, which lines are
refused.
"""

import base64
import gzip
import hashlib
import re
from pathlib import Path

import pytest
from formats.support import BYTES, ranks_file, ranks_of
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import LINES, learn

from volt.errors import ConfigError, VocabularyError
from volt.formats import check
from volt.formats.registry import format_of, read_vocabulary
from volt.formats.tiktoken import ranks as module
from volt.formats.tiktoken.ranks import TELLING, find_joins, find_parts, looks_like
from volt.text.byte_alphabet import to_characters
from volt.text.patterns.published import NAMED
from volt.text.pretokenizer import PreTokenizer

FEW = settings(deadline=None, max_examples=examples(80))
ROWS = [
    b"%s %d" % (base64.b64encode(token), rank)
    for token, rank in ranks_of(["th", "the", " the"]).items()
]


@given(st.lists(st.text("abc", min_size=2, max_size=12), min_size=1, max_size=12))
@FEW
def test_ranks_give_back_the_merges(words):
    """For any learned vocabulary of bytes, `find_parts` returns for each token the two parts of its
    first merge.
    """
    full = learn(words, "none", "bytes", n_merges=40)
    first = {left + right: (left, right) for left, right in reversed(full.merges)}
    tokens = [token.encode() for token in dict.fromkeys([*"abc", *full.made])]
    result = {token.decode(): parts for token, parts in find_parts(tokens)}
    assert result == {token: tuple(map(str.encode, pair)) for token, pair in first.items()}


@given(st.lists(st.text("ab", min_size=1, max_size=6), unique=True, max_size=12))
@FEW
def test_each_token_that_two_others_spell_has_one_pair(words):
    """`find_joins` returns one pair of tokens for each token that joins of two tokens at a time can
    build from single bytes, in the order of the tokens."""
    tokens = [b"a", b"b", *(word.encode() for word in words if len(word) > 1)]
    made = {b"a", b"b"}
    for token in sorted(tokens, key=len):
        if any({token[:i], token[i:]} <= made for i in range(1, len(token))):
            made.add(token)
    assert list(map(b"".join, find_joins(tokens))) == [t for t in tokens[2:] if t in made]


@pytest.mark.parametrize(
    ("ranks", "n_ids"),
    [
        ({bytes([byte]): 4 + byte for byte in range(256)} | {b"ab": 260}, 261),
        (ranks_of(["ab"]), 257),
        (ranks_of(["ab"], [244]), 501),
        (dict(reversed(ranks_of(["ab"]).items())), 257),
        ({bytes([byte]): 7 + 3 * byte for byte in range(256)} | {b"ab": 6}, 773),
    ],
)
@pytest.mark.parametrize("name", ["x.tiktoken", "tokenizer.model", "x.txt"])
def test_ranks_are_ids(ranks, n_ids, name, tmp_path):
    """For ranks in any order, from any number and with gaps, each rank is the id of its token, and
    each gap an unused id.
    """
    path = ranks_file(tmp_path / name, ranks)
    assert format_of(path) == "tiktoken"
    vocabulary = read_vocabulary(path)
    assert vocabulary.ids == {to_characters(token): rank for token, rank in ranks.items()}
    assert (len(vocabulary), vocabulary.kinds.count("unused")) == (n_ids, n_ids - 257)


def test_a_token_without_bytes_is_an_unused_id(tmp_path):
    """The line "= 256", a token without bytes, gives an unused id 256, as in a published file."""
    path = ranks_file(tmp_path / "r", BYTES)
    path.write_bytes(path.read_bytes() + b"= 256\n")
    vocabulary = read_vocabulary(path)
    assert (len(vocabulary), vocabulary.kinds[-1]) == (257, "unused")


def test_a_pattern_is_assumed_only_if_it_fits(tmp_path):
    """Without a pattern, `read_vocabulary` assumes GPT-2's, with a note, if it splits no token and
    no other published pattern fits. Otherwise, the error names patterns that fit. A pattern from
    the caller is used, with a note if it splits tokens or others fit as well.
    """
    path = ranks_file(tmp_path / "r.tiktoken", ranks_of(["low", "2016"]))
    assert "splits text by GPT-2's" in read_vocabulary(path).notes[0]
    ranks_file(path, ranks_of(["(low", ".x"]))
    with pytest.raises(
        VocabularyError, match=r"splits 2 of its 258 tokens, such as '\(low'.*cl100k 0"
    ):
        read_vocabulary(path)
    vocabulary = read_vocabulary(path, pattern="cl100k")
    assert vocabulary.pretokenizer == PreTokenizer.of_pattern("cl100k", level="bytes")
    assert "qwen2" in vocabulary.notes[0]
    assert "as well as cl100k" in vocabulary.notes[0]
    assert "splits" in read_vocabulary(path, pattern="gpt2").notes[0]
    for name, message in {
        "cl200k": "no pattern is called",
        "qwen": r"did you mean qwen2 or qwen3\.5\?",
    }.items():
        with pytest.raises(ConfigError, match=message):
            read_vocabulary(path, pattern=name)
    ranks_file(
        path,
        ranks_of(
            f"a{number}".translate(str.maketrans("0123456789", "bcdefghijk"))
            for number in range(TELLING)
        ),
    )
    with pytest.raises(VocabularyError, match="several patterns fit"):
        read_vocabulary(path)


def test_a_published_file_is_known_by_its_digest(tmp_path, monkeypatch):
    """A file whose SHA-256 is in `KNOWN` needs no pattern. Reading it with another pattern gives a
    note, and with the same pattern in another spelling does not.
    """
    path = ranks_file(tmp_path / "r.tiktoken", ranks_of(["(low", ".x"]))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(module.KNOWN, digest[:16], ("a file of ours", "cl100k"))
    vocabulary = read_vocabulary(path)
    assert vocabulary.pretokenizer == PreTokenizer.of_pattern("cl100k", level="bytes")
    assert "a file of ours, known by its SHA-256" in vocabulary.notes[0]
    assert "ids differ" in read_vocabulary(path, pattern="llama3").notes[0]
    spelled = NAMED["cl100k"][0].pattern.replace("(?i:[sdmt]|ll|ve|re)", "(?i:[sdmt]|(?:ll|ve|re))")
    assert "ids differ" not in read_vocabulary(path, pattern=spelled).notes[0]


def test_the_digests_are_those_of_tiktoken():
    """`KNOWN` has the digest of every ranks file that tiktoken's code names, and each entry has a
    published pattern.
    """
    openai = pytest.importorskip("tiktoken_ext.openai_public")
    text = Path(openai.__file__).read_text(encoding="utf-8")
    digests = set(re.findall(r'\.tiktoken",\s+expected_hash="(\w+)"', text))
    assert len(digests) >= 4
    assert {digest[:16] for digest in digests} <= module.KNOWN.keys()
    assert {pattern for _, pattern in module.KNOWN.values()} <= NAMED.keys()


def test_a_packed_file_is_read_and_checked(tmp_path):
    """A compressed ranks file is recognised, read with a pattern, and `check` finds no difference
    from tiktoken.
    """
    pytest.importorskip("tiktoken")
    path = ranks_file(tmp_path / "r.gz", ranks_of([" (", "(low", "low"], [0, 3]))
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert format_of(path) == "tiktoken"
    vocabulary = read_vocabulary(path, pattern="cl100k")
    agreement = check.check(vocabulary, path, "tiktoken", ["(low) (low", *LINES])
    assert agreement.is_complete
    assert agreement.n_equal_ids == 1 + len(LINES)


def at(line, row):
    return lambda rows: [*rows[: line - 1], row, *rows[line:]]


DAMAGED = {
    "invalid base64": (at(3, b"!!!bad 2"), "3: found '!!!bad 2'"),
    "short base64": (at(3, b"Ag= 2"), "3: found"),
    "no rank": (at(3, b"Ag=="), "3: found 'Ag=='"),
    "two ranks": (at(3, b"Ag== 2 7"), "3: found"),
    "other text": (at(3, b"what is this doing here"), "3: found"),
    "negative": (at(3, b"Ag== -2"), "3: found 'Ag== -2'"),
    "not ASCII": (at(2, b"\xff\xfe"), "2: found"),
    "endless": (at(2, b"IQ== " + b"9" * 5000), "2: found"),
    "a rank twice": (at(3, b"Ag== 1"), "3: repeats the rank 1 of line 2"),
    "a token twice": (at(3, b"AQ== 2"), r"3: repeats the token b'\\x01'"),
    "not an id": (at(3, b"Ag== 2000000000"), "3: the rank 2000000000 is not an id"),
    "first line": (at(1, b"AA=="), "1: found"),
    "last line": (lambda rows: [*rows, b"IQ== 999"], r"\d+: repeats the token"),
    "cut short": (lambda rows: rows[:200], " no token for the byte"),
    "byte order mark": (
        lambda rows: [b"\xef\xbb\xbf" + rows[0], *rows[1:]],
        "1: text that starts with a byte order",
    ),
}


@pytest.mark.parametrize("name", ["x.tiktoken", "x.txt"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_reported_by_line(tmp_path, name, damage):
    """The error for a damaged ranks file names file and line, with a pattern and without. The file
    is not taken for another format.
    """
    change, message = DAMAGED[damage]
    path = tmp_path / name
    path.write_bytes(b"\n".join(change(ROWS)) + b"\n")
    for pattern in (None, "gpt2"):
        with pytest.raises(VocabularyError, match=f"{name}:{message}"):
            read_vocabulary(path, pattern=pattern)


def test_lists_of_words_are_not_ranks(tmp_path):
    """`looks_like` refuses lists of words and counts, even if some words are valid base64."""
    words = (b"the", b"word", b"abcd", b"Ag==")
    assert not looks_like(b"".join(b"%s %d\n" % (word, 99) for word in words * 8))
    for head in (b"", b"the 100\nofof 90\n", b"#version: 0.2\nt h\n", b"{\n", b"IQ== x\n"):
        assert not looks_like(head)
    (tmp_path / "dict.txt").write_bytes(b"the 9\nword 8\nabcd 7\n")
    assert format_of(tmp_path / "dict.txt") == "fairseq"
