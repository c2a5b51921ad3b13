"""Word counts → a vocabulary that another library trains, with the training's cost.

Each training is a process of its own: `python -m volt.comparison.library_training KIND SIZE WORDS
FOLDER` writes the library's own file into FOLDER, and prints the cost as JSON. Each library has its
default settings, except that it normalises nothing, keeps all characters and has no special token
but the unknown one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from volt.comparison.time_and_memory import Cost, measured
from volt.count.word_counts import WordCounts
from volt.errors import CandidateError, missing

SENTENCEPIECE_FILE = "trained.model"
WORDPIECE_FILE = "trained.json"
MAX_WORD = 1_000  # characters; WordPiece calls longer words unknown
_REPEAT = 10_000  # words per string handed to WordPiece
_LIBRARIES = {"spm-bpe": "sentencepiece", "spm-unigram": "sentencepiece", "wordpiece": "tokenizers"}


def train(kind: str, size: int, *, counts: WordCounts, folder: Path) -> Cost:
    """Train a vocabulary of `size` tokens, without the unknown token, and write the library's file."""
    words = folder / "words.tsv"
    lines = [f"{word}\t{count}\n" for word, count in counts.table.rows()]
    words.write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-P", "-m", __name__, kind, str(size), str(words), str(folder)]
    done = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, text=True, errors="replace"
    )
    if done.returncode == 3:
        raise missing(_LIBRARIES[kind])
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["it ended without a message"]
        raise CandidateError(f"{_LIBRARIES[kind]} refuses {size:,} tokens: {reason[-1].strip()}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _train_sentencepiece(size: int, words: Path, folder: Path, *, model_type: str) -> Cost:
    """Train on the table of words and counts, a format that sentencepiece reads."""
    import os

    import sentencepiece

    options: dict[str, Any] = {
        "input": str(words),
        "input_format": "tsv",
        "model_type": model_type,
        "vocab_size": size + 1,
        "model_prefix": str(folder / "trained"),
        "normalization_rule_name": "identity",
        "character_coverage": 1.0,
        "hard_vocab_limit": False,
        "unk_id": 0,
        "bos_id": -1,
        "eos_id": -1,
        "pad_id": -1,
        "num_threads": os.cpu_count() or 1,
        "minloglevel": 2,
    }
    return measured(sentencepiece.SentencePieceTrainer.Train, **options)[1]


def _train_wordpiece(size: int, words: Path, folder: Path) -> Cost:
    """Train on text that repeats each word by its count: the library takes no counts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=MAX_WORD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size + 1, special_tokens=["[UNK]"], limit_alphabet=1_000_000, show_progress=False
    )
    _, cost = measured(tokenizer.train_from_iterator, _repeated(words), trainer)
    tokenizer.save(str(folder / WORDPIECE_FILE))
    return cost


def _repeated(words: Path) -> Iterator[str]:
    with words.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            word, count = line.rsplit("\t", 1)
            n_full, rest = divmod(int(count), _REPEAT)
            for n in (*[_REPEAT] * n_full, rest):
                yield " ".join([word] * n)


TRAINERS: dict[str, Callable[[int, Path, Path], Cost]] = {
    "spm-bpe": lambda *place: _train_sentencepiece(*place, model_type="bpe"),
    "spm-unigram": lambda *place: _train_sentencepiece(*place, model_type="unigram"),
    "wordpiece": _train_wordpiece,
}


def main(kind: str, size: str, words: str, folder: str) -> int:
    """Train and print the cost. Return the exit status.

    The status is 1 if the library fails (stderr tells why), and 3 if it is not installed.
    """
    try:
        cost = TRAINERS[kind](int(size), Path(words), Path(folder))
    except ImportError:
        return 3
    except Exception as error:  # whatever a library raises is its reason
        reason = str(error).splitlines() or [type(error).__name__]
        sys.stderr.write(f"{reason[0]}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(cost)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
