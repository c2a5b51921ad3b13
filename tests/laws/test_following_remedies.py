"""After following an error message that names a key of a configuration, the stream works."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import volt
from volt.batches import Steps
from volt.errors import VoltError

TEXT = {"path": "pairs.tsv", "epochs": 1, "shuffle": "none"}
ONE_FIELD = TEXT | {"transforms": [{"keep_fields": {"fields": [1]}}]}
FIELDS = {"src": "vocab.volt", "tgt": "vocab.volt"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a pair of files (with a tab), pairs in one file, ids, a table and a
    vocabulary."""
    monkeypatch.chdir(tmp_path)
    Path("train.de").write_text("a\tb\nc\n")
    Path("train.en").write_text("a\nb\n")
    Path("pairs.tsv").write_text("a b c\ta b\na\tb\n")
    Path("ids.tsv").write_text("4 2\t5 2\n5 2\t6 2\n")
    volt.Vocabulary(merges=(), tokens=("a", "b", "c"), marker="none").save("vocab.volt")
    pq.write_table(pa.table({"de": ["a"], "en": ["b"]}), "table.parquet")
    return tmp_path


def outcome(config):
    """Return the number of lines or steps of a configuration, or the error's message."""
    Path("stream.yaml").write_text(yaml.safe_dump(config))
    try:
        if "batches" in config:
            with Steps.from_config("stream.yaml") as steps:
                return sum(1 for _ in steps)
        with volt.Stream.from_config("stream.yaml") as stream:
            return sum(1 for _ in stream)
    except VoltError as error:
        return str(error)


def section_of(config, path):
    """Return the section of a configuration at a dotted path."""
    section = config
    for name in path.split("."):
        section = section[name]
    return section


def add_at_top(config, message):
    """Add the text that a message shows to the top level."""
    [text] = re.findall(r"write (\S+: \{.*\}) at the top level of the configuration", message)
    config.update(yaml.safe_load(text))


def set_in_section(config, message):
    """Set a key to a value in the section that a message names."""
    [(key, value, section)] = re.findall(r"set (\w+) to (\w+) in ([\w.]+)$", message)
    section_of(config, section)[key] = yaml.safe_load(value)


def raise_limit(config, message):
    """Raise the key that a message names."""
    [key] = re.findall(r"\((\w+) in a configuration\)", message)
    config["batches"][key] += 10


def raise_max_line(config, message):
    """Raise the key of the source that a message names."""
    [key] = re.findall(r"raise the source's (\w+)$", message)
    config["sources"]["s"][key] += 100


def name_columns(config, message):
    """Add the text that a message shows to the source, with the name of a column."""
    [text] = re.findall(r"as in (columns: .*)$", message)
    config["sources"]["s"] |= yaml.safe_load(text.replace("NAME", "de"))


def batches_of(**options):
    """Return a configuration with batches of pairs."""
    return {"sources": {"s": TEXT}, "batches": {"fields": FIELDS, "max_tokens": 64} | options}


PACKS = {"fields": {"src": "vocab.volt"}, "pack": {"length": 3, "rows": 1}}
CASES = {
    "a tab in a file of a pair": (
        {"sources": {"s": {"pair": {"src": "train.de", "tgt": "train.en"}, "epochs": 1}}},
        add_at_top,
        1,
    ),
    "a missing field": ({"sources": {"s": ONE_FIELD | {"min_fields": 3}}}, add_at_top, 0),
    "a long line": ({"sources": {"s": TEXT | {"max_line": 5}}}, raise_max_line, 2),
    "a table": ({"sources": {"s": {"path": "table.parquet", "epochs": 1}}}, name_columns, 1),
    "a long sample": (batches_of(longest=2), set_in_section, 1),
    "a long sample, with a greater limit": (batches_of(longest=2), raise_limit, 1),
    "a long sample of a pack": ({"sources": {"s": ONE_FIELD}, "batches": PACKS}, set_in_section, 1),
    "a sample beyond its field": (batches_of(max_length=2), set_in_section, 1),
    "ids that end in EOS": (
        batches_of(holds="ids") | {"sources": {"s": TEXT | {"path": "ids.tsv"}}},
        set_in_section,
        1,
    ),
    "an unknown piece": (
        batches_of(unknown="refuse") | {"sources": {"s": TEXT | {"transforms": [{"tag": "x"}]}}},
        set_in_section,
        1,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_following_a_message_works(folder, case):
    """A refused configuration works after the change that the error asks for."""
    config, follow, expected = CASES[case]
    changed = yaml.safe_load(yaml.safe_dump(config))
    message = outcome(changed)
    assert isinstance(message, str)
    follow(changed, message)
    assert outcome(changed) == expected
