"""Comparisons of small corpora, and a parser of the comparison page."""

import json
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory

from volt.comparison.compare import compare
from volt.comparison.texts import NamedText
from volt.count.corpus import count_words

HOSTILE = [
    "<script>window.broken=1</script> <img/src=x/onerror=window.broken=2> <b>bold</b> </script> <!--<script> -->",
    '"><svg/onload=window.broken=3> \'"` javascript:alert(1) &lt;b&gt; &amp; {{7*7}} ${window.broken=4} ]]>',
    "a\u202eb\u202d \u2066x\u2069 \u200fr\u200e ab\u200bcd e\ufeffx n\u0001l \u0301mark ⟨U+202E⟩ \\u003c",
    "</w> </w></w> constructor __proto__ toString hasOwnProperty \U000e0041tag \U0001f600 👩‍🚀 שלום مرحبا",
]


@cache
def topics_comparison():
    """Compare the documentation topics of this Python as two sources, with held-out text."""
    texts = list(topics.values())
    parts = {"even": texts[0:24:2], "odd": texts[1:24:2]}
    return _compared(
        parts, {"even": texts[60:64], "odd": texts[64:68]}, n_candidates=800, systems=["bpe:500"]
    )


@cache
def hostile_comparison():
    """Compare a corpus whose words contain HTML."""
    lines = [line for line in HOSTILE for _ in range(30)]
    return _compared({"<b>x": lines}, {}, n_candidates=400, systems=[], samples=HOSTILE)


def small_comparison(sizes):
    """Compare one topic at these sizes; three short lines if `sizes` is None."""
    lines = ["ab ab abc"] * 3 if sizes is None else [topics["assert"]]
    return _compared({"small": lines}, {}, n_candidates=100, systems=[], sizes=sizes)


def spaced_comparison(pretokenizer, normalizer):
    """Compare a few topics with this pre-tokenizer and normalizer."""
    lines = [line for text in list(topics.values())[:8] for line in text.split("\n")]
    with TemporaryDirectory() as folder:
        path = Path(folder, "topics.txt")
        path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
        counts = count_words(path, pretokenizer=pretokenizer, normalizer=normalizer)
    return compare(
        [NamedText("topics", counts, lines=tuple(lines[2:6]))], systems=[], n_candidates=300
    )


def _compared(parts, heldout, **options):
    with TemporaryDirectory() as folder:

        def named(texts, ending):
            paths = [Path(folder, f"{number}.{ending}") for number in range(len(texts))]
            for path, lines in zip(paths, texts.values(), strict=True):
                path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
            return [f"{name}={path}" for name, path in zip(texts, paths, strict=True)]

        return compare(named(parts, "train"), heldout=named(heldout, "heldout"), **options)


class Page(HTMLParser):
    """A parsed page: tables as rows of (shown text, JSON value), scripts, and all tags."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tables = {}
        self.scripts = []
        self.tags = []
        self._table = ""
        self._cell = False
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag == "table":
            self._table = attributes.get("id") or ""
            self.tables[self._table] = []
        elif tag == "tr":
            self.tables[self._table].append([])
        elif tag in ("td", "th") and "data-value" in attributes:
            self.tables[self._table][-1].append(
                ("", json.loads(attributes["data-value"] or "null"))
            )
            self._cell = True
        elif tag == "script":
            self.scripts.append((attributes, ""))
            self._in_script = True

    def handle_endtag(self, tag):
        self._cell = self._cell and tag not in ("td", "th")
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._cell:
            shown, value = self.tables[self._table][-1][-1]
            self.tables[self._table][-1][-1] = (shown + data, value)

    def embedded(self, name):
        """Return the JSON of a data block."""
        return json.loads(
            next(text for attributes, text in self.scripts if attributes.get("id") == name)
        )

    def rows(self, table):
        """Return the values of a table's body."""
        return [[value for _, value in row] for row in self.tables[table] if row]
