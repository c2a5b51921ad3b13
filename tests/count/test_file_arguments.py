"""Laws of `source_files` and `named_files`, which read the arguments NAME=FILE and NAME=FILE:N."""

from pathlib import Path

import pytest

from volt.count.file_arguments import named_files, source_files, split_name
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
    """`source_files` names a file by what its name does not share with the others, if that is
    unique.
    """
    if names is None:
        with pytest.raises(ConfigError, match=r"source name 'a' of b/a\.txt is given twice"):
            source_files(arguments)
        return
    files = source_files(arguments)
    assert list(files) == names
    assert [file.path for file in files.values()] == [
        argument.rpartition("=")[2] for argument in arguments
    ]


def test_named_files_and_their_columns(tmp_path, monkeypatch):
    """`named_files` reads columns from 1 on; an existing file's name is a path, even with "=" or
    ":".

    An error is raised for an empty or repeated name, or if only some files have names.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("a=b", "x.tsv:3"):
        Path(name).touch()
    names = [split_name(argument) for argument in ("a=b", "b=a", "ab")]
    assert names == [(None, "a=b"), ("b", "a"), (None, "ab")]
    assert named_files(["a.tsv", "b.tsv"]) == {}
    files = named_files(["b=x.tsv:1", "a=x.tsv:3", "c=y:z:12"])
    assert files == {"a": ("x.tsv:3", None), "b": ("x.tsv", 1), "c": ("y:z", 12)}
    assert list(named_files(["b=x", "a=y"])) == ["a", "b"]
    for given_, message in {
        "a=x:0": "a=x:0: columns are counted from 1; write a column such as a=x:1",
        "a=": "a=: names no file; write NAME=FILE",
        "..=x": r"\.\.=x: names no source",
        "=x": "source name '' of x is empty; write NAME=FILE with a name",
        "x": "x has no name, but b=y has one; write NAME=x",
        "b=z": "source name 'b' of z is given twice",
    }.items():
        with pytest.raises(ConfigError, match=message):
            named_files(["b=y", given_])
