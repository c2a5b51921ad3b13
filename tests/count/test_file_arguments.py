"""Laws of arguments that name texts: names, and columns of tab-separated text."""

from __future__ import annotations

from pathlib import Path

import pytest

from volt.count.file_arguments import named_files, source_paths, split_name
from volt.errors import ConfigError


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["data/train.de.gz", "data/train.en.gz"], ["de", "en"]),
        (["a-1.b.tsv", "a-2.b.tsv"], ["1", "2"]),
        (["a.txt", "b/a.txt"], None),
        (["x_a_y", "x_b_y", "x_c_c_y"], ["a", "b", "c_c"]),
        (["x.a", "x.a.b"], ["x.a", "x.a.b"]),
        (["-", "n=a.txt"], ["stdin", "n"]),
        (["one.xz"], ["one"]),
    ],
)
def test_files_are_named_after_what_tells_them_apart(arguments, names):
    """Common parts at both ends are dropped, unless a name would be empty or not unique."""
    if names is None:
        with pytest.raises(ConfigError, match=r"source name 'a' of b/a\.txt is given twice"):
            source_paths(arguments)
        return
    assert list(source_paths(arguments)) == names
    assert list(source_paths(arguments).values()) == [
        argument.rpartition("=")[2] for argument in arguments
    ]


def test_named_files_and_their_columns(tmp_path, monkeypatch):
    """Columns count from 1; an existing file's name is a path; naming only some files is refused."""
    monkeypatch.chdir(tmp_path)
    for name in ("a=b", "x.tsv:3"):
        Path(name).touch()
    assert (split_name("a=b"), split_name("b=a"), split_name("ab")) == (
        (None, "a=b"),
        ("b", "a"),
        (None, "ab"),
    )
    assert named_files(["a.tsv", "b.tsv"]) == {}
    assert {
        name: tuple(one)
        for name, one in named_files(["b=x.tsv:1", "a=x.tsv:3", "c=y:z:12"]).items()
    } == {
        "a": ("x.tsv:3", None),
        "b": ("x.tsv", 1),
        "c": ("y:z", 12),
    }
    assert list(named_files(["b=x", "a=y"])) == ["a", "b"]
    for given_, message in {
        "a=x:0": "a=x:0: columns are counted from 1; write a=x:1, say",
        "a=": "a=: names no file; write NAME=FILE",
        "..=x": r"\.\.=x: names no source",
        "=x": "source name '' of x is empty; write NAME=FILE with a name",
        "x": "x has no name, but b=y has one; write NAME=x",
        "b=z": "source name 'b' of z is given twice",
    }.items():
        with pytest.raises(ConfigError, match=message):
            named_files(["b=y", given_])
