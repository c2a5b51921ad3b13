"""Laws of sentencepiece models: what is written encodes as VOLT does in the real library, what is read too."""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random

import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.encode.pretokens import split_lines
from volt.errors import VocabularyError
from volt.formats.check import check
from volt.formats.sentencepiece import model_file as module
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

pytest.importorskip("sentencepiece")
pytest.importorskip("google.protobuf")

FEW = settings(deadline=None, max_examples=examples(40))
USER = ("<url>", "ab", "abc", "🦙")
SCHEMES = [("whitespace", "prefix"), ("metaspace", "none")]
KINDS = ["full", "pruned", "closed", "user", "bytes"]
CORPUS = [
    "the lower the newest, the widest lowest low aaaaaaaa abababab",
    "zwölf Boxkämpfer jagen Viktor quer über den Sylter Deich",
    "см. ниже: нижний, нижнего",
    "שלום עולם שלום",
    "مرحبا بالعالم",
    "東京都に行く 東京 京都",
    "👩\u200d👩\u200d👧 👩🏽 e\u0301tude ne\u0301e 각 한국어",
    "<url> see <url>! <unk> </s> <0x41> a▁b \ufeffbom zero\u200bwidth con\x07trol",
]
MARKUP = """the lowest ab abc abab aaaa <unk> </s> </w> ▁ @@ <url> <0xE2> ▁▁ е 
    👩\u200d👩\u200d👧 нижн 東京 שלו e\u0301 \ufeff \x07 \x01"""
fragments = st.sampled_from(MARKUP.split())
texts = st.lists(
    fragments
    | st.just(" ")
    | st.characters(codec="utf-8")
    | st.sampled_from("\U0010f000\U0010fffd"),
    max_size=14,
).map("".join)


def candidates_of(lines, scheme, special, *, n_merges, normalizer="none"):
    cut = {"normalizer": Normalizer.parse(normalizer), "pretokenizer": PreTokenizer(scheme[0])}
    words = split_lines(Vocabulary((), (), marker=scheme[1], special=special, **cut), lines)
    return learn_bpe(
        WordCounts.from_pairs(Counter(chain.from_iterable(words)), **cut),
        n_merges,
        marker=scheme[1],
    )


def made_of(candidates, scheme, kind, special, *, normalizer="none") -> Vocabulary:
    """A vocabulary of some kind; "pruned" and those behind it keep a random half of what merges make."""
    made, keep = set(map("".join, candidates.merges)), Random(1)
    reserved = {*special.all, *BYTE_TOKENS}
    vocabulary = Vocabulary(
        merges=tuple(candidates.merges),
        tokens=tuple(
            token
            for token in candidates.tokens
            if token not in reserved
            and (kind == "full" or token not in made or keep.random() < 0.5)
        ),
        marker=scheme[1],
        normalizer=Normalizer.parse(normalizer),
        pretokenizer=PreTokenizer(scheme[0]),
        special=special,
        byte_fallback=kind == "bytes",
        fuse_unk=kind != "bytes",
    )
    return vocabulary.closed() if kind == "closed" else vocabulary


def learned(lines, scheme, kind, *, n_merges=300, normalizer="none") -> Vocabulary:
    special = SpecialTokens(user=USER * (kind == "user"))
    candidates = candidates_of(lines, scheme, special, n_merges=n_merges, normalizer=normalizer)
    return made_of(candidates, scheme, kind, special, normalizer=normalizer)


def plain(line: str, vocabulary: Vocabulary) -> str:
    """The line without what `write` says that sentencepiece treats otherwise."""
    return line if vocabulary.pretokenizer.keeps_spaces else " ".join(line.split()).rstrip("▁ ")


def written(vocabulary: Vocabulary):
    """What write says, what read gives back, and the library with the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.model")
        said = module.write(vocabulary, path)
        return said, module.read(path), module.peer(path, vocabulary)


def assert_agree(vocabulary: Vocabulary, peer, lines) -> None:
    encoder, lines = Encoder(vocabulary), [plain(line, vocabulary) for line in lines]
    ours = encoder.encode_lines(lines)
    assert peer.pieces(lines) == ours
    assert peer.ids(lines) == [encoder.ids(pieces).tolist() for pieces in ours]


@cache
def small(scheme, kind):
    lines = [line for line in CORPUS if "▁" not in line]
    vocabulary = learned(lines, scheme, kind)
    return vocabulary, *written(vocabulary)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
@FEW
@given(lines=st.lists(texts, max_size=4))
@example(lines=["", " ", "aaaaaaa", *CORPUS])
def test_pieces_and_ids_are_those_of_the_library(scheme, kind, lines):
    """On any text: characters that are unknown, that combine, that control, that run right to left."""
    vocabulary, _, _, peer = small(scheme, kind)
    assert_agree(vocabulary, peer, lines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_reading_undoes_writing(scheme, kind):
    """All comes back: merges, tokens, ids, special tokens, scheme. Nothing of an import is lost."""
    vocabulary, _, back, _ = small(scheme, kind)
    assert back.fingerprint == vocabulary.fingerprint
    assert others(back.provenance["lost"]) == []


def others(lost: list[str]) -> list[str]:
    """Return the losses, without the note about models that reduce spaces."""
    return [
        said
        for said in lost
        if not said.startswith(("sentencepiece drops", "sentencepiece decodes"))
    ]


CORPORA = [
    *(
        f"multi30k/{part}.{language}.gz"
        for language in ("en", "de", "fr", "cs")
        for part in ("train", "val")
    ),
    *(f"ted/{name}.txt.gz" for name in ("Cantonese", "Finnish", "Georgian", "Marathi", "Urdu")),
    *(f"bible/{name}.tsv.gz" for name in ("et", "eu", "hy", "lv", "sw", "uk")),
]


@pytest.mark.slow
@pytest.mark.parametrize("corpus", CORPORA)
def test_pieces_and_ids_on_real_text(lines, corpus):
    """Learned on half of the lines, encoded on all: every kind of vocabulary; corpora take turns with schemes."""
    text, scheme = (
        lines(corpus, 1_000 if "train" in corpus else 600),
        SCHEMES[CORPORA.index(corpus) // 2 % 2],
    )
    for special in (SpecialTokens(), SpecialTokens(user=USER)):
        candidates = candidates_of(text[::2], scheme, special, n_merges=1_000)
        for kind in [kind for kind in KINDS if (kind == "user") == bool(special.user)]:
            vocabulary = made_of(candidates, scheme, kind, special)
            _, back, peer = written(vocabulary)
            assert back.fingerprint == vocabulary.fingerprint
            assert_agree(vocabulary, peer, text)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8),
    st.lists(st.text("▁abc", max_size=9)),
    st.data(),
)
@settings(deadline=None, max_examples=examples(100))
def test_arbitrary_merges_agree_or_are_named(choices, lines, data):
    """Merges that nothing learned, of which some make one string twice or cannot apply: sentencepiece encodes as VOLT
    does, or write says that it joins other parts. What is read back encodes as the file does."""
    strings, merges = ["a", "b", "c"], []
    for i, j in choices:
        merges.append((strings[i % len(strings)], strings[j % len(strings)]))
        strings += ["".join(merges[-1])] * ("".join(merges[-1]) not in strings)
    kept = data.draw(st.permutations(strings))[: data.draw(st.integers(0, len(strings)))]
    used = [letter for letter in "abc" if any(letter in left + right for left, right in merges)]
    kept = tuple(
        dict.fromkeys([*kept, *used])
    )  # runs of characters that only merges contain are not fused
    vocabulary = Vocabulary(
        tuple(merges), kept, marker="none", pretokenizer=PreTokenizer("metaspace"), fuse_unk=True
    )
    said, back, peer = written(vocabulary)
    if any(sentence.startswith("Unknown words") for sentence in said):
        lines = [line for line in lines if len(line.split("▁")) < 2]
    if not any("joins other parts" in sentence for sentence in said):
        assert_agree(vocabulary, peer, lines)
    assert Encoder(back).encode_lines(lines) == peer.pieces(lines)


def trained(**options) -> bytes:
    """A model that the library itself trains."""
    import sentencepiece

    model = io.BytesIO()
    text = [" ".join(line.split()) for line in CORPUS[:-1] * 3]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"model_type": "bpe", "vocab_size": 250, "normalization_rule_name": "identity"} | options,
    )
    return model.getvalue()


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({}, None),
        ({"pad_id": 3}, None),
        ({"pad_id": 3, "byte_fallback": True, "vocab_size": 500}, None),
        ({"pad_id": 3, "user_defined_symbols": ["<url>", "ab", "abc"]}, None),
        ({"pad_id": 3, "user_defined_symbols": ["\b", "<url>"]}, None),
        ({"pad_id": 3, "control_symbols": ["<mask>", "[INST]"]}, None),
        ({"pad_id": 0, "unk_id": 3, "bos_id": -1}, None),
        ({"pad_id": 3, "remove_extra_whitespaces": False}, None),
        ({"pad_id": 3, "normalization_rule_name": "nfkc"}, "in NFKC's order"),
        ({"normalization_rule_name": "nmt_nfkc"}, "'nmt_nfkc'"),
        ({"pad_id": 3, "character_coverage": 0.98}, None),
        ({"pad_id": 3, "unk_piece": "[UNK]", "bos_piece": "[BOS]"}, None),
        ({"split_by_whitespace": False, "remove_extra_whitespaces": False}, None),
        (
            {
                "split_by_whitespace": False,
                "remove_extra_whitespaces": False,
                "add_dummy_prefix": False,
            },
            None,
        ),
        ({"pad_id": 3, "add_dummy_prefix": False}, "sentencepiece reduces several spaces"),
        ({"add_dummy_prefix": False, "remove_extra_whitespaces": False}, None),
        (
            {
                "allow_whitespace_only_pieces": True,
                "remove_extra_whitespaces": False,
                "split_digits": True,
            },
            None,
        ),
    ],
)
def test_models_of_the_library_are_read(tmp_path, options, lost):
    """A trained model encodes in VOLT as in the library, with the ids that it has; what differs is named."""
    path = tmp_path / "a.model"
    path.write_bytes(trained(**options))
    assert module.recognises(path, path.read_bytes()[:4096])
    vocabulary = module.read(path)
    peer = module.peer(path, vocabulary)
    said = others(vocabulary.provenance["lost"])
    assert any(lost in sentence for sentence in said) if lost else said == []
    lines = [
        plain(line, vocabulary)
        for line in [*CORPUS[:-1], "lowering ＶＯＬＴ unseen ßê", "low  the   low "]
    ]
    lines = [" ".join(line.split()) for line in lines] if lost else lines
    assert_agree(vocabulary, peer, lines)
    if lost is None:
        again = tmp_path / "b"
        module.write(vocabulary, again)
        assert module.read(again).fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize("symbol", ["\x1b[", "qq▁", "x</w>"])
@pytest.mark.parametrize("kind", ["user_defined", "control"])
def test_a_special_token_that_volt_cannot_have_is_left_out(tmp_path, symbol, kind):
    """The model is read with all other ids, a note names the token, and '\\b' is kept as an ordinary character."""
    path = tmp_path / "a.model"
    options = {"user_defined_symbols": ["\b"]}
    options[f"{kind}_symbols"] = [symbol, *options.get(f"{kind}_symbols", ())]
    path.write_bytes(trained(**options))
    vocabulary = module.read(path)
    peer = module.peer(path, vocabulary)
    note = f"{symbol!r} is a special token that VOLT cannot have: left out, its id not used."
    assert note in vocabulary.notes
    assert vocabulary.pieces.count("") == 1
    lines = ["the\blow er\b \b x", "\b", *CORPUS[:-1]]
    assert_agree(vocabulary, peer, [plain(" ".join(line.split()), vocabulary) for line in lines])


def test_unigram_is_refused(tmp_path):
    """With its use as a source of candidates; other types too."""
    path = tmp_path / "a.model"
    for kind, named in (("unigram", "unigram model.*candidates"), ("char", "character model")):
        path.write_bytes(trained(model_type=kind, vocab_size=120))
        with pytest.raises(VocabularyError, match=named):
            module.read(path)


def test_unigram_pieces_are_candidates(tmp_path):
    """Every piece of a unigram model is made by the merges read from it, each from parts made before."""
    path = tmp_path / "a.model"
    path.write_bytes(trained(model_type="unigram", vocab_size=120))
    made = set()
    for left, right in module.read_merges(path, path.read_bytes()).pairs:
        assert all(len(part) == 1 or part in made for part in (left, right))
        made.add(left + right)
    pieces = [piece.piece for piece in module._load(path).pieces if piece.type == 1]
    assert all(len(piece) == 1 or piece in made for piece in pieces)


BASE = Vocabulary(merges=(("▁", "l"), ("▁l", "o")), tokens=("l", "o", "▁", "▁lo"), marker="prefix")


METASPACE = {"marker": "none", "pretokenizer": PreTokenizer("metaspace")}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"normalizer": Normalizer("nfc")}, "NFC"),
        ({"normalizer": Normalizer("nfkc")}, "NFKC"),
        ({"normalizer": Normalizer("none", lowercase=True)}, "sigma"),
        ({}, "or to an end of the line"),
        ({}, "run of unknown characters"),
        ({"counts": (1, 2, 3, 4)}, "counts"),
        ({**METASPACE, "merges": (("l", "▁"),), "tokens": ("l▁",)}, "a '▁' inside"),
        ({"merges": (("o", "o"), ("l", "oo"), ("l", "o"), ("lo", "o")), "tokens": ("loo",)}, None),
        ({"merges": (("o", "l"), ("l", "o"), ("l", "ol"), ("lo", "l")), "tokens": ("lol",)}, None),
        (
            {"merges": (("l", "o"), ("o", "l"), ("l", "ol")), "tokens": ("lol",)},
            "joins other parts",
        ),
    ],
)
def test_what_is_lost_is_named(change, named):
    """A vocabulary that does not come back as it was, or encodes otherwise, has a sentence that says why."""
    vocabulary = replace(BASE, **change)
    said, back, _ = written(vocabulary)
    assert (
        any(named in sentence for sentence in said)
        if named
        else not any("joins" in sentence for sentence in said)
    )
    assert replace(back, counts=vocabulary.counts).tokens == vocabulary.tokens


def test_an_unknown_run_is_one_in_the_library(tmp_path):
    """The notes of write on unknown characters are true, and the check compares these; byte fallback leaves none."""
    import sentencepiece

    module.write(BASE, tmp_path / "a.model")
    library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "a.model"))
    assert library.encode("loéüo") == [BASE.ids["▁lo"], 0, BASE.ids["o"]]
    assert Encoder(BASE).encode_ids("loéüo").tolist() == [BASE.ids["▁lo"], 0, 0, BASE.ids["o"]]
    assert not any(
        "run of" in sentence for sentence in written(replace(BASE, byte_fallback=True))[0]
    )
    assert not check(BASE, tmp_path / "a.model", "sentencepiece", ["loéüo"]).is_complete
    assert check(
        module.read(tmp_path / "a.model"), tmp_path / "a.model", "sentencepiece", ["loéüo"]
    ).is_complete


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {
                "marker": "suffix",
                "pretokenizer": PreTokenizer("unicode"),
                "merges": (),
                "tokens": ("a",),
            },
            "the marker prefix",
        ),
        ({"marker": "suffix", "merges": (), "tokens": ("▁",)}, "which ends words"),
        ({"merges": (), "tokens": ("lo",), "whole_words": True}, "does not look words up"),
        ({"pretokenizer": PreTokenizer("metaspace")}, "the marker none"),
        ({"pretokenizer": PreTokenizer("gpt2"), "marker": "none"}, "metaspace and the marker none"),
        ({"special": SpecialTokens(user=("a▁b",))}, "rename it"),
        ({"merges": (("<", "s"), ("<s", ">")), "tokens": ("<",)}, "rename the special token"),
        ({"merges": (), "tokens": ("\0",)}, r"U\+0000"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path, change, named):
    """With the reason and a way out, and nothing is written."""
    with pytest.raises(VocabularyError, match=named):
        module.write(replace(BASE, **change), tmp_path / "a.model")
    assert list(tmp_path.iterdir()) == []


def damaged(change) -> bytes:
    """A good model's bytes after a change to the message."""
    with tempfile.TemporaryDirectory() as folder:
        module.write(BASE, Path(folder, "a"))
        model = module._load(Path(folder, "a.model"))
    change(model)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            lambda model: model.pieces.add(piece="l", score=-9, type=1),
            "piece 9, 'l', repeats piece 4",
        ),
        (
            lambda model: model.pieces.add(piece="x", score=float("nan")),
            "piece 9 is empty or has no score",
        ),
        (lambda model: model.pieces.add(piece="", score=0), "piece 9 is empty"),
        (lambda model: model.pieces.add(piece="a b", score=0, type=3), "special token 'a b'"),
        (lambda model: model.ClearField("trainer_spec"), "damaged"),
        (lambda model: model.pieces[0].ClearField("type"), "damaged"),
        (
            lambda model: setattr(model.trainer_spec, "treat_whitespace_as_suffix", True),
            "not every last character joins it first",
        ),
        (lambda model: model.ClearField("pieces"), "damaged"),
    ],
)
def test_damage_is_named(tmp_path, change, named):
    """Repeated, empty and unscored pieces, missing parts: VocabularyError with file and piece."""
    path = tmp_path / "a.model"
    path.write_bytes(damaged(change))
    with pytest.raises(VocabularyError, match=named) as caught:
        module.read(path)
    assert str(path) in str(caught.value)


def test_pieces_that_are_no_text_are_named(tmp_path):
    """A piece, or a name among the settings, that is no UTF-8 makes a model a damaged one."""
    whole = damaged(lambda model: setattr(model.normalizer_spec, "name", "qqqq"))
    for text in ("▁".encode(), b"qqqq"):
        (tmp_path / "a.model").write_bytes(whole.replace(text, b"\xff" * len(text), 1))
        with pytest.raises(VocabularyError, match=r"a\.model: a damaged sentencepiece model"):
            module.read(tmp_path / "a.model")


def test_a_truncated_model_is_named(tmp_path):
    """Cut anywhere, a model is refused."""
    path = tmp_path / "a.model"
    whole = damaged(lambda model: None)
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(VocabularyError, match="damaged"):
            module.read(path)


def test_a_missing_file_is_named(tmp_path):
    """With the reason."""
    with pytest.raises(VocabularyError, match=r"absent.model: cannot be read"):
        module.read(tmp_path / "absent")
