"""`Translation`: a task's transforms before and after a translation system give one line for each
line."""

import io
from pathlib import Path

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
TASK = "tasks: {{t: {{type: {kind}, inputs: {{i: {{{files}}}}}, transforms: [{steps}]}}}}\n"
PARA = ("para", "src: a.de, tgt: a.en")
MONO = ("mono", "mono: a.en")


def make_translation(steps, kind_and_files=PARA, folder=Path()):
    """Return the translation of a task with these steps."""
    kind, files = kind_and_files
    path = folder / "t.yaml"
    path.write_text(TASK.format(kind=kind, files=files, steps=steps))
    return Translation(path, "t")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with vocabularies, a table, a lexicon and lines."""
    made = tmp_path_factory.mktemp("translating")
    text = write_lines(made / "words.txt", [" ".join(WORDS)] * 9)
    for name, cut in (("words", "whitespace"), ("bytes", "bytes")):
        found = learn_bpe(count_words(text, pretokenizer=cut), n_merges=12)
        options = {"marker": found.marker, "pretokenizer": PreTokenizer(cut)}
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


def write_config(folder, cut):
    """Return the path of a configuration whose tasks segment text in this way."""
    if cut in ("spm", "sentencepiece") and not (folder / "spm.model").exists():
        spm = pytest.importorskip("sentencepiece")
        model = io.BytesIO()
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
def test_output_inverts_input(folder, cut):
    """Translation.output returns the text from the pieces or ids that Translation.input has made,
    without tags, one line for each line."""
    found = {
        name: Translation(write_config(folder, cut), name) for name in ("de_en", "noisy", "auto")
    }

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
def test_input_equals_the_validation_stream(folder, cut):
    """Translation.input returns field 1 of the stream of the split `valid`; output inverts its
    target side."""
    path = write_config(folder, cut)
    text = (folder / "a.de").read_text().split("\n")[:-1]
    for task in ("de_en", "noisy", "auto", "dev"):
        translation = Translation(path, task)
        with Stream.from_config(path, split="valid", tasks=[task]) as stream:
            sides = [line.split("\t") for line in stream]
        assert translation.input(text) == [side[0] for side in sides]
        assert task == "dev" or translation.output([side[1] for side in sides]) == text


def test_output_uses_the_vocabulary_of_the_target_side(folder):
    """Translation.output joins lines as the target side was segmented, and returns them unchanged
    if it was not."""
    source = "{encode: {vocabulary: words.volt, fields: [1]}}"
    target = "{deterministic_segmentation: {table: table.tsv, marks: word, fields: [2]}}"
    for task, steps, expected in (
        (PARA, f"{source}, {target}", "low"),
        (PARA, source, "▁ l o w"),
        (PARA, target, "low"),
        (MONO, source, "low"),
        (MONO, f"duplicate_mono, {source}", "low</w>"),
    ):
        translation = make_translation(steps, task, folder)
        assert translation.input(["low"]) == ["low</w>" if source in steps else "low"]
        assert translation.output(["▁ l o w" if task == PARA else "low</w>"]) == [expected]


def test_a_task_whose_transforms_fill_the_target_side(folder):
    """For a task with taboo segmentation, Translation.output inverts both sides of its stream, and
    input gives the first."""
    text = (folder / "a.en").read_text().split("\n")[:-1]
    translation = make_translation(
        "{taboo: {model: words.volt, segmenter: vocabulary}}", MONO, folder
    )
    with Stream.from_config(folder / "t.yaml", split="valid", tasks=["t"]) as stream:
        source, target = zip(*(line.split("\t") for line in stream), strict=True)
    assert translation.input(text) == list(source)
    assert translation.output(source) == translation.output(target) == text


def test_lines_are_translated_as_they_arrive(folder):
    """input_blocks yields the lines of each block before it reads the next, and drops "\r" before a
    line end."""
    translation = Translation(write_config(folder, "encode"), "auto")

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


def test_a_byte_order_mark_is_dropped(folder):
    """input_blocks drops a byte order mark before the first line; an empty file gives no line."""
    translation = Translation(write_config(folder, "encode"), "auto")
    path = folder / "bom.txt"
    for data, expected in (
        (b"\xef\xbb\xbflow\r\n\nlow", b"low</w>\n\nlow</w>\n"),
        (b"\xef\xbb\xbf", b""),
        (b"", b""),
    ):
        path.write_bytes(data)
        assert b"".join(translation.input_blocks(read_blocks(str(path)))) == expected


def test_transforms_that_refuse_an_empty_line_have_no_target(folder):
    """A transform that fails on an empty line adds no target side, so output decodes as the source
    side was encoded."""
    (folder / "refuses.py").write_text(
        "def refuses(fields):\n    return fields if fields[0] else 1 / 0\n"
    )
    steps = "{user: {file: refuses.py, function: refuses}}, {encode: words.volt}"
    translation = make_translation(steps, MONO, folder)
    assert translation.output(translation.input(["low"])) == ["low"]
    path = write_lines(folder / "out.txt", ["low</w>", "", "lo w</w>"])
    assert b"".join(translation.output_blocks(read_blocks(path))) == b"low\n\nlow\n"


def test_lines_before_a_refused_line_are_translated(folder):
    """input_blocks yields the lines before a refused line, and then raises StreamError with its
    number and the step."""
    translation = Translation(write_config(folder, "table"), "auto")
    for bad, reason in {
        "nowhere": "step 'deterministic_segmentation': .*table.tsv lacks the word 'nowhere'",
        "a\tb": "contains a tab, which separates fields; write a space instead",
    }.items():
        path = folder / "lines.txt"
        path.write_text(f"low\n\nlow a\n{bad}\nlow\n{bad}\n")
        blocks = []
        with pytest.raises(StreamError, match=f"lines.txt:4: {reason}"):
            blocks.extend(translation.input_blocks(read_blocks(str(path))))
        lines = b"".join(blocks).decode().split("\n")[:-1]
        assert lines == translation.input(["low", "", "low a"])
        with pytest.raises(StreamError, match=f"line 2: {reason}"):
            translation.input(["low", bad, bad])


def test_steps_that_drop_or_fail_on_a_line_are_reported(tmp_path):
    """A step that drops a line or fails on it is reported with the line; a step that draws random
    numbers is omitted."""
    (tmp_path / "own.py").write_text(
        "def some(fields):\n    return fields if 'x' not in fields[0] else None\n"
        "def fails(fields):\n    return fields[1 // len(fields[0]) - 1:]\n"
        "def draws(fields, rng):\n    return [str(rng.random())]\n"
    )
    for function, line, reason in (
        ("some", "x", "drops the line; each input line"),
        ("fails", "", "ZeroDivisionError"),
        ("draws", "x", ""),
    ):
        step = f"user: {{file: own.py, function: {function}}}"
        translation = make_translation(step, MONO, tmp_path)
        if not reason:
            assert translation.input(["ab", "", line]) == ["ab", "", line]
            continue
        with pytest.raises(StreamError, match=f"line 2: step 'user': .*{reason}"):
            translation.input(["ab", line])


FAULTS = {
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
def test_tasks_that_cannot_translate_are_refused(folder, call, kind, message):
    """Translation refuses a missing task and unsuitable steps, with the line of the file and a
    remedy."""
    with pytest.raises(kind, match=message):
        call(write_config(folder, "ids" if "decode" in message else "encode"))


@pytest.mark.parametrize("step", ["keep_fields: [2, 1]", "copy: {from: 2, to: 1}"])
def test_steps_that_fill_field_1_from_another_field_are_refused(tmp_path, step):
    """Translation refuses steps that overwrite field 1, the text to translate, with another
    field."""
    with pytest.raises(ConfigError, match="fills field 1 from another field"):
        make_translation(f"{{{step}}}", folder=tmp_path)


@pytest.fixture
def small_folder(tmp_path, monkeypatch):
    """The current folder, with a vocabulary, a table, a lexicon and a corpus."""
    monkeypatch.chdir(tmp_path)
    tokens = ("l", "o", "w", "l</w>", "o</w>", "w</w>", "low</w>", "lo")
    Vocabulary((("l", "o"), ("lo", "w</w>")), tokens).save("v.volt")
    Path("table.tsv").write_text("▁low\t▁lo w\n▁lower\t▁low er\n")
    Path("lexicon.tsv").write_text("8\t▁low\n4\ter\n1\tl\n1\to\n1\tw\n1\t▁\n")
    for name in ("a.de", "a.en", "other.txt"):
        Path(name).write_text("low\n")
    return tmp_path


@pytest.mark.parametrize("command", ["translate-input", "translate-output"])
def test_files_of_the_configuration_are_not_overwritten(small_folder, run, command):
    """`volt stream` commands refuse to write to any vocabulary, table, model or corpus that the
    configuration names."""
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
    names = ["v.volt", "table.tsv", "lexicon.tsv", "a.de", "a.en", "other.txt", "t.yaml"]
    for name in names:
        done = run(command, "t.yaml", "--task", "t", "-o", name, stdin=b"", status=2)
        assert b"would be written over" in done.stderr
    assert {path: path.read_bytes() for path in small_folder.iterdir()} == before
    run(command, "t.yaml", "--task", "t", "-o", "new.txt", stdin=b"")


def test_a_decode_step_cancels_the_encode_step_before_it(small_folder):
    """invert omits the nearest earlier encoding of a field that the task decodes itself, and
    inverts the others."""
    v = Path("v.volt")
    encode = Encode(v)
    decode = Decode(v, None)
    both = Decode(v, (1, 2))
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


def test_output_of_a_task_that_decodes_is_unchanged(small_folder):
    """Translation.output returns text unchanged if the task itself decodes its target side."""
    steps = "{encode: v.volt}, {decode: v.volt}"
    found = make_translation(steps)
    assert found.input(["low  lo"]) == ["low lo"]
    assert found.output(["low</w> lo"]) == ["low</w> lo"]
    for task, fields in ((PARA, ""), (MONO, ", fields: [1]")):
        steps = f"{{encode: v.volt}}, {{decode: {{vocabulary: v.volt{fields}}}}}"
        assert make_translation(steps, task).output(["low</w> lo"]) == ["low</w> lo"]


def test_tags_of_the_target_side_are_removed(small_folder):
    """Translation.output removes a tag once, only where the task adds it."""
    found = make_translation(
        "{encode: {vocabulary: v.volt, fields: [2]}}, {tag: {text: <en>, fields: [1, 2]}}"
    )
    assert found.output(["<en> low</w>", "low</w>", "l o</w>"]) == ["low", "low", "lo"]
    start = make_translation("{tag: {text: <en>, fields: [2]}}")
    lines = ["<en> low", "low <en>", "<en>", "<en> <en> low", "<en>low", ""]
    assert start.output(lines) == ["low", "low <en>", "", "<en> low", "<en>low", ""]
    end = make_translation("{tag: {text: <en>, fields: [2], position: end, separator: '_'}}")
    assert end.output(["low_<en>", "<en>_low", "low <en>"]) == ["low", "<en>_low", "low <en>"]
    assert invert([Tag("<en>")]) == ()


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 20])
def test_lines_before_invalid_utf8_are_translated(small_folder, size):
    """For any blocks, the valid lines before an invalid byte are translated, and then the error
    names the line."""
    Path("a.txt").write_bytes(
        "low\n\né\nlow\xff\nlow\n".encode("latin-1").replace(b"\xe9", "é".encode())
    )
    translation = make_translation("upper")
    blocks = []
    with pytest.raises(CorpusError, match=r"a.txt:4: invalid UTF-8 byte 0xff at column 4"):
        blocks.extend(translation.input_blocks(read_blocks("a.txt", block_size=size)))
    assert b"".join(blocks).decode() == "LOW\n\nÉ\n"


def test_errors_do_not_recommend_skipping_lines(small_folder, run):
    """Errors of translation do not recommend on_fault, because each line needs an output."""
    make_translation("upper")
    done = run("translate-input", "t.yaml", "--task", "t", stdin=b"low\n\xff\n", status=1)
    assert done.stdout == b"LOW\n"
    assert " ".join(done.stderr.decode().split()).endswith(
        "convert the file or pass --encoding-errors replace"
    )


def test_invalid_ids_are_reported(small_folder):
    """Translation.output reports the line of a text that is not an id, and of an id beyond the
    vocabulary."""
    found = make_translation("{encode: {vocabulary: v.volt, to: ids}}")
    for bad in ("x", "1_0", "٣", "1.5"):
        with pytest.raises(
            StreamError,
            match=rf"line 2: step 'decode': field 2 .*: '{bad}' is not an id; give whole num",
        ):
            found.output(["5", f"5 {bad}"])
    spm = pytest.importorskip("sentencepiece", reason="needs the package sentencepiece")
    made = io.BytesIO()
    options = {"vocab_size": 12, "hard_vocab_limit": False, "minloglevel": 2}
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower"] * 20), model_writer=made, **options
    )
    Path("m.model").write_bytes(made.getvalue())
    size = spm.SentencePieceProcessor(model_file="m.model").get_piece_size()
    found = make_translation("{spm_encode: {model: m.model, to: ids}}")
    assert found.output(found.input(["low"])) == ["low"]
    for bad in ("9999", "-1"):
        with pytest.raises(
            StreamError, match=rf"{bad} is not an id of the model; give ids from 0 to {size - 1}"
        ):
            found.output([bad])


def test_unknown_pieces_are_accepted(small_folder):
    """Translation.output accepts pieces that the vocabulary does not have."""
    assert make_translation("{encode: v.volt}").output(["low</w> qu x</w>"]) == ["low qux"]
    assert make_translation("{morfessor_em: lexicon.tsv}").output(["▁qu x ▁low"]) == ["qux low"]


def test_invalid_arguments_of_translations_are_refused(small_folder):
    """Translation refuses invalid arguments when it is made, and lines with line ends or
    surrogates."""
    make_translation("lower")
    with pytest.raises(ArgumentError, match=r"user_code is 'x' .*; give True or False"):
        Translation("t.yaml", "t", user_code="x")
    for kind in (MorfessorEm, Encode):
        with pytest.raises(
            ConfigError, match=r"(model|vocabulary) is empty; give the path of a file"
        ):
            kind("")


def test_files_lists_the_files_of_all_tasks(small_folder):
    """Translation.files lists each file of all sources and tasks of the configuration once."""
    text = "sources: {s: {path: other.txt}}\n" + TASK.format(
        kind="mono", files=MONO[1], steps="encode: v.volt"
    )
    found = parse_config(text, path=str(small_folder / "t.yaml"))
    assert [Path(path).name for path in found.named] == ["other.txt", "a.en", "v.volt"]
    assert "named" not in found.options
