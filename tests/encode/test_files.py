"""Laws of encoded files: they have the lines of `encode_text`, are written whole, and only if something changed."""

import cProfile
import gzip
import io
import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.texts_to_encode import LINES, write_texts
from support.writers import check_answers, writing

from volt.encode.binarize import binarize, binarize_each
from volt.encode.encoder import Encoder
from volt.encode.files import (
    EncodeJob,
    encode_each,
    encode_one,
    encode_stream,
    name_outputs,
    output_files,
)
from volt.encode.frames import Frame
from volt.encode.outputs import write_header
from volt.errors import ConfigError, CorpusError, OutputError
from volt.files.paths import expand
from volt.vocabulary import Vocabulary

TOKENS = ("l", "o", "w", "w</w>", "low</w>", "lo", "e")
ENCODER = Encoder(Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=TOKENS))
PRUNED = Encoder(Vocabulary(merges=(), tokens=("l", "o")))
MANIFEST = ".volt-encoded.json"
N = len(LINES)


@pytest.fixture
def files(tmp_path):
    """Return three files: plain, empty, and compressed without a last line end."""
    return write_texts(tmp_path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def each(encoder, files, out, **options):
    return list(encode_each(encoder, files, out, job=EncodeJob(**options)))


def written(encoder, files, out, **options):
    """Encode each file, and return its number of lines, None if its output was up to date."""
    return [outcome.n_lines for outcome in each(encoder, files, out, **options)]


def text_of(lines):
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("form", ["pieces", "ids"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_stream_has_the_lines_of_all_files(files, form, n_threads):
    """`encode_stream` yields the lines of all files, in order, as `encode_text` encodes them."""
    stream = b"".join(encode_stream(ENCODER, files, job=EncodeJob(form, n_threads=n_threads)))
    assert stream == ENCODER.encode_text(text_of(LINES + LINES[:3]), form=form)


def test_dropout_numbers_the_lines_of_an_output(files, tmp_path, out):
    """With dropout, line i of a stream, a file, an array or a pair draws from (seed, i)."""
    drops = {"dropout": 0.5, "seed": 3}
    job = EncodeJob(**drops)
    arrays = EncodeJob("bin", **drops)
    whole = LINES + LINES[:3]
    expected = ENCODER.encode_text(text_of(whole), **drops)
    assert b"".join(encode_stream(ENCODER, files, job=job)) == expected
    encode_one(ENCODER, files, tmp_path / "all", job=job)
    assert (tmp_path / "all").read_bytes() == expected
    last = each(ENCODER, files, out, **drops)[2]
    assert last.output.read_bytes() == ENCODER.encode_text(text_of(LINES[:3]), **drops)

    list(encode_each(ENCODER, files, out, job=arrays))
    binarize(ENCODER, files, tmp_path / "all", frame=Frame(), job=arrays)
    list(binarize_each(ENCODER, files, tmp_path / "pairs", frame=Frame(), job=arrays))
    for path, dtype, lines in (
        (out / "c.txt.bin", "<i4", LINES[:3]),
        (tmp_path / "all.bin", "<u2", whole),
        (tmp_path / "pairs/c.txt.bin", "<u2", LINES[:3]),
    ):
        assert (
            np.fromfile(path, dtype).tolist() == ENCODER.encode_batch(lines, **drops).ids.tolist()
        )


@pytest.mark.parametrize("errors", ["strict", "replace", "skip"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_an_output_has_the_lines_of_its_own_file(tmp_path, errors, dropout):
    """`encode_each` and `binarize_each` give each file its own lines, even if chunks of text are
    empty.

    A byte order mark alone, or a megabyte of skipped lines, gives an empty chunk.
    """
    texts = {
        "a": b"\xef\xbb\xbf",
        "b.gz": gzip.compress(b"\xef\xbb\xbf"),
        "c": b"low\n",
        "f": b"lo\nw",
    }
    if errors == "skip":
        texts |= {"d": b"\xff\n", "e": b"low\n" + b"\xff low low\n" * 250_000 + b"low\n"}
    paths = [str(tmp_path / name) for name in sorted(texts)]
    for path in paths:
        Path(path).write_bytes(texts[Path(path).name])
    job = EncodeJob(errors=errors, dropout=dropout, seed=1)
    outcomes = encode_each(ENCODER, paths, tmp_path / "all", job=job)
    pairs = binarize_each(ENCODER, paths, tmp_path / "ids", frame=Frame(), job=job)
    for path, outcome, pair in zip(paths, outcomes, pairs, strict=True):
        alone = b"".join(encode_stream(ENCODER, [path], job=job))
        assert outcome.output.read_bytes() == alone
        assert outcome.n_lines == pair.n_lines == alone.count(b"\n")


@pytest.mark.parametrize("way", [encode_stream, encode_one, encode_each, binarize, binarize_each])
def test_each_way_passes_its_options(way, files, out):
    """Each function that encodes files reports the bytes of text to `progress`, and obeys `errors`
    and `max_line`.
    """
    is_stream = way is encode_stream
    output = [] if is_stream else [out]

    def run(paths, **options):
        progress = []
        job = EncodeJob("ids" if is_stream else "bin", **options)
        result = way(ENCODER, paths, *output, job=job, progress=progress.append)
        deque(result if isinstance(result, Iterator) else (), maxlen=0)
        return progress

    n_bytes = len(text_of(LINES))
    last = n_bytes + len(text_of(LINES[:3])) - 1
    progress = run(files)
    assert progress == sorted(progress)
    assert {n_bytes, last} <= {*progress}
    bad = files[0] + "bad"
    Path(bad).write_bytes(b"low\n\xff\nlow low\n")
    with pytest.raises(CorpusError, match=r"bad:2: invalid UTF-8"):
        run([bad])
    with pytest.raises(CorpusError, match=r"bad:3: "):
        run([bad], max_line=3, errors="skip")
    assert run([bad], errors="skip", max_line=7)[-1] == 12
    assert run([bad], errors="replace", max_line=7)[-1] == 16


@pytest.mark.parametrize("form", ["npy", "bin"])
def test_arrays_hold_ids_and_offsets(files, tmp_path, out, form):
    """`encode_one` and `encode_each` write the ids and offsets of `encode_batch` as arrays in two
    files.
    """

    def read(path):
        ids = np.load(path, mmap_mode="r") if form == "npy" else np.fromfile(path, "<i4")
        offsets = np.load(path.with_name(f"{path.name}.offsets.npy"))
        return [ids.tolist(), offsets.tolist()]

    job = EncodeJob(form)
    outcomes = list(encode_each(ENCODER, files, out, job=job))
    n_lines = encode_one(ENCODER, files, tmp_path / "all", job=job)
    results = [(outcome.output, outcome.n_lines) for outcome in outcomes]
    for (path, n), lines in zip(
        [*results, (tmp_path / "all", n_lines)],
        (LINES, [], LINES[:3], LINES + LINES[:3]),
        strict=True,
    ):
        encoded = ENCODER.encode_batch(lines)
        assert read(path) == [encoded.ids.tolist(), encoded.offsets.tolist()]
        assert n == len(lines)


def test_outputs_are_named_after_their_files():
    """An output has the name of its file, without the ending of compression; `output_files` lists
    all files written.
    """
    files = output_files(["a.txt.gz"], Path("out"), job=EncodeJob("npy"), each=True)
    assert [path.name for path in files] == ["a.txt.npy", "a.txt.npy.offsets.npy", MANIFEST]
    for packed in ("", ".gz", ".bz2", ".zst", ".xz"):
        assert name_outputs([f"x.txt{packed}"], Path("o"), ".ids").popitem()[1] == Path(
            "o/x.txt.ids"
        )
    assert name_outputs(["x.lz"], Path("o"), ".ids") == {"x.lz": Path("o/x.lz.ids")}
    with pytest.raises(ConfigError, match="has the same output"):
        name_outputs(["x.gz", "x.xz"], Path("o"), "")


def test_only_outdated_outputs_are_written(files, out):
    """`encode_each` rewrites only outputs whose input, option, vocabulary or own content has
    changed.
    """
    assert written(ENCODER, files, out) == [N, 0, 3]
    assert written(ENCODER, files, out) == [None] * 3
    Path(files[1]).write_text("low\n")
    assert written(ENCODER, files, out) == [None, None, 1]  # up-to-date outputs come first
    (out / "a.txt.pieces").write_text("cut")
    assert written(ENCODER, files, out) == [None, None, N]
    equal = Encoder(ENCODER.vocabulary.closed())  # it was closed before
    assert written(equal, files, out) == [None] * 3
    assert written(PRUNED, files, out) == [N, 1, 3]
    assert written(PRUNED, files, out, separator="@@") == [N, 1, 3]


@pytest.mark.parametrize("form", ["npy", "bin"])
def test_an_output_without_its_offsets_is_written_again(files, out, form):
    """If the offsets of an array are missing or have changed, `encode_each` writes this array and
    its offsets again.
    """
    written(ENCODER, files, out, form=form)
    before = {path.name: path.read_bytes() for path in out.glob("*.npy")}
    last = out / f"c.txt.{form}.offsets.npy"
    (out / f"a.txt.{form}.offsets.npy").unlink()
    last.write_bytes(b"cut")
    assert written(ENCODER, files, out, form=form) == [None, N, 3]
    last.write_bytes(before[last.name].replace(b"\0", b"\1"))
    assert written(ENCODER, files, out, form=form) == [None, None, 3]
    assert {path.name: path.read_bytes() for path in out.glob("*.npy")} == before


def test_an_interrupted_run_claims_only_complete_outputs(files, out):
    """If `encode_each` is interrupted, its manifest marks only complete outputs as complete."""
    written(ENCODER, files, out, form="npy")
    run = encode_each(PRUNED, files, out, job=EncodeJob("npy"))
    next(run)
    offsets = out / "b.txt.npy.offsets.npy"
    offsets.write_bytes(offsets.read_bytes())  # of the size before
    run.close()
    manifest = json.loads((out / MANIFEST).read_bytes())
    assert {name for name, origin in manifest.items() if "files" in origin} == {"a.txt.npy"}
    assert written(ENCODER, files, out, form="npy") == [N, 0, 3]


def test_an_output_is_never_an_input(files, tmp_path, out):
    """An output, or its offsets, that is a link to an input is refused, and the input does not
    change.
    """
    out.mkdir()
    (tmp_path / "twin").hardlink_to(files[0])
    (out / "a.txt.npy.offsets.npy").symlink_to(files[0])
    (tmp_path / "ids.npy.offsets.npy").hardlink_to(files[0])
    before = Path(files[0]).read_bytes()
    arrays = EncodeJob("npy")
    for call in (
        lambda: encode_one(ENCODER, files, tmp_path / "twin", job=EncodeJob()),
        lambda: encode_one(ENCODER, files, tmp_path / "ids.npy", job=arrays),
        lambda: list(encode_each(ENCODER, files, out, job=arrays)),
    ):
        with pytest.raises(ConfigError, match="which is read"):
            call()
    assert Path(files[0]).read_bytes() == before
    assert written(ENCODER, files, out) == [N, 0, 3]


def test_an_error_leaves_only_complete_outputs(files, out):
    """After an invalid file, the outputs before it are complete and are not rewritten; the file
    itself has no output.
    """
    Path(files[1]).write_bytes(b"low\n\xff\n")
    with pytest.raises(CorpusError, match=r"b\.txt:2: invalid UTF-8"):
        each(ENCODER, files, out)
    assert sorted(path.name for path in out.iterdir()) == [MANIFEST, "a.txt.pieces"]
    Path(files[1]).write_bytes(b"low\n")
    assert written(ENCODER, files, out) == [None, 1, 3]


def test_outputs_that_cannot_be_written_are_refused(files, tmp_path, out):
    """Outputs with one name, a folder that cannot be created, arrays in a stream and invalid
    options are refused.
    """
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.txt").write_text("low")
    with pytest.raises(ConfigError, match="has the same output"):
        each(ENCODER, [*files, str(tmp_path / "d/a.txt")], out)
    with pytest.raises(OutputError, match="cannot be created"):
        each(ENCODER, files, tmp_path / "a.txt" / "out")
    with pytest.raises(ConfigError, match="cannot go to a stream"):
        next(encode_stream(ENCODER, files, job=EncodeJob("npy")))
    wrong = [{"form": "json"}, {"n_threads": 0}, {"dropout": 2.0}]
    for options in [*wrong, {"form": "ids", "separator": "@@"}]:
        with pytest.raises(ConfigError):
            EncodeJob(**options)


@pytest.mark.parametrize("form", ["pieces", "npy"])
def test_a_folder_can_be_encoded_into_itself(files, tmp_path, form):
    """If a folder is encoded into itself, outputs of earlier runs are not inputs, and other files
    are.
    """
    assert written(ENCODER, files, tmp_path, form="ids") == [N, 0, 3]
    run = encode_each(ENCODER, expand(tmp_path), tmp_path, job=EncodeJob(form))
    next(run)
    run.close()
    (tmp_path / "a.txt.ids").write_bytes(b"\xff")  # as a kill between two renames may leave it
    assert written(ENCODER, expand(tmp_path), tmp_path, form=form) == [None, 0, 3]
    assert written(ENCODER, expand(tmp_path), tmp_path, form=form) == [None] * 3
    (tmp_path / "mine.txt.ids").write_text("low\n")
    assert written(ENCODER, expand(tmp_path), tmp_path, form=form) == [None] * 3 + [1]
    (tmp_path / "d").mkdir()
    own = tmp_path / "d/c.txt.ids"  # in another folder, the name of an output means nothing
    own.write_text("low\n")
    assert written(ENCODER, [str(own)], tmp_path) == [1]


def test_the_manifest_of_many_outputs_is_written_in_linear_time(tmp_path, out):
    """While `encode_each` writes outputs, it appends to the manifest instead of rewriting it for
    each output.
    """
    for number in range(200):
        (tmp_path / f"{number:03}.txt").write_text("low\n")
    manifest = out / MANIFEST
    states = [manifest.stat() for _ in encode_each(ENCODER, expand(tmp_path), out, job=EncodeJob())]
    sizes = [state.st_size for state in states]
    assert len({state.st_ino for state in states}) == 1
    assert sizes == sorted(sizes)
    assert sizes[-1] < 5 * manifest.stat().st_size


@pytest.mark.parametrize("n_bytes", [1, 40, 300])
def test_a_manifest_that_was_cut_short_loses_one_output(files, out, n_bytes):
    """After a kill, a manifest whose last line is incomplete makes `encode_each` repeat only the
    last output.
    """
    manifest = out / MANIFEST
    states = [manifest.read_bytes() for _ in encode_each(ENCODER, files, out, job=EncodeJob())]
    for state in (states[1], states[2][:-n_bytes]):
        manifest.write_bytes(state)
        assert written(ENCODER, files, out) == [None, None, 3]


def test_a_damaged_manifest_is_ignored(files, out):
    """If the manifest is not valid JSON of objects, `encode_each` writes all outputs again."""
    for damaged in ("{", "[1]", '{"a.txt.pieces": 1}', "\xff"):
        out.mkdir(exist_ok=True)
        (out / MANIFEST).write_text(damaged, encoding="latin-1")
        assert written(ENCODER, files, out) == [N, 0, 3]


def test_a_manifest_names_all_that_an_output_depends_on(files, out):
    """A manifest stores, for each output, the source and its size, the options, and the sizes of
    the output's files.
    """
    outcomes = each(ENCODER, files, out, form="npy", dropout=0.5, seed=3)
    manifest = json.loads((out / MANIFEST).read_text())
    fields = "bytes dropout errors files form modified seed separator source vocabulary"
    assert {" ".join(origin) for origin in manifest.values()} == {fields}
    origin = manifest["a.txt.npy"]
    n_bytes = Path(files[0]).stat().st_size
    assert (origin["bytes"], origin["source"], origin["seed"]) == (n_bytes, files[0], 3)
    paths = [outcomes[0].output, out / "a.txt.npy.offsets.npy"]
    assert [size for size, *_ in origin["files"]] == [path.stat().st_size for path in paths]


def test_the_header_of_npy_has_one_length():
    """`write_header` writes headers of equal length for any number of ids."""
    files = {n: io.BytesIO() for n in (0, 10**6, 10**15)}
    for n, file in files.items():
        write_header(file, n)
    assert len({file.tell() for file in files.values()}) == 1


def test_a_small_file_costs_few_calls(tmp_path):
    """`binarize_each` needs fewer than 2,000 function calls for each further small file."""
    calls = []
    for n in (5, 45):
        folder = tmp_path / str(n)
        folder.mkdir()
        for number in range(n):
            (folder / f"{number}.txt").write_text("low lower\n")
        profile = cProfile.Profile()
        paths = sorted(map(str, folder.iterdir()))
        profile.runcall(deque, binarize_each(ENCODER, paths, folder / "out", frame=Frame()), 0)
        calls.append(sum(row.callcount for row in profile.getstats()))
    assert (calls[1] - calls[0]) / 40 < 2_000


# ---- pipes


@given(
    text=st.text(alphabet="lowé \n", max_size=60),
    places=st.lists(st.integers(0, 60), max_size=6),
    n_threads=st.integers(1, 3),
    drops=st.booleans(),
)
@settings(max_examples=examples(40))
def test_complete_lines_are_encoded_before_waiting_for_more(text, places, n_threads, drops):
    """`encode_stream` yields all complete lines of a pipe before it waits, however the writer cuts
    the text.
    """
    options = {"dropout": 0.5, "seed": 1} if drops else {}
    job = EncodeJob("ids" if n_threads == 2 else "pieces", n_threads=n_threads, **options)
    expected = ENCODER.encode_text(text.encode(), form=job.form, **options)
    check_answers(
        text.encode(),
        places,
        lambda path, wait: encode_stream(ENCODER, [path], job=job, wait=wait),
        expected,
    )


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_file_before_a_pipe_is_encoded_at_once(files, n_threads):
    """`encode_stream` yields the lines of a file before it waits for the pipe after it."""
    Path(files[0]).write_text("low\n")
    got = []

    def check(n_written):
        assert len(b"".join(got).splitlines()) == 1 + n_written

    with writing([b"lo\n", b"w\n"], check) as writer:
        job = EncodeJob(n_threads=n_threads)
        for answer in encode_stream(ENCODER, [files[0], writer.path], job=job, wait=writer):
            got.append(answer)
    assert b"".join(got) == ENCODER.encode_text(b"low\nlo\nw\n")


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_pipe_is_encoded_into_files(out, is_folder):
    """`encode_one` and `encode_each` write all lines of a pipe, which is written in parts, into one
    file.
    """
    with writing([b"low\nlo", b"w lo\n"]) as writer:
        writer(-1), writer(-1), writer.close_writer()
        if is_folder:
            [outcome] = each(ENCODER, [writer.path], out)
            out = outcome.output
        else:
            assert encode_one(ENCODER, [writer.path], out, job=EncodeJob()) == 2
    assert out.read_bytes() == ENCODER.encode_text(b"low\nlow lo\n")
