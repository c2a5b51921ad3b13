"""Laws of wrong arguments of the encoder and the writers of ids: an error of VOLT says what to pass instead."""

from pathlib import Path

import numpy as np
import pytest

from volt.encode.batch_encoder import Encoded
from volt.encode.binarize import binarize, binarize_each
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_each, encode_one, encode_stream
from volt.encode.frames import Frame
from volt.errors import ArgumentError, ConfigError, CorpusError, VocabularyError
from volt.vocabulary import Vocabulary

ENCODER = Encoder(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "l</w>", "o</w>")))
ONE = np.array([0, 1])
ROW = np.array([4], np.int32)
OUT = Path("out")
JOB = EncodeJob()
MARK = "contains white space or unprintable characters; give a mark such as '@@'"
FLAT = "; give a flat numpy array of whole numbers"
PATHS = "paths is 'b.txt' (str); did you mean [path]?"

# a wrong call, the kind of its error, and how the error starts
WRONG = [
    (lambda: ENCODER.encode_words(["lo", ""]), ConfigError, "words[1] is empty; remove it"),
    (lambda: ENCODER.encode_words(["\ud800"]), CorpusError, "lone surrogate U+D800"),
    (lambda: text("\ud800"), ConfigError, "separator contains the lone surrogate"),
    (lambda: text("\n"), ConfigError, rf"separator '\n' {MARK}"),
    (lambda: text(" "), ConfigError, f"separator ' ' {MARK}"),
    (lambda: text("\0"), ConfigError, rf"separator '\x00' {MARK}"),
    (lambda: text("", form=ONE), ArgumentError, "form is a ndarray; give a str"),
    (
        lambda: decode([[1], [2**70]]),
        VocabularyError,
        "encoded contains an id of more than 64 bits",
    ),
    (lambda: decode(Encoded(None, None)), ArgumentError, "encoded.ids is None; give a flat"),
    (lambda: decode(Encoded([4], [0, 1])), ArgumentError, "encoded.ids is a list; give a flat"),
    (
        lambda: ENCODER.decode_bytes(Encoded(ROW[:, None], ONE)),
        ArgumentError,
        f"encoded.ids is a ndarray of int32 and 2 dimensions{FLAT}",
    ),
    (
        lambda: decode(Encoded(ROW, ONE / 2)),
        ArgumentError,
        f"encoded.offsets is a ndarray of float64 and 1 dimension{FLAT}",
    ),
    (
        lambda: ENCODER.decode_ids(iter([1, 1 << 40])),
        VocabularyError,
        f"id {1 << 40} at position 1: ",
    ),
    (lambda: ENCODER.decode_ids([1 << 90]), VocabularyError, f"id {1 << 90} at position 0: ids go"),
    (
        lambda: ENCODER.decode_batch([[1], [1 << 40]]),
        VocabularyError,
        f"id {1 << 40} at position 1",
    ),
    (lambda: ENCODER.decode_ids([1, 9]), VocabularyError, "id 9 at position 1: ids go from 0 to 8"),
    (
        lambda: ENCODER.decode_ids([1, -1]),
        VocabularyError,
        "id -1 at position 1: ids go from 0 to 8",
    ),
    (lambda: job(separator="\t"), ConfigError, rf"separator '\t' {MARK}"),
    (lambda: job(n_threads=0), ConfigError, "n_threads is 0; give 1 or more"),
    (
        lambda: job(form=ONE),
        ArgumentError,
        "output is a ndarray; choose from pieces, ids, npy, bin",
    ),
    (lambda: Frame((2**40,)), ConfigError, "front[0] is 1099511627776; give 2,147,483,647 or less"),
    (lambda: Frame((-1,)), ConfigError, "front[0] is -1; give 0 or more"),
    (lambda: Frame((), (None,)), ArgumentError, "back[0] is None; give a whole number"),
    (lambda: pair("b.txt"), ArgumentError, PATHS),
    (lambda: pair(Path("b.txt")), ArgumentError, "paths is a PosixPath; did you mean [path]?"),
    (lambda: pair(None), ArgumentError, "paths is None; give a list of paths"),
    (lambda: pair([]), ConfigError, "paths is empty; name the files to encode"),
    (lambda: pair([5]), ArgumentError, "paths[0] is 5 (int); give the path of a file"),
    (lambda: pair(["b"], frame=5), ArgumentError, "frame is 5 (int); give a Frame, or None"),
    (lambda: pair(["b"], job=5), ArgumentError, "job is 5 (int); give an EncodeJob, such as"),
    (lambda: pair(["b"], None), ArgumentError, "prefix is None; give the path of a file"),
    (
        lambda: binarize(ENCODER.vocabulary, ["b"], OUT),
        ArgumentError,
        "encoder is a Vocabulary; give a volt.Encoder: volt.Encoder(vocabulary)",
    ),
    (lambda: list(binarize_each(ENCODER, "b.txt", OUT)), ArgumentError, PATHS),
    (lambda: encode_one(ENCODER, "b.txt", OUT, job=JOB), ArgumentError, PATHS),
    (lambda: list(encode_each(ENCODER, "b.txt", OUT, job=JOB)), ArgumentError, PATHS),
    (lambda: list(encode_stream(ENCODER, "b.txt", job=JOB)), ArgumentError, PATHS),
]


def text(separator, **options):
    return ENCODER.encode_text(b"lo", separator=separator, **options)


def decode(encoded):
    return ENCODER.decode_batch(encoded)


def job(**options):
    return EncodeJob(**options)


def pair(paths, prefix=OUT, **options):
    return binarize(ENCODER, paths, prefix, **options)


@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_arguments_are_refused(
    call,
    kind,
    message,
    tmp_path,
    monkeypatch,
):
    """Each wrong call raises the expected kind of error with its message, and writes no file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_arguments_are_converted(tmp_path):
    """Calls accept paths as text, ids of any integer type, frames as lists, and any buffer of
    bytes.
    """
    source = tmp_path / "a.txt"
    source.write_text("lo\n", encoding="utf-8")
    result = binarize(ENCODER, [source], str(tmp_path / "a"), frame=Frame([1], [2]))
    assert (result.n_lines, result.n_ids) == (1, 4)
    assert decode(Encoded(np.array([6], np.uint16), ONE)) == ["lo"]
    assert ENCODER.encode_text(b"lo\n", separator="￭") == b"l\xef\xbf\xad o\n"
    expected = ENCODER.encode_ids("lo").tolist()
    for data in (bytearray(b"lo"), memoryview(b"lo")):
        assert ENCODER.encode_bytes(data).ids.tolist() == expected
