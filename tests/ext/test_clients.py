"""The clients in examples/: a run that stops and resumes from its checkpoint ends with the weights of an
uninterrupted run, bit for bit."""

import sys
from importlib.util import find_spec
from pydoc_data.topics import topics

import pytest
from support.commands import status_of
from support.places import ROOT
from support.programs import start

pytestmark = [pytest.mark.slow, pytest.mark.campaign]
TOKENS = 600  # more than any id
PACKED = """\
seed: 1
sources: {text: {path: corpus.txt, transforms: [skip_blank]}}
batches: {fields: {text: v.volt}, pack: {length: 64, rows: 4, on_long: split}, window: 500}
"""
PIECES = "sources: {train: {pair: {src: tasks/train.de, tgt: tasks/train.en}, transforms: [encode: joint.volt]}}"
COMMANDS = """
stream example batches -o steps
stream example tasks -o tasks
search corpus.txt --select fixed:500 -o v.volt
search en=tasks/train.en de=tasks/train.de --select fixed:100 -o joint.volt
binarize -m v.volt corpus.txt -o ids --dtype u16
binarize -m v.volt corpus.txt -o documents --documents line
binarize -m joint.volt tasks/train.de -o train.de-en.de
binarize -m joint.volt tasks/train.en -o train.de-en.en
export -m joint.volt --to fairseq -o dict.txt
export -m joint.volt --to tokens -o joint.txt
"""
# program → the library that it needs, and its arguments
CLIENTS = {
    "eole_trainer.py": ("eole", "pieces.yaml --vocabulary joint.txt"),
    "fairseq_reader.py": ("fairseq", "dict.txt train.de-en.de train.de-en.en"),
    "joeynmt_model.py": ("joeynmt", "pieces.yaml --vocabulary joint.txt"),
    "megatron_dataset.py": ("megatron.core", f"documents --tokens {TOKENS}"),
    "nanochat_packing.py": ("torch", f"packed.yaml --tokens {TOKENS}"),
    "nanogpt_memmap.py": ("torch", f"ids.bin --tokens {TOKENS}"),
    "ray_train.py": ("ray.train", f"steps/stream.yaml --tokens {TOKENS} --workers 2"),
    "torchtitan_loader.py": ("torchtitan", f"packed.yaml --tokens {TOKENS}"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with texts, vocabularies, ids and configurations for all clients."""
    folder = tmp_path_factory.mktemp("clients")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "corpus.txt").write_text("\n".join(topics.values())[:200_000], encoding="utf-8")
        for command in COMMANDS.split("\n")[1:-1]:
            assert status_of(command.split()) == 0
    tokens = [line for line in (folder / "joint.txt").read_text().split("\n") if line[:1] != "<"]
    (folder / "joint.txt").write_text("\n".join(["<unk>", "<pad>", "<s>", "</s>", *tokens]))
    (folder / "packed.yaml").write_text(PACKED)
    (folder / "pieces.yaml").write_text(PIECES)
    return folder


@pytest.mark.parametrize("name", CLIENTS)
def test_a_resumed_client_has_the_weights_of_an_uninterrupted_run(folder, name):
    """After 9 steps, weights are equal whether a run stopped after step 5 or not, and differ from
    those after step 5."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    library, arguments = CLIENTS[name]
    if find_spec(library.split(".")[0]) is None or find_spec(library) is None:
        pytest.skip(f"{library} is not installed; see `make clients`")

    def run(steps, *options):
        saved = folder / f"{name}-{len(options)}-{steps}.pt"
        words = [*arguments.split(), "--steps", str(steps), "--save", str(saved), *options]
        start(sys.executable, ROOT / "examples" / name, *words, folder=folder)
        return saved, torch.load(saved)["model"]

    half, weights_of_half = run(5)
    _, whole = run(9)
    _, resumed = run(9, "--resume", str(half))
    assert whole.keys() == resumed.keys()
    assert [key for key in whole if not torch.equal(whole[key], resumed[key])] == []
    assert any(not torch.equal(whole[key], weights_of_half[key]) for key in whole)
