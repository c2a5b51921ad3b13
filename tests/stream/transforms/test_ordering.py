"""Which steps may come after others: what is accepted leaves tags whole, what would break them is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Run

from volt.errors import ConfigError, VoltError
from volt.stream import Source, Stream
from volt.stream.config.configuration import parse_config
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.ordering import check_order
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import LoadedFiles, Transform
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

TAGS = ("<FROM_de>", "[BT]", "<sep>")
LINES = [f"low lo low {n}\tlo low lo {n}\tdoc" for n in "low" * 60]
LETTERS = "lowFRMBTdesp<>[]_"
Make = Callable[[str], Transform]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A transform by its name, with options that change most lines and files that hold no tag."""
    folder = tmp_path_factory.mktemp("ordering")
    tokens = (*LETTERS, *(f"{letter}</w>" for letter in LETTERS), "lo", "low</w>")
    Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=tokens).save(folder / "v.volt")
    (folder / "lexicon.tsv").write_text("8\tlo\n8\tw\n8\tow\n8\tl\n1\to\n8\t▁\n")
    (folder / "table.tsv").write_text("low\tlo w\nlo\tl o\nl\tl\no\to\nw\tw\n")
    (folder / "words.tsv").write_text("9\t▁low\n9\tlow\n5\tlo\n5\t▁lo\n")
    (folder / "mine.py").write_text("def same(fields):\n    return fields\n")

    def made(name: str) -> Transform:
        options: dict[str, dict[str, object]] = {
            "append": {"text": "x"},
            "tag": {"text": "[BT]"},
            "choice": {"variants": (Variant(1.0),)},
            "lang_prefix_both": {"src_lang": "de", "tgt_lang": "en"},
            "documents": {"max_lines": 2},
            "match": {"pattern": "l"},
            "regex": {"pattern": "none"},
            "ratio": {"max": 9.0},
            "length": {"max": 99},
            "where": {"condition": "length(f1) > 1"},
            "filter_too_long": {"max_len": 99},
            "typos": {"rate": 0.5},
            "punctuation": {"drop": 1.0},
            "drop": {"rate": 0.5},
            "reorder": {"max_dist": 4.0},
            "encode": {"vocabulary": "v.volt"},
            "decode": {"vocabulary": "v.volt"},
            "morfessor_em": {"model": "lexicon.tsv"},
            "morfessor_em_taboo": {"model": "lexicon.tsv"},
            "morfessor_em_taboo_reordered": {"model": "lexicon.tsv"},
            "taboo": {"model": "lexicon.tsv"},
            "deterministic_segmentation": {"table": "table.tsv"},
            "user": {"file": "mine.py", "function": "same"},
            **{
                key: {"vocabulary": "words.tsv", "rate": 0.9}
                for key in ("switchout", "insertion", "wb_noise")
            },
        }
        files = ("vocabulary", "model", "table", "file")
        found = {
            key: folder / str(value) if key in files else value
            for key, value in options.get(name, {}).items()
        }
        return TRANSFORMS[name](**found)  # type: ignore[call-arg]

    return made


NEEDS_LIBRARY = (
    "spm_encode",
    "spm_decode",
    "sentencepiece",
)  # their models are made in tests of their own
NAMES = sorted(name for name in TRANSFORMS if name not in NEEDS_LIBRARY)
ADDING = sorted(
    name for name in NAMES if hasattr(TRANSFORMS[name], "special_tokens") and name != "choice"
)
CUTTING = [name for name in NAMES if getattr(TRANSFORMS[name], "changes", "") == "pieces"]
SPELLING = [name for name in NAMES if getattr(TRANSFORMS[name], "changes", "") == "spelling"]


def is_accepted(*transforms: Transform) -> bool:
    """Whether steps may come in this order."""
    try:
        check_order(transforms, LoadedFiles())
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("first", ADDING)
@pytest.mark.parametrize("second", NAMES)
def test_what_is_accepted_leaves_tags_whole(make: Make, first: str, second: str) -> None:
    """Every step after every one that adds tags is refused, or leaves each tag of a line a word; it may come before."""
    adding, after = make(first), make(second)
    assert is_accepted(after, adding) or second in ADDING
    if not is_accepted(adding, after):
        with pytest.raises(
            ConfigError,
            match=rf"{first} adds .* to field 1, and {second} after it .*; put {first} after",
        ):
            check_order([adding, after], LoadedFiles())
        return
    added = adding(Batch.of(LINES), LineRng(1, 2))
    expected = [
        {tag for tag in TAGS if tag in line.split("\t")[0].split(" ")} for line in added.lines
    ]
    assert any(expected)
    for seed in range(3):
        try:
            made = after(added, LineRng(seed, 3))
        except VoltError:  # these lines are unfit for the step, and it leaves none of them
            continue
        wanted = dict(zip(added.origins.tolist(), expected, strict=True))
        for origin, line in zip(made.origins.tolist(), made.lines, strict=True):
            assert wanted[origin] <= set(line.split("\t")[0].split(" ")), line


@pytest.mark.parametrize("first", CUTTING)
def test_pieces_keep_their_spelling(make: Make, first: str) -> None:
    """Noise and case over characters come before pieces are made; noise over tokens may follow."""
    for second in SPELLING:
        with pytest.raises(
            ConfigError,
            match=rf"{first} splits field 1 into pieces, and {second} after it changes their",
        ):
            check_order([make(first), make(second)], LoadedFiles())
        assert is_accepted(make(second), make(first))
    assert is_accepted(make(first), make("drop"), make("reorder"), make("switchout"))


def test_only_the_fields_that_hold_a_tag_count(make: Make) -> None:
    """Steps for other fields may follow; copies of a field hold its tags."""
    tag = TRANSFORMS["tag"](text="[BT]", fields=(2,))  # type: ignore[call-arg]
    lower = TRANSFORMS["lower"]
    assert is_accepted(tag, lower(fields=(1,)))  # type: ignore[call-arg]
    assert not is_accepted(tag, lower())
    swap, copy = TRANSFORMS["keep_fields"](fields=(2, 1)), TRANSFORMS["copy"](from_=2, to=1)  # type: ignore[call-arg]
    for moving in (swap, copy):
        assert not is_accepted(tag, moving, lower(fields=(1,)))  # type: ignore[call-arg]
    assert is_accepted(tag, swap, lower(fields=(2,)))  # type: ignore[call-arg]
    assert is_accepted(make("encode"), make("decode"), lower())
    assert is_accepted(tag, make("user"), lower())  # which may do anything


def test_text_in_letters_is_no_tag() -> None:
    """What tells a model its task in words is text, and may be cut as text."""
    upper = TRANSFORMS["upper"]()
    assert is_accepted(TRANSFORMS["tag"](text="translate to German:"), upper)  # type: ignore[call-arg]
    assert is_accepted(TRANSFORMS["tag"](text="[BT]"), upper)  # type: ignore[call-arg] # which stays what it is


def test_variants_of_a_choice_are_steps(make: Make) -> None:
    """A tag or pieces that only some lines have count, whichever variant adds them, and so does a change of some."""
    typos = make("typos")
    for added in (make("tag"), make("encode")):
        for place in range(3):
            variants = [
                [Variant(1.0, (step,)) for step in (make("lower"), make("drop"))] for _ in range(2)
            ]
            for steps, step in zip(variants, (added, typos), strict=True):
                steps.insert(place, Variant(1.0, (step,)))
            adding, changing = (Choice(tuple(steps)) for steps in variants)
            assert not is_accepted(adding, typos)
            assert not is_accepted(added, changing)
            assert is_accepted(changing, added)
            assert is_accepted(changing, adding)


def test_a_vocabulary_that_holds_the_tag_may_follow(tmp_path: Path) -> None:
    """Its encoding keeps the tag; one that does not is refused, with both remedies, by a file at its line."""
    tokens = ("l", "o", "w", "lo", "low</w>", "l</w>", "o</w>", "w</w>")
    merges = (("l", "o"), ("lo", "w</w>"))
    Vocabulary(merges=merges, tokens=tokens).save(tmp_path / "without.volt")
    Vocabulary(merges=merges, tokens=tokens, special=SpecialTokens(user=("[BT]",))).save(
        tmp_path / "with.volt"
    )
    text = "sources:\n  s:\n    path: a.tsv\n    transforms:\n      - tag: '[BT]'\n      - encode: {}.volt\n"
    parse_config(text.format("with"), path=str(tmp_path / "stream.yaml"))
    with pytest.raises(
        ConfigError,
        match=r"stream\.yaml:4: .*put tag after encode, or give encode a vocabulary that",
    ):
        parse_config(text.format("without"), path=str(tmp_path / "stream.yaml"))
    (tmp_path / "a.tsv").write_text("low\n")
    steps = (
        TRANSFORMS["tag"](text="[BT]"),
        TRANSFORMS["encode"](vocabulary=tmp_path / "without.volt"),
    )  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="encode after it turns it into"):
        Stream([Source("s", (str(tmp_path / "a.tsv"),), transforms=steps)])


def test_the_command_line_refuses_the_order(volt_stream: Run, stream_folder: Path) -> None:
    """Exit status 2, with the line and the order that works."""
    (stream_folder / "t.yaml").write_text(
        "sources: {one: {path: one.tsv, transforms: [tag: '[BT]', typos]}}"
    )
    message = volt_stream("run", "t.yaml", "--limit", 1, status=2).stderr.decode()
    assert (
        "t.yaml:1: sources.one.transforms: tag adds [BT] to field 1, and typos after it may change it; put tag"
        in message
    )
