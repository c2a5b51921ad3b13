"""Laws of `learn_superwords`: its merges are those of the whole text, and its counts are exact."""

import gzip
import io
import json
from collections import Counter
from pydoc_data.topics import topics

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from volt.choose import superwords
from volt.choose.vocabulary_at import vocabulary_at
from volt.errors import CandidateError, ConfigError, CorpusError, VoltError
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens

MANY = settings(max_examples=examples(600), deadline=None)
WORDS = ["a", "b", "ab", "aa", "ba", "abc", "'s", "1", "12", "!!", "", "é"]
lines = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
texts_of_lines = st.lists(lines | st.text("ab '1", max_size=9), min_size=1, max_size=8)
COUNTING = st.sampled_from(
    [
        {"level": "bytes"},
        {"level": "bytes", "pattern": "llama3"},
        {"pretokenizer": "metaspace"},
        {"pretokenizer": "gpt2"},
        {"pretokenizer": "unicode"},
    ]
)


def stretches_of(texts, across):
    """Count the stretches of texts."""
    return Counter(stretch for text in texts for stretch in across.split(text))


def contains_two_words(stretches, merges):
    """Check whether a token that starts with a space follows another token in a stretch."""
    pieces = [naive.encode(stretch, merges, marker="none") for stretch in stretches]
    return any(piece[0] in "▁Ġ" for parts in pieces for piece in parts[1:])


def naive_counts(words, merges):
    """Count the pieces of counted words."""
    counts = Counter()
    for word, n in words.items():
        for piece in naive.encode(word, merges, marker="none"):
            counts[piece] += n
    return counts


@MANY
@given(
    texts_of_lines,
    COUNTING,
    st.integers(0, 6),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from([0.01, 0.5, 2.0]),
)
def test_merges_and_counts_equal_those_of_the_whole_text(
    texts, counting, n_first, n_merges, least, surplus
):
    """The merges are those of naive learning in whole stretches, and the counts of every size are
    those of encoding, also if c is too large at first.
    """
    if not "".join(texts):
        return
    words = volt.count_words(texts=texts, **counting)
    first = volt.learn_bpe(words, n_merges=n_first)
    stretches = stretches_of(texts, superwords.choose_coarse(words.pretokenizer, None))
    expected = naive.learn(stretches, n_merges, "none", least, first.merges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superwords, "_SURPLUS", surplus)

        def learn():
            return volt.learn_superwords(
                first, n_superwords=n_merges, texts=texts, min_pair_count=least
            )

        if not expected or not contains_two_words(stretches, first.merges):
            with pytest.raises(CandidateError):
                learn()
            return
        both = learn()

    assert both.merges == first.merges + expected
    for size in range(first.n_atoms, both.n_tokens + 1):
        words_at = stretches if size > first.n_tokens else dict(words.table.rows())
        counts = naive_counts(words_at, both.merges[: both.merges_at(size)])
        tokens = both.tokens_at(size)
        assert both.counts_at(size).tolist() == [counts[token] for token in tokens]
        assert counts.keys() <= set(tokens)


TEXTS = ["as well as the rest", "as well as this", "in 1234 days!!"] * 3


def learn(texts=TEXTS, n_merges=6, **counting):
    """Return candidates of the first stage."""
    return volt.learn_bpe(volt.count_words(texts=texts, **{"level": "bytes", **counting}), n_merges)


def as_lists(candidates):
    """Return what a reading decides."""
    trajectory = [values.tolist() for values in vars_of(candidates.trajectory)]
    return candidates.tokens, candidates.merges, trajectory


def vars_of(trajectory):
    return trajectory.tokens, trajectory.merges, trajectory.before, trajectory.after


def test_all_kinds_of_files_give_the_same_merges(tmp_path):
    """Plain and compressed files, columns, fields, several files and texts are read as in counting."""
    expected = volt.learn_superwords(learn(), n_superwords=4, texts=TEXTS)
    text = "".join(line + "\n" for line in TEXTS)
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"t": line}) + "\n" for line in TEXTS))
    (tmp_path / "d.tsv").write_text("".join(f"{n}\t{line}\r\n" for n, line in enumerate(TEXTS)))
    (tmp_path / "e1.txt").write_text("".join(line + "\n" for line in TEXTS[:4]))
    (tmp_path / "e2.txt").write_text("\n".join(TEXTS[4:]))
    for names, columns in (
        (["a.txt"], {}),
        (["b.txt.gz"], {}),
        (["c.jsonl"], {"column": "t"}),
        (["d.tsv"], {"fields": 2}),
        (["e1.txt", "e2.txt"], {}),
    ):
        paths = [tmp_path / name for name in names]
        words = volt.count_words(paths, level="bytes", **columns)
        both = volt.learn_superwords(volt.learn_bpe(words, 6), paths, 4, **columns)
        assert as_lists(both) == as_lists(expected), names


@pytest.mark.parametrize("fault", ["no folder", "less room", "full"])
def test_text_is_read_again_if_its_tokens_cannot_be_kept(monkeypatch, fault):
    """Without a temporary file, or room in it, the merges are the same, and the text is read twice."""
    expected = volt.learn_superwords(learn(), n_superwords=4, texts=TEXTS)
    assert expected.superwords.n_reads == 1
    name = {"no folder": "/no/such/file", "full": "/dev/full"}.get(fault)
    if name:
        monkeypatch.setattr(superwords, "TemporaryFile", lambda **options: io.FileIO(name, "w"))
    else:
        monkeypatch.setattr(superwords, "_LEAST_FREE", 1 << 62)
    both = volt.learn_superwords(learn(), n_superwords=4, texts=TEXTS)
    assert both.superwords.n_reads == 2
    assert as_lists(both) == as_lists(expected)


@pytest.mark.parametrize("change", ["longer", "shorter", "rewritten"])
def test_text_that_changes_between_readings_is_refused(tmp_path, change):
    """A file that another program changes gives an error, not merges of two texts."""
    path = tmp_path / "a.txt"
    text = "".join(line + "\n" for line in TEXTS)
    path.write_text(text)
    candidates = volt.learn_bpe(volt.count_words(path, level="bytes"), 6)
    new_texts = {"longer": text + "x\n", "shorter": text[:-5], "rewritten": text.upper()}

    def change_file(*facts):
        path.write_text(new_texts[change])

    with pytest.raises(CorpusError, match="changed while it was read"):
        volt.learn_superwords(candidates, path, 4, progress=change_file)
    with pytest.raises(CorpusError, match="give the same text, or count again"):
        volt.learn_superwords(candidates, path, 4)


def test_cuts_and_counts_are_exact_in_a_book(monkeypatch):
    """In Python's manual, merges are those of uncut text (c = 1), and the counts of 20 sizes are
    those of encoding."""
    lines = "\n".join(topics.values())[:200_000].splitlines()
    first = learn(lines, 800)
    cut = volt.learn_superwords(first, n_superwords=400, texts=lines)
    assert cut.superwords.least > 2
    monkeypatch.setattr(superwords._Pairs, "count_at", lambda self, n_pairs, least: 1)
    uncut = volt.learn_superwords(first, n_superwords=400, texts=lines, min_pair_count=1)
    assert uncut.superwords.least == 1
    assert as_lists(cut) == as_lists(uncut)

    for size in np.linspace(300, cut.n_tokens, 20).astype(int).tolist():
        vocabulary = vocabulary_at(cut, size)
        ids = volt.Encoder(vocabulary).encode_batch(lines).ids
        counts = np.bincount(ids, minlength=len(vocabulary.pieces))
        numbers = [vocabulary.ids[token] for token in cut.tokens_at(size)]
        assert counts[numbers].tolist() == cut.counts_at(size).tolist()


U = "a b", "c d", "e f"
REFUSED = {
    "above 0 and below 1": lambda: volt.learn_superwords(learn(), None, 1.5, texts=TEXTS),
    "give 1 or more": lambda: volt.learn_superwords(learn(), None, 0, texts=TEXTS),
    "several words on a line": lambda: volt.learn_superwords(
        learn(["low", "low"]), texts=["low", "low"]
    ),
    "with a space between them": lambda: volt.learn_superwords(
        learn(["海上"] * 3), texts=["海上"] * 3
    ),
    "'gpt2' ends stretches at each space": lambda: volt.learn_superwords(
        learn(), texts=TEXTS, across="gpt2"
    ),
    "or give another pattern": lambda: volt.learn_superwords(learn(), texts=TEXTS, across="."),
    "min_pair_count=1": lambda: volt.learn_superwords(learn(U), texts=U),
    "did you mean llama3": lambda: volt.learn_superwords(learn(), texts=TEXTS, across="lama3"),
    "close the group": lambda: volt.learn_superwords(learn(), texts=TEXTS, across="("),
    "leave across out": lambda: volt.learn_superwords(
        learn(level="characters", pretokenizer="metaspace"), texts=TEXTS, across="digits"
    ),
    "level='bytes' or pretokenizer='metaspace'": lambda: volt.learn_superwords(
        learn(level="characters"), texts=TEXTS
    ),
    "marker='none'": lambda: volt.learn_superwords(
        volt.learn_bpe(volt.count_words(texts=TEXTS, level="bytes"), 6, marker="suffix"),
        texts=TEXTS,
    ),
    "give a list": lambda: volt.learn_superwords(learn(), texts=iter(TEXTS)),
    "did you mean texts=": lambda: volt.learn_superwords(learn()),
    "write its lines to a file": lambda: volt.learn_superwords(learn(), "-"),
    "remove one of them": lambda: volt.learn_superwords(learn(), "a.txt", texts=TEXTS),
    "give 6 or less": lambda: volt.learn_superwords(learn(), texts=TEXTS, transition=7),
    "superwords already": lambda: volt.learn_superwords(
        volt.learn_superwords(learn(), texts=TEXTS), texts=TEXTS
    ),
    "temperature=1": lambda: volt.learn_superwords(
        volt.learn_bpe(volt.mix({"a": learn().counts, "b": learn(U).counts}, temperature=2), 3),
        texts=TEXTS,
    ),
}


@pytest.mark.parametrize("remedy", REFUSED)
def test_bad_input_is_refused_with_a_remedy(remedy):
    """Words, texts and options that superwords cannot be learned from are refused with what to do instead."""
    with pytest.raises(VoltError) as caught:
        REFUSED[remedy]()
    assert remedy in str(caught.value)


def test_extensions_and_parity_are_refused():
    """Merges that extend a vocabulary, or that several sources chose, are not continued."""
    old = volt.search(learn(), sizes=[262], select=262).vocabulary
    extension = volt.extend_bpe(old, learn().counts, 2)
    parity = volt.learn_parity({"a": learn().counts, "b": learn().counts}, 3, unit="line")
    for candidates in (extension, parity):
        with pytest.raises(CandidateError, match="give candidates from learn_bpe"):
            volt.learn_superwords(candidates, texts=TEXTS)


def test_lines_are_the_stretches_of_each_kind_of_metaspace():
    """Without a pattern, stretches of words that start with a dummy "▁" are lines, spelled alike."""
    for ending in ("", "-if-absent", "-per-segment", "-if-absent-per-segment"):
        for start in ("metaspace", "metaspace-runs", "metaspace-line"):
            coarse = superwords.choose_coarse(PreTokenizer(start + ending), None)
            assert coarse.name == f"metaspace-line{ending}"
    with pytest.raises(ConfigError, match="does not spell text as"):
        superwords.choose_coarse(PreTokenizer("metaspace"), PreTokenizer("split:,+"))


def test_a_pattern_that_ends_no_stretch_leaves_lines():
    """A pattern that matches nothing is no error: stretches end with their lines."""
    both = volt.learn_superwords(learn(), None, 9, texts=TEXTS, across="[#]")
    assert any("Ġ" in token[1:] for token in both.tokens)


def test_a_search_continues_beyond_the_transition():
    """Measures of all sizes are those of encoding, with the pre-tokenizer of the size."""
    both = volt.learn_superwords(learn(), n_superwords=5, texts=TEXTS)
    result = volt.search(both, sizes=[257, 260, 262, 263, 265, 267], select=266)
    for step in result.steps:
        vocabulary = volt.search(both, sizes=[257, 267], select=step.size).vocabulary
        is_word = step.size <= 262
        assert vocabulary.pretokenizer == (
            both.counts.pretokenizer if is_word else both.superwords.across
        )
        pieces = volt.Encoder(vocabulary).encode_lines(TEXTS)
        counts = Counter(piece for line in pieces for piece in line)
        assert step.n_pieces == counts.total() or not step.kept.all()
        assert dict(zip(vocabulary.tokens, vocabulary.counts, strict=True)) == {
            token: counts[token] for token in vocabulary.tokens
        }
    facts = result.vocabulary.provenance
    assert facts["transition"] == 6
    assert facts["across"] == PreTokenizer.of_pattern("superbpe", level="bytes").name
    across = facts["across"].replace("|", "%7C")
    assert f"superwords:6:{across}" in result.signature.split("|")


def test_transition_and_share_choose_the_merges():
    """The first merges are those before the transition; a share is of all tokens."""
    first = learn(n_merges=20)
    both = volt.learn_superwords(first, None, 4 / 266, texts=TEXTS, transition=6)
    assert both.merges[:6] == first.merges[:6]
    assert both.n_merges == 10
    with pytest.raises(ConfigError):
        volt.learn_superwords(first, None, 1.0, texts=TEXTS)


def test_user_tokens_and_uncovered_characters_end_runs():
    """No merge contains a user token, or a character that coverage drops."""
    texts = ["as well <x> as well é as", *["as well as"] * 20]
    special = SpecialTokens(user=["<x>"])
    counting = {"special": special, "level": "characters", "pretokenizer": "metaspace"}
    words = volt.count_words(texts=texts, **counting)
    first = volt.learn_bpe(words, 4, coverage=0.99)
    assert "é" in first.coverage.left_out
    both = volt.learn_superwords(first, None, 9, texts=texts, special=special)
    assert "▁as▁well" in both.tokens
    assert not [token for token in both.tokens if "x" in token or "é" in token or "<" in token]
