"""`volt binarize`: text → ids as fairseq and Megatron read them, in a .bin and an .idx."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from volt.errors import ConfigError
from volt.urls import plain_path
from volt_cli.console import Phases, loading, prepare_kernels, say
from volt_cli.encode import SpeedOptions, is_folder
from volt_cli.io import check_places, is_stdout, load_model
from volt_cli.options import MAX_LINE, EncodingErrors, Files, MaxLine, Model, Pattern, Quiet, is_number

if TYPE_CHECKING:
    from volt.encode.binarize import Binarized, Frame
    from volt.encode.encoder import Encoder
    from volt.encode.files import EncodeJob

NONE = "none"


@dataclass(frozen=True)
class FrameOptions:
    """The ids before and after those of a line."""

    PANEL = "Around each line"

    bos: Annotated[
        str, typer.Option(metavar="ID|TOKEN", help="In front of the line; default: none.", show_default=False)
    ] = NONE
    prepend: Annotated[
        str,
        typer.Option(
            metavar="ID|TOKEN",
            help="In front of the line, behind bos, such as a language's token; default: none.",
            show_default=False,
        ),
    ] = NONE
    eos: Annotated[
        str | None, typer.Option(metavar="ID|TOKEN", help="Behind the line; default: the vocabulary's; none: nothing.")
    ] = None

    def frame(self, encoder: Encoder) -> Frame:
        """Return the frame as the library takes it. Raises ConfigError if the vocabulary has no such token."""
        from volt.encode.binarize import Frame

        eos = encoder.vocabulary.special.eos if self.eos is None else self.eos
        return Frame.of(encoder, bos=_token(self.bos), prepend=_token(self.prepend), eos=eos and _token(eos))


def binarize(
    model: Model,
    around: FrameOptions,
    files: Files,
    speed: SpeedOptions,
    out: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PLACE", help="PREFIX of the two files, or a folder (a/) for a pair per file."
        ),
    ],
    dtype: Annotated[
        Literal["u8", "i8", "i16", "i32", "i64", "u16", "u32", "u64"] | None,
        typer.Option(metavar="KIND", help="Numbers in .bin; default: u16 for fewer than 65,500 ids, else i32."),
    ] = None,
    pattern: Pattern = None,
    encoding_errors: EncodingErrors = "strict",
    max_line: MaxLine = MAX_LINE,
    quiet: Quiet = False,
) -> None:
    """Encode text into indexed ids, the .bin and .idx of fairseq and Megatron.

    Each line becomes a sentence of ids with eos behind it; an empty line is eos alone, so lines stay aligned with those
    of a translation. Several files become one pair, one after the other; with a folder as output each file has its own.
    """
    with loading():
        from volt.encode.encoder import Encoder
        from volt.encode.files import EncodeJob
        from volt.files.limits import parse_max_line
        from volt.files.paths import total_size

        job = EncodeJob("bin", errors=encoding_errors, n_threads=speed.threads, max_line=parse_max_line(max_line))
        out = plain_path(out)
        phases = Phases(quiet=quiet)
        check_places(_outputs(files, out), files, model=model)
        encoder = Encoder(load_model(model, texts=files, pattern=pattern), cache_words=speed.cache_words)
        frame = around.frame(encoder)
        prepare_kernels(phases, "encode", "words")
    total = total_size(files)
    with phases.phase("binarize", total=total, unit="B") as advance:
        for output in _binarized(encoder, files, out, frame=frame, dtype=dtype, job=job, progress=advance):
            if not quiet:
                _tell(output)


def _binarized(
    encoder: Encoder, paths: list[str], out: str, *, frame: Frame, dtype: str | None, job: EncodeJob,
    progress: Callable[[float], object],
) -> Iterable[Binarized]:  # fmt: skip
    from volt.encode.binarize import binarize, binarize_each

    if is_folder(out):
        return binarize_each(encoder, paths, Path(out), frame=frame, dtype=dtype, job=job, progress=progress)
    return [binarize(encoder, paths, Path(out), frame=frame, dtype=dtype, job=job, progress=progress)]


def _tell(output: Binarized) -> None:
    from volt.display import counted
    from volt.errors import shown_path

    say(
        f"{shown_path(output.prefix)}: {counted(output.n_lines, 'line')}, "
        f"{counted(output.n_ids, 'id')} as {output.dtype}"
    )


def _outputs(paths: list[str], out: str) -> list[Path]:
    """Return all files that are written. Raises ConfigError if they have no place."""
    from volt.encode.binarize import pair_files
    from volt.encode.files import outputs_of

    if is_stdout(out):
        raise ConfigError(f"-o {out}: ids are two files, .bin and .idx, and stdout takes one; name a place")
    prefixes = outputs_of(paths, Path(out), "").values() if is_folder(out) else [Path(out)]
    return [file for prefix in prefixes for file in pair_files(prefix)]


def _token(requested: str) -> int | str | None:
    """Return the id or the token that is asked for, or none.

    >>> _token("2"), _token("<2de>"), _token("none")
    (2, '<2de>', None)
    """
    return None if requested == NONE else int(requested) if is_number(requested) else requested
