"""What functions of formats return for drawn input stays as it was; other tests show that it is right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from golden import check
from outcomes import any_vocabulary, drawn, gist

from volt.formats import check as check_module
from volt.formats import fairseq, gpt2, marian, opennmt, subword_nmt, token_list
from volt.formats import tiktoken as tiktoken_format
from volt.formats.check import probe_lines
from volt.formats.huggingface import pipeline_reading, split_patterns, tokens, writing
from volt.formats.registry import guess_format
from volt.formats.sentencepiece import charsmap, model_file
from volt.formats.sentencepiece import merges as implied
from volt.formats.tiktoken import ranks
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

pytest.importorskip("sentencepiece")
TABLE = charsmap.pack({"A": "a", "AE": "æ", "É": "", "EE": "xy"})


def words(chance: Random, letters: str = "ab", n: int = 8, least: int = 1, most: int = 5) -> list[str]:
    """Return different words of a few letters."""
    drawn = ("".join(chance.choices(letters, k=chance.randint(least, most))) for _ in range(chance.randint(0, n)))
    return list(dict.fromkeys(drawn))


def pairs(chance: Random, n: int = 7) -> list[tuple[str, str]]:
    """Return merges, some of which repeat, or make a token again, or join what a later one makes."""
    joined, result = [*"aab"], []
    for _ in range(chance.randint(0, n)):
        result.append((chance.choice(joined[-5:]), chance.choice(joined)))
        joined.append("".join(result[-1]))
    return chance.sample(result, len(result)) if chance.random() < 0.3 else result


SIGNS = ["$", "[$]", r"\w", r"\W", r"[\w\H]", r"\h", r"\H", ".", "[.a]", r"\[.", "a", "a{2}+", r"\p{N}{1,3}+",
         "[ab]{1,}+",
         r"(?>\p{N}{1,2})", r"(?>[a-c]{2})", "[]a]", "[^]a]", "[^a[b-d]]", r"\pL", r"\PN{2}", r"\u4E00", r"\U{1F600}",
         r"\U0001F600", r"\x{41}", r"[\u4E00-\u9fA5]", r"\z", r"[\w&&[^a]]", r"\$", "+", "?", "|", "(?i)", "[a",
         r"\p{L}"]  # fmt: skip
PATTERNS = ["a", "[ab]", r"\s+", r"\p{N}{1,3}", r"\p{N}", "[^a]+", r"\w+", " ", "ab|c", "", r"\d{2}+", "[.]", "a++",
         "(",
            r"\p{L}+"]  # fmt: skip
WHOLE = [r"\p{L}+", r"[^\s\p{L}\p{N}]+", "[a-c]", r"\p{N}", "'s", "<a>", "ab", "x1", r"\w+"]  # parts of patterns
BEHAVIORS = ["Isolated", "Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext", "Odd"]


def step(chance: Random) -> dict[str, Any]:
    """Return a step of a pre_tokenizer, some without all of their keys."""
    kind = chance.choice(["Split"] * 6 + ["Digits", "Digits", "Punctuation", "CharDelimiterSplit", "WhitespaceSplit",
    "Whitespace",
                         "BertPreTokenizer", "ByteLevel", "Odd"])  # fmt: skip
    kinds = {"Split": {"pattern": {chance.choice(["Regex", "Regex", "String"]): chance.choice(PATTERNS)},
                       "behavior": chance.choice(BEHAVIORS), "invert": chance.random() < 0.3},
             "Digits": {"individual_digits": chance.random() < 0.5},
             "Punctuation": {"behavior": chance.choice(BEHAVIORS)},
             "CharDelimiterSplit": {"delimiter": chance.choice("-a")}}  # fmt: skip
    result = {"type": kind, **kinds.get(kind, {})}
    if chance.random() < 0.1:
        result.pop(chance.choice([*result]))
    return result


def level(chance: Random) -> list[dict[str, Any]]:
    """Return no step, or one that makes bytes of text."""
    flags = {name: chance.random() < share for name, share in (("add_prefix_space", 0.1), ("use_regex", 0.5))}
    return chance.choice([[], [{"type": "ByteLevel", **flags}], [{"type": "ByteLevel", "add_prefix_space": False}]])


def scores(chance: Random) -> dict[str, float]:
    """Return pieces with scores, some of which are equal."""
    return {word: -float(chance.randint(0, 6)) for word in words(chance, "ab▁", 9, 2)}


def table(chance: Random) -> bytes:
    """Return a table of replacements, some of them damaged: a double array of 256 units, and texts."""
    data = bytearray(TABLE)
    for _ in range(chance.randint(0, 3)):
        data[chance.choice([*range(4), *range(4, 9), chance.randrange(len(data))])] ^= 1 << chance.randrange(8)
    return bytes(data[: chance.choice([len(data), len(data), len(data), chance.randrange(len(data))])])


def unpacked(chance: Random) -> Any:
    """Return what a table holds."""
    data = table(chance)
    charsmap.check(data)
    return sorted(charsmap.unpack(data, only=words(chance, "AEÉ") if chance.random() < 0.3 else None).items())


HEADS = [b"", b"IQ== 0\n", b"l o\n", b"#version: 0.2\nl o\n", b"t h\nth e</w>\n", b"l o 9\nlo w</w> 8\n",
         b"IQ== 0\nIg== 1\nIw== 2\n",
         b"l@@ 9\no 7\n", b'"</s>": 0\n"<unk>": 1\n', b"l\t9\no\t8\n", b"9\tl\n8\to\nx\ty\n7\tb\n2\tc\n", b"l\no\n",
         b"l o\n\n",
         b"\n\x0a\x05\x0a\x03abc\x15", b'{"model": 1}', b'{"vocab": [{"token_bytes": 1', b"<HTML>\n", b"PK\x03\x04",
         b"\xef\xbb\xbfa\n", b"a" * 5000,
         b"\xff\n", "é\n".encode(), b"x 1 #fairseq:overwrite\n", b"  {\n", b"eos: 0\nUNK: 1\n---\n",
         b"a b\r\nc d</w>\r\n"]  # fmt: skip


def recognised(chance: Random) -> Any:
    """Return the formats that recognise the start of a file, and the first of them."""
    head = b"".join(chance.choices(HEADS, k=chance.randint(1, 2)))
    head = head[: chance.choice([len(head), len(head), 4096, chance.randint(0, len(head))])]
    formats = subword_nmt, fairseq, marian, opennmt, token_list, tiktoken_format, model_file
    path = Path(chance.choice(["a", "a.tiktoken", "a.tiktoken.gz"]))
    return [module.recognises(path, head) for module in formats], opennmt.odd_line(head), guess_format(path, head)


def old_codes(chance: Random) -> Any:
    """Return the merges of codes of version 0.1."""
    joined, rows = ["a", "b", "</w>"], []
    for number in range(chance.randint(0, 8)):
        right = chance.choice(joined)
        rows.append((number, chance.choice([one for one in joined if "</w>" not in one]), right))
        joined.append(rows[-1][1] + right)
    return subword_nmt._from_01("codes", rows)


def merged_by_ranks(chance: Random) -> Any:
    """Return the pairs of tokens that tokenizers needs for merging by ranks."""
    made = [pair for pair in dict.fromkeys(pairs(chance)) if len("".join(pair)) < 9]
    return writing.merges_of(Vocabulary(tuple(made), ("a", "b"), marker="none", merging="ranks"))


def chosen(chance: Random) -> Any:
    """Return the pattern that is chosen for some tokens, and what is said of it."""
    found = [word.encode() for word in words(chance, " a'1(\n.sA", 12, 2, 4)] + [b"a", b"1"]
    choice = ranks.choose(Path("r"), b"", found, chance.choice([None, None, "gpt2", "cl100k", r"\w+", r"\s+|\S+"]))
    return choice.pretokenizer.name, choice.source, [*map(gist, choice.notes)]


def probed(chance: Random) -> Any:
    """Return the lines that probe a vocabulary of more tokens than are probed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_module, "N_PROBED", chance.choice([6, 12, 2_000]))
        return probe_lines(any_vocabulary(chance))


def bytes_by_rank(chance: Random) -> list[bytes]:
    return [b"a", b"b", *(word.encode() for word in words(chance, least=2, n=10))]


CALLS: dict[str, tuple[int, Callable[[Random], Any]]] = {
    "spelled": (200, lambda c: split_patterns.spelled("".join(c.choices(SIGNS, k=3)))),
    "original": (100, lambda c: split_patterns.original("".join(c.choices(SIGNS, k=3)))),
    "understood": (300, lambda c: split_patterns.understood("".join(c.choices(SIGNS, k=c.randint(1, 3))))),
    "cut names": (400, lambda c: split_patterns.cut_name(
        [*(step(c) for _ in range(c.randint(1, 3) - c.randint(0, 1))), *level(c)], isolated=c.choice([(), ("a",
        "ab")]))),
    "left whole": (120, lambda c: split_patterns._leaves_whole("|".join(c.choices(WHOLE, k=c.randint(1, 3))),
        c.choice([(), ("<a>",)]))),
    "implied merges": (250, lambda c: implied.ImpliedMerges.of(scores(c))),
    "last joins": (100, lambda c: [implied.last_join(word, scores(c)) for word in words(c, "ab▁", 9, 2)]),
    "clashes": (200, lambda c: implied.first_clash(scores(c), words(c, "ab▁", 2, 3))),
    "unigram merges": (60, lambda c: implied.merges_that_make(words(c))),
    "letters": (40, lambda c: [(one.short(word), one.long(one.short(word))) for word in words(c)
                               for one in [implied.Letters([word + "</w>", "</w>", *words(c)])]]),
    "tables": (300, unpacked),
    "joins": (120, lambda c: ranks.joins(bytes_by_rank(c))),
    "recovered": (120, lambda c: ranks.recovered(bytes_by_rank(c))),
    "merges of ranks": (120, lambda c: ranks.merges_of(bytes_by_rank(c))),
    "choices": (60, chosen),
    "gaps": (20, lambda c: ranks.drops_text(PreTokenizer.of_pattern(c.choice([*PATTERNS[:9], r"[\s\S]"]),
        level="bytes"))),
    "remade": (200, lambda c: pipeline_reading.remade(pairs(c, 12))),
    "last of equal": (60, lambda c: (tokens.last_of_equal(pairs(c)), tokens.merging_of(pairs(c)),
        tokens.joins_later(pairs(c)))),
    "orders": (120, lambda c: tokens.order_of({w: n for n, w in enumerate(c.sample(["", *"abcd"], 5)) if w}, [*"ab"],
                                              c.sample("cdef", c.randint(0, 3)))),
    "pairs by rank": (150, merged_by_ranks),
    "old codes": (250, old_codes),
    "subword-nmt tokens": (100, lambda c: subword_nmt._ours(
        c.choices(["lo@@", "w", "a@@", "a@@@@", "@@", "lo", "w@@"], k=5), results=c.sample(["lo", "a@@</w>", "w</w>",
        "@@</w>"], 2))),
    "spelled bytes": (100, lambda c: gpt2.spells_bytes([(a, b) for a, b in zip(*[c.choices(["Ġ", "t", "ä", "½", "é",
        "w</w>", "ĉ", "Ā"],
                                                                                         k=c.randint(0, 2))] * 2,
                                                                                         strict=True)])),
    "heads": (400, recognised),
    "probe lines": (40, probed),
    "overlaps": (100, lambda c: pipeline_reading._overlap(*c.choices(["a", "ab", "ba", "abc", "cab", "bc", "xa",
        "cx"], k=2))),
    "runs": (60, lambda c: model_file._one_by_one(c.choices(["a▁", "é▁ü", "▁", "lo"], k=3), c.choices([0, 7], k=3),
        unknown=0,
                                                  ends=c.random() < 0.5)),
    "YAML": (150, lambda c: marian.unquoted(c.choice(["'{}'", '"{}"', "{}"]).format("".join(c.choices(
        ["a", "''", r"\n", r"\x41", r"\u00e9", r"\U0001F600", r"\\", r"\N", "é"], k=3))))),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str) -> None:
    """Each function gives what it gave."""
    check(f"formats function {name}", drawn(*CALLS[name]))


def test_limits() -> None:
    """Numbers by which files and tokens are measured are what they were."""
    modules = [module for name, module in sys.modules.items() if name.startswith(("volt.formats.", "volt.vocabulary."))]
    found = {
        f"{name} {value}"
        for module in modules
        for name, value in vars(module).items()
        if type(value) in (int, float) or (isinstance(value, tuple) and set(map(type, value)) == {int})
    }
    check("formats limits", ", ".join(sorted(found)))
    check("formats control characters", repr(sorted(gpt2._CONTROLS)))
