"""Laws of what the encoder and the writers of ids are given by mistake: an error of VOLT's that says what to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from volt.encode.batch_encoder import Encoded
from volt.encode.binarize import binarize, binarize_each
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_each, encode_one, encode_stream
from volt.encode.frames import Frame
from volt.errors import ArgumentError, ConfigError, CorpusError, VocabularyError, VoltError
from volt.vocabulary import Vocabulary

ENCODER = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "l</w>", "o</w>")))
ONE, MARK = (
    np.array([0, 1]),
    "contains white space or unprintable characters; give a mark such as '@@'",
)
OUT, ROW, FLAT = Path("out"), np.array([4], np.int32), "; give a flat numpy array of whole numbers"

# what is called wrongly → the kind of error, and how it starts
WRONG: list[tuple[Callable[[], object], type[VoltError], str]] = [
    (lambda: ENCODER.encode_words(["lo", ""]), ConfigError, "words[1] is empty; remove it"),
    (lambda: ENCODER.encode_words([""]), ConfigError, "words[0] is empty; remove it"),
    (lambda: ENCODER.encode_words(["\ud800"]), CorpusError, "lone surrogate U+D800"),
    (
        lambda: ENCODER.encode_text(b"lo", separator="\ud800"),
        ConfigError,
        "separator contains the lone surrogate",
    ),
    (lambda: ENCODER.encode_text(b"lo", separator="\n"), ConfigError, rf"separator '\n' {MARK}"),
    (lambda: ENCODER.encode_text(b"lo", separator=" "), ConfigError, f"separator ' ' {MARK}"),
    (lambda: ENCODER.encode_text(b"lo", separator="\0"), ConfigError, rf"separator '\x00' {MARK}"),
    (
        lambda: ENCODER.encode_text(b"lo", form=np.array([1, 2])),
        ArgumentError,
        "form is a ndarray; give a str",
    ),  # type: ignore[arg-type]
    (
        lambda: ENCODER.decode_batch([[1], [2**70]]),
        VocabularyError,
        "encoded contains an id of more than 64 bits",
    ),
    (
        lambda: ENCODER.decode_batch(Encoded(None, None)),
        ArgumentError,
        "encoded.ids is None; give a flat numpy",
    ),  # type: ignore[arg-type]
    (
        lambda: ENCODER.decode_batch(Encoded([4], [0, 1])),
        ArgumentError,
        "encoded.ids is a list; give a flat numpy",
    ),  # type: ignore[arg-type]
    (
        lambda: ENCODER.decode_bytes(Encoded(ROW[:, None], ONE)),
        ArgumentError,
        f"encoded.ids is a ndarray of int32 and 2 dimensions{FLAT}",
    ),
    (
        lambda: ENCODER.decode_batch(Encoded(ROW, ONE / 2)),
        ArgumentError,
        f"encoded.offsets is a ndarray of float64 and 1 dimension{FLAT}",
    ),
    (lambda: EncodeJob(separator="\t"), ConfigError, rf"separator '\t' {MARK}"),
    (lambda: EncodeJob(n_threads=0), ConfigError, "n_threads is 0; give 1 or more"),
    (
        lambda: EncodeJob(form=np.array([1, 2])),
        ArgumentError,
        "output is a ndarray; choose from pieces, ids, npy, bin",
    ),  # type: ignore[arg-type]
    (
        lambda: Frame((2**40,), ()),
        ConfigError,
        "front[0] is 1099511627776; give 2,147,483,647 or less",
    ),
    (lambda: Frame((-1,)), ConfigError, "front[0] is -1; give 0 or more"),
    (lambda: Frame((), (None,)), ArgumentError, "back[0] is None; give a whole number"),  # type: ignore[arg-type]
    (
        lambda: binarize(ENCODER, "b.txt", OUT),
        ArgumentError,
        "paths is 'b.txt' (str); did you mean [path]?",
    ),
    (
        lambda: binarize(ENCODER, Path("b.txt"), OUT),
        ArgumentError,
        "paths is a PosixPath; did you mean [path]?",
    ),  # type: ignore[arg-type]
    (lambda: binarize(ENCODER, None, OUT), ArgumentError, "paths is None; give a list of paths"),  # type: ignore[arg-type]
    (lambda: binarize(ENCODER, [], OUT), ConfigError, "paths is empty; name the files to encode"),
    (
        lambda: binarize(ENCODER, [5], OUT),
        ArgumentError,
        "paths[0] is 5 (int); give the path of a file",
    ),  # type: ignore[list-item]
    (
        lambda: binarize(ENCODER, ["b"], OUT, frame=5),
        ArgumentError,
        "frame is 5 (int); give a Frame, or None",
    ),  # type: ignore[arg-type]
    (
        lambda: binarize(ENCODER, ["b"], OUT, job=5),
        ArgumentError,
        "job is 5 (int); give an EncodeJob, such as",
    ),  # type: ignore[arg-type]
    (
        lambda: binarize(ENCODER, ["b"], None),
        ArgumentError,
        "prefix is None; give the path of a file",
    ),  # type: ignore[arg-type]
    (
        lambda: binarize(ENCODER.vocabulary, ["b"], OUT),  # type: ignore[arg-type]
        ArgumentError,
        "encoder is a Vocabulary; give a volt.Encoder: volt.Encoder(vocabulary)",
    ),
    (
        lambda: list(binarize_each(ENCODER, "b.txt", OUT)),
        ArgumentError,
        "paths is 'b.txt' (str); did you mean [path]?",
    ),
    (
        lambda: encode_one(ENCODER, "b.txt", OUT, job=EncodeJob()),
        ArgumentError,
        "paths is 'b.txt' (str); did you mean",
    ),
    (
        lambda: list(encode_each(ENCODER, "b.txt", OUT, job=EncodeJob())),
        ArgumentError,
        "paths is 'b.txt' (str); did",
    ),
    (
        lambda: list(encode_stream(ENCODER, "b.txt", job=EncodeJob())),
        ArgumentError,
        "paths is 'b.txt' (str); did you",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=range(len(WRONG)))
def test_what_cannot_be_meant_is_reported(
    call: Callable[[], object],
    kind: type[VoltError],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error is one of VOLT's, of the kind that callers catch, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_what_can_be_meant_is_taken(tmp_path: Path) -> None:
    """Paths as objects or texts, a prefix as a text, ids of any whole type, frames as lists, marks of any letters."""
    source = tmp_path / "a.txt"
    source.write_text("lo\n", encoding="utf-8")
    made = binarize(ENCODER, [source], str(tmp_path / "a"), frame=Frame([1], [2]))  # type: ignore[arg-type, list-item]
    assert (made.n_lines, made.n_ids) == (1, 4)
    assert ENCODER.decode_batch(Encoded(np.array([6], np.uint16), ONE)) == ["lo"]  # type: ignore[arg-type]
    assert ENCODER.encode_text(b"lo\n", separator="￭") == b"l\xef\xbf\xad o\n"
