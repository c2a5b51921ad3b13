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

from volt.comparison.time_and_memory import Cost, measure_cost
from volt.count.word_counts import WordCounts
from volt.errors import CandidateError, missing

SENTENCEPIECE_FILE = "trained.model"
WORDPIECE_FILE = "trained.json"
MAX_WORD = 1_000  # characters; WordPiece calls longer words unknown
_WORDS_PER_TEXT = 10_000  # of the texts that WordPiece reads
_NOT_INSTALLED = 3  # exit status of a training whose library is missing
_LIBRARIES = {"spm-bpe": "sentencepiece", "spm-unigram": "sentencepiece", "wordpiece": "tokenizers"}


def train(kind: str, size: int, *, counts: WordCounts, folder: Path) -> Cost:
    """Train a vocabulary in another process, and write the library's file into a folder.

    size: number of tokens, without the unknown token
    Raises MissingLibraryError without the library, CandidateError with its reason if it fails.
    """
    words = folder / "words.tsv"
    lines = [f"{word}\t{count}\n" for word, count in counts.table.rows()]
    words.write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-P", "-m", __name__, kind, str(size), str(words), str(folder)]
    process = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, text=True, errors="replace"
    )
    if process.returncode == _NOT_INSTALLED:
        raise missing(_LIBRARIES[kind])
    if process.returncode:
        reason = process.stderr.strip().splitlines() or ["it ended without a message"]
        raise CandidateError(f"{_LIBRARIES[kind]} refuses {size:,} tokens: {reason[-1].strip()}")
    return Cost(**json.loads(process.stdout.splitlines()[-1]))


def _train_sentencepiece(size: int, words: Path, folder: Path, *, model_type: str) -> Cost:
    """Train on the table of words and counts, a format that sentencepiece reads."""
    import os

    import sentencepiece

    _, cost = measure_cost(
        sentencepiece.SentencePieceTrainer.Train,
        input=str(words),
        input_format="tsv",
        model_type=model_type,
        vocab_size=size + 1,
        model_prefix=str(folder / "trained"),
        normalization_rule_name="identity",
        character_coverage=1.0,
        hard_vocab_limit=False,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        num_threads=os.cpu_count() or 1,
        minloglevel=2,
    )
    return cost


def _train_wordpiece(size: int, words: Path, folder: Path) -> Cost:
    """Train on text that repeats each word by its count: the library takes no counts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=MAX_WORD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size + 1, special_tokens=["[UNK]"], limit_alphabet=1_000_000, show_progress=False
    )
    _, cost = measure_cost(tokenizer.train_from_iterator, _repeat_words(words), trainer)
    tokenizer.save(str(folder / WORDPIECE_FILE))
    return cost


def _repeat_words(words: Path) -> Iterator[str]:
    """Yield texts of at most 10,000 words; together, they have each word as often as its count."""
    with words.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            word, count = line.rsplit("\t", 1)
            n_full, rest = divmod(int(count), _WORDS_PER_TEXT)
            for n in (*[_WORDS_PER_TEXT] * n_full, rest):
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
        return _NOT_INSTALLED
    except Exception as error:  # whatever a library raises is its reason
        reason = str(error).splitlines() or [type(error).__name__]
        sys.stderr.write(f"{reason[0]}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(cost)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
