"""Do tokenizers and sentencepiece give VOLT's ids for a vocabulary of fewest pieces?

    python -m experiments.optimal.exports VOCABULARY TEXT …

Exports the vocabulary to both libraries, and compares the ids of 5,000 lines of each text. A line
that differs is printed.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path

import sentencepiece
import tokenizers

from volt.encode import Encoder
from volt.formats.registry import write_vocabulary
from volt.vocabulary import Vocabulary

N_LINES = 5_000


def main() -> None:
    # The libraries make one <unk> of a run of unknown characters.
    vocabulary = replace(Vocabulary.load(sys.argv[1]), fuse_unk=True)
    encoder = Encoder(vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        huggingface = Path(folder, "tokenizer.json")
        notes = write_vocabulary(vocabulary, huggingface, to="huggingface")
        model = Path(folder, "tokens.model")
        notes += write_vocabulary(vocabulary, model, to="sentencepiece")
        tokenizer = tokenizers.Tokenizer.from_file(str(huggingface))
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for note in notes:
        print(note, file=sys.stderr)

    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in islice(file, N_LINES)]
        n_different = {"tokenizers": 0, "sentencepiece": 0}
        for line in lines:
            ids = encoder.encode_ids(line).tolist()
            others = {
                "tokenizers": tokenizer.encode(line, add_special_tokens=False).ids,
                "sentencepiece": processor.encode(line),
            }
            for library, other_ids in others.items():
                if other_ids != ids:
                    n_different[library] += 1
                    print(f"{path}: {library} differs: {line!r}")
        print(f"{path}: {len(lines):,} lines, {n_different}")


if __name__ == "__main__":
    main()
