"""The commands under test: their arguments, what they read, what they write, and what of that may differ between runs.

>>> CASES["encode-npy"].outputs
('out.npy', 'out.offsets.npy')
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.faults.stage import FORMATS, exporting, model_for

STDOUT = "stdout"  # the file that stdout goes to


@dataclass(frozen=True, slots=True)
class Case:
    """A command.

    inputs: files and folders that it reads, which must stay as they are.
    outputs: files that it writes, each of which appears whole or not at all.
    volatile: those whose bytes differ between runs, because they hold seconds; they must be there or not.
    old: outputs that are there before in half of the cases.
    grows: whether what stands on stdout counts as an output, of which a failed run may leave a beginning.
    """

    name: str
    command: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    grows: bool = False

    @property
    def argv(self) -> list[str]:
        """The arguments of `volt`."""
        return self.command.split()

    @property
    def old(self) -> tuple[str, ...]:
        """Outputs that may be there before."""
        return self.outputs


def _cases() -> list[Case]:
    text, packed, model = "corpus.txt", "corpus.txt.gz", "model.volt"
    return [
        Case("search", "search corpus.txt -q -o out.volt", (text,), ("out.volt",)),
        Case("search-gz", "search corpus.txt.gz -q --candidates 200 -o out.volt", ("corpus.txt.gz",), ("out.volt",)),
        Case("search-codes", "search corpus.txt -q --candidates subword-nmt.export -o out.volt",
             (text, "subword-nmt.export"), ("out.volt",)),
        Case("search-stdout", "search corpus.txt -q -o -", (text,), grows=True),
        Case("encode", "encode -m model.volt -q corpus.txt", (text, model), grows=True),
        Case("encode-file", "encode -m model.volt -q corpus.txt.gz -o out.pieces", (packed, model), ("out.pieces",)),
        Case("encode-npy", "encode -m model.volt -q --form npy corpus.txt -o out.npy", (text, model),
             ("out.npy", "out.offsets.npy")),
        Case("encode-bin", "encode -m model.volt -q --form bin corpus.txt heldout.txt -o out.bin",
             (text, "heldout.txt", model), ("out.bin", "out.offsets.npy")),
        Case("encode-folder", "encode -m model.volt -q --form npy heldout.txt corpus.txt.gz -o out/",
             (packed, "heldout.txt", model),
             ("out/corpus.txt.npy", "out/corpus.txt.offsets.npy", "out/heldout.txt.npy", "out/heldout.txt.offsets.npy",
              "out/.volt-encoded.json")),
        Case("decode", "decode -m model.volt heldout.pieces -o out.txt", ("heldout.pieces", model), ("out.txt",)),
        Case("decode-ids", "decode -m model.volt --form ids heldout.ids", ("heldout.ids", model), grows=True),
        *(_export(name) for name in FORMATS),
        *(_import(name) for name in FORMATS),
        Case("compare", "compare corpus.txt --heldout heldout.txt --with bpe:300 -q -o out.html --markdown out.md",
             (text, "heldout.txt"), volatile=("out.html", "out.md")),
        Case("compare-json", "compare corpus.txt --with bpe:300 --json", (text,), volatile=(STDOUT,), grows=True),
        Case("stream",
             "stream run stream.yaml --limit 400 --state state.json --state-every 50 --summary summary.json --force",
             ("stream.yaml", "one.tsv", "two.tsv.gz", model), ("state.json",), ("summary.json",), grows=True),
        Case("stream-trace", "stream trace stream.yaml 42 --json", ("stream.yaml", "one.tsv", "two.tsv.gz", model),
             grows=True),
        Case("inspect", "inspect -m model.volt babanu", (model,), grows=True),
    ]  # fmt: skip


def _export(format: str) -> Case:
    outputs = {
        "subword-nmt": ("out", "out.vocab"),
        "sentencepiece": ("out.model", "out.vocab"),
        "huggingface": (),
    }.get(format, ("out",))
    model = model_for(format)
    return Case(f"export-{format}", f"{exporting(format)} -o out", (model,), outputs)


def _import(format: str) -> Case:
    name = f"{format}.export"
    source = {"sentencepiece": f"{name}.model"}.get(format, name)
    merges = "" if format in ("subword-nmt", "sentencepiece", "huggingface", "tiktoken") else " --merges model.volt"
    inputs = (source, "model.volt") if merges else (source,)
    command = f"import {source} --from {format}{merges} -q -o out.volt"
    return Case(f"import-{format}", command, inputs, ("out.volt",))


CASES = {case.name: case for case in _cases()}
