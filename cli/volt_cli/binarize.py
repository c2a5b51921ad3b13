"""`volt binarize`: text → the indexed ids of fairseq or Megatron.

A pair of files has a common prefix: PREFIX.bin contains the ids, PREFIX.idx where each line starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from volt.display import counted
from volt.errors import ConfigError, shown_path
from volt.urls import plain_path
from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.encode import SpeedOptions, is_folder
from volt_cli.engine_options import EngineOptions
from volt_cli.io import check_distinct_files, is_stdout, warn_of_table_columns
from volt_cli.options import ModelAndTable, Quiet, is_number, option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volt.encode.binarize import Binarized
    from volt.encode.encoder import Encoder
    from volt.encode.frames import Frame

NONE = "none"  # the value of an option for no token


@dataclass(frozen=True)
class FrameOptions:
    PANEL = "Around each line"

    bos: Annotated[
        str, option("ID|TOKEN", "Before each line; default: none.", show_default=False)
    ] = NONE
    prepend: Annotated[
        str,
        option(
            "ID|TOKEN",
            "Before each line, after bos, such as a language's token; default: none.",
            show_default=False,
        ),
    ] = NONE
    eos: Annotated[
        str | None, option("ID|TOKEN", "After each line; default: MODEL's eos; none: nothing.")
    ] = None

    def resolve(self, encoder: Encoder) -> Frame:
        """Return the ids around each line. Raises ConfigError if the vocabulary lacks a token."""
        from volt.encode.frames import Frame

        eos = self.eos
        if eos is None:
            eos = encoder.vocabulary.special.eos
        return Frame.of(
            encoder.vocabulary,
            bos=_parse_token(self.bos),
            prepend=_parse_token(self.prepend),
            eos=eos and _parse_token(eos),
        )


@dataclass(frozen=True, kw_only=True)
class BinarizeOptions:
    text: ModelAndTable
    frame: FrameOptions
    speed: SpeedOptions
    engine: EngineOptions
    out: Annotated[
        str,
        option(
            "PLACE",
            "Prefix of the two files, or a folder (a/) for a pair per input.",
            "-o",
            "--output",
            parser=plain_path,
        ),
    ]
    dtype: Annotated[
        Literal["u8", "i8", "i16", "i32", "i64", "u16", "u32", "u64"] | None,
        option(
            "KIND", "Type of the ids in .bin; default: u16 for fewer than 65,500 ids, else i32."
        ),
    ] = None
    documents: Annotated[
        Literal["line", "file", "blank"] | None,
        option(
            "UNIT",
            "Write Megatron's index: a document is a line, a file, or the lines up to a blank "
            "line.",
        ),
    ] = None
    quiet: Quiet = False


def binarize(options: BinarizeOptions) -> None:
    """Encode text into indexed ids, the .bin and .idx of fairseq, or with --documents of Megatron.

    Each line becomes a sentence of ids followed by eos; an empty line is eos alone, so the lines of
    a translation stay aligned. All input files are written to one such pair; if the output is a
    folder, each input file has its own pair. For Megatron's GPT, use --documents line, because it
    samples sentences, not documents. With --documents blank, blank lines only separate documents.
    With --engine ray, workers write the pairs of a folder; a single pair is written here, and
    workers encode.
    """
    text = options.text
    files = text.files
    phases = Phases(quiet=options.quiet)
    with loading():
        from volt.encode.files import EncodeJob
        from volt.files.paths import total_size

        job = EncodeJob("bin", n_threads=options.speed.threads, **text.limits)
        check_distinct_files(_output_files(files, options.out), files, model=text.model)
        if not options.quiet and not job.columns:
            warn_of_table_columns(files, "encoded")
        options.engine.check(files)
        encoder = options.speed.load_encoder(text, quiet=options.quiet)
        frame = options.frame.resolve(encoder)
        prepare_kernels(phases, "encode", "words")
    with (
        phases.phase("binarize", total=total_size(files), unit="B") as advance,
        options.engine.running(connects=False),
    ):
        for output in _write(encoder, options, frame=frame, job=job, progress=advance):
            if not options.quiet:
                say(f"{shown_path(output.prefix)}: {_describe_sizes(output)}")


def _write(encoder: Encoder, options: BinarizeOptions, **common: Any) -> Iterator[Binarized]:
    from volt.encode.binarize import binarize, binarize_each

    common |= {"dtype": options.dtype, "documents": options.documents}
    files = options.text.files
    out = Path(options.out)
    writer = options.engine.writer(quiet=options.quiet)
    if is_folder(options.out):
        write = writer.each if writer else None
        yield from binarize_each(encoder, files, out, write=write, **common)
    else:
        parts = writer.parts if writer else None
        yield binarize(encoder, files, out, parts=parts, **common)


def _describe_sizes(output: Binarized) -> str:
    sizes = [counted(output.n_lines, "line"), f"{counted(output.n_ids, 'id')} as {output.dtype}"]
    if output.n_documents is not None:
        sizes.insert(0, counted(output.n_documents, "document"))
    return ", ".join(sizes)


def _output_files(paths: list[str], out: str) -> list[Path]:
    from volt.encode.binarize import pair_files
    from volt.encode.files import name_outputs

    if is_stdout(out):
        raise ConfigError(
            f"-o {out}: ids are two files, .bin and .idx, but stdout takes only one; name a file"
        )
    prefixes = name_outputs(paths, Path(out), "").values() if is_folder(out) else [Path(out)]
    return [file for prefix in prefixes for file in pair_files(prefix)]


def _parse_token(requested: str) -> int | str | None:
    """Return an id, a token, or None for "none"."""
    if requested == NONE:
        return None
    return int(requested) if is_number(requested) else requested
