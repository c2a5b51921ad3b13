"""The splits of published tokenizers, as their projects declare them.

    gpt2             openai/gpt-2, src/encoder.py; also RoBERTa, Phi-2 and many more
    r50k             openai/tiktoken, tiktoken_ext/openai_public.py: the same cuts in possessive spelling
    cl100k           openai/tiktoken, tiktoken_ext/openai_public.py: GPT-4, also GLM-4
    o200k            openai/tiktoken, tiktoken_ext/openai_public.py: GPT-4o, gpt-oss, also Llama 4
    llama3           meta-llama/llama3, llama/tokenizer.py
    qwen2            Qwen/Qwen2-7B, tokenizer.json; also Qwen 2.5 and Qwen 3
    qwen3.5          Qwen/Qwen3.5-0.8B, tokenizer.json: marks belong to words
    tekken           mistralai/Mistral-Nemo-Base-2407, tokenizer.json; also Nemotron 3
    deepseek3        deepseek-ai/DeepSeek-V3, tokenizer.json: a sequence of three splits; also R1
    kimi2            moonshotai/Kimi-K2-Instruct, tokenization_kimi.py: Han characters are words of their own

and of numbers alone, to be put in front of others:

    digits           each digit by itself
    digits3          groups of three from the left: 123 45
    digits3-right    groups of three from the right, as people write them: 12 345

>>> splits = NAMED["digits3-right"] + NAMED["gpt2"]
>>> Splitter.of(*splits).split("in 12345 days")
['in', ' ', '12', '345', ' days']
"""

from __future__ import annotations

from volt.errors import ConfigError
from volt.text import gpt2
from volt.text.patterns.splitter import Split, Splitter

_CONTRACTIONS = f"(?i:{gpt2.CONTRACTIONS})"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_BEFORE_WORD = r"[^\r\n\p{L}\p{N}]?"
_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


def _of_llama(*, word: str = r"\p{L}", numbers: str, others: str = r"\s\p{L}\p{N}") -> str:
    """Contractions, words, numbers, others with the line ends behind them, and white space."""
    return rf"{_CONTRACTIONS}|{_BEFORE_WORD}{word}+|{numbers}| ?[^{others}]+[\r\n]*|{_SPACES}"


def _of_o200k(*, behind_word: str = "", but: str = "", numbers: str, behind_others: str = r"[\r\n/]*") -> str:
    """Words that begin with capitals and go on without, numbers, others, and white space.

    but: what is put behind the letters of a class, inside it
    """
    upper, lower = f"[{_UPPER}{but}]", f"[{_LOWER}{but}]"
    words = f"{_BEFORE_WORD}{upper}*{lower}+{behind_word}|{_BEFORE_WORD}{upper}+{lower}*{behind_word}"
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+{behind_others}|{_SPACES}"


_DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    + _SPACES
)
_THREES, _EACH = r"\p{N}{1,3}", r"\p{N}"
_KIMI = _of_o200k(behind_word=f"{_CONTRACTIONS}?", but=r"&&[^\p{Han}]", numbers=_THREES, behind_others=r"[\r\n]*")

NAMED: dict[str, tuple[Split, ...]] = {
    "gpt2": (Split(gpt2.ORIGINAL),),
    "r50k": (Split(_R50K),),
    "cl100k": (Split(_CL100K),),
    "o200k": (Split(_of_o200k(behind_word=f"{_CONTRACTIONS}?", numbers=_THREES)),),
    "llama3": (Split(_of_llama(numbers=_THREES)),),
    "qwen2": (Split(_of_llama(numbers=_EACH)),),
    "qwen3.5": (Split(_of_llama(word=r"[\p{L}\p{M}]", numbers=_EACH, others=r"\s\p{L}\p{M}\p{N}")),),
    "tekken": (Split(_of_o200k(numbers=_EACH)),),
    "deepseek3": (Split(_THREES), Split("[一-龥\u3040-ゟ゠-ヿ]+"), Split(_DEEPSEEK)),
    "kimi2": (Split(rf"[\p{{Han}}]+|{_KIMI}"),),
    "digits": (Split(_EACH),),
    "digits3": (Split(_THREES),),
    "digits3-right": (Split(_THREES, from_end=True),),
}


def named_splitter(name: str) -> Splitter:
    """The splitter of that name. Raises ConfigError if there is none.

    name: a key of NAMED

    >>> named_splitter("llama3").split("It's 12345!")
    ['It', "'s", ' ', '123', '45', '!']
    """
    if name not in NAMED:
        raise ConfigError(f"no pattern is called {name!r}; choose from {', '.join(NAMED)}")
    return Splitter.of(*NAMED[name])
