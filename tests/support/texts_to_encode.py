"""Files that the tests of encoding files read."""

import gzip

LINES = ["low lower", "", "lowlow  low", "é"] * 50


def write_texts(folder):
    """Write three files: plain, empty, and compressed without a last line end."""
    (folder / "a.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (folder / "b.txt").write_bytes(b"")
    (folder / "c.txt.gz").write_bytes(gzip.compress("\n".join(LINES[:3]).encode()))
    return [str(folder / name) for name in ("a.txt", "b.txt", "c.txt.gz")]
