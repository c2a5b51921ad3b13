"""Every command reads every kind of input as the same texts in a plain file, or refuses it.

A cell of the matrix is a command and an input: a file, or a table with the option that names its
texts. The command's result must equal the result of the plain file. A table without an option must
be refused, or warned of, in a message that names the option.
"""

import gzip
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from support.commands import Done, status_of
from support.web_servers import web_server

import volt
from volt.comparison import NamedText

STEMS = ("walk", "talk", "jump", "sing", "ring", "long", "kalt", "größt")
ENDS = ("", "s", "ed", "er", "est", "ing")
TEXTS = [
    " ".join(STEMS[(n + k * k) % 8] + ENDS[(n * k + k) % 6] for k in range(18)) for n in range(160)
]
PIECES = "pieces/"  # the folder whose files contain pieces instead of texts
COMMANDS = {}  # name → function: run, arguments for the input → result


@dataclass(frozen=True)
class Input:
    """An input of a command.

    file: the argument that names it
    options: its options
    stdin: the file that stdin reads
    says: what a message must contain; if empty, the input is read
    """

    file: str
    options: tuple[str, ...] = ()
    stdin: str = ""
    says: str = ""

    @property
    def column(self):
        return dict(zip(self.options, self.options[1:], strict=False)).get("--column", "")


def column(file, path):
    return Input(file, ("--column", path))


INPUTS = {
    "plain": Input("plain.txt"),
    "gz": Input("plain.txt.gz"),
    "tsv": Input("two.tsv", ("--fields", "2")),
    "tsv with a header": column("head.tsv", "text"),
    "csv": column("head.csv", "text"),
    "jsonl": column("flat.jsonl", "text"),
    "jsonl.gz": column("flat.jsonl.gz", "text"),
    "nested jsonl": column("nested.jsonl", "content.body.text"),
    "chats": column("chats.jsonl", "messages[].content"),
    "parquet": column("all.parquet", "text"),
    "large string": column("all.parquet", "large"),
    "dictionary": column("all.parquet", "dictionary"),
    "struct": column("all.parquet", "content.text"),
    "list": column("lists.parquet", "texts[]"),
    "nulls, skipped": Input("nulls.parquet", ("--column", "text", "--encoding-errors", "skip")),
    "arrow": column("all.arrow", "text"),
    "url": Input("URL/plain.txt"),
    "url of jsonl": column("URL/flat.jsonl", "text"),
    "stdin": Input("-", stdin="plain.txt"),
    "stdin of jsonl": Input("-", ("--column", "text"), stdin="flat.jsonl"),
    # Without an option, or with the wrong one
    "nulls": Input("nulls.parquet", ("--column", "text"), says="--encoding-errors skip"),
    "tsv, no option": Input("two.tsv", says="--fields"),
    "csv, no option": Input("head.csv", says="--fields"),
    "jsonl, no option": Input("flat.jsonl", says="--column text"),
    "jsonl.gz, no option": Input("flat.jsonl.gz", says="--column text"),
    "nested jsonl, no option": Input("nested.jsonl", says="--column content.body.text"),
    "url of jsonl, no option": Input("URL/flat.jsonl", says="--column text"),
    "stdin of jsonl, no option": Input("-", says="--column", stdin="flat.jsonl"),
    "stdin of csv, no option": Input("-", says="--fields", stdin="head.csv"),
    "stdin of tsv, no option": Input("-", says="--fields", stdin="two.tsv"),
    "parquet, no option": Input("all.parquet", says="--column"),
    "arrow, no option": Input("all.arrow", says="--column"),
    "another column": Input("flat.jsonl", ("--column", "txt"), says="'text'"),
    "not a table": Input("plain.txt", ("--column", "text"), says="remove --column"),
}


def write_inputs(folder, texts):
    """Write each kind of file with the texts."""
    folder.mkdir()
    pairs = [*zip(texts[::2], texts[1::2], strict=True)]
    plain = "".join(f"{text}\n" for text in texts).encode()
    rows = [f"{n}\t{text}\n" for n, text in enumerate(texts)]
    flat = [{"id": n, "text": text} for n, text in enumerate(texts)]
    nested = [{"id": n, "content": {"body": {"text": text}}} for n, text in enumerate(texts)]
    chats = [
        {"messages": [{"role": "user", "content": a}, {"role": "model", "content": b}]}
        for a, b in pairs
    ]
    files = {
        "plain.txt": plain,
        "two.tsv": "".join(rows).encode(),
        "head.tsv": "".join(["id\ttext\n", *rows]).encode(),
        "head.csv": "".join(
            ["id,text\n", *(f'{n},"{text}"\n' for n, text in enumerate(texts))]
        ).encode(),
    }
    for name, records in (("flat", flat), ("nested", nested), ("chats", chats)):
        files[f"{name}.jsonl"] = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    for name in ("plain.txt", "flat.jsonl"):
        files[f"{name}.gz"] = gzip.compress(files[name])
    for name, content in files.items():
        (folder / name).write_bytes(content)
    strings = pa.array(texts)
    table = pa.table(
        {
            "text": strings,
            "large": strings.cast(pa.large_string()),
            "dictionary": strings.dictionary_encode(),
            "content": pa.array([{"text": text} for text in texts]),
        }
    )
    parquet.write_table(table, folder / "all.parquet", row_group_size=50)
    feather.write_feather(table, folder / "all.arrow", compression="uncompressed")
    parquet.write_table(
        pa.table({"texts": [list(pair) for pair in pairs]}), folder / "lists.parquet"
    )
    with_nulls = [*texts[:9], None, *texts[9:]]
    parquet.write_table(pa.table({"text": with_nulls}), folder / "nulls.parquet")
    return files


@dataclass
class Place:
    """The folder with all inputs, and the results of the plain file by command."""

    folder: Path
    url: str
    results: dict = field(default_factory=dict)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write the inputs as texts and as pieces, and a model; serve them from a web server."""
    folder = tmp_path_factory.mktemp("inputs")
    candidates = volt.learn_bpe(volt.count_words(texts=TEXTS), n_merges=40)
    model = volt.search(candidates, sizes=[60], select=60).vocabulary
    model.save(folder / "model.volt")
    encoder = volt.Encoder(model)
    files = write_inputs(folder / "texts", TEXTS)
    written = {f"/texts/{name}": content for name, content in files.items()}
    files = write_inputs(folder / "pieces", [" ".join(encoder.encode(text)) for text in TEXTS])
    written |= {f"/pieces/{name}": content for name, content in files.items()}
    with web_server(files=written) as web:
        yield Place(folder, web.url)


@pytest.fixture
def run(place, tmp_path, monkeypatch, capfdbinary):
    """Return a function that runs a command in an empty folder, and returns its status and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "1000")

    def run_volt(*arguments, stdin=b""):
        status = status_of(arguments, stdin=stdin)
        return status, Done(*capfdbinary.readouterr())

    return run_volt


def command(function):
    """Add a command to the matrix. function: Place, Input's arguments → arguments, and the result"""
    COMMANDS[function.__name__] = function
    return function


@command
def search(place, texts):
    arguments = ("search", *texts, "--candidates", "40", "--select", "fixed:60", "-o", "a.volt")
    return arguments, lambda stdout: volt.Vocabulary.load("a.volt").fingerprint


@command
def shrink(place, texts):
    model = place.folder / "model.volt"
    arguments = ("shrink", model, "--to", "50", "--on", *texts, "-o", "b.volt")
    return arguments, lambda stdout: volt.Vocabulary.load("b.volt").fingerprint


@command
def encode(place, texts):
    arguments = ("encode", "-m", place.folder / "model.volt", *texts)
    return arguments, lambda stdout: re.sub(rb"(?m)^\d+\t", b"", stdout)  # --fields keeps others


@command
def decode(place, texts):
    """With --fields, the output is a table, whose first field is a number."""
    return (
        ("decode", "-m", place.folder / "model.volt", *texts),
        lambda stdout: re.sub(rb"(?m)^[0-9]+\t", b"", stdout),
    )


@command
def binarize(place, texts):
    arguments = ("binarize", "-m", place.folder / "model.volt", *texts, "-o", "ids")
    return arguments, lambda stdout: Path("ids.bin").read_bytes()


@command
def compare(place, texts):
    arguments = ("compare", *texts, "--with", "bpe:60", "--candidates", "40", "--json")

    def facts(stdout):
        corpus = json.loads(stdout)["corpus"]
        return corpus["fingerprint"], corpus["characters"]

    return arguments, facts


@command
def trial(place, texts):
    arguments = ("trial", *texts, "--hours", "1", "-o", "trial", "--device", "cpu")
    return arguments, lambda stdout: Path("trial/train.txt").read_bytes()


@pytest.fixture
def trains_nothing(monkeypatch):
    """Let a trial end after it wrote the texts."""
    pytest.importorskip("torch", reason="trials need torch")

    def end(*_, **__):
        raise SystemExit(0)

    monkeypatch.setattr("volt.trial.running._run_trial", end)


@pytest.mark.filterwarnings("always::volt.errors.VoltWarning")
@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_an_input_is_read_or_refused(name, given, place, run, request):
    """The result equals the plain file's, or a message names the remedy."""
    if name == "trial":
        request.getfixturevalue("trains_nothing")
    kind = "pieces" if name == "decode" else "texts"

    def arguments_of(source):
        base = place.url if source.file.startswith("URL/") else str(place.folder)
        file = source.file
        if file != "-":
            file = f"{base}/{kind}/{file.removeprefix('URL/')}"
        return COMMANDS[name](place, (file, *source.options))

    if name not in place.results:
        arguments, result = arguments_of(INPUTS["plain"])
        status, done = run(*arguments)
        assert status == 0, done.message
        place.results[name] = result(done.stdout)

    source = INPUTS[given]
    stdin = b""
    if source.stdin:
        stdin = (place.folder / kind / source.stdin).read_bytes()
    arguments, result = arguments_of(source)
    status, done = run(*arguments, stdin=stdin)
    if source.says:
        assert status or "warning" in done.message
        assert source.says in done.message
        return
    assert status == 0, done.message
    assert "warning" not in done.message
    assert result(done.stdout) == place.results[name]


# Inputs of which a stream yields other lines, and inputs that it refuses with other messages
WITH_NUMBERS = [f"{n}\t{text}" for n, text in enumerate(TEXTS)]
WITH_NULLS = [*TEXTS[:9], "", *TEXTS[9:]]
STREAM_LINES = {
    "tsv": WITH_NUMBERS,  # fields of a stream
    "tsv, no option": WITH_NUMBERS,
    "nulls": WITH_NULLS,
    "nulls, skipped": WITH_NULLS,
}
STREAM_REFUSALS = {
    "chats": "without []",
    "list": "without []",
    "stdin": "no such file; check the path",
    "stdin of jsonl, no option": "no such file; check the path",
    "stdin of csv, no option": "no such file; check the path",
    "stdin of tsv, no option": "no such file; check the path",
    "stdin of jsonl": "no such file; check the path",
    "another column": "'txt'",
    "not a table": "invalid JSON",
}


@pytest.mark.parametrize("given", INPUTS)
def test_a_stream_reads_or_refuses_an_input(given, place, run):
    """A stream yields the texts of a source in order, or a message names the remedy."""
    source = INPUTS[given]
    base = place.url if source.file.startswith("URL/") else str(place.folder)
    file = f"{base}/texts/{source.file.removeprefix('URL/')}"
    settings = {"path": file, "epochs": 1, "shuffle": "none"}
    if source.column:
        settings["columns"] = {"text": source.column}
    Path("stream.yaml").write_text(json.dumps({"sources": {"a": settings}}))
    status, done = run("stream", "run", "stream.yaml", "-q")
    refusal = STREAM_REFUSALS.get(given)
    if source.says and given not in STREAM_LINES:
        refusal = refusal or "columns: {src: NAME}"
    if refusal:
        assert status
        assert refusal in done.message
        return
    assert status == 0, done.message
    assert done.lines == STREAM_LINES.get(given, TEXTS)


def test_python_reads_texts_of_any_iterable():
    """Texts of a list, a generator, an array of NumPy or Arrow give equal counts, ids and models."""
    expected = volt.count_words(texts=TEXTS)
    for texts in (iter(TEXTS), (text for text in TEXTS), np.array(TEXTS, object), pa.array(TEXTS)):
        assert volt.count_words(texts=texts).fingerprint == expected.fingerprint
    assert volt.train(iter(TEXTS), size=60).fingerprint == volt.train(TEXTS, size=60).fingerprint
    assert NamedText("en", expected).characters.total() == sum(
        len(text.replace(" ", "")) for text in TEXTS
    )
