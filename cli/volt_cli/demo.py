"""`volt demo`: search for the vocabulary of the documentation topics that ship with Python."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from volt_cli.console import Phases, prepare_kernels, say, show
from volt_cli.io import (
    check_destination,
    choose_report_console,
    count_text,
    report_written,
    save_vocabulary,
)
from volt_cli.options import Select, name_options, option


def demo(
    out: Annotated[
        Path | None,
        option("FILE", "Also write the vocabulary here, or to - (stdout).", "-o", "--output"),
    ] = None,
    select: Select = "trained",
) -> None:
    """Search for the vocabulary of the documentation that ships with Python."""
    from pydoc_data.topics import topics

    from volt.choose import report
    from volt.choose.search import search
    from volt.display import LabelledText
    from volt.encode.encoder import Encoder
    from volt.files.temporary import scratch_folder
    from volt.learn.bpe import learn_bpe

    if out:
        check_destination(out)
    phases = Phases()
    prepare_kernels(phases, "learn", "words")
    say(f"corpus: the {len(topics)} documentation topics of this Python")
    with scratch_folder() as folder:
        path = folder / "topics.txt"
        path.write_text("\n".join(topics.values()), encoding="utf-8", newline="\n")
        counts = count_text([str(path)], phases)
    with phases.phase("learn"):
        candidates = learn_bpe(counts)
    with phases.phase("search"):
        result = search(candidates, select=select)
    encoder = Encoder(result.vocabulary)
    pieces = encoder.encode(
        "Subclasses override __getattr__ only if they understand the consequences."
    )
    parts = (
        LabelledText("encode  ", pieces),
        LabelledText("decode  ", encoder.decode(pieces).split(" ")),
    )
    show(
        report.as_text(result, reword=name_options),
        "",
        *parts,
        console=choose_report_console(out),
    )
    if out:
        save_vocabulary(result.vocabulary, out)
        report_written(out)
    say("next: volt search YOUR_CORPUS.txt")
