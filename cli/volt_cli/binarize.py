"""`volt binarize`: text → the indexed ids of fairseq or Megatron, a .bin and an .idx file."""

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
from volt_cli.io import check_places, is_stdout, load_model, warn_of_columns
from volt_cli.options import ModelAndText, Quiet, is_number, option

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder
    from volt.encode.frames import Frame

NONE = "none"


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

    def frame(self, encoder: Encoder) -> Frame:
        from volt.encode.frames import Frame

        eos = encoder.vocabulary.special.eos if self.eos is None else self.eos
        return Frame.of(
            encoder.vocabulary,
            bos=_token(self.bos),
            prepend=_token(self.prepend),
            eos=eos and _token(eos),
        )


def binarize(
    text: ModelAndText,
    around: FrameOptions,
    speed: SpeedOptions,
    engine: EngineOptions,
    out: Annotated[
        str,
        option(
            "PLACE",
            "Prefix of the two files, or a folder (a/) for a pair per input.",
            "-o",
            "--output",
        ),
    ],
    dtype: Annotated[
        Literal["u8", "i8", "i16", "i32", "i64", "u16", "u32", "u64"] | None,
        option(
            "KIND", "Type of the ids in .bin; default: u16 for fewer than 65,500 ids, else i32."
        ),
    ] = None,
    documents: Annotated[
        Literal["line", "file", "blank"] | None,
        option(
            "UNIT",
            "Write Megatron's index: a document is a line, a file, or the lines up to a blank line.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Encode text into indexed ids, the .bin and .idx of fairseq, or with --documents of Megatron.

    Each line becomes a sentence of ids followed by eos; an empty line is eos alone, so the lines of a translation stay
    aligned. All input files are written to one such pair; if the output is a folder, each input file has its own pair.
    For Megatron's GPT, use --documents line, because it samples sentences, not documents. With --documents blank, blank
    lines only separate documents.
    With --engine ray, workers write the pairs of a folder; a single pair is written here, and workers encode.
    """
    with loading():
        from volt.encode.binarize import binarize, binarize_each
        from volt.encode.encoder import Encoder
        from volt.encode.files import EncodeJob
        from volt.files.paths import total_size

        job = EncodeJob("bin", n_threads=speed.threads, **text.limits)
        out, files, phases = plain_path(out), text.files, Phases(quiet=quiet)
        check_places(_outputs(files, out), files, model=text.model)
        if not quiet:
            warn_of_columns(files, "encoded", "extract it first")
        engine.check(files)
        encoder = Encoder(
            load_model(text.model, texts=files, pattern=text.pattern), cache_words=speed.cache_words
        )
        frame = around.frame(encoder)
        prepare_kernels(phases, "encode", "words")
    with (
        phases.phase("binarize", total=total_size(files), unit="B") as advance,
        engine.running(connects=False),
    ):
        options: dict[str, Any] = {
            "frame": frame,
            "dtype": dtype,
            "documents": documents,
            "job": job,
        }
        options["progress"] = advance
        writer = engine.writer(quiet=quiet)
        if is_folder(out):
            written = binarize_each(
                encoder, files, Path(out), write=writer.each if writer else None, **options
            )
        else:
            written = iter(
                [
                    binarize(
                        encoder, files, Path(out), parts=writer.parts if writer else None, **options
                    )
                ]
            )
        for output in written:
            if not quiet:
                sizes = [
                    counted(output.n_lines, "line"),
                    f"{counted(output.n_ids, 'id')} as {output.dtype}",
                ]
                if output.n_documents is not None:
                    sizes.insert(0, counted(output.n_documents, "document"))
                say(f"{shown_path(output.prefix)}: {', '.join(sizes)}")


def _outputs(paths: list[str], out: str) -> list[Path]:
    from volt.encode.binarize import pair_files
    from volt.encode.files import outputs_of

    if is_stdout(out):
        raise ConfigError(
            f"-o {out}: ids are two files, .bin and .idx, but stdout takes only one; name a file"
        )
    prefixes = outputs_of(paths, Path(out), "").values() if is_folder(out) else [Path(out)]
    return [file for prefix in prefixes for file in pair_files(prefix)]


def _token(requested: str) -> int | str | None:
    return None if requested == NONE else int(requested) if is_number(requested) else requested
