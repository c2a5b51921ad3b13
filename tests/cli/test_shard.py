"""`volt shard`: the tasks of a configuration are written as shards, which the same configuration reads."""

from itertools import chain, islice

import pytest
from support.commands import Done, listed
from support.sharding import lines_of, numbered, write

import volt
from volt.errors import ConfigError

CONFIG = """\
seed: 1
shards: shards
tasks:
  de_en: {type: para, inputs: {a: {src: a.src, tgt: a.tgt}, b: {src: "{{b}}.src", tgt: b.tgt}}}
  auto_en: {type: mono, inputs: {a: {mono: a.tgt}}, n_shards: 2}
  other: {type: mono, share_inputs: auto_en}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write a configuration and its inputs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name, n in (("a", 30), ("b", 5)):
        for side in ("src", "tgt"):
            write(tmp_path / f"{name}.{side}", numbered(f"{name} {side}", n))
    (tmp_path / "stream.yaml").write_text(CONFIG)
    return tmp_path


def test_tasks_are_sharded_and_read(folder, run):
    """`volt shard` writes shards to the configured folder; a second call reports them, and a run
    reads them."""
    done = run("shard stream.yaml --set b=b --lines 10 --workers 1")
    assert done.stdout == b""
    assert done.message.endswith(
        "shards/de_en: 4 shards, 35 lines\nshards/auto_en: 2 shards, 30 lines\n"
    )
    assert listed(folder / "shards") == ["auto_en", "de_en"]
    assert "00003.tgt.zst" in listed(folder / "shards/de_en")
    with volt.Stream.from_config("stream.yaml", values={"b": "b"}, tasks=["de_en"]) as stream:
        read = sorted(line.split("\t")[0] for line in islice(stream, 35))
    shards = [lines_of(f"shards/de_en/0000{number}.src.zst") for number in range(4)]
    assert read == sorted(chain.from_iterable(shards))
    assert run("shard stream.yaml --set b=b --lines 10 -q") == Done(b"", b"")


def test_options_choose_the_shards(folder, run):
    """--task, -o and --compress choose what `volt shard` writes; `volt search --word-counts` reads
    its counts."""
    write(folder / "a.tgt", b"low \xff\n" + numbered("a", 29))
    done = run("shard stream.yaml --set b=b -o out --task other --compress gz")
    assert listed(folder / "out") == ["auto_en"]
    names = " ".join(listed(folder / "out/auto_en"))
    assert names == "00000.mono.gz 00001.mono.gz manifest.json words.mono.tsv"
    message = "note 1 line of task 'auto_en' is not UTF-8; the first is a.tgt:1; shards contain such lines unchanged"
    assert message in done.message
    words = volt.count_words("out/auto_en/words.mono.tsv", word_counts=True)
    assert dict(words.table.rows())["line"] == 29


def test_surprising_shards_are_noted(folder, run):
    """`volt shard` notes fewer shards than requested, and tabs within a field."""
    (folder / "b.src").unlink()
    write(folder / "a.tgt", b"low\nlow\tlower\nnew\n")
    (folder / "stream.yaml").write_text(CONFIG.replace("n_shards: 2", "n_shards: 7"))
    command = "shard stream.yaml --set b=b --task"
    message = run(f"{command} auto_en").message
    for note in (
        "note task 'auto_en' requests 7 shards, but has lines for only 3",
        "note a.tgt:2: contains a tab, which separates fields; a stream treats such lines of task",
    ):
        assert note in message
    two_fields = CONFIG.replace("{type: mono, inputs", "{type: mono, max_fields: 2, inputs")
    (folder / "stream.yaml").write_text(two_fields)
    assert "tab" not in run(f"{command} auto_en").message
    refused = run(f"{command} de_en", status=1)
    assert "task 'de_en': b.src: cannot be read: no such file" in refused.message


def test_wrong_use_is_refused(folder, run):
    """`volt shard` ends with status 2 for wrong usage, with 1 for bad inputs, and writes nothing."""
    (folder / "sources.yaml").write_text("sources: {a: {path: a.src}}")
    (folder / "here.yaml").write_text(CONFIG.replace("shards: shards\n", ""))
    (folder / "a.tgt").write_bytes(numbered("a", 29))
    command = "shard stream.yaml --set b=b"
    for arguments, status, message in (
        ("shard sources.yaml", 2, "sources.yaml: has no tasks; only tasks are sharded"),
        ("shard here.yaml --set b=b", 2, "has no `shards`, the folder to write to; give -o FOLDER"),
        (f"{command} -o -", 2, "-o -: shards are many files, but stdout takes only one"),
        (f"{command} --task nowhere", 2, "no task 'nowhere'; there are de_en, auto_en, other"),
        (f"{command} --compress xz", 2, "--compress"),
        ("shard stream.yaml", 2, "stream.yaml:4: {{b}} has no value; give --set b"),
        (
            f"{command} --task de_en",
            1,
            "a.src has 30 lines, a.tgt has 29 lines; source and target need the same",
        ),
    ):
        assert message in run(arguments, status=status).message
    assert "is empty; name a folder" in run(f"{command} -o", "", status=2).message
    assert not (folder / "shards").exists()
    with pytest.raises(
        ConfigError, match=r"no shards of task 'de_en'; make them: volt shard CONFIG -o shards"
    ):
        volt.Stream.from_config("stream.yaml", values={"b": "b"})
