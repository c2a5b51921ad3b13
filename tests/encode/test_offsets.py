"""Laws of offsets: each piece's span is the place in the line that it came from."""

from __future__ import annotations

from drawn import examples
from encoders import FEW, LOSSLESS, NORMALIZERS, USER, encoder, schemes, texts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.text.byte_alphabet import BYTE_TOKENS, to_bytes
from volt.text.normalizer import Normalizer


def folded(text: str) -> str:
    """Final sigma is seen only in its context."""
    return text.replace("ς", "σ")


@given(texts, schemes, st.sampled_from(NORMALIZERS), st.booleans(), st.booleans())
@example("\ue000a \ue001", LOSSLESS[-1], "none", False, False)  # private, like brackets
@settings(deadline=None, max_examples=examples(500))
def test_offsets_point_to_what_a_piece_came_from(
    text, scheme, normalizer, with_user, byte_fallback
):
    """Pieces are those of encode; spans lie within the line, in order; the normalised text of a span holds the piece,
    and is the piece where nothing was normalised; a byte's span is its character; a user token's span is itself."""
    marker, pretokenizer = scheme
    user = USER * with_user
    made = encoder(marker, pretokenizer, normalizer, user, byte_fallback)
    found = made.encode_offsets(text)
    assert [piece for piece, *_ in found] == made.encode(text)
    starts, ends = [start for _, start, _ in found], [end for *_, end in found]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    for piece, start, end in found:
        assert 0 <= start <= end <= len(text)
        source = text[start:end]
        normal = source if piece in user else Normalizer.parse(normalizer).normalize(source)
        if byte_fallback and piece in BYTE_TOKENS:
            shown = (
                normal + "▁" * (pretokenizer != "whitespace") + "ς" * ("σ" in normal)
            )  # "▁" may show a space
            assert int(piece[3:5], 16) in shown.encode()
            continue
        bare = piece.removesuffix("</w>") if marker == "suffix" and piece not in user else piece
        if marker == "suffix" and pretokenizer == "whitespace":
            assert folded(bare) in folded(normal)
            assert bare == source or normalizer != "none"
        else:
            shown, normal = bare.replace("▁", " "), normal.replace("▁", " ")
            assert folded(shown) in folded(normal) or folded(shown.removeprefix(" ")) in folded(
                normal
            )
            assert normalizer != "none" or normal in (shown, shown.removeprefix(" "))


@given(texts, schemes, st.booleans())
@FEW
def test_offsets_cover_the_line(text, scheme, with_user):
    """Without normalisation, every character that is not white space lies in the span of some piece."""
    found = encoder(*scheme, user=USER * with_user).encode_offsets(text)
    covered = {i for _, start, end in found for i in range(start, end)}
    missing = {text[i] for i in set(range(len(text))) - covered}
    assert all(char.isspace() for char in missing)
    if scheme in LOSSLESS:
        assert not missing


@given(
    texts,
    st.sampled_from(["suffix", "prefix", "none"]),
    st.sampled_from(["bytes", r"bytes+split:\p{L}+| ", r"bytes+matches:\p{L}+| "]),
    st.booleans(),
)
@example("@@", "prefix", r"bytes+matches:\p{L}+| ", True)  # no "▁" before an isolated user token
@example("▁ ", "suffix", r"bytes+matches:\p{L}+| ", False)
@FEW
def test_pieces_of_bytes_come_from_their_spans(text, marker, pretokenizer, with_user):
    """With any marker, a span holds the bytes of its piece, and spans are in order. Decoding drops the "▁" of words."""
    user = USER * with_user
    made = encoder(marker, pretokenizer, user=user)
    found = made.encode_offsets(text)
    assert [piece for piece, *_ in found] == made.encode(text)
    assert [span for _, *span in found] == sorted(span for _, *span in found)
    assert made.encode_spans([text]).ids.tolist() == made.encode_ids(text).tolist()
    for piece, start, end in found:
        assert 0 <= start <= end <= len(text)
        bare = (
            piece.removesuffix("</w>")
            if marker == "suffix"
            else piece.removeprefix("▁" * (marker == "prefix"))
        )
        assert (
            text[start:end] == piece
            if piece in user
            else to_bytes(bare) in text[start:end].encode()
        )
    if marker != "suffix" and "matches" not in pretokenizer:
        assert made.decode([piece for piece, *_ in found]) == text
