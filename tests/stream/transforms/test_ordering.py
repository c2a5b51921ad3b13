"""The order of steps: accepted orders leave tags whole, and other orders are refused."""

from collections.abc import Callable

import pytest
from stream.transforms.support import FIRST
from support.configurations import parse_config

from volt.errors import ConfigError, VoltError
from volt.stream import Source, Stream
from volt.stream.transforms.case import Lower, Upper
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.field_edits import Copy, KeepFields
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.noise import Drop, Typos
from volt.stream.transforms.ordering import _is_tag, check_order
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.subwords import Encode
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LoadedFiles, Transform
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

TAGS = {"<FROM_de>", "<t>", "<sep>"}
LINES = [f"low lo low {n}\tlo low lo {n}\tdoc" for n in "low" * 60]
StepOf = Callable[[str], Transform]
ADDING = ("tag", "lang_prefix_both", "documents")


def named(changes):
    """Return the names of the transforms that declare such a change."""
    return [name for name in TRANSFORMS if TRANSFORMS[name].changes == changes]


def is_accepted(*transforms):
    try:
        check_order(transforms, LoadedFiles())
    except ConfigError:
        return False
    return True


def tags_in(line):
    return TAGS.intersection(line.split("\t")[0].split(" "))


@pytest.mark.parametrize("first", ADDING)
@pytest.mark.parametrize("second", sorted(TRANSFORMS.keys() - {"choice", "user"}))
def test_accepted_orders_leave_tags_whole(step_of, first, second):
    """check_order refuses a step after a step that adds tags, or each tag stays a word after it;
    the step before the tags is accepted."""
    adding = step_of(FIRST[first])
    changing = step_of(FIRST[second])
    assert is_accepted(changing, adding) or second in ADDING
    if not is_accepted(adding, changing):
        message = rf"{first} adds .* to field 1, and {second} after it .*; put {first} after"
        with pytest.raises(ConfigError, match=message):
            check_order([adding, changing], LoadedFiles())
        return

    tagged = adding(Batch.of(LINES), LineRng(1, 2))
    expected = dict(zip(tagged.origins.tolist(), map(tags_in, tagged.lines), strict=True))
    assert any(expected.values())
    for seed in range(3):
        try:
            result = changing(tagged, LineRng(seed, 3))
        except VoltError:  # these lines are unfit for the step
            continue
        for origin, line in zip(result.origins.tolist(), result.lines, strict=True):
            assert expected[origin] <= tags_in(line), line


@pytest.mark.parametrize("first", named("pieces"))
def test_spelling_changes_before_pieces(step_of, first):
    """check_order refuses noise and case of characters after steps that split text, and accepts
    noise of tokens there."""
    splitting = step_of(FIRST[first])
    for second in named("spelling"):
        changing = step_of(FIRST[second])
        message = rf"{first} splits field 1 into pieces, and {second} after it changes their"
        with pytest.raises(ConfigError, match=message):
            check_order([splitting, changing], LoadedFiles())
        assert is_accepted(changing, splitting)
    assert is_accepted(splitting, *(step_of(FIRST[name]) for name in named("tokens")))


def test_only_fields_with_a_tag_are_protected(step_of):
    """check_order protects fields with a tag and copies of them; steps may change other fields, and
    user code may do anything."""
    tag = Tag(text="[BT]", fields=(2,))
    lower = Lower(fields=(1,))
    assert is_accepted(tag, lower)
    assert not is_accepted(tag, Lower())
    swap = KeepFields(fields=(2, 1))
    for moving in (swap, Copy(from_=2, to=1)):
        assert not is_accepted(tag, moving, lower)
    assert is_accepted(tag, swap, Lower(fields=(2,)))
    assert is_accepted(step_of(FIRST["encode"]), step_of("decode: v.volt"), Lower())
    assert is_accepted(tag, step_of(FIRST["user"]), Lower())


@pytest.mark.parametrize(
    ("text", "is_tag"),
    [("<de>", True), ("[BT]", True), ("__2de__", True), ("German:", False), ("-", False)],
)
def test_tags_have_punctuation_at_both_ends(text, is_tag):
    """check_order protects only texts with punctuation at both ends, and accepts a step that leaves
    the tag unchanged."""
    assert _is_tag(text) == is_tag
    is_changed = is_tag and text != text.upper()
    assert is_accepted(Tag(text=text), Upper()) != is_changed


def test_each_variant_of_a_choice_counts(step_of):
    """check_order protects tags and pieces that only some variants add, and refuses changes that
    only some variants make."""
    for added in (Tag(text="[BT]"), step_of(FIRST["encode"])):
        for place in range(3):
            choices = []
            for step in (added, Typos()):
                variants = [Variant(1.0, (Lower(),)), Variant(1.0, (Drop(),))]
                variants.insert(place, Variant(1.0, (step,)))
                choices.append(Choice(tuple(variants)))
            adding, changing = choices
            assert not is_accepted(adding, Typos())
            assert not is_accepted(added, changing)
            assert is_accepted(changing, added)
            assert is_accepted(changing, adding)


def test_a_vocabulary_may_contain_the_tag(tmp_path):
    """check_order accepts `encode` after a tag that is a token of its vocabulary; otherwise, the
    error names both remedies and the line."""
    tokens = ("l", "o", "w", "lo", "low</w>", "l</w>", "o</w>", "w</w>")
    for name, special in (("without", SpecialTokens()), ("with", SpecialTokens(user=("[BT]",)))):
        vocabulary = Vocabulary(
            merges=(("l", "o"), ("lo", "w</w>")), tokens=tokens, special=special
        )
        vocabulary.save(tmp_path / f"{name}.volt")
    text = "sources:\n  s:\n    path: a.tsv\n    transforms:\n      - tag: '[BT]'\n      - encode: {}.volt\n"
    parse_config(text.format("with"), path=str(tmp_path / "stream.yaml"))
    message = r"stream\.yaml:4: .*put tag after encode, or give encode a vocabulary that"
    with pytest.raises(ConfigError, match=message):
        parse_config(text.format("without"), path=str(tmp_path / "stream.yaml"))
    (tmp_path / "a.tsv").write_text("low\n")
    steps = (Tag(text="[BT]"), Encode(tmp_path / "without.volt"))
    with pytest.raises(ConfigError, match="encode after it turns it into"):
        Stream([Source("s", (str(tmp_path / "a.tsv"),), transforms=steps)])
