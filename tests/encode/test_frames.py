"""Laws of frames: special tokens around lines of ids, and their arguments."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.encode.frames import Frame
from volt.errors import ConfigError
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

ids_ = st.lists(st.integers(0, 99), max_size=4)
VOCABULARY = Vocabulary((), ("a",), special=SpecialTokens(user=("<2de>",)))


@given(st.lists(ids_, max_size=6), ids_, ids_, st.none() | st.integers(1, 6))
def test_a_frame_surrounds_every_line(lines, front, back, n_text):
    """`Frame.fit` puts the front before each line, also an empty one, and the back after it.

    With `truncate`, a line keeps its first ids, so that it has at most `truncate` ids with the frame.
    """
    ends = np.cumsum([len(line) for line in lines], dtype=np.int64)
    truncate = None if n_text is None else len(front + back) + n_text
    frame = Frame(tuple(front), tuple(back))
    ids = np.array(list(chain(*lines)), np.int32)
    ids, ends = frame.fit(ids, ends, truncate=truncate)
    expected = [front + line[:n_text] + back for line in lines]
    assert ids.tolist() == list(chain(*expected))
    assert ends.tolist() == np.cumsum(list(map(len, expected))).tolist()


def test_frames_are_made_of_tokens_or_ids():
    """bos, then the token to prepend, then the line, then eos; each is a token, an id, or absent."""
    assert Frame.of(VOCABULARY, bos="<s>", prepend="<2de>", eos=300) == Frame((1, 4), (300,))
    assert Frame.of(VOCABULARY) == Frame()
    for wrong, message in (
        ("<x>", "prepend '<x>' is not a token of the vocabulary"),
        (-1, "prepend is -1; give 0 or more"),
    ):
        with pytest.raises(ConfigError, match=message):
            Frame.of(VOCABULARY, prepend=wrong)
