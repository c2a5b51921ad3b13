"""Train an eole model with eole's trainer on a stream of VOLT, and continue exactly from a checkpoint.

    pip install 'volt-vocab[torch]' eole
    python eole_trainer.py pieces.yaml --vocabulary joint.txt --steps 20 --save half.pt
    python eole_trainer.py pieces.yaml --vocabulary joint.txt --steps 40 --resume half.pt --save whole.pt

joint.txt is eole's src_vocab and tgt_vocab, one token a line, from which eole takes the same ids. Write it, and pieces.yaml:

    (printf '<unk>\\n<pad>\\n<s>\\n</s>\\n'; volt export -m joint.volt --to tokens -o - | grep -v '^<') > joint.txt

    sources: {train: {pair: {src: train.de, tgt: train.en}, transforms: [encode: joint.volt]}}

eole starts its corpora anew when training continues. A stream continues with the next batch; for dropout, the state of
torch's generator is saved, too. After 40 steps, the weights are the same bit for bit as without the interruption.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from eole.config.run import TrainConfig
from eole.inputters.inputter import build_vocab
from eole.models.model import get_model_class
from eole.trainer import build_trainer
from eole.utils.optimizers import Optimizer

from volt.batches import ByTokens, Layout, SampleFormat, Steps
from volt.ext.torch import StreamDataset
from volt.stream import Stream

SMALL = {"layers": 1, "heads": 2, "hidden_size": 16, "embeddings": {"word_vec_size": 16}}


def steps_of(config: str, tokens: list[str], *, rank: int, world: int) -> Steps:
    """Return batches of pieces that are numbered as in eole, with padding on the right."""
    samples = SampleFormat({"src": tokens, "tgt": tokens})
    layout = Layout(left_pad_source=False)
    rule = ByTokens(max_tokens=256)
    return Steps(Stream.from_config(config), samples, rule, layout=layout, rank=rank, world=world)


def batches_of(dataset: StreamDataset, bos: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield batches as eole's trainer reads them, and their numbers."""
    for number, batch in enumerate(dataset):
        target = batch["target"]
        tensors = {
            "src": batch["net_input"]["src_tokens"],
            "srclen": batch["net_input"]["src_lengths"],
            "tgt": torch.nn.functional.pad(target, (1, 0), value=bos),
        }
        unused = {"images": None, "prefix_len": None, "left_pad": False}
        lines = {"cid": ["train"] * len(target), "cid_line_number": batch["id"].tolist()}
        yield tensors | unused | lines, number


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="YAML file with sources")
    parser.add_argument("--vocabulary", required=True, help="eole's src_vocab and tgt_vocab")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save", required=True, help="the checkpoint to write after the last step")
    parser.add_argument("--resume", help="a checkpoint")
    args = parser.parse_args()

    torch.manual_seed(1)
    config = TrainConfig(
        src_vocab=args.vocabulary,
        tgt_vocab=args.vocabulary,
        share_vocab=True,
        pad_token="<pad>",
        data={},
        model={"architecture": "transformer", **SMALL},
        training={"optim": "adam", "learning_rate": 0.01, "gpu_ranks": [], "world_size": 0},
    )
    vocabs = build_vocab(config, {"src": [], "tgt": []})
    build = get_model_class(config.model).for_training
    model = build(config.model, vocabs, config.training, device_id=-1)
    optimizer = Optimizer.from_config(model, config)
    trainer = build_trainer(config, -1, model, vocabs, optimizer)
    tokens = Path(args.vocabulary).read_text(encoding="utf-8").splitlines()
    dataset = StreamDataset(partial(steps_of, args.config, tokens))
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        dataset.load_state_dict(saved["stream"])
        torch.set_rng_state(saved["generator"])  # for dropout

    trainer.train(batches_of(dataset, tokens.index("<s>")), args.steps)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    state |= {"stream": dataset.state_dict(), "generator": torch.get_rng_state()}
    torch.save(state, args.save)
    print(f"{args.steps} steps")


if __name__ == "__main__":
    main()
