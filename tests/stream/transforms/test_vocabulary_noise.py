"""Noise with a vocabulary: the same results as a naive version, and which vocabularies it accepts."""

import pytest
from hypothesis import given
from stream.transforms.support import (
    AMOUNTS,
    ID_LINES,
    LINES,
    SEEDS,
    hit_lines,
    id_batch,
    ids_of,
    noisy_text,
    tokens_of,
)

from volt.errors import VocabularyError
from volt.stream import Source, Stream
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.line_batch import LineRng
from volt.stream.transforms.tags import LangPrefixBoth, Tag
from volt.stream.transforms.transform import (
    LoadedFiles,
    open_transform,
)
from volt.stream.transforms.vocabulary_noise import (
    Insertion,
    Switchout,
    WbNoise,
    read_noise_vocabulary,
)
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

RNG = LineRng(1, 2)
TOKENS = ("a", "▁", "▁a", "b", "▁▁a", "é一𐐀", "▁é一𐐀", "▁c")
SORTED = sorted(TOKENS)
FIRST_IDS = {"volt": 4, "volt from 0": 0}
KINDS = pytest.mark.parametrize("kind", [Switchout, Insertion, WbNoise])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The tokens as VOLT vocabularies, whose ids start at 4 or at 0, and as a list."""
    folder = tmp_path_factory.mktemp("vocabularies")
    merges = (("▁", "a"), ("▁", "▁a"), ("é", "一"), ("é一", "𐐀"), ("▁", "é一𐐀"), ("▁", "c"))
    paths = {"volt": folder / "a.volt", "volt from 0": folder / "b.volt", "list": folder / "a.txt"}
    for name, special in (
        ("volt", SpecialTokens()),
        ("volt from 0", SpecialTokens(None, None, None, None)),
    ):
        vocabulary = Vocabulary(merges=merges, tokens=TOKENS, marker="none", special=special)
        vocabulary.save(paths[name])
    rows = enumerate(("<unk>", *TOKENS, "<FROM_de>"))
    text = "".join(f"{count}\t{token}\n" for count, token in rows)
    paths["list"].write_text(text, encoding="utf-8")
    return paths


def list_of(folder, *rows):
    path = folder / "list"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def toggled(token):
    """Return a token with its mark removed or added; itself if the vocabulary lacks the result."""
    other = token.removeprefix("▁") if token.startswith("▁") else f"▁{token}"
    return other if other in TOKENS else token


def naive_noise(kind, tokens, hits):
    out = []
    for token, hit in zip(tokens, hits, strict=True):
        if hit is None:
            out.append(token)
        elif kind is WbNoise:
            out.append(toggled(token))
        elif kind is Switchout:
            out.append(SORTED[hit])
        else:
            out += [SORTED[hit], token]
    return out


@KINDS
@given(values=LINES, amount=AMOUNTS, seed=SEEDS)
def test_text_changes_as_in_the_naive_version(
    files,
    kind,
    values,
    amount,
    seed,
):
    """Noise with a vocabulary changes the same tokens of text as a naive version; a line without a
    hit keeps its spaces."""
    rng = LineRng.of(seed)
    lines = list(map(tokens_of, values))
    hits = hit_lines(list(map(len, lines)), amount, rng, n_choices=len(TOKENS))
    expected = []
    for value, line, hit in zip(values, lines, hits, strict=True):
        is_hit = any(each is not None for each in hit)
        expected.append(" ".join(naive_noise(kind, line, hit)) if is_hit else value)
    assert noisy_text(kind(files["list"], *amount), values, rng) == expected


@KINDS
@pytest.mark.parametrize("name", FIRST_IDS)
@given(lines=ID_LINES, amount=AMOUNTS, seed=SEEDS)
def test_ids_change_as_their_tokens(
    files,
    kind,
    name,
    lines,
    amount,
    seed,
):
    """Noise with a vocabulary changes ids as it changes their tokens; WbNoise does not change ids
    that the vocabulary lacks."""
    rng = LineRng.of(seed)
    ids = {token: number for number, token in enumerate(TOKENS, FIRST_IDS[name])}
    tokens = {number: token for token, number in ids.items()}
    hits = hit_lines(list(map(len, lines)), amount, rng, n_choices=len(TOKENS))
    expected = []
    for line, hit in zip(lines, hits, strict=True):
        texts = [tokens.get(number, str(number)) for number in line]
        changed = naive_noise(kind, texts, hit)
        expected.append([ids[text] if text in ids else int(text) for text in changed])
    assert ids_of(kind(files[name], *amount)(id_batch(lines), rng).column(1)) == expected


@pytest.mark.parametrize("kind", [Switchout, Insertion])
def test_tags_of_the_same_steps_are_not_drawn(tmp_path, kind):
    """Switchout and Insertion in a stream draw no tag that a step or variant of the stream adds,
    and no token in `without`."""
    tags = ("[BT]", "__opt__", "<FROM_a<b>", "<TO_en>", "extra", "{x}")
    path = list_of(tmp_path, *(f"9\t{token}" for token in (*tags, "cat", "dog")))
    text = tmp_path / "text.tsv"
    text.write_text("low low low low\tlow low low\n" * 200)
    steps = (
        Choice((Variant(1.0, (kind(path, rate=1.0, without=("extra",)),)),)),
        Tag("[BT] __opt__"),
        Choice((Variant(1.0), Variant(9.0, (Tag("{x}"),)))),
        LangPrefixBoth("a<b", "en"),
    )
    tokens = set()
    with Stream([Source("s", (str(text),), 1.0, steps, epochs=1)]) as stream:
        for line in stream:
            tokens.update(line.split("<TO_en> ")[1].split())
    assert tokens - {"low", "[BT]", "__opt__", "{x}"} == {"cat", "dog"}
    with pytest.raises(VocabularyError, match=r"contains only special tokens"):
        open_transform(kind(path, without=(*tags, "cat", "dog")), LoadedFiles())


# Vocabularies


@pytest.mark.parametrize(
    "rows",
    [
        ("12\t▁lo", "3.5\tw", "1\t<s>"),
        ("▁lo 12", "w 3", "<TO_en> 1"),
        ("▁lo\t12", "w\t3"),
        ("▁lo", "w", "<0x0A>"),
        ("</s>: 0", "<unk>: 1", "▁lo: 2", "w: 3"),
    ],
)
def test_lists_are_vocabularies(rows, tmp_path):
    """A list of tokens, with counts on either side or none, is a vocabulary for noise, without
    tokens in angle brackets."""
    vocabulary = read_noise_vocabulary(list_of(tmp_path, *rows))
    assert vocabulary.texts.strings() == ["w", "▁lo"]
    assert vocabulary.ids is None
    assert len(vocabulary) == 2


def test_a_vocabulary_has_tokens_and_ids(files):
    """A VOLT vocabulary for noise has no special tokens; `toggled_ids` maps an id to the id of the
    token with ▁ added or removed, or to −1."""
    vocabulary = read_noise_vocabulary(files["volt"])
    ids = {token: number for number, token in enumerate(TOKENS, FIRST_IDS["volt"])}
    assert vocabulary.texts.strings() == SORTED
    assert vocabulary.ids is not None
    assert vocabulary.ids.strings() == [str(ids[token]) for token in SORTED]
    expected = [-1] * FIRST_IDS["volt"]
    expected += [ids[toggled(token)] if toggled(token) != token else -1 for token in TOKENS]
    assert vocabulary.toggled_ids.tolist() == expected


def test_a_sentencepiece_model_has_its_own_ids(tmp_path):
    """A SentencePiece model for noise has the library's pieces and ids, without special and user-
    defined pieces."""
    library = pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(["the low house by the sea", "the new house"] * 20),
        model_prefix=str(tmp_path / "a"),
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
        user_defined_symbols=["<BT>"],
    )
    processor = library.SentencePieceProcessor(model_file=str(tmp_path / "a.model"))
    vocabulary = read_noise_vocabulary(tmp_path / "a.model")
    assert vocabulary.ids is not None
    ids = list(map(int, vocabulary.ids.strings()))
    assert processor.id_to_piece(ids) == vocabulary.texts.strings()
    assert sorted(ids) == list(range(4, processor.get_piece_size()))


def test_unusable_vocabularies_are_refused(tmp_path, files):
    """Noise refuses a missing file, and one with only special tokens; WbNoise refuses tokens
    without ▁, and fields of ids need a list with ids."""
    special = list_of(tmp_path, "7\t<s>", "3\t</s>")
    for path in (special, tmp_path / "nowhere"):
        with pytest.raises(VocabularyError, match=path.name):
            Insertion(path).opened(LoadedFiles())
    unmarked = list_of(tmp_path, "7\tlo", "3\tw")
    with pytest.raises(VocabularyError, match=r"list: no token starts with '▁'.*remove wb_noise"):
        WbNoise(unmarked).opened(LoadedFiles())
    assert Switchout(unmarked).opened(LoadedFiles()).name == "switchout"
    message = r"a.txt: lists tokens without ids, but the fields contain ids"
    with pytest.raises(VocabularyError, match=message):
        Switchout(files["list"], rate=1.0)(id_batch([[1, 2]]), RNG)
