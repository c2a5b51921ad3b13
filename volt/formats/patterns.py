"""Which pattern goes with a file of tokens over bytes that names none: the one given, or GPT-2's, if the tokens fit it.

Several published patterns may fit tokens alike, and where a vocabulary was grown from another, the best fit may be a
wrong one. So none but GPT-2's is ever assumed, which such files stood for first, and only where it cuts next to none of
the tokens and no other fits as well; the others are hints. Published files are known by their SHA-256, and with them
the pattern that their publisher's own code has.

>>> choose(Path("a"), [b"low", b" low"], None).name
'bytes'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

from volt.errors import VocabularyError, shown_path
from volt.files.whole import read_bytes
from volt.text.patterns.declared import drops_rest, of_matches
from volt.text.patterns.fitting import cut_tokens, leaves_gaps, n_cut
from volt.text.patterns.named import NAMED
from volt.text.patterns.splitter import cut_alike
from volt.text.pretokenizer import PreTokenizer

PUBLISHED = ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "qwen3.5", "tekken", "deepseek3", "kimi2")
MOST_CUT = 0.001  # of the tokens: Whisper's multilingual file has one in 10,000
TELLING = 10_000  # tokens: so many hold numbers and signs that tell patterns apart
ASKED_PATTERN = "with pattern='NAME or REGEX'"
KNOWN = {  # the first digits of the SHA-256 of a file → what it is, and its pattern
    "306cd27f03c1a714": ("r50k_base of OpenAI", "gpt2"),
    "94b5ca7dff4d0076": ("p50k_base of OpenAI", "gpt2"),
    "223921b76ee99bde": ("cl100k_base of OpenAI", "cl100k"),
    "446a9538cb6c348e": ("o200k_base of OpenAI", "o200k"),
    "b34b360dbb493e78": ("the multilingual file of Whisper", "gpt2"),
    "82e9d31979e92ab9": ("Llama 3's", "llama3"),
    "d0bdbaf59b0762c8": ("Llama 4's", "o200k"),
    "b2b1b8dfb5cc5f02": ("Qwen's first one", "qwen2"),
    "8dde380a6405e935": ("Qwen 3.6's", "qwen3.5"),
}
_N_DIGITS = 16
_DROPS = "The pattern {} may leave some of the text unmatched, which tiktoken drops, and so does VOLT."
_N_HINTS = 4
_N_TRIED = 20_000  # tokens, at even distances, with a pattern that was given


@dataclass(frozen=True, slots=True)
class Choice:
    """What cuts text.

    pretokenizer: over bytes
    source: "given" if it was asked for, "known" if the file is a published one, or "assumed"
    notes: a sentence for what the reader should know of it
    """

    pretokenizer: PreTokenizer
    source: Literal["given", "known", "assumed"]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the pre-tokenizer."""
        return self.pretokenizer.name


def choose(path: Path, tokens: Sequence[bytes], pattern: str | None) -> Choice:
    """What cuts text for these tokens.

    path: of their file, which may be a published one
    pattern: the name of a published one, or a regular expression; None to have that of a published file, or GPT-2's
    Raises ConfigError if the pattern is none, VocabularyError if the tokens do not go with GPT-2's alone.
    """
    known = KNOWN.get(_digest(path))
    if pattern is not None:
        pretokenizer = PreTokenizer.of_pattern(pattern, level="bytes")
        notes = tuple(
            _cut_notes(tokens, pattern, pretokenizer) if known is None else _other(known, pattern, pretokenizer)
        )
        if drops_text(pretokenizer):
            return Choice(PreTokenizer(of_matches(pretokenizer.name)), "given", (*notes, _DROPS.format(pattern)))
        return Choice(pretokenizer, "given", notes)
    if known is not None:
        note = f"The file is {known[0]}, known by its SHA-256: text is cut by the pattern {known[1]}."
        return Choice(PreTokenizer.of_pattern(known[1], level="bytes"), "known", (note,))
    n_cuts = n_cut(tokens, {"gpt2": NAMED["gpt2"]})
    if n_cuts["gpt2"] <= MOST_CUT * len(tokens):
        n_cuts |= n_cut(tokens, {name: NAMED[name] for name in PUBLISHED[1:]})
        others = [name for name in PUBLISHED[1:] if n_cuts[name] <= n_cuts["gpt2"]]
        if not others or (len(tokens) < TELLING and min(n_cuts.values()) == n_cuts["gpt2"]):
            return Choice(PreTokenizer("bytes"), "assumed", (_assumption(len(tokens), n_cuts["gpt2"], others),))
    raise VocabularyError(_refusal(path, tokens))


def _digest(path: Path) -> str:
    """The first digits of the SHA-256 of what a file holds, unpacked; none where there is no file."""
    data = read_bytes(path, kind=VocabularyError) if path.is_file() else b""
    return sha256(data).hexdigest()[:_N_DIGITS]


def _other(known: tuple[str, str], pattern: str, pretokenizer: PreTokenizer) -> Iterator[str]:
    """A warning where a pattern cuts otherwise than the one that goes with a published file."""
    alike = ("gpt2", "r50k") if known[1] == "gpt2" else known[1:]
    splits = pretokenizer.splits or NAMED["gpt2"]
    if len(splits) > 1 or not any(cut_alike(splits[0], NAMED[name][0]) for name in alike):
        yield (
            f"The file is {known[0]}, known by its SHA-256, whose publisher cuts text by the pattern {known[1]}: with "
            f"{pattern} ids differ."
        )


def drops_text(pretokenizer: PreTokenizer) -> bool:
    """Whether a library that takes a pattern's matches alone drops text that this pre-tokeniser keeps.

    >>> drops_text(PreTokenizer("bytes+split:[a-z]+")), drops_text(PreTokenizer("bytes+matches:[a-z]+"))
    (True, False)
    """
    splits = pretokenizer.splits
    forwards = len(splits) == 1 and not splits[0].from_end
    return forwards and not drops_rest(pretokenizer.name) and leaves_gaps(splits[0])


def _assumption(n_tokens: int, n_gpt2: int, others: list[str]) -> str:
    fit = "which fits all of its tokens" if not n_gpt2 else f"which cuts {n_gpt2:,} of its {n_tokens:,} tokens"
    also = f", as do {', '.join(others)}" if others else ""
    return (
        f"The file names no pattern: text is cut by GPT-2's, {fit}{also}. If another goes with it, read it "
        f"{ASKED_PATTERN}."
    )


def _cut_notes(tokens: Sequence[bytes], pattern: str, pretokenizer: PreTokenizer) -> Iterator[str]:
    """A word of warning where the pattern that was given does not seem to be the right one."""
    some = tokens[:: max(1, len(tokens) // _N_TRIED)]
    cut = cut_tokens(some, pretokenizer.splits or NAMED["gpt2"])
    if len(cut) > MOST_CUT * len(some):
        yield (
            f"The pattern {pattern} cuts {len(cut) / len(some):.1%} of the tokens, such as {_shown(cut[0])}, so that "
            "they never occur: make sure that it is the one that the publisher names."
        )
        return
    n_cuts = n_cut(some, {name: NAMED[name] for name in PUBLISHED})
    others = [
        name
        for name in PUBLISHED
        if n_cuts[name] <= len(cut) and not (len(pretokenizer.splits) == 1 and pretokenizer.splits == NAMED[name])
    ]
    if pretokenizer.splits and others:
        yield (
            f"The tokens do not tell {pattern} from {', '.join(others)}, which cut no more of them: make sure that it "
            "is the one that the publisher names."
        )


def _refusal(path: Path, tokens: Sequence[bytes]) -> str:
    """What to say of tokens that do not go with GPT-2's pattern, or not with it alone."""
    n_cuts = n_cut(tokens, {name: NAMED[name] for name in PUBLISHED})
    hints = ", ".join(f"{name} {n_cuts[name]:,}" for name in sorted(n_cuts, key=n_cuts.__getitem__)[:_N_HINTS])
    cut = cut_tokens(tokens, NAMED["gpt2"])
    found = (
        f"GPT-2's cuts {len(cut):,} of its {len(tokens):,} tokens, such as {_shown(cut[0])}" if cut else "several fit"
    )
    return (
        f"{shown_path(path)}: the file names no pattern that text is cut by, and {found}; give the one that its "
        f"publisher names, {ASKED_PATTERN}. Of the known ones these cut fewest of its tokens, which does not prove "
        f"that one goes with it: {hints}"
    )


def _shown(token: bytes) -> str:
    return repr(token.decode(errors="backslashreplace"))
