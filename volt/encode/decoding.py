"""`VocabularyDecoder`: pieces and ids → text, the half of `Encoder` that decodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from volt import arguments
from volt.encode import inputs
from volt.encode.batch_encoder import Encoded
from volt.encode.decoder import Decoder, decode, decode_stream, skipped_ids
from volt.encode.special_in_text import Special
from volt.vocabulary import Vocabulary


class VocabularyDecoder:
    """Decodes with one vocabulary.

    vocabulary: the vocabulary
    """

    vocabulary: Vocabulary

    def decode(self, pieces: Iterable[str]) -> str:
        """Decode pieces into a line of text.

        Decoding the pieces of `encode(line)` gives the line, normalised, with single spaces.

        pieces: strings
        """
        return decode(self.vocabulary, inputs.check_pieces(pieces, "decode"))

    def decode_ids(self, ids: Iterable[int], *, skip_special: bool | Special = False) -> str:
        """Decode ids into a line of text.

        ids: whole numbers. Raises VocabularyError if an id is out of range.
        skip_special: True to leave out `vocabulary.special.skipped`; or the special tokens to leave
            out
        """
        array = inputs.check_ids(ids, self.vocabulary)
        if skip_special is not False:
            skipped = skipped_ids(self.vocabulary, skip_special)
            return self._decoder.decode_lines(array, np.array([0, len(array)]), skipped=skipped)[0]
        return self._decoder.decode_line(array)

    def decode_stream(
        self, ids: Iterable[int], *, skip_special: bool | Special = False
    ) -> Iterator[str]:
        """Yield the text of ids as soon as its characters are complete.

        The parts of text, joined, equal the result of `decode_ids`.

        ids: whole numbers, such as those that a model generates one by one
        skip_special: see `decode_ids`

        >>> from volt.encode.encoder import Encoder
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o</w>"), byte_fallback=True))
        >>> list(encoder.decode_stream(encoder.encode_ids("lo l😀")))
        ['l', 'o', ' l', '😀']
        """
        skipped = skipped_ids(self.vocabulary, skip_special)
        pieces = inputs.look_up_pieces(self.vocabulary, inputs.check_ids_lazily(ids), skipped)
        return decode_stream(self.vocabulary, pieces)

    def token_bytes(self, number: int) -> bytes:
        """Return the UTF-8 text of an id, which may be part of a character. A marker is a space.

        number: the id. Raises VocabularyError if it is out of range.

        >>> from volt.encode.encoder import Encoder
        >>> encoder = Encoder(Vocabulary(merges=(), tokens=("l", "o</w>"), byte_fallback=True))
        >>> [encoder.token_bytes(number) for number in (0, 260, 261, 262)]
        [b'<unk>', b' ', b'l', b'o ']
        """
        number = arguments.whole(number, "number")
        [_] = inputs.look_up_pieces(self.vocabulary, [number])
        return self._decoder.token_bytes(number)

    def decode_batch(
        self, encoded: Encoded | Iterable[Iterable[int]], *, skip_special: bool | Special = False
    ) -> list[str]:
        """Decode ids into lines of text.

        encoded: the result of `encode_batch`, or the ids of each line
        skip_special: see `decode_ids`
        """
        encoded = inputs.flatten_ids(encoded)
        skipped = skipped_ids(self.vocabulary, skip_special)
        return self._decoder.decode_lines(encoded.ids, encoded.offsets, skipped=skipped)

    def decode_bytes(self, encoded: Encoded | Iterable[Iterable[int]]) -> bytes:
        """Return the lines of ids as UTF-8 text, each with a line end.

        encoded: see `decode_batch`
        """
        encoded = inputs.flatten_ids(encoded)
        return self._decoder.decode_bytes(encoded.ids, encoded.offsets)

    def decode_text(self, text: bytes) -> bytes:
        """Decode lines of ids, separated by spaces, to lines of UTF-8 text.

        text: bytes; a word that is not an id raises CorpusError
        """
        return self._decoder.decode_text(inputs.check_utf8(text, "decode_text"))

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder.of(self.vocabulary)
