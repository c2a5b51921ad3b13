"""Tags are put where they belong, and removed from translations."""

import numpy as np
from hypothesis import given
from stream.transforms.support import LINES

from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.column import Column
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.field_edits import Append
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.tags import LangPrefixBoth, Tag, Untag
from volt.stream.transforms.transform import make_deterministic

RNG = LineRng(1, 2)


@given(LINES)
def test_languages_are_put_before_the_source(values):
    """LangPrefixBoth puts its tags before field 1 in a fixed order, without a trailing space if the
    field is empty."""
    tags = LangPrefixBoth("de", "en", "<BT> <x>")
    lines = tags(Batch.of([f"{value}\tb" for value in values]), RNG).lines
    assert lines == [f"<FROM_de> <TO_en> <BT> <x>{value and f' {value}'}\tb" for value in values]
    assert tags.special_tokens() == ("<FROM_de>", "<TO_en>", "<BT>", "<x>")
    assert LangPrefixBoth("de", "en").special_tokens() == ("<FROM_de>", "<TO_en>")
    assert make_deterministic([tags]) == (tags,)


def test_a_tag_is_removed_where_it_was_put():
    """Untag removes a tag only where Tag puts it; a field that is only the tag becomes empty."""
    lines = ["a\t<en> a house", "b\ta <en>", "c\t<en>"]
    assert Untag(Tag(text="<en>"))(Batch.of(lines), RNG).lines == ["a\ta house", "b\ta <en>", "c\t"]


def test_tagged_ids_become_text():
    """Tag turns ids into text; a batch may contain tagged and untagged ids after a Choice."""
    ids = Column.of_ids(np.array([5, 6, 7], np.int32), np.array([0, 2, 3]))
    batch = Batch((ids,), None, np.arange(2))
    assert Tag(text="x")(batch, RNG).lines == ["x 5 6", "x 7"]
    longer = Variant(1.0, (Repeat(n=2), Append(text="y")))
    mixed = Choice((Variant(1.0), Variant(1.0, (Tag(text="x"),)), longer))
    lines = mixed(batch.take(np.repeat([0, 1], 20)), RNG).lines
    assert set(lines) == {"5 6", "7", "x 5 6", "x 7", "5 6\ty", "7\ty"}
