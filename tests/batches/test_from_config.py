"""The section `batches` of a file becomes the stream, samples, rule and layout of steps."""

import pytest

from volt import Vocabulary
from volt.batches.batching_rules import ByPacks, ByTokens
from volt.batches.collation import Layout
from volt.batches.from_config import read_steps
from volt.batches.steps import Steps
from volt.errors import ConfigError
from volt.stream.config.configuration import load_config

ONE = "sources: {one: {path: a.tsv}}\nbatches:\n"
TWO = ONE + "  fields: {src: v.volt, tgt: v.volt}\n"
FULL = (
    TWO.replace("src: v.volt", "src: {vocabulary: v.volt, prefix: [lo]}")
    + """\
  holds: pieces
  bos: true
  eos: false
  max_length: 100
  beyond: truncate
  unknown: refuse
  max_tokens: 4096
  max_sentences: 256
  multiple: 4
  noise: 0.1
  longest: 80
  shortest: 2
  buckets: [16, 80]
  on_long: report
  window: epoch
  pad: </s>
  pad_to_multiple: 8
  left_pad_source: false
  left_pad_target: true
  dtype: int32
"""
)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a corpus, two vocabularies, and a damaged vocabulary."""
    (tmp_path / "a.tsv").write_text("lo w\tlo\nw\tw\n")
    Vocabulary((("l", "o"),), ("l", "o", "w", "lo")).save(tmp_path / "v.volt")
    Vocabulary((), ("o", "l")).save(tmp_path / "w.volt")
    (tmp_path / "bad.volt").write_text((tmp_path / "v.volt").read_text()[:40])
    return tmp_path


def parts_of(folder, text, **options):
    (folder / "stream.yaml").write_text(text)
    return read_steps(folder / "stream.yaml", **options)


TOO_LATE = {
    "missing": (
        ONE + "  fields:\n    src: no.volt\n  max_tokens: 9\n",
        4,
        "batches.fields.src: .*/no.volt: no such",
    ),
    "missing, in full": (
        ONE + "  fields:\n    src:\n      vocabulary: no.volt\n  max_tokens: 9\n",
        5,
        "batches.fields.src.vocabulary: .*/no.volt: no such file; check the path",
    ),
    "damaged": (
        ONE + "  fields:\n    src: bad.volt\n  max_tokens: 9\n",
        4,
        "batches.fields.src: .*/bad.volt",
    ),
    "no token": (
        ONE
        + "  fields:\n    src:\n      vocabulary: v.volt\n      prefix: [<2en>]\n  max_tokens: 9\n",
        6,
        "batches.fields.src.prefix: no token '<2en>' in the vocabulary of src; add it",
    ),
    "too short": (
        TWO.replace("  fields", "  max_length: 1\n  fields") + "  max_tokens: 9\n",
        3,
        "batches.max_length: max_length is 1, and .* of src take 1; give 2 or more",
    ),
    "no padding": (
        TWO + "  max_tokens: 9\n  pad: <hole>\n",
        5,
        "batches.pad: no token '<hole>' in the vocabulary of",
    ),
    "multiple": (
        TWO + "  max_tokens: 9\n  pad_to_multiple: 10\n",
        5,
        "batches.pad_to_multiple: .*more than max_tokens",
    ),
}


@pytest.mark.parametrize("name", TOO_LATE)
def test_errors_of_steps_name_the_line_of_the_key(folder, name):
    """An error of `batches` that only a vocabulary or a rule can detect names the file, line and
    key."""
    text, line, message = TOO_LATE[name]
    with pytest.raises(ConfigError, match=rf"^{folder}/stream\.yaml:{line}: {message}"):
        parts_of(folder, text)


def test_each_key_is_passed_to_its_class(folder):
    """`read_steps` passes all keys of `batches` to the format, rule and layout; `longest` and
    `shortest` become max_length and min_length."""
    parts = parts_of(folder, FULL)
    form = parts.samples
    assert (form.holds, form.bos, form.eos, form.max_length) == ("pieces", True, False, 100)
    assert (form.beyond, form.unknown) == ("truncate", "refuse")
    assert form.prefix == {"src": ["lo"], "tgt": []}
    assert parts.batches == ByTokens(
        max_tokens=4096,
        max_sentences=256,
        multiple=4,
        noise=0.1,
        max_length=80,
        min_length=2,
        buckets=(16, 80),
        on_long="report",
    )
    pad = form.vocabularies["src"].ids["</s>"]
    assert parts.layout == Layout({"src": pad, "tgt": pad}, False, True, 8, "int32")
    assert parts.window == "epoch"
    packs = parts_of(folder, ONE + "  fields: {text: v.volt}\n  pack: {length: 8, rows: 2}\n")
    assert packs.batches == ByPacks(length=8, rows=2)


def test_options_override_the_file_and_fields_share_vocabularies(folder):
    """`read_steps` loads a vocabulary once for all fields.

    Options of the stream override the file, and each field is padded with its own id.
    """
    parts = parts_of(folder, TWO + "  max_tokens: 9\n  window: 5\n", seed=7, n_workers=1)
    with parts.stream:
        assert (parts.stream.seed, parts.stream.workers.n, parts.window) == (7, 1, 5)
    assert parts.samples.vocabularies["src"] is parts.samples.vocabularies["tgt"]
    assert parts.batches == ByTokens(max_tokens=9)
    other = parts_of(folder, TWO.replace("tgt: v", "tgt: w") + "  pad: o\n  max_tokens: 9\n")
    assert len(set(other.layout.pad.values())) == 2
    assert other.vocabularies == (str(folder / "v.volt"), str(folder / "w.volt"))
    assert load_config(folder / "stream.yaml").named[-2:] == other.vocabularies
    assert parts_of(folder, TWO + "  pad: <unk>\n  max_tokens: 9\n").layout.pad == {
        "src": 0,
        "tgt": 0,
    }


def test_a_vocabulary_may_be_the_prefix_of_a_model(folder):
    """In `batches.fields`, NAME is accepted for the SentencePiece model NAME.model."""
    (folder / "m.model").touch()
    (folder / "stream.yaml").write_text(ONE + "  fields:\n    src: m\n  max_tokens: 9\n")
    assert load_config(folder / "stream.yaml").named[-1] == str(folder / "m")


def test_a_missing_section_batches_is_reported_with_an_example(folder):
    """The error of a file without `batches` contains a section that would be valid."""
    message = r"stream\.yaml: key 'batches' is missing; add it, as in batches: \{fields"
    with pytest.raises(ConfigError, match=message):
        parts_of(folder, "sources: {one: {path: a.tsv}}\n")


def test_steps_check_the_rank_before_they_read_the_file():
    """`Steps.from_config` reports a rank that is too large, even if the file is missing."""
    with pytest.raises(ConfigError, match="rank 2 of world 2: give a rank"):
        Steps.from_config("missing.yaml", rank=2, world=2)
