"""Names of files that are probably the two sides of a pair, since they differ in a language code alone.

Read one after the other they give lines of two languages where a pair was meant, and nothing in them tells.

>>> probable_pairs(["a.no", "a.sl", "b.txt"])
[('a.no', 'a.sl')]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

# ISO 639-1, and of the codes of three letters those that corpora are named by
_LISTED = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo
es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg
ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn
no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta
te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu ara ben bul cat ces cze dan deu
dut ell eng est eus fas fin fra fre ger gle glg gre guj hau heb hin hrv hun hye ibo ice ind isl ita jpn kat kaz khm
kor lav lit mal mar mkd mlt msa mya nep nld nno nob nor pan pol por ron rum rus slk slo slv som spa sqi srp swa swe
tam tel tha tur ukr urd uzb vie wol xho yor zho zul
"""
_CODES = frozenset(_LISTED.split())
_CODE = re.compile(r"(?<![A-Za-z0-9])([a-z]{2,3})(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3}))?(?![A-Za-z0-9])")
_PACKED = re.compile(r"\.(gz|bz2|xz|zst)$")
_WHOLE = (".tsv", ".jsonl", ".ndjson", ".parquet")  # files whose lines have both sides


def probable_pairs(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of paths that differ in a language code alone, packed or not. Of more than two, each with the next.

    Tables are left out, whose lines have all fields, and so are the halves of a code of two languages, such as `de-en`.

    >>> probable_pairs(["train.en.gz", "train.de", "x.de-en.de", "x.de-en.en", "zh-CN/t.txt", "pt_BR/t.txt"])
    [('train.en.gz', 'train.de'), ('x.de-en.de', 'x.de-en.en'), ('zh-CN/t.txt', 'pt_BR/t.txt')]
    >>> probable_pairs(["part.00", "part.01", "a.txt", "a.log", "de-en.txt", "fr-en.txt", "de.tsv.gz", "fr.tsv.gz"])
    []
    """
    groups = dict[str, dict[str, str]]()
    for path in paths:
        for shape, code in _shapes(path):
            groups.setdefault(shape, {}).setdefault(code, path)
    found = [pair for group in groups.values() for pair in pairwise(group.values())]
    return list(dict.fromkeys(found))


def _shapes(path: str) -> Iterator[tuple[str, str]]:
    """The path with a gap in place of a language code, and that code, for each that stands in it."""
    name = _PACKED.sub("", path)
    codes = [found for found in _CODE.finditer(name) if found[1] in _CODES]
    for place, found in enumerate(codes):
        if not name.endswith(_WHOLE) and not any(_touch(name, found, other) for other in _beside(codes, place)):
            yield f"{name[: found.start()]}\0{name[found.end() :]}", found[0]


def _beside(codes: Sequence[re.Match[str]], place: int) -> Iterable[re.Match[str]]:
    return (*codes[max(0, place - 1) : place], *codes[place + 1 : place + 2])


def _touch(name: str, one: re.Match[str], other: re.Match[str]) -> bool:
    """Whether nothing but a hyphen or an underscore stands between two codes."""
    between = name[min(one.end(), other.end()) : max(one.start(), other.start())]
    return between in ("-", "_")
