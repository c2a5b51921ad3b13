"""Laws of answering: what whole lines become is given before more is waited for, and is what it is in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from writers import check_answers, writing

from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_each, encode_one, encode_stream
from volt.vocabulary import Vocabulary

TOKENS = ("l", "o", "w", "w</w>", "low</w>", "lo", "e")
VOCABULARY = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=TOKENS)
ENCODER = Encoder(VOCABULARY)
texts = st.text(alphabet="lowé \n", max_size=60)


@given(
    text=texts,
    places=st.lists(st.integers(0, 60), max_size=6),
    n_threads=st.integers(1, 3),
    drops=st.booleans(),
)
@settings(max_examples=examples(40))
def test_lines_are_encoded_before_more_is_waited_for(
    text: str, places: list[int], n_threads: int, drops: bool
) -> None:
    """However text is cut into writes, on any number of threads, with dropout and without."""
    options = {"dropout": 0.5, "seed": 1} if drops else {}
    job = EncodeJob("ids" if n_threads == 2 else "pieces", n_threads=n_threads, **options)  # type: ignore[arg-type]
    expected = ENCODER.encode_text(text.encode(), form=job.form, **options)  # type: ignore[arg-type]
    check_answers(
        text.encode(),
        places,
        lambda path, wait: encode_stream(ENCODER, [path], job=job, wait=wait),
        expected,
    )


@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_stands_before_a_pipe_is_given_before_it_is_waited_for(
    tmp_path: Path, n_threads: int
) -> None:
    """The lines of a file come at once, though a pipe follows that has nothing yet."""
    (tmp_path / "a.txt").write_text("low\n")
    got = list[bytes]()

    def message(n_written: int) -> None:
        assert len(b"".join(got).splitlines()) == 1 + n_written

    with writing([b"lo\n", b"w\n"], message) as writer:
        paths = [str(tmp_path / "a.txt"), writer.path]
        for answer in encode_stream(
            ENCODER, paths, job=EncodeJob(n_threads=n_threads), wait=writer
        ):
            got.append(answer)
    assert b"".join(got) == ENCODER.encode_text(b"low\nlo\nw\n")


def test_a_pipe_is_encoded_into_files_too(tmp_path: Path) -> None:
    """A pipe's lines make whole files, one for all or one for each, though it was written bit by bit."""
    expected = ENCODER.encode_text(b"low\nlow lo\n")
    for each in (False, True):
        with writing([b"low\nlo", b"w lo\n"]) as writer:
            writer(-1), writer(-1), writer.close_writer()
            if each:
                [outcome] = encode_each(ENCODER, [writer.path], tmp_path / "out", job=EncodeJob())
                assert outcome.output.read_bytes() == expected
            else:
                assert encode_one(ENCODER, [writer.path], tmp_path / "one", job=EncodeJob()) == 2
                assert (tmp_path / "one").read_bytes() == expected
