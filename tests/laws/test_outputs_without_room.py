"""Files that belong together are written all or, if one does not fit on the disk, not at all."""

import resource
from contextlib import contextmanager

import numpy as np
import pytest

from volt.choose.search import search
from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.encode.files import EncodeJob, encode_one
from volt.errors import OutputError
from volt.files.indexed_dataset import write_ids
from volt.formats.registry import write_vocabulary
from volt.learn.bpe import learn_bpe


def _learned(words):
    candidates = learn_bpe(WordCounts.from_pairs(words), n_merges=30)
    return search(candidates, sizes=[candidates.n_tokens]).vocabulary.closed()


@pytest.fixture(scope="module")
def vocabularies():
    """A small vocabulary, and one whose files are longer."""
    return _learned({"low": 3}), _learned(
        {"lower": 9, "lowest": 8, "widest": 7, "newer": 6, "older": 5, "h\u00f6he": 4}
    )


@contextmanager
def _disk_with(n_bytes):
    """Limit the size of files, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def _content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def _refusal(write, place, number):
    try:
        write(place, number)
    except OutputError as error:
        return str(error)
    return ""


def _check_all_or_nothing(folder, write):
    """Write twice, each time on disks that are full after any of the files, then with room."""
    place, sizes = folder / "made", set()
    for number in (0, 1):
        write(folder.parent / f"whole{number}" / "made", number)
        whole = _content(folder.parent / f"whole{number}")
        sizes |= {len(data) for data in whole.values() if data is not None}
        assert len(whole) > 1
        for size in sizes:
            before = _content(folder)
            with _disk_with(size - 1):
                refusal = _refusal(write, place, number)
            if refusal:
                assert "it was not changed" in refusal
                assert _content(folder) == before
        with _disk_with(min(sizes) - 1), pytest.raises(OutputError):
            write(place, number)
        write(place, number)
        assert _content(folder).items() >= whole.items()


@pytest.mark.parametrize("to", ["huggingface", "subword-nmt", "sentencepiece"])
def test_an_export_without_room_changes_nothing(to, vocabularies, tmp_path):
    """If the disk is full, an export leaves no new file or folder, and older files stay."""
    for folder in ("here", "whole0", "whole1"):
        (tmp_path / folder).mkdir()
    (tmp_path / "here/users").write_text("mine")
    _check_all_or_nothing(
        tmp_path / "here",
        lambda place, number: write_vocabulary(vocabularies[number], place, to=to),
    )


def test_arrays_without_room_change_nothing(vocabularies, tmp_path):
    """If the disk is full, encoding into arrays leaves the earlier ids and offsets as they were."""
    texts = tmp_path / "short.txt", tmp_path / "long.txt"
    texts[0].write_text("low")
    texts[1].write_text("lower\n" * 900)
    encoder = Encoder(vocabularies[1])
    for folder in ("here", "whole0", "whole1"):
        (tmp_path / folder).mkdir()

    def write(place, number):
        encode_one(encoder, [str(texts[number])], place, job=EncodeJob("npy"))

    _check_all_or_nothing(tmp_path / "here", write)


def test_pairs_without_room_change_nothing(tmp_path):
    """If the disk is full, `binarize` leaves neither a .bin nor an .idx file."""

    def write(place, number):
        with write_ids(place, dtype="i32") as writer:
            writer.add(np.arange(3 + 900 * number), np.full(1 + 300 * number, 3))

    for folder in ("here", "whole0", "whole1"):
        (tmp_path / folder).mkdir()
    _check_all_or_nothing(tmp_path / "here", write)
