"""Laws of sentencepiece's tables of replacements: `unpack` undoes `pack`, and sentencepiece applies
them.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import VocabularyError
from volt.formats.sentencepiece import charsmap
from volt.text.charsmap import check_charsmap

library = pytest.importorskip("sentencepiece")
pytest.importorskip("google.protobuf")
strings = st.text(alphabet="abé中\U0001f600\u0301", min_size=1, max_size=4)


@settings(deadline=None, max_examples=examples(60))
@given(
    table=st.dictionaries(strings, st.text(alphabet="xyß\u3000", max_size=3), max_size=12),
    text=st.text("abé中\0", max_size=9),
)
def test_the_library_applies_what_is_unpacked(table, text):
    """`unpack` returns the replacements that were packed. With the table, sentencepiece replaces
    the longest string that fits, from left to right.
    """
    from sentencepiece.sentencepiece_model_pb2 import NormalizerSpec

    packed = charsmap.pack(table)
    check_charsmap(packed)
    assert charsmap.unpack(packed) == table
    for key in {*table, text or "a"}:
        assert charsmap.unpack(packed, only=[key]).get(key) == table.get(key)
    spaces = ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")
    spec = NormalizerSpec(precompiled_charsmap=packed, **dict.fromkeys(spaces, False))
    expected = ""
    place = 0
    while place < len(text):
        ends = range(len(text), place, -1)
        key = next((text[place:end] for end in ends if text[place:end] in table), None)
        expected += table.get(key, text[place])
        place += len(key or "a")
    assert library.SentencePieceNormalizer(normalizer_spec=spec).normalize(text) == expected


GOOD = charsmap.pack({"A": "a", "É": "e"})


@pytest.mark.parametrize(
    ("function", "table"),
    [
        (charsmap.unpack, b"\1"),
        (charsmap.unpack, b"\0\4\0\0" + bytes(9)),
        (charsmap.unpack, b"\xff\xff\xff\x7f" + bytes(2000)),
        (charsmap.unpack, b"\0\4\0\0" + bytes(1023)),
        (check_charsmap, GOOD[:5] + GOOD[6:]),
        (check_charsmap, GOOD[:-1]),
    ],
)
def test_a_damaged_table_is_refused(function, table):
    """`unpack` refuses a table whose size does not fit, and `check` a table with positions outside
    the table.
    """
    with pytest.raises(VocabularyError, match="table of replacements is damaged"):
        function(table)
