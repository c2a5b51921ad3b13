"""The word markers and the tokens for bytes: how words and bytes are spelled inside tokens.

>>> check_marker("suffix")
>>> BYTE_TOKENS[10]
'<0x0A>'
"""

from __future__ import annotations

from typing import Literal, get_args

from volt import arguments

SPACE = "▁"  # U+2581 stands for a space inside pre-tokens that keep spaces
PREFIX = SPACE  # the start-of-word marker is the space in front of the word, as in sentencepiece
SUFFIX = "</w>"  # the end-of-word marker
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
Marker = Literal["suffix", "prefix", "none"]


def check_marker(marker: str) -> None:
    """Raise ConfigError if there is no such marker.

    >>> check_marker("suffix")
    """
    arguments.choice(marker, "marker", get_args(Marker))
