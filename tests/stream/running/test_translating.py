"""A task's transforms before and behind a translation system: nothing is drawn, no line is lost, text comes back."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import write_lines
from writers import check_answers

from volt.count.corpus import count_words
from volt.errors import ConfigError, StreamError
from volt.files.blocks import Wait, read_blocks
from volt.learn.bpe import learn_bpe
from volt.stream.running.stream import Stream
from volt.stream.running.translation import Translation
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def written(folder: Path, cut: str) -> Path:
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
def test_what_is_given_to_the_system_comes_back_as_text(folder: Path, cut: str) -> None:
    """Pieces or ids, without the tags before them, become the text again, whatever it is; so do those of tasks with one
    side. One line comes out for each.
    """
    found = {name: Translation(written(folder, cut), name) for name in ("de_en", "noisy", "auto")}

    @settings(max_examples=examples(15))
    @given(LINES)
    def law(lines: list[str]) -> None:
        given = {name: translation.input(lines) for name, translation in found.items()}
        assert given["noisy"] == given["auto"]
        assert given["de_en"] == [
            f"<FROM_de> <TO_en> {line}" if line else "<FROM_de> <TO_en>" for line in given["auto"]
        ]
        for name in ("noisy", "auto"):
            assert found[name].output(given[name]) == lines

    law()


@pytest.mark.parametrize("cut", CUTS)
def test_the_input_is_that_of_validation(folder: Path, cut: str) -> None:
    """A line is what the stream of the split `valid` gives in field 1, and the target side what is undone."""
    path, text = written(folder, cut), (folder / "a.de").read_text().split("\n")[:-1]
    for task in ("de_en", "noisy", "auto", "dev"):
        translation = Translation(path, task)
        with Stream.from_config(path, split="valid", tasks=[task]) as stream:
            sides = [line.split("\t") for line in stream]
        assert translation.input(text) == [side[0] for side in sides]
        assert task == "dev" or translation.output([side[1] for side in sides]) == text


def test_each_side_has_its_own_vocabulary(folder: Path) -> None:
    """What the system answers is of the target side: it is undone as that side was cut, or left where it was not."""
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


def test_a_task_that_makes_its_target_has_a_target(folder: Path) -> None:
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


def test_lines_are_answered_before_more_is_waited_for(folder: Path) -> None:
    """However lines are cut into writes; "\\r" before a line end goes."""
    translation = Translation(written(folder, "encode"), "auto")

    def answers(path: str, wait: Wait) -> Iterator[bytes]:
        return translation.input_blocks(read_blocks(path, wait=wait))

    @settings(max_examples=examples(15))
    @given(
        text=st.text(alphabet="low \n\ré", min_size=1, max_size=40),
        places=st.lists(st.integers(0, 40), max_size=5),
    )
    def law(text: str, places: list[int]) -> None:
        whole = text if text.endswith("\n") else f"{text}\n"
        lines = [line.removesuffix("\r") for line in whole.split("\n")[:-1]]
        expected = "".join(f"{line}\n" for line in translation.input(lines)).encode()
        check_answers(text.encode(), places, answers, expected)

    law()


def test_a_byte_order_mark_goes(folder: Path) -> None:
    """Before the first line of a file; what is empty gives nothing."""
    translation, path = Translation(written(folder, "encode"), "auto"), folder / "bom.txt"
    for data, expected in (
        (b"\xef\xbb\xbflow\r\n\nlow", b"low</w>\n\nlow</w>\n"),
        (b"\xef\xbb\xbf", b""),
        (b"", b""),
    ):
        path.write_bytes(data)
        assert b"".join(translation.input_blocks(read_blocks(str(path)))) == expected


def test_steps_that_refuse_an_empty_line(folder: Path) -> None:
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


def test_a_refused_line_is_reported_behind_those_before_it(folder: Path) -> None:
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


def test_no_step_changes_the_number_of_lines(tmp_path: Path) -> None:
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
def test_what_cannot_be_done_is_reported(
    folder: Path, call: Any, kind: type[Exception], message: str
) -> None:
    """With the file and the line where there is one, and what to do."""
    with pytest.raises(kind, match=message):
        call(written(folder, "ids" if "decode" in message else "encode"))


@pytest.mark.parametrize("step", ["keep_fields: [2, 1]", "copy: {from: 2, to: 1}"])
def test_a_swap_of_the_sides_is_refused(tmp_path: Path, step: str) -> None:
    """The text to translate would be lost."""
    (tmp_path / "t.yaml").write_text(
        f"tasks: {{t: {{type: para, inputs: {{i: {{src: a, tgt: b}}}}, transforms: [{{{step}}}]}}}}"
    )
    with pytest.raises(ConfigError, match="fills field 1 from another field"):
        Translation(tmp_path / "t.yaml", "t")
