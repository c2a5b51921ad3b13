"""Small parallel corpora made on the spot, so that every example runs without data: German and English by a grammar.

>>> sentence_pairs()[0]
('die Katze sieht heute den Hund .', 'the cat sees the dog today .')
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from itertools import product

Pair = tuple[str, str]

_SUBJECTS = (("die Katze", "the cat"), ("ein Kind", "a child"), ("unser Nachbar", "our neighbour"), ("Maria", "Mary"),
             ("der alte Mann", "the old man"), ("jemand", "somebody"))  # fmt: skip
_VERBS = (("sieht", "sees"), ("sucht", "looks for"), ("findet", "finds"), ("hört", "hears"), ("kennt", "knows"))
_OBJECTS = (("den Hund", "the dog"), ("ein Buch", "a book"), ("die Straße", "the street"), ("das Meer", "the sea"),
            ("keinen Ausweg", "no way out"), ("die Brücke", "the bridge"))  # fmt: skip
_TIMES = (("heute", "today"), ("jeden Tag", "every day"), ("wieder", "again"), ("im Sommer", "in summer"))


def sentence_pairs() -> list[Pair]:
    """720 different sentences with their translations.

    >>> len(set(sentence_pairs()))
    720
    """
    return [
        (f"{subject[0]} {verb[0]} {time[0]} {thing[0]} .", f"{subject[1]} {verb[1]} {thing[1]} {time[1]} .")
        for subject, thing, verb, time in product(_SUBJECTS, _OBJECTS, _VERBS, _TIMES)
    ]


def side(number: int, *, first: int = 0, last: int | None = None) -> bytes:
    """One side of all pairs, or of those from `first` up to and without `last`, a line each.

    number: 0 is German, 1 English

    >>> side(1)[:30]
    b'the cat sees the dog today .\\nt'
    """
    return "".join(f"{pair[number]}\n" for pair in sentence_pairs()[first:last]).encode()


def shard(pairs: Iterable[Pair]) -> bytes:
    """Pairs as a gzipped TSV file; the same pairs give the same bytes.

    >>> gzip.decompress(shard([("ja", "yes")]))
    b'ja\\tyes\\n'
    """
    return gzip.compress("".join(f"{source}\t{target}\n" for source, target in pairs).encode(), mtime=0)


def parallel() -> bytes:
    """The first two thirds of the sentences."""
    return shard(sentence_pairs()[:480])


def backtranslated() -> bytes:
    """The rest, the German side as poor as machine translation may be: without articles and umlauts."""
    plain = str.maketrans("äöüß", "aous")
    articles = {"die", "der", "den", "das", "ein"}
    rest = sentence_pairs()[480:]
    return shard(
        (" ".join(word for word in de.translate(plain).split() if word not in articles), en) for de, en in rest
    )


def with_urls() -> bytes:
    """Sentences of which every other one has a URL: some on both sides, some on one side only, some different."""
    addresses = ("https://example.org/katze", "http://example.org/hund")
    rows = list[Pair]()
    for number, (german, english) in enumerate(sentence_pairs()[:240]):
        left = ["", addresses[0], addresses[0], "", addresses[0], addresses[1]][number % 6]
        right = ["", addresses[0], "", "", addresses[1], addresses[1]][number % 6]
        rows.append((f"{german} {left}".strip(), f"{english} {right}".strip()))
    return shard(rows)


def with_documents() -> bytes:
    """Sentences of documents of 1 to 9 lines, with the document's id as a third field."""
    rows, pairs, number = list[str](), iter(sentence_pairs()), 0
    while pair := next(pairs, None):
        number += 1
        members = [pair, *(other for _, other in zip(range(number % 9), pairs, strict=False))]
        rows += [f"{german}\t{english}\tdoc{number}\n" for german, english in members]
    return gzip.compress("".join(rows).encode(), mtime=0)


def vocabulary() -> bytes:
    """A VOLT vocabulary learned from both sides."""
    from volt.choose.search import search
    from volt.count.word_counts import WordCounts
    from volt.files.scratch import scratch_folder
    from volt.learn.bpe import learn_bpe

    counts = Counter(" ".join(" ".join(pair) for pair in sentence_pairs()).split())
    candidates = learn_bpe(WordCounts.from_pairs(counts), n_merges=150)
    size = candidates.n_tokens
    with scratch_folder() as folder:
        path = folder / "vocab.volt"
        search(candidates, sizes=[size], select=f"fixed:{size}").vocabulary.save(path)
        return path.read_bytes()
