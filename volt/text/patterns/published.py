"""The splits of published tokenizers, and names for splits, which vocabularies store.

A name contains the patterns, so that a vocabulary does not depend on this list:

    split:PATTERN     one split
    splits:JSON       several splits: a list of patterns, or of {"pattern": …, "from_end": true},
                      which reads backwards
    matches:PATTERN   the matches of one pattern, after a split at user tokens; drops other text
    bytes+…           any of the above, with words spelled in GPT-2's byte alphabet

Published tokenizers, as their projects declare them:

    gpt2             openai/gpt-2, src/encoder.py; also RoBERTa, Phi-2
    r50k             openai/tiktoken, openai_public.py: the same splits in possessive spelling
    cl100k           openai/tiktoken, openai_public.py: GPT-4, GLM-4
    o200k            openai/tiktoken, openai_public.py: GPT-4o, gpt-oss, Llama 4
    llama3           meta-llama/llama3, llama/tokenizer.py
    qwen2            Qwen/Qwen2-7B, tokenizer.json; also Qwen 2.5 and 3
    qwen3.5          Qwen/Qwen3.5-0.8B, tokenizer.json: marks belong to words
    tekken           mistralai/Mistral-Nemo-Base-2407, tokenizer.json; also Nemotron 3
    deepseek3        deepseek-ai/DeepSeek-V3, tokenizer.json: three splits; also R1
    kimi2            moonshotai/Kimi-K2-Instruct, tokenization_kimi.py: Han characters are words
    superbpe         PythonNut/superbpe, scripts/extend_tokenizer.sh: stretches of words, for merges
                     across spaces; numbers, several signs and several spaces end a stretch

Splits of numbers, to be put before others:

    digits           each digit by itself
    digits3          groups of three from the left: 123 45
    digits3-right    groups of three from the right: 12 345
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from volt.errors import ConfigError, quoted
from volt.text.atoms import SPACE
from volt.text.patterns.regex_parser import nodes_of, parse
from volt.text.patterns.regex_tree import Repetition
from volt.text.patterns.splitter import Split, Splitter
from volt.text.patterns.word_cutter import WordCutter

BYTES = "bytes+"
_ONE = "split:"
_SEVERAL = "splits:"
_MATCHES = "matches:"
_WORD = re.compile(r"[.-]*\w[\w.-]+")  # a name rather than a pattern
CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_GROUPED = "'(?:[sdmt]|ll|ve|re)"  # the same contractions, as later files spell them
_PLAIN = r"\s"  # white space in text as it is
_WHITE = rf"\s{SPACE}"  # white space in text whose spaces are "▁"


def _words(space: str, *, contractions: str = CONTRACTIONS, others: str) -> str:
    return rf"{contractions}|{space}?\p{{L}}+|{space}?\p{{N}}+|{space}?[^{others}\p{{L}}\p{{N}}]+"


# GPT-2's pattern in four spellings:
# GPT2              in its own files
# GPT2_GROUPED      in later files
# GPT2_MARKED       for text whose spaces are "▁"
# GPT2_CUT_MARKED   the same for Polars, whose engine has no look-ahead: a space must first be put
#                   between the two groups of each match of GPT2_MARKED_RUN
_TRAILING = r"\s+(?!\S)|\s+"
GPT2 = rf"{_words(' ', others=_PLAIN)}|{_TRAILING}"
GPT2_GROUPED = rf"{_words(' ', contractions=_GROUPED, others=_PLAIN)}|{_TRAILING}"
GPT2_MARKED = rf"{_words(SPACE, others=_WHITE)}|[{_WHITE}]+(?![^{_WHITE}])|[{_WHITE}]+"
GPT2_MARKED_RUN = rf"([{_WHITE}])([{_WHITE}][^{_WHITE}])"
GPT2_CUT_MARKED = rf"{_words(SPACE, others=_WHITE)}|[{_WHITE}--[ ]]+"

_CONTRACTIONS = f"(?i:{CONTRACTIONS})"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_BEFORE_WORD = r"[^\r\n\p{L}\p{N}]?"
_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


def _of_llama(*, word: str = r"\p{L}", numbers: str, others: str = r"\s\p{L}\p{N}") -> str:
    return rf"{_CONTRACTIONS}|{_BEFORE_WORD}{word}+|{numbers}| ?[^{others}]+[\r\n]*|{_SPACES}"


def _of_o200k(
    *, behind_word: str = "", but: str = "", numbers: str, behind_others: str = r"[\r\n/]*"
) -> str:
    """Return a pattern for words (capitals, then small letters), numbers, symbols and white space.

    behind_word, behind_others: patterns of what a word, or a run of symbols, ends with
    but: added to both classes of letters, such as "&&[^…]" to exclude some
    """
    upper = f"[{_UPPER}{but}]"
    lower = f"[{_LOWER}{but}]"
    words = (
        f"{_BEFORE_WORD}{upper}*{lower}+{behind_word}|{_BEFORE_WORD}{upper}+{lower}*{behind_word}"
    )
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+{behind_others}|{_SPACES}"


_DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    + _SPACES
)
_THREES = r"\p{N}{1,3}"
_EACH = r"\p{N}"
_KIMI = _of_o200k(
    behind_word=f"{_CONTRACTIONS}?", but=r"&&[^\p{Han}]", numbers=_THREES, behind_others=r"[\r\n]*"
)

NAMED: dict[str, tuple[Split, ...]] = {
    "gpt2": (Split(GPT2),),
    "r50k": (Split(_R50K),),
    "cl100k": (Split(_CL100K),),
    "o200k": (Split(_of_o200k(behind_word=f"{_CONTRACTIONS}?", numbers=_THREES)),),
    "llama3": (Split(_of_llama(numbers=_THREES)),),
    "qwen2": (Split(_of_llama(numbers=_EACH)),),
    "qwen3.5": (
        Split(_of_llama(word=r"[\p{L}\p{M}]", numbers=_EACH, others=r"\s\p{L}\p{M}\p{N}")),
    ),
    "tekken": (Split(_of_o200k(numbers=_EACH)),),
    "deepseek3": (Split(_THREES), Split("[一-龥\u3040-ゟ゠-ヿ]+"), Split(_DEEPSEEK)),
    "kimi2": (Split(rf"[\p{{Han}}]+|{_KIMI}"),),
    "superbpe": (Split(rf"{_THREES}| ?[^\s\p{{L}}\p{{N}}]{{2,}}[\r\n/]*| +(?!\S)"),),
    "digits": (Split(_EACH),),
    "digits3": (Split(_THREES),),
    "digits3-right": (Split(_THREES, from_end=True),),
}


def named_splitter(name: str) -> Splitter:
    """Return the splitter with a name of NAMED. Raises ConfigError if it is unknown."""
    if name not in NAMED:
        raise ConfigError(f"no pattern is called {name!r}; choose from {', '.join(NAMED)}")
    return Splitter.of(*NAMED[name])


def is_declared(name: str) -> bool:
    """Check whether the name of a pre-tokenizer contains splits: "split:…", "splits:…" or "matches:…"."""
    return name.removeprefix(BYTES).startswith((_ONE, _SEVERAL, _MATCHES))


def drops_rest(name: str) -> bool:
    """Check whether a pre-tokenizer drops text between matches: "matches:…"."""
    return name.removeprefix(BYTES).startswith(_MATCHES)


def declared(pattern: str, *, is_bytes: bool = False) -> str:
    r"""Return the name to save for a published pattern or a regular expression.

    Raises ConfigError if it is neither.
    """
    if pattern == "gpt2":  # these pre-tokenizers split the same way, but faster
        return "bytes" if is_bytes else "gpt2"
    if pattern not in NAMED and _WORD.fullmatch(pattern):
        start = pattern.lower()
        near = [name for name in NAMED if name.startswith(start)]
        near = near or get_close_matches(start, NAMED)
        hint = "choose from"
        if near:
            hint = f"did you mean {' or '.join(near)}? The patterns are"
        names = ", ".join(NAMED)
        raise ConfigError(f"no pattern is called {pattern!r}; {hint} {names}, or give a regex")
    name = name_of(NAMED.get(pattern, (Split(pattern),)))
    if is_bytes:
        name = BYTES + name
    cutter_of(name)
    return name


def of_matches(name: str) -> str:
    """Convert the name "split:…" to the name that drops text between the matches.

    >>> of_matches("bytes+split:[a-z]+")
    'bytes+matches:[a-z]+'
    """
    return name.replace(_ONE, _MATCHES, 1)


def splits_of(name: str) -> tuple[Split, ...]:
    """Parse the split patterns encoded in a pre-tokenizer's name.

    Raises ConfigError if the name is malformed.
    """
    kind, _, content = name.removeprefix(BYTES).partition(":")
    if f"{kind}:" in (_ONE, _MATCHES):
        return (Split(content),)
    try:
        rows: Any = json.loads(content)
        if not isinstance(rows, list):
            raise TypeError
        return tuple(map(_split_of, rows))
    except (ValueError, RecursionError, TypeError):
        raise ConfigError(
            f"pre-tokenizer {quoted(name, 200)}: a JSON list of patterns must follow "
            f'{_SEVERAL!r}, as in {_SEVERAL}["\\\\p{{N}}{{1,3}}", '
            '{"pattern": "\\\\p{L}+", "from_end": true}]'
        ) from None


def _split_of(row: Any) -> Split:
    return Split(row) if isinstance(row, str) else Split(**row)


def name_of(splits: tuple[Split, ...]) -> str:
    """Return the name that stands for these splits: the inverse of `splits_of`."""
    if len(splits) == 1 and not splits[0].from_end:
        return _ONE + splits[0].pattern
    rows = [asdict(split) if split.from_end else split.pattern for split in splits]
    return _SEVERAL + json.dumps(rows, ensure_ascii=False)


@lru_cache(maxsize=64)
def cutter_of(name: str) -> WordCutter:
    """Return the cutter for a pre-tokenizer's name: "bytes", or a name that contains splits.

    Raises ConfigError if the name is invalid, or splitting might take quadratic time.
    """
    splits = NAMED["gpt2"] if name == "bytes" else splits_of(name)
    splitter = Splitter.of(*splits)
    if not splitter.is_linear:
        raise ConfigError(
            f"pre-tokenizer {quoted(name, 500)}: on some texts it reads far beyond the ends of its "
            "matches, in time quadratic in the length of a line; bound the repetition, as in "
            "a{1,20}b|a for a*b|a"
        )
    is_bytes = name == "bytes" or name.startswith(BYTES)
    drops = drops_rest(name)
    return WordCutter(splitter, is_bytes=is_bytes, matches_only=drops, matches_between_users=drops)


@lru_cache(maxsize=64)
def cutter_of_regex(pattern: str) -> WordCutter | None:
    """Return a cutter into the matches of a Rust regex.

    Return None if VOLT's engine might match differently, or take quadratic time.
    """
    try:
        splitter = Splitter.of(Split(pattern))
        if not splitter.is_linear:
            return None
    except ConfigError:
        return None
    for node in nodes_of(parse(pattern)):
        if isinstance(node, Repetition) and node.possessive:  # not Rust's a++
            return None
    return WordCutter(splitter, matches_only=True)
