"""Tasks with small input files, and readers of the shards that are written from them."""

import gzip

from volt.stream.reading.open_shard import open_shard
from volt.stream.tasks.task import Input, Task


def write(path, text):
    """Write a file, compressed if its name says so."""
    if path.suffix == ".gz":
        text = gzip.compress(text, mtime=0)
    path.write_bytes(text)
    return str(path)


def numbered(name, n):
    """Return lines that state their origin."""
    return b"".join(b"%s line %d\n" % (name.encode(), line) for line in range(n))


def mono_task(folder, texts, *, name="auto_en", **options):
    """Return a task with an input of one file for each name and text in `texts`."""
    inputs = tuple(
        Input(one, (("mono", write(folder / one, text)),)) for one, text in texts.items()
    )
    return Task(name, "mono", inputs, **options)


def pair_task(folder, sizes, *, name="de_en", **options):
    """Return a task with an input of n pairs of lines for each name and n in `sizes`."""
    inputs = []
    for one, n in sizes.items():
        sides = (
            (side, write(folder / f"{one}.{side}", numbered(f"{one} {side}", n)))
            for side in ("src", "tgt")
        )
        inputs.append(Input(one, tuple(sides)))
    return Task(name, "para", tuple(inputs), **options)


def lines_of(path):
    """Return the lines of a shard, as a stream reads them."""
    shard = open_shard(path, split_lines=None)
    return [line for piece in range(len(shard.counts)) for line in shard.read(piece)[0].strings()]


def shards_of(manifest):
    """Return, for each shard of a manifest, the lines of each side."""
    n = len(manifest.sides)
    read = [lines_of(path) for path in manifest.paths]
    return [tuple(read[at : at + n]) for at in range(0, len(read), n)]


def bytes_of(folder):
    """Return name → content of all files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
