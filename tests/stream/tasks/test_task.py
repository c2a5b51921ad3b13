"""Laws of a task's inputs: files are expanded, checked, and read line by line."""

import pytest
from support.sharding import numbered, write

from volt.errors import ConfigError, StreamError
from volt.stream.tasks import task as reading
from volt.stream.tasks.task import (
    Input,
    InputFile,
    LineReader,
    ReadInput,
    Task,
    check_input,
    expand_input,
    read_input_file,
)

WRONG_SIDES = [
    ("para", (("src", "a"),), "has src; a task of type para needs src and tgt"),
    ("mono", (), "has no file; a task"),
    ("mono", (("mono", "a"), ("src", "b")), "has mono and src; a task of type mono needs mono"),
    (
        "para",
        (("src", "a"), ("src", "b"), ("tgt", "c")),
        "2 files of src and 1 file of tgt; give the same number",
    ),
]


@pytest.mark.parametrize(("kind", "files", "message"), WRONG_SIDES)
def test_sides_of_an_input_are_checked(kind, files, message):
    """`expand_input` refuses sides that the task does not have, and unequal numbers of files."""
    with pytest.raises(ConfigError, match=rf"task 't', input 'i': {message}"):
        expand_input(Task("t", kind, ()), Input("i", files))


def test_files_of_an_input_are_sorted_by_side(tmp_path):
    """`expand_input` expands globs, and sorts files by side; files of one side keep their order."""
    files = Input("i", (("tgt", "c"), ("src", "a"), ("src", "b"), ("tgt", "d")))
    assert expand_input(Task("t", "para", ()), files).paths == ("a", "b", "c", "d")
    paths = [write(tmp_path / name, b"x\n") for name in ("a.de", "b.de")]
    pattern = Input("i", (("mono", f"{tmp_path}/*.de"), ("mono", "c")))
    assert expand_input(Task("t", "mono", ()), pattern).paths == (*paths, "c")


def files_of(side, *counts):
    return tuple(InputFile(side, f"{side}{i}", 0, 0, "", n, 0) for i, n in enumerate(counts))


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ((2, 3), (3, 2), "src0 has 2 lines, tgt0 has 3 lines; source and target need"),
        ((2, 1), (2, 2), "src1 has 1 line, tgt1 has 2 lines; source"),
        ((0, 0), (0, 0), "no line in src0, src1, tgt0, tgt1; remove the input"),
    ],
)
def test_sides_have_equal_numbers_of_lines(source, target, message):
    """`check_input` compares aligned files one by one, and refuses an input without lines."""
    task = Task("t", "para", ())
    check_input(task, ReadInput("i", (files_of("src", 2, 0), files_of("tgt", 2, 0))))
    wrong = ReadInput("i", (files_of("src", *source), files_of("tgt", *target)))
    with pytest.raises(StreamError, match=rf"task 't', input 'i': {message}"):
        check_input(task, wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"\xef\xbb\xbf\xff\n", (1, 0)),
        (b"\n\n\xff\n\t\n", (3, 4)),
        (numbered("a", 40) + b"b\xff\nc\td\n" + numbered("e\t\u00e9", 9), (41, 42)),
        ("é\n".encode() * 99 + b"\tx", (0, 100)),
        (b"", (0, 0)),
    ],
)
def test_the_first_faulty_lines_are_found(tmp_path, monkeypatch, text, expected):
    """`read_input_file` finds the first line that is not UTF-8, and the first with a tab, in any
    block.
    """
    monkeypatch.setattr(reading, "_BLOCK_SIZE", 64)
    file = read_input_file(write(tmp_path / "a", text))
    assert (file.first_bad, file.first_tab) == expected


def test_files_are_read_to_the_end(tmp_path):
    """`read_input_file` counts lines as a stream does; its digest is of the decompressed text."""
    steps = []
    path = write(tmp_path / "a", b"\xef\xbb\xbfx\n\ny")
    file = read_input_file(path, progress=steps.append)
    assert (file.side, file.n_lines, file.n_bytes, file.size, sum(steps)) == ("mono", 3, 7, 7, 3)
    assert read_input_file(write(tmp_path / "b.gz", b"\xef\xbb\xbfx\n\ny")).digest == file.digest


def test_changing_files_are_refused(tmp_path):
    """A file that changes while it is read, or between two readings, raises StreamError."""
    path = write(tmp_path / "a", b"x\n")
    stamp = read_input_file(path).stamp
    write(tmp_path / "a", b"xy\n")
    calls = [
        lambda: reading.check_unchanged(path, stamp),
        lambda: read_input_file(path, progress=lambda _: write(tmp_path / "a", b"x")),
    ]
    for call in calls:
        with pytest.raises(StreamError, match="a: changed while it was read"):
            call()


@pytest.mark.parametrize("ahead", [False, True])
def test_lines_are_read_across_blocks_and_files(tmp_path, monkeypatch, ahead):
    """`LineReader.take` returns as many lines as requested, or raises StreamError if there are
    fewer.
    """
    monkeypatch.setattr(reading, "_ALL_BLOCKS", 0)
    text = numbered("a", 9000)
    paths = [write(tmp_path / "a", text), write(tmp_path / "b", b"\xef\xbb\xbfx\ny")]
    lines = LineReader(paths, ahead=ahead)
    lines.skip(1)
    assert lines.take(8998) == b"".join(text.splitlines(keepends=True)[1:-1])
    assert lines.take(3) == b"a line 8999\nx\ny\n"
    message = r"a: changed while it was read; wait until it is complete"
    with pytest.raises(StreamError, match=message):
        lines.take(1)
