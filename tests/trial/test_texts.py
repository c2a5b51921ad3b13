"""Laws of `read_texts`, which splits a corpus into train, dev and test."""

import pytest

from volt.errors import CorpusError
from volt.trial.texts import LEAST, read_texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "low lower\n" * 900,
            f"the text has 8,[0-9]+ characters; trainings need {LEAST:,} or more",
        ),
        (
            f"{'low ' * 3000}\n" * 17,
            "the text has 17 segments, because its lines are long; trainings need 18",
        ),
        ("low \udcff", "1: invalid UTF-8"),
    ],
)
def test_unsuitable_texts_are_refused(tmp_path, text, message):
    """`read_texts` raises CorpusError for a text that is short, has few segments, or is not
    UTF-8.
    """
    path = tmp_path / "corpus.txt"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CorpusError, match=message):
        read_texts([str(path)])
