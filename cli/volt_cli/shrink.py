"""`volt shrink`: a vocabulary with fewer ids, and a map from the old ids to the new ones."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.errors import ConfigError, VocabularyError
from volt_cli.console import Phases, prepare_kernels, print_json, say
from volt_cli.io import (
    check_one_for_stdout,
    check_place,
    check_places,
    is_stdout,
    load_model,
    save,
    say_written,
    write_bytes,
)
from volt_cli.options import MAX_LINE, EncodingErrors, Json, MaxLine, Quiet, argument, input_paths, option, readable

if TYPE_CHECKING:
    from volt.choose.shrink import Shrunk
    from volt.count.word_counts import WordCounts
    from volt.vocabulary import Vocabulary

_KINDS = (".npy", ".json")


def shrink(
    model: Annotated[
        Path, argument("MODEL", "A file of VOLT or of another library.", callback=readable(VocabularyError))
    ],
    to: Annotated[int, option("N", "Number of remaining ids, including special and byte tokens.", "--to")],
    texts: Annotated[
        list[str], option("TEXT", "Files, globs or folders to encode; may repeat.", "--on", callback=input_paths)
    ],
    out: Annotated[Path, option("FILE", "Where to write the vocabulary, or - for stdout.", "-o", "--output")],
    id_map: Annotated[
        Path | None, option("FILE", "Where to write the new id of each old one, -1 if dropped: .npy, .json.", "--map")
    ] = None,
    closed: Annotated[
        bool, typer.Option("--closed", help="Keep tokens that others are merged from, for other libraries.")
    ] = False,
    drop_atoms: Annotated[
        bool, typer.Option("--drop-atoms", help="Drop characters, too, that TEXT lacks; they are then unknown.")
    ] = False,
    encoding_errors: EncodingErrors = "strict",
    max_line: MaxLine = MAX_LINE,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Drop the tokens of a vocabulary that a corpus needs least.

    Encodes TEXT, and drops one token at a time, the one that adds the fewest pieces. The remaining ids keep their
    order. Use --map to copy rows of an embedding.
    """
    from volt.choose.shrink import shrink as run_shrink

    if str(model) == "-" and "-" in texts:
        raise ConfigError("MODEL and --on are both -: stdin cannot be both; name a file for one of them")
    check_one_for_stdout(json=as_json, output=is_stdout(out))
    check_places([out, id_map], texts, model=model)
    if id_map is not None and not str(id_map).endswith(_KINDS):
        raise ConfigError(f"--map {id_map}: has an unknown format; end its name with .npy or .json")
    for place in filter(None, (out, id_map)):
        check_place(place)
    old = load_model(model)
    phases = Phases(quiet=quiet)
    prepare_kernels(phases, "words")
    counts = _counted(old, texts, encoding_errors, max_line, phases)
    with phases.phase("shrink"):
        result = run_shrink(old, counts, to=to, closed=closed, keep_atoms=not drop_atoms)
    save(result.vocabulary, out)
    if id_map is not None:
        write_bytes(_map_data(result, id_map), id_map)
    if as_json:
        print_json({**summary(result, counts), "output": str(out), "map": id_map and str(id_map)}, indent=1)
    elif not quiet:
        _say(result, counts, out, id_map)


def _counted(old: Vocabulary, texts: list[str], errors: EncodingErrors, max_line: str, phases: Phases) -> WordCounts:
    from volt.count.corpus import count_words
    from volt.files.limits import parse_max_line

    with phases.phase("count", unit="B") as advance:
        return count_words(
            texts, normalizer=old.normalizer, pretokenizer=old.pretokenizer, special=old.special, errors=errors,
            max_line=parse_max_line(max_line), progress=lambda path, done, total: advance(done, total),
        )  # fmt: skip


def _map_data(result: Shrunk, place: Path) -> bytes:
    import numpy as np

    if str(place).endswith(".json"):
        return json.dumps(result.new_ids.tolist()).encode() + b"\n"
    file = io.BytesIO()
    np.save(file, result.new_ids)
    return file.getvalue()


def summary(result: Shrunk, counts: WordCounts) -> dict[str, object]:
    lines = counts.n_lines or 1
    return {
        "ids": len(result.vocabulary),
        "dropped": int((result.new_ids < 0).sum()),
        "scaffolding": len(result.vocabulary.scaffolding),
        "pieces_before": result.n_pieces_before,
        "pieces": result.n_pieces,
        "pieces_per_line_before": result.n_pieces_before / lines,
        "pieces_per_line": result.n_pieces / lines,
        "fingerprint": result.vocabulary.fingerprint,
    }


def _say(result: Shrunk, counts: WordCounts, out: Path, id_map: Path | None) -> None:
    before, after = result.n_pieces_before, result.n_pieces
    lines = counts.n_lines or 1
    say(f"{before / lines:.2f} pieces a line become {after / lines:.2f}: {after / before - 1:+.1%}")
    if n := len(result.vocabulary.scaffolding):
        say(f"note: {n:,} tokens are intermediate and split back; --closed keeps tokens that others are merged from")
    say_written(
        out, f"{len(result.vocabulary):,} ids of {len(result.new_ids):,}, {len(result.vocabulary.merges):,} merges"
    )
    if id_map is not None:
        say_written(id_map, f"the new id of each of {len(result.new_ids):,}")
