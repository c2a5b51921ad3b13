"""Train a tiny translation model on fairseq's own reader and batches, and continue exactly from a checkpoint.

    pip install volt-vocab torch; pip install --no-deps ve-fairseq    # a build of fairseq for Python 3.11
    volt binarize -m joint.volt train.de -o data/train.de-en.de
    volt binarize -m joint.volt train.en -o data/train.de-en.en
    volt export -m joint.volt --to fairseq -o data/dict.txt
    python fairseq_reader.py data/dict.txt data/train.de-en.de data/train.de-en.en --steps 20 --save half.pt
    python fairseq_reader.py data/dict.txt data/train.de-en.de data/train.de-en.en --steps 40 --resume half.pt --save whole.pt

fairseq reads the files, sorts, batches and shuffles, and the state of its iterator is in the checkpoint, as in
fairseq-train. After 40 steps, the weights are the same bit for bit as without the interruption. For batches in the
same layout without fairseq's reader, see StreamDataset.
"""

import argparse

import torch
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.data.iterators import EpochBatchIterator
from torch import nn


class SmallModel(nn.Module):
    """Predict each target token from the mean of the source and the previous token."""

    def __init__(self, n_tokens: int, pad: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, 16, padding_idx=pad)
        self.out = nn.Linear(16, n_tokens)

    def forward(
        self, src_tokens: torch.Tensor, src_lengths: torch.Tensor, prev_output_tokens: torch.Tensor
    ) -> torch.Tensor:
        source = self.tokens(src_tokens).sum(1) / src_lengths[:, None]
        return self.out(torch.tanh(source[:, None] + self.tokens(prev_output_tokens)))


def epochs_of(
    dictionary: Dictionary, source: str, target: str, *, max_tokens: int = 256
) -> EpochBatchIterator:
    """Return fairseq's iterator over a pair of files."""
    sides = []
    for path in (source, target):
        ids = data_utils.load_indexed_dataset(path, dictionary)
        sides += [ids, ids.sizes, dictionary]
    pairs = LanguagePairDataset(*sides)
    with data_utils.numpy_seed(
        1
    ):  # as in fairseq-train: the order draws from NumPy's global generator
        order = pairs.ordered_indices()
    batches = data_utils.batch_by_size(order, pairs.num_tokens, max_tokens=max_tokens)
    return EpochBatchIterator(pairs, collate_fn=pairs.collater, batch_sampler=batches, seed=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dictionary", help="the list of volt export --to fairseq")
    parser.add_argument("source", help="prefix of the .bin and .idx of volt binarize")
    parser.add_argument("target", help="prefix of the other side")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save", required=True, help="the checkpoint to write after the last step")
    parser.add_argument("--resume", help="a checkpoint")
    args = parser.parse_args()

    torch.manual_seed(1)
    dictionary = Dictionary.load(args.dictionary)
    epochs = epochs_of(dictionary, args.source, args.target)
    model = SmallModel(len(dictionary), dictionary.pad())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        epochs.load_state_dict(saved["epochs"])
        step = saved["step"]

    while step < args.steps:
        for batch in epochs.next_epoch_itr():
            logits = model(**batch["net_input"])
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), batch["target"].flatten(), ignore_index=dictionary.pad()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == args.steps:
                break
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "epochs": epochs.state_dict(), "step": step}, args.save)
    print(f"{step} steps, loss {loss:.3f}")


if __name__ == "__main__":
    main()
