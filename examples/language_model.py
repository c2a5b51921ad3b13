"""Turn a text into a language model: a size that suits its budget, Hugging Face's tokenizer, a tiny GPT-2.

    pip install volt-vocab torch transformers
    python language_model.py

It needs no input file: the text is Python's own help topics, with every tenth line held out. VOLT searches for the
vocabulary that suits a model's number of parameters (the rule "scaling") and writes tokenizer.json, which transformers
reads. The program prints the size, and the bits per byte of the held-out text before and after training. Unlike a loss
per token, bits per byte can be compared between vocabularies.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from pydoc_data.topics import topics

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import volt

WIDTH, LAYERS, CONTEXT, BATCH = 64, 2, 64, 16
PARAMS = 12 * LAYERS * WIDTH**2  # in the layers, without the embedding


def searched(train: str) -> volt.SearchResult:
    """Search for the vocabulary that suits a text and a model of this size."""
    model = volt.LanguageModel(params=PARAMS, width=WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "train.txt")
        corpus.write_text(train, encoding="utf-8")
        counts = volt.count_words(corpus, pretokenizer="gpt2")
    return volt.search(volt.learn_enough(counts, model=model), select="scaling", model=model)


def exported(vocabulary: volt.Vocabulary) -> PreTrainedTokenizerFast:
    """Convert a vocabulary to a tokenizer of transformers, which cannot split pieces back: hence closed()."""
    with tempfile.TemporaryDirectory() as folder:
        volt.write_vocabulary(vocabulary.closed(), folder, to="huggingface")
        return PreTrainedTokenizerFast(tokenizer_file=str(Path(folder, "tokenizer.json")))


def rows_of(ids: list[int]) -> torch.Tensor:
    """Arrange ids in rows, (n_rows, CONTEXT), and drop the incomplete row at the end."""
    n_rows = len(ids) // CONTEXT
    return torch.tensor(ids[: n_rows * CONTEXT]).view(n_rows, CONTEXT)


def bits_per_byte(model: GPT2LMHeadModel, rows: torch.Tensor, bytes_per_token: float) -> float:
    """Return the model's loss on all tokens except the first of each row, in bits per byte."""
    with torch.no_grad():
        loss = sum(
            float(model(part, labels=part).loss) * len(part) for part in rows.split(BATCH)
        ) / len(rows)
    return loss / math.log(2) / bytes_per_token


def trained(model: GPT2LMHeadModel, rows: torch.Tensor, n_steps: int) -> None:
    """Train on random rows."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(n_steps):
        batch = rows[torch.randint(len(rows), (BATCH,))]
        model(batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200, help="steps of training")
    args = parser.parse_args()
    torch.manual_seed(1)
    lines = "\n".join(topics.values()).splitlines(keepends=True)
    held_out = "".join(lines[::10])
    train = "".join(line for place, line in enumerate(lines) if place % 10)
    vocabulary = searched(train).vocabulary
    tokenizer = exported(vocabulary)
    print(f"{len(tokenizer):,} ids for {PARAMS:,} parameters")
    train_ids, held_ids = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in (train, held_out)
    )
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=CONTEXT,
            n_embd=WIDTH,
            n_layer=LAYERS,
            n_head=4,
            bos_token_id=None,
            eos_token_id=None,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    bytes_per_token = len(held_out.encode()) / len(held_ids)
    print(f"before   {bits_per_byte(model, rows_of(held_ids), bytes_per_token):.3f} bits per byte")
    trained(model, rows_of(train_ids), args.steps)
    print(f"after    {bits_per_byte(model, rows_of(held_ids), bytes_per_token):.3f} bits per byte")


if __name__ == "__main__":
    main()
