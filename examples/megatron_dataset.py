"""Train a tiny language model on megatron-core's GPTDataset, and continue exactly from a checkpoint.

    pip install volt-vocab torch megatron-core
    volt search corpus.txt --select fixed:500 -o v.volt
    volt binarize -m v.volt corpus.txt -o train --documents line
    python megatron_dataset.py train --tokens 512 --steps 20 --save half.pt
    python megatron_dataset.py train --tokens 512 --steps 40 --resume half.pt --save whole.pt

`volt binarize --documents` writes the pair of files that Megatron's preprocess_data.py writes. GPTDataset shuffles
them, and joins documents to samples of a fixed length. Its order depends on the seed and on the number of samples, so
ask for the same number in each run (--samples), and resume at the number of samples already used, as Megatron does.
After 40 steps, the weights are the same bit for bit as without the interruption.
"""

import argparse
from types import SimpleNamespace

import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from torch import nn

BATCH = 4  # samples of a step


def dataset_of(prefix: str, *, n_samples: int, n_tokens: int, eos: int) -> GPTDataset:
    """Return samples of 32 ids. Positions start anew in each document."""
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=32,
        blend=([prefix], None),
        split="1,0,0",
        tokenizer=SimpleNamespace(eod=eos, pad=-1, vocab_size=n_tokens, unique_identifiers={}),
        reset_position_ids=True,
        reset_attention_mask=True,
        eod_mask_loss=False,
    )
    sizes = [n_samples, 0, 0]  # for training, validation and test
    [dataset, *_] = BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()
    return dataset


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefix", help="of the .bin and .idx of volt binarize --documents")
    parser.add_argument("--tokens", type=int, required=True, help="more than the largest id")
    parser.add_argument("--eos", type=int, default=2, help="the id that ends a document")
    parser.add_argument("--samples", type=int, default=1000, help="of the whole training")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save", required=True, help="the checkpoint to write after the last step")
    parser.add_argument("--resume", help="a checkpoint")
    args = parser.parse_args()

    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(args.tokens, 16), nn.Linear(16, args.tokens))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = 0
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]

    dataset = dataset_of(args.prefix, n_samples=args.samples, n_tokens=args.tokens, eos=args.eos)
    for step in range(first, args.steps):
        samples = [dataset[index] for index in range(step * BATCH, (step + 1) * BATCH)]
        tokens = torch.stack([sample["tokens"] for sample in samples])
        labels = torch.stack([sample["labels"] for sample in samples])
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": args.steps},
        args.save,
    )
    print(f"{args.steps} steps, loss {loss:.3f}")


if __name__ == "__main__":
    main()
