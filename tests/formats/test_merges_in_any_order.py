"""A tokenizer.json may list a merge before those that make what it joins, as Llama 3's does: ids are the library's."""

import json
from itertools import product

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.formats.huggingface.tokens import merging_of
from volt.vocabulary import Vocabulary
from volt.vocabulary.validation import joins_later

pytest.importorskip("tokenizers")
TOKENS = ["".join(letters) for n in (1, 2, 3, 4) for letters in product("ab", repeat=n)]
PAIRS = [(left, right) for left, right in product(TOKENS, TOKENS) if len(left + right) <= 4]
TEXTS = ["".join(letters) for letters in product("ab", repeat=6)]


@st.composite
def lists_of_merges(draw):
    """Merges in any order, each of whose parts some merge makes."""
    chosen = draw(st.lists(st.sampled_from(PAIRS), min_size=1, max_size=14, unique=True))
    made = {"a", "b"} | {left + right for left, right in chosen}
    while any(part not in made for pair in chosen for part in pair):
        chosen = [pair for pair in chosen if made.issuperset(pair)]
        made = {"a", "b"} | {left + right for left, right in chosen}
    return chosen


def written(folder, merges):
    """A tokenizer.json of these merges."""
    vocab = {
        token: number for number, token in enumerate(dict.fromkeys([*"ab", *map("".join, merges)]))
    }
    model = {"type": "BPE", "vocab": vocab, "merges": [list(pair) for pair in merges]}
    path = folder / "tokenizer.json"
    path.write_text(
        json.dumps({"version": "1.0", "model": model, "pre_tokenizer": {"type": "WhitespaceSplit"}})
    )
    return path


@settings(max_examples=examples(25), deadline=None)
@given(merges=lists_of_merges())
def test_ids_are_the_library_s(merges, tmp_path_factory):
    """Whatever the order of merges, ids of all short texts are those of tokenizers."""
    path = written(tmp_path_factory.mktemp("merges"), merges)
    vocabulary = huggingface.read(path)
    encoded = Encoder(vocabulary).encode_batch(TEXTS)
    theirs = huggingface.peer(path, vocabulary).ids(TEXTS)
    assert [line.tolist() for line in encoded] == theirs


@given(merges=lists_of_merges())
def test_a_merge_may_stand_before_its_parts_where_steps_are_taken(merges):
    """Merges by pairs are those whose parts come first; the others are read as steps."""
    made = [{"a", "b", *map("".join, merges[:rank])} for rank in range(len(merges))]
    in_order = all(known.issuperset(pair) for known, pair in zip(made, merges, strict=True))
    assert in_order or merging_of(merges) == "steps"
    assert in_order or joins_later(merges)


def test_a_part_that_nothing_makes_is_refused():
    """A merge of what is no character and what no merge makes, earlier or later, is damage."""
    with pytest.raises(VocabularyError, match="'ab' is neither a character nor made by a merge"):
        Vocabulary((("ab", "c"), ("b", "c")), ("a", "b", "c", "abc"), merging="steps")


def test_a_saved_vocabulary_keeps_the_order(tmp_path):
    """What is read from such a file, saved and loaded, encodes alike."""
    merges = [("a", "ab"), ("b", "b"), ("a", "b")]
    vocabulary = huggingface.read(written(tmp_path, merges))
    vocabulary.save(tmp_path / "a.volt")
    assert Vocabulary.load(tmp_path / "a.volt") == vocabulary
    assert vocabulary.merges == tuple(merges)
    assert vocabulary.merging == "steps"
