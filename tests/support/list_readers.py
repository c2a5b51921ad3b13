"""Read token lists as fairseq, Marian and OpenNMT-py do: text → {piece: id}.

The functions follow the libraries' sources, because the libraries cannot be installed with the
tests.
"""

import io

import pytest


def fairseq_ids(text):
    """Read a file as fairseq's Dictionary.add_from_file does."""
    ids = {piece: number for number, piece in enumerate(("<s>", "<pad>", "</s>", "<unk>"))}
    for number, line in enumerate(io.StringIO(text, newline=None), 4):
        word, field = line.rstrip().rsplit(" ", 1)
        overwrite = field == "#fairseq:overwrite"
        if overwrite:
            word, field = word.rsplit(" ", 1)
        int(field)
        assert overwrite or word not in ids
        ids[word] = number
    return ids


def marian_ids(text):
    """Read a file as PyYAML does."""
    yaml = pytest.importorskip("yaml")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def opennmt_ids(text, min_count=0):
    """Read a file as OpenNMT-py does: piece → its place after the library's own special tokens.

    The first line says whether there are counts. A line is cut at its first white space of any
    kind.
    """
    lines = text.split("\n")[:-1]
    rows = [line.split(None, 1) for line in lines]
    if not rows or len(rows[0]) != 2 or not rows[0][1].isdigit():
        rows = [[line, "0"] for line in lines]
    pieces = [piece for piece, count in rows if int(count) >= min_count]
    return {piece: number for number, piece in enumerate(pieces)}


def line_ids(text):
    """Return the number of each line."""
    return {line: number for number, line in enumerate(text.split("\n")[:-1])}


READERS = {
    "fairseq": (fairseq_ids, 4),
    "marian": (marian_ids, 2),
    "opennmt": (opennmt_ids, 0),
    "tokens": (line_ids, 0),
}
