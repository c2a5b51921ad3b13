"""Train JoeyNMT's model on a stream of VOLT, and continue exactly from a checkpoint.

    pip install 'volt-vocab[torch]' joeynmt
    python joeynmt_model.py joey.yaml --vocabulary joint.txt --steps 20 --save half.pt
    python joeynmt_model.py joey.yaml --vocabulary joint.txt --steps 40 --resume half.pt --save whole.pt

joint.txt is JoeyNMT's voc_file, from which JoeyNMT takes the same ids. Write it, and joey.yaml:

    (printf '<unk>\\n<pad>\\n<s>\\n</s>\\n'; volt export -m joint.volt --to tokens -o - | grep -v '^<') > joint.txt

    sources: {train: {pair: {src: train.de, tgt: train.en}, transforms: [encode: joint.volt]}}

JoeyNMT's own trainer saves the state of its sampler's generator, but not the position in the epoch. A stream continues
with the next batch; for dropout, the state of torch's generator is saved, too. After 40 steps, the weights
are the same bit for bit as without the interruption.
"""

import argparse
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
from joeynmt.model import Model, build_model
from joeynmt.vocabulary import Vocabulary

from volt.batches import ByTokens, Layout, SampleFormat, Steps
from volt.ext.torch import StreamDataset
from volt.stream import Stream


def steps_of(config: str, tokens: list[str], *, rank: int, world: int) -> Steps:
    """Return batches of pieces that are numbered as in JoeyNMT, with padding on the right."""
    samples = SampleFormat({"src": tokens, "tgt": tokens})
    layout = Layout(left_pad_source=False)
    rule = ByTokens(max_tokens=256)
    return Steps(Stream.from_config(config), samples, rule, layout=layout, rank=rank, world=world)


def model_of(tokens: list[str], *, width: int = 16) -> Model:
    """Return JoeyNMT's Transformer for a voc_file that starts with <unk>, <pad>, <s>, </s>."""
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    ids = {"unk_id": 0, "pad_id": 1, "bos_id": 2, "eos_id": 3, "sep_id": None}
    special = SimpleNamespace(**names, **ids, sep_token=None, lang_tags=[])
    vocabulary = Vocabulary(tokens, special)
    side = {
        "type": "transformer",
        "num_layers": 1,
        "num_heads": 2,
        "hidden_size": width,
        "ff_size": width,
        "embeddings": {"embedding_dim": width},
    }
    model = build_model({"encoder": side, "decoder": side}, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)  # with label smoothing 0
    return model


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="YAML file with sources")
    parser.add_argument("--vocabulary", required=True, help="JoeyNMT's voc_file")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save", required=True, help="the checkpoint to write after the last step")
    parser.add_argument("--resume", help="a checkpoint")
    args = parser.parse_args()

    torch.manual_seed(1)
    tokens = Path(args.vocabulary).read_text(encoding="utf-8").splitlines()
    model = model_of(tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    dataset = StreamDataset(partial(steps_of, args.config, tokens))
    first = 0
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        dataset.load_state_dict(saved["stream"])
        torch.set_rng_state(saved["generator"])  # for dropout
        first = saved["step"]

    batches = iter(dataset)
    for _ in range(first, args.steps):
        batch = next(batches)
        net_input = batch["net_input"]
        shifted = net_input["prev_output_tokens"].clone()
        shifted[:, 0] = model.bos_index  # which JoeyNMT has where fairseq has eos
        loss, *_ = model(
            return_type="loss",
            src=net_input["src_tokens"],
            src_length=net_input["src_lengths"],
            src_mask=batch["src_mask"][:, None],
            trg_input=shifted,
            trg=batch["target"],
            trg_mask=batch["tgt_mask"][:, None],
        )
        loss = loss / batch["ntokens"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    state |= {"stream": dataset.state_dict(), "generator": torch.get_rng_state()}
    torch.save({**state, "step": args.steps}, args.save)
    print(f"{args.steps} steps, loss {loss:.3f}")


if __name__ == "__main__":
    main()
