"""Random patterns and texts, and oracles that find the matches of a pattern in a text.

An oracle takes a pattern, and returns a function from a text to the starts and ends of the matches.
"""

import re
from itertools import islice, pairwise

import pytest
from hypothesis import strategies as st

from volt.text.patterns.published import NAMED
from volt.text.patterns.regex_parser import parse
from volt.text.patterns.regex_tree import Ahead, Alternation, CharClass, Repetition, Sequence

ALPHABET = [
    *"   \t\n\n\r\x0b\x85\xa0\u2028\u3000'aAbBsStTreEvVlLdDmMzéßİıſK0123456789०½²!\"#.,;-_/\\[]{}$^~&",
    *("\u0301", "\u0903", "\u200b", "\u200d", "\ufeff", "\ufe0f"),
    *"நி்த한漢字かなカー。、🙂👩‍💻𝔸𝟗ǅʰªＡ٣",
]
CONTRACTED = ["'s", "'LL", "'Ve", " 'd", "'ſ", "\r\n", "  \n ", "12345", "don't", "HTMLParser"]
texts = st.lists(st.sampled_from(ALPHABET + CONTRACTED), max_size=24).map("".join)
any_texts = texts | st.text(
    st.characters(codec="utf-8", max_codepoint=0xFFFF, exclude_categories=["Cn", "Cs"]), max_size=12
)

_LITERALS = st.sampled_from(
    ["a", "b", "A", "'", "s", "é", "0", "漢", " ", r"\.", r"\n", r"\r", r"\t", r"\x41", r"\u0301"]
)
_CLASSES = st.sampled_from(
    [
        r"\s",
        r"\S",
        r"\d",
        r"\D",
        r"\p{L}",
        r"\p{N}",
        r"\p{Lu}",
        r"\p{M}",
        r"\P{L}",
        r"\pL",
        r"\p{^L}",
        ".",
        r"[^\s\p{L}\p{N}]",
        r"[^\r\n\p{L}\p{N}]",
        r"[\r\n]",
        "[a-c]",
        "[^a]",
        r"[\p{Ll}\p{Lo}\p{M}]",
        "[0-9]",
        r"[一-龥\u3040-ヿ]",
        r"[!\-.\]\[]",
        "[]a-]",
    ]
)
_HOW_OFTEN = st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,2}", "{1,3}", "{2,}", "{0,2}"])
_AT_LEAST_ONCE = st.sampled_from(["", "", "+", "{2}", "{1,2}", "{1,3}", "{2,}"])
_AHEAD = st.sampled_from(
    ["", "", "", r"(?!\S)", r"(?=\s)", "(?!a|b)", "(?:$)", r"\z", r"(?=\p{L}|$)", "(?!$)"]
)


@st.composite
def _taking(draw, how_often):
    """Draw a character or class with a quantifier, possessive or not."""
    quantifier = draw(how_often)
    return (
        draw(_LITERALS | _CLASSES)
        + quantifier
        + ("+" if quantifier and draw(st.booleans()) else "")
    )


@st.composite
def _sequences(draw, inner):
    """Draw a sequence of parts, at least one of which matches a character."""
    before = draw(
        st.lists(
            _taking(_HOW_OFTEN) | inner.map(lambda group: f"(?:{group})?") | _AHEAD, max_size=2
        )
    )
    behind = draw(st.lists(_taking(_HOW_OFTEN) | inner | _AHEAD, max_size=2))
    return "".join([*before, draw(_taking(_AT_LEAST_ONCE)), *behind])


@st.composite
def _groups(draw, sequences):
    inside = "|".join(draw(st.lists(sequences, min_size=1, max_size=3)))
    return (
        draw(st.sampled_from(["(?:", "(", "(?i:"]))
        + inside
        + ")"
        + draw(st.sampled_from(["", "", "+", "*", "{2}", "{1,2}"]))
    )


patterns = st.lists(
    _sequences(_groups(_sequences(_taking(_AT_LEAST_ONCE)))), min_size=1, max_size=4
).map("|".join)


def cut(matches, text):
    """Return the matches, and the text between them."""
    bounds = [0, *(bound for match in matches for bound in match), len(text)]
    return [text[start:end] for start, end in pairwise(bounds) if start < end]


def oracle(pattern):
    """Return the function that finds matches with the module `regex`; skip the test if it is not
    installed.
    """
    regex = pytest.importorskip("regex")
    spelled = re.sub(r"\\z|\$(?=[|)])", r"\\Z", pattern)  # its $ is also before a last line end
    compiled = regex.compile(f"(?V1){spelled}" if "&&" in spelled else spelled)
    return lambda text: (match.span() for match in compiled.finditer(text))


def backtracker(pattern):
    """Return a function that finds matches by trying all ways through the tree of a pattern."""
    tree = parse(pattern)

    def matches(text):
        place = 0
        while place < len(text):
            end = next(_ends(tree, text, place), place)
            if end > place:
                yield place, end
            place = max(end, place + 1)

    return matches


def _ends(tree, text, place):
    """Yield the ends of matches of a tree that start at an index of a text, the preferred end
    first.
    """
    if isinstance(tree, CharClass):
        yield from [place + 1] * (place < len(text) and tree.characters.holds(ord(text[place])))
    elif isinstance(tree, Ahead):
        yield from [place] * (
            tree.characters.holds(ord(text[place])) if place < len(text) else tree.at_end
        )
    elif isinstance(tree, Alternation):
        for part in tree.parts:
            yield from _ends(part, text, place)
    elif isinstance(tree, Repetition):
        found = _repeated(tree, tree.least, tree.most, text, place)
        yield from islice(found, 1) if tree.possessive else found
    elif not tree.parts:
        yield place
    else:
        for end in _ends(tree.parts[0], text, place):
            yield from _ends(Sequence(tree.parts[1:]), text, end)


def _repeated(tree, least, most, text, place):
    if most is None or most > 0:
        rest = most and most - 1
        for end in _ends(tree.part, text, place):
            yield from _repeated(tree, max(least - 1, 0), rest, text, end)
    if least == 0:
        yield place


def split_by(name, matcher, text):
    """Return the pre-tokens of a text for a published pattern.

    matcher: an oracle, such as `oracle` or `backtracker`
    """
    words = [text] if text else []
    for split in NAMED[name]:
        find = matcher(split.pattern)
        if split.from_end:
            words = [
                part[::-1] for word in words for part in reversed(cut(find(word[::-1]), word[::-1]))
            ]
        else:
            words = [part for word in words for part in cut(find(word), word)]
    return words
