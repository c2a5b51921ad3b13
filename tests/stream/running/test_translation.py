"""A task's transforms before and behind a translation system: nothing is drawn, no line is lost, text comes back."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.configurations import parse_config
from support.drawn import examples
from support.streams import write_lines
from support.writers import check_answers

from volt.count.corpus import count_words
from volt.errors import ArgumentError, ConfigError, CorpusError, StreamError
from volt.files.blocks import read_blocks
from volt.learn.bpe import learn_bpe
from volt.stream.running.stream import Stream
from volt.stream.running.translation import Translation
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.random_segmentation import JoinPieces, MorfessorEm
from volt.stream.transforms.subwords import Decode, Encode
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LoadedFiles, invert, open_transform
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

WORDS = ("low", "lower", "newest", "été", "é", "a")


CUTS = {
    "encode": "encode: {vocabulary: words.volt, dropout: 0.5}",
    "ids": "encode: {vocabulary: words.volt, dropout: 0.5, to: ids}",
    "bytes": "encode: {vocabulary: bytes.volt, dropout: 0.9}",
    "table": "deterministic_segmentation: {table: table.tsv, marks: word}",
    "morfessor": "morfessor_em: {model: lexicon.tsv, theta: 0.1, marks: pieces}",
    "choice": "choice: [{weight: 1, transforms: [upper]}, {weight: 2, transforms: [encode: words.volt]}]",
    "spm": "spm_encode: {model: spm.model, alpha: 0.1, nbest: -1}",
    "sentencepiece": "sentencepiece: spm.model",
}


TASKS = """\
seed: 4
sources: {wmt: {path: words.txt}}
tasks:
  de_en:
    type: para
    src_lang: de
    tgt_lang: en
    inputs: {i: {src: a.de, tgt: a.en}}
    transforms: [CUT, lang_prefix_both]
  noisy:
    type: para
    inputs: {i: {src: a.de, tgt: a.en}}
    transforms:
      - length: {max: 1}
      - skip_blank
      - reorder: 3
      - drop: {rate: 0.5}
      - typos: 0.5
      - CUT
      - switchout: {vocabulary: words.volt, rate: 0.9}
      - repeat: 2
      - filter_too_long: 1
  auto: {type: mono, inputs: {i: {mono: a.en}}, transforms: [duplicate_mono, CUT]}
  dev: {type: para, split: valid, inputs: {i: {src: a.de, tgt: a.en}}, transforms: [upper: [tgt]]}
"""


LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Vocabularies, a table, a lexicon and lines."""
    made = tmp_path_factory.mktemp("translating")
    text = write_lines(made / "words.txt", [" ".join(WORDS)] * 9)
    for name, cut in (("words", "whitespace"), ("bytes", "bytes")):
        found = learn_bpe(count_words(text, pretokenizer=cut), n_merges=12)
        options: dict[str, Any] = {"marker": found.marker, "pretokenizer": PreTokenizer(cut)}  # type: ignore[arg-type]
        Vocabulary(tuple(found.merges), tuple(found.tokens_at(found.n_tokens)), **options).save(
            made / f"{name}.volt"
        )
    write_lines(made / "table.tsv", [f"▁{word}\t▁ {' '.join(word)}" for word in WORDS])
    write_lines(
        made / "lexicon.tsv",
        [f"{9 - len(piece)}\t{piece}" for piece in ("lo", "low", "er", *"lowernsaté")],
    )
    for side in ("de", "en"):
        write_lines(made / f"a.{side}", ["low été", "", "lower a", "newest low é"])
    return made


def written(folder, cut):
    """A configuration whose tasks cut text in this way."""
    if cut in ("spm", "sentencepiece") and not (folder / "spm.model").exists():
        spm, model = pytest.importorskip("sentencepiece"), io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter([" ".join(WORDS), "low lower newest"] * 20),
            model_writer=model,
            minloglevel=2,
            hard_vocab_limit=False,
            vocab_size=40,
        )
        (folder / "spm.model").write_bytes(model.getvalue())
    path = folder / f"{cut}.yaml"
    path.write_text(TASKS.replace("- CUT", f"- {CUTS[cut]}").replace("CUT", f"{{{CUTS[cut]}}}"))
    return path


@pytest.mark.parametrize("cut", CUTS)
def test_what_is_given_to_the_system_comes_back_as_text(folder, cut):
    """Pieces or ids, without the tags before them, become the text again, whatever it is; so do those of tasks with one
    side. One line comes out for each.
    """
    found = {name: Translation(written(folder, cut), name) for name in ("de_en", "noisy", "auto")}

    @settings(max_examples=examples(15))
    @given(LINES)
    def law(lines):
        given = {name: translation.input(lines) for name, translation in found.items()}
        assert given["noisy"] == given["auto"]
        assert given["de_en"] == [
            f"<FROM_de> <TO_en> {line}" if line else "<FROM_de> <TO_en>" for line in given["auto"]
        ]
        for name in ("noisy", "auto"):
            assert found[name].output(given[name]) == lines

    law()


@pytest.mark.parametrize("cut", CUTS)
def test_the_input_is_that_of_validation(folder, cut):
    """A line is what the stream of the split `valid` gives in field 1, and the target side what is undone."""
    path, text = written(folder, cut), (folder / "a.de").read_text().split("\n")[:-1]
    for task in ("de_en", "noisy", "auto", "dev"):
        translation = Translation(path, task)
        with Stream.from_config(path, split="valid", tasks=[task]) as stream:
            sides = [line.split("\t") for line in stream]
        assert translation.input(text) == [side[0] for side in sides]
        assert task == "dev" or translation.output([side[1] for side in sides]) == text


def test_each_side_has_its_own_vocabulary(folder):
    """Answers are joined as the target side was split; if it was not split, they are unchanged."""
    para, mono = ("para", "{src: a.de, tgt: a.en}"), ("mono", "{mono: a.de}")
    source = "{encode: {vocabulary: words.volt, fields: [1]}}"
    target = "{deterministic_segmentation: {table: table.tsv, marks: word, fields: [2]}}"
    error_text = {
        (*para, f"{source}, {target}"): "low",
        (*para, source): "▁ l o w",
        (*para, target): "low",
        (*mono, source): "low",
        (*mono, f"duplicate_mono, {source}"): "low</w>",
    }
    for (kind, files, steps), expected in error_text.items():
        path = folder / "sides.yaml"
        path.write_text(
            f"tasks: {{t: {{type: {kind}, inputs: {{i: {files}}}, transforms: [{steps}]}}}}"
        )
        translation = Translation(path, "t")
        assert translation.input(["low"]) == ["low</w>" if source in steps else "low"]
        assert translation.output(["▁ l o w" if kind == "para" else "low</w>"]) == [expected]


def test_a_task_that_makes_its_target_has_a_target(folder):
    """Taboo segmentation: either side that the stream gives is undone, and the first of them is the input."""
    path, text = folder / "taboo.yaml", (folder / "a.en").read_text().split("\n")[:-1]
    step = "taboo: {model: words.volt, segmenter: vocabulary}"
    path.write_text(
        f"tasks: {{t: {{type: mono, inputs: {{i: {{mono: a.en}}}}, transforms: [{{{step}}}]}}}}"
    )
    translation = Translation(path, "t")
    with Stream.from_config(path, split="valid", tasks=["t"]) as stream:
        source, target = zip(*(line.split("\t") for line in stream), strict=True)
    assert translation.input(text) == list(source)
    assert translation.output(source) == translation.output(target) == text


def test_lines_are_answered_before_more_is_waited_for(folder):
    """However lines are cut into writes; "\\r" before a line end goes."""
    translation = Translation(written(folder, "encode"), "auto")

    def answers(path, wait):
        return translation.input_blocks(read_blocks(path, wait=wait))

    @settings(max_examples=examples(15))
    @given(
        text=st.text(alphabet="low \n\ré", min_size=1, max_size=40),
        places=st.lists(st.integers(0, 40), max_size=5),
    )
    def law(text, places):
        whole = text if text.endswith("\n") else f"{text}\n"
        lines = [line.removesuffix("\r") for line in whole.split("\n")[:-1]]
        expected = "".join(f"{line}\n" for line in translation.input(lines)).encode()
        check_answers(text.encode(), places, answers, expected)

    law()


def test_a_byte_order_mark_goes(folder):
    """Before the first line of a file; what is empty gives nothing."""
    translation, path = Translation(written(folder, "encode"), "auto"), folder / "bom.txt"
    for data, expected in (
        (b"\xef\xbb\xbflow\r\n\nlow", b"low</w>\n\nlow</w>\n"),
        (b"\xef\xbb\xbf", b""),
        (b"", b""),
    ):
        path.write_bytes(data)
        assert b"".join(translation.input_blocks(read_blocks(str(path)))) == expected


def test_steps_that_refuse_an_empty_line(folder):
    """They add no target side, so the system's output is decoded as the source side was encoded, blocks of it too."""
    (folder / "refuses.py").write_text(
        "def refuses(fields):\n    return fields if fields[0] else 1 / 0\n"
    )
    steps = "user: {file: refuses.py, function: refuses}}, {encode: words.volt"
    (folder / "r.yaml").write_text(
        f"tasks: {{t: {{type: mono, inputs: {{i: {{mono: a.en}}}}, transforms: [{{{steps}}}]}}}}"
    )
    translation = Translation(folder / "r.yaml", "t")
    assert translation.output(translation.input(["low"])) == ["low"]
    path = write_lines(folder / "out.txt", ["low</w>", "", "lo w</w>"])
    assert b"".join(translation.output_blocks(read_blocks(path))) == b"low\n\nlow\n"


def test_a_refused_line_is_reported_behind_those_before_it(folder):
    """With its number and the step, wherever in a block it stands; nothing is left out in silence."""
    translation = Translation(written(folder, "table"), "auto")
    for bad, reason in {
        "nowhere": "step 'deterministic_segmentation': .*table.tsv lacks the word 'nowhere'",
        "a\tb": "contains a tab, which separates fields; write a space instead",
    }.items():
        path = folder / "lines.txt"
        path.write_text(f"low\n\nlow a\n{bad}\nlow\n{bad}\n")
        given = translation.input_blocks(read_blocks(str(path)))
        got = list[bytes]()
        with pytest.raises(StreamError, match=f"lines.txt:4: {reason}"):
            got.extend(given)
        assert b"".join(got).decode().split("\n")[:-1] == translation.input(["low", "", "low a"])
        with pytest.raises(StreamError, match=f"line 2: {reason}"):
            translation.input(["low", bad, bad])


def test_no_step_changes_the_number_of_lines(tmp_path):
    """A function that drops a line, or fails on it, is reported with the line; one that draws is left out."""
    (tmp_path / "own.py").write_text(
        "def some(fields):\n    return fields if 'x' not in fields[0] else None\n"
        "def fails(fields):\n    return fields[1 // len(fields[0]) - 1:]\n"
        "def draws(fields, rng):\n    return [str(rng.random())]\n"
    )
    error_text = {
        "some": "drops the line; each input line",
        "fails": "ZeroDivisionError",
        "draws": "",
    }
    for function, reason in error_text.items():
        steps = f"user: {{file: own.py, function: {function}}}"
        (tmp_path / "t.yaml").write_text(
            f"tasks: {{t: {{type: mono, inputs: {{i: {{mono: a}}}}, transforms: [{steps}]}}}}"
        )
        translation = Translation(tmp_path / "t.yaml", "t")
        if not reason:
            assert translation.input(["ab", "", "x"]) == ["ab", "", "x"]
            continue
        with pytest.raises(StreamError, match=f"line 2: step 'user': .*{reason}"):
            translation.input(["ab", {"some": "x", "fails": ""}[function]])


FAULTS: dict[str, tuple[Any, type[Exception], str]] = {
    "no such task": (
        lambda path: Translation(path, "de_e"),
        ConfigError,
        r"encode.yaml:3: tasks: no task 'de_e'; did you",
    ),
    "a source": (
        lambda path: Translation(path, "wmt"),
        ConfigError,
        r"yaml:2: sources.wmt: is a source, not a task",
    ),
    "no configuration": (
        lambda path: Translation("/nowhere/t.yaml", "t"),
        ConfigError,
        r"/nowhere/t.yaml: cannot be read",
    ),
    "another type": (lambda path: Translation(path, 3), ConfigError, r"task is 3"),
    "no template": (
        lambda path: Translation(path, "dev", values={"a": 1}),
        ConfigError,
        "the value 'a' is not used",
    ),
    "one line": (
        lambda path: Translation(path, "dev").input("low"),
        ConfigError,
        "give a list of lines",
    ),
    "two lines in one": (
        lambda path: Translation(path, "dev").input(["a", "b\nc"]),
        StreamError,
        "line 2: contains a line end",
    ),
    "no text": (
        lambda path: Translation(path, "dev").input(["\ud800"]),
        StreamError,
        "line 1: contains a lone surrogate",
    ),
    "no ids": (
        lambda path: Translation(path, "de_en").output(["1 x"]),
        StreamError,
        "line 1: step 'decode': field 2 cannot",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), FAULTS.values(), ids=FAULTS)
def test_what_cannot_be_done_is_reported(folder, call, kind, message):
    """With the file and the line where there is one, and what to do."""
    with pytest.raises(kind, match=message):
        call(written(folder, "ids" if "decode" in message else "encode"))


@pytest.mark.parametrize("step", ["keep_fields: [2, 1]", "copy: {from: 2, to: 1}"])
def test_a_swap_of_the_sides_is_refused(tmp_path, step):
    """The text to translate would be lost."""
    (tmp_path / "t.yaml").write_text(
        f"tasks: {{t: {{type: para, inputs: {{i: {{src: a, tgt: b}}}}, transforms: [{{{step}}}]}}}}"
    )
    with pytest.raises(ConfigError, match="fills field 1 from another field"):
        Translation(tmp_path / "t.yaml", "t")


TASK = "tasks: {{t: {{type: {kind}, inputs: {{i: {{{files}}}}}, transforms: [{steps}]}}}}\n"


PARA, MONO = ("para", "src: train.de, tgt: train.en"), ("mono", "mono: train.en")


@pytest.fixture
def small_folder(tmp_path, monkeypatch):
    """The current folder, with a vocabulary, a table, a lexicon and a corpus."""
    monkeypatch.chdir(tmp_path)
    tokens = ("l", "o", "w", "l</w>", "o</w>", "w</w>", "low</w>", "lo")
    Vocabulary((("l", "o"), ("lo", "w</w>")), tokens).save("v.volt")
    Path("table.tsv").write_text("▁low\t▁lo w\n▁lower\t▁low er\n")
    Path("lexicon.tsv").write_text("8\t▁low\n4\ter\n1\tl\n1\to\n1\tw\n1\t▁\n")
    for name in ("train.de", "train.en", "other.txt"):
        Path(name).write_text("low\n")
    return tmp_path


def translation(steps, kind="para", files=PARA[1]):
    """A task with these steps."""
    Path("t.yaml").write_text(TASK.format(kind=kind, files=files, steps=steps))
    return Translation("t.yaml", "t")


@pytest.mark.parametrize("command", ["translate-input", "translate-output"])
def test_nothing_that_the_configuration_names_is_written_over(small_folder, run, command):
    """Vocabularies, tables and models of any step and source, and corpora, though these are not read."""
    steps = (
        "encode: v.volt",
        "choice: [{weight: 1, transforms: [morfessor_em: lexicon.tsv]}, {weight: 2}]",
        "deterministic_segmentation: table.tsv",
    )
    text = TASK.format(
        kind=PARA[0], files=PARA[1], steps=", ".join(f"{{{step}}}" for step in steps)
    )
    Path("t.yaml").write_text(f"sources: {{s: {{path: other*}}}}\n{text}")
    before = {path: path.read_bytes() for path in small_folder.iterdir()}
    for name in (
        "v.volt",
        "table.tsv",
        "lexicon.tsv",
        "train.de",
        "train.en",
        "other.txt",
        "t.yaml",
    ):
        done = run(command, "t.yaml", "--task", "t", "-o", name, stdin=b"", status=2)
        assert b"would be written over" in done.stderr
    assert {path: path.read_bytes() for path in small_folder.iterdir()} == before
    run(command, "t.yaml", "--task", "t", "-o", "new.txt", stdin=b"")


def test_what_a_task_decodes_itself_is_not_decoded_again(small_folder):
    """The nearest earlier encoding of each field is done with; others stay to be undone."""
    v = Path("v.volt")
    encode, decode, both = Encode(v), Decode(v, None), Decode(v, (1, 2))
    assert (
        invert([encode, decode]) == invert([encode, both]) == invert([decode, encode, decode]) == ()
    )
    assert invert([decode, encode]) == (decode,)
    assert invert([encode, Encode(v, (2,)), Decode(v, (2,))]) == (decode,)
    assert invert([encode, Decode(v, (2,))]) == (Decode(v, (1,)),)
    assert invert([MorfessorEm(Path("lexicon.tsv"), fields=(2,)), JoinPieces()]) == ()
    assert (
        invert([open_transform(encode, LoadedFiles()), open_transform(decode, LoadedFiles())]) == ()
    )
    assert invert([encode, Choice((Variant(1.0), Variant(2.0, (both,))))]) == ()
    assert invert([Choice((Variant(1.0), Variant(2.0, (encode, both))))]) == ()


def test_the_answer_to_a_task_that_decodes_is_text(small_folder):
    """It comes back as it is, though no piece of the vocabulary spells it so."""
    steps = "{encode: v.volt}, {decode: v.volt}"
    found = translation(steps)
    assert found.input(["low  lo"]) == ["low lo"]
    assert found.output(["low</w> lo"]) == ["low</w> lo"]
    for fields in ("", ", fields: [1]"):
        steps = f"{{encode: v.volt}}, {{decode: {{vocabulary: v.volt{fields}}}}}"
        kind, files = (PARA, MONO)[bool(fields)]
        assert translation(steps, kind, files).output(["low</w> lo"]) == ["low</w> lo"]


def test_tags_of_the_target_side_are_taken_off(small_folder):
    """Where they were put, once, and only where they are."""
    found = translation(
        "{encode: {vocabulary: v.volt, fields: [2]}}, {tag: {text: <en>, fields: [1, 2]}}"
    )
    assert found.output(["<en> low</w>", "low</w>", "l o</w>"]) == ["low", "low", "lo"]
    start = translation("{tag: {text: <en>, fields: [2]}}")
    lines = ["<en> low", "low <en>", "<en>", "<en> <en> low", "<en>low", ""]
    assert start.output(lines) == ["low", "low <en>", "", "<en> low", "<en>low", ""]
    end = translation("{tag: {text: <en>, fields: [2], position: end, separator: '_'}}")
    assert end.output(["low_<en>", "<en>_low", "low <en>"]) == ["low", "<en>_low", "low <en>"]
    assert invert([Tag("<en>")]) == ()


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 20])
def test_lines_before_bad_utf8_come_first(small_folder, size):
    """However the file is cut into blocks, every good line is answered, and then the error names the bad one."""
    Path("a.txt").write_bytes(
        "low\n\né\nlow\xff\nlow\n".encode("latin-1").replace(b"\xe9", "é".encode())
    )

    def answers(blocks):
        return translation("upper").input_blocks(blocks)

    got = list[bytes]()
    with pytest.raises(CorpusError, match=r"a.txt:4: invalid UTF-8 byte 0xff at column 4"):
        got.extend(answers(read_blocks("a.txt", block_size=size)))
    assert b"".join(got).decode() == "LOW\n\nÉ\n"


def test_no_remedy_is_reported_that_there_is_not(small_folder, run):
    """These commands answer every line, so they cannot skip one."""
    translation("upper")
    done = run("translate-input", "t.yaml", "--task", "t", stdin=b"low\n\xff\n", status=1)
    assert done.stdout == b"LOW\n"
    assert " ".join(done.stderr.decode().split()).endswith(
        "convert the file or pass --encoding-errors replace"
    )


def test_what_is_no_id_is_named(small_folder):
    """With the line, as are ids that a vocabulary or a SentencePiece model has not."""
    found = translation("{encode: {vocabulary: v.volt, to: ids}}")
    for bad in ("x", "1_0", "٣", "1.5"):
        with pytest.raises(
            StreamError,
            match=rf"line 2: step 'decode': field 2 .*: '{bad}' is not an id; give whole num",
        ):
            found.output(["5", f"5 {bad}"])
    spm, made = (
        pytest.importorskip("sentencepiece", reason="needs the package sentencepiece"),
        io.BytesIO(),
    )
    options: dict[str, Any] = {"vocab_size": 12, "hard_vocab_limit": False, "minloglevel": 2}
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower"] * 20), model_writer=made, **options
    )
    Path("m.model").write_bytes(made.getvalue())
    size = spm.SentencePieceProcessor(model_file="m.model").get_piece_size()
    found = translation("{spm_encode: {model: m.model, to: ids}}")
    assert found.output(found.input(["low"])) == ["low"]
    for bad in ("9999", "-1"):
        with pytest.raises(
            StreamError, match=rf"{bad} is not an id of the model; give ids from 0 to {size - 1}"
        ):
            found.output([bad])


def test_pieces_that_no_vocabulary_has_are_taken_as_they_are(small_folder):
    """As the help of the command says."""
    assert translation("{encode: v.volt}").output(["low</w> qu x</w>"]) == ["low qux"]
    assert translation("{morfessor_em: lexicon.tsv}").output(["▁qu x ▁low"]) == ["qux low"]


def test_arguments_that_cannot_be_meant(small_folder):
    """Told when the object is made."""
    Path("t.yaml").write_text(TASK.format(kind="mono", files=MONO[1], steps="lower"))
    with pytest.raises(ArgumentError, match=r"user_code is 'x' .*; give True or False"):
        Translation("t.yaml", "t", user_code="x")  # type: ignore[arg-type]
    for kind in (MorfessorEm, Encode):
        with pytest.raises(
            ConfigError, match=r"(model|vocabulary) is empty; give the path of a file"
        ):
            kind("")  # type: ignore[arg-type]


def test_the_files_that_a_configuration_names(small_folder):
    """Of all its sources and tasks, chosen or not, each once; they are no argument of a stream."""
    text = "sources: {s: {path: other.txt}}\n" + TASK.format(
        kind="mono", files=MONO[1], steps="encode: v.volt"
    )
    found = parse_config(text, path=str(small_folder / "t.yaml"))
    assert [Path(path).name for path in found.named] == ["other.txt", "train.en", "v.volt"]
    assert "named" not in found.options
