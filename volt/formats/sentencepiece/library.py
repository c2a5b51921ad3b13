"""The sentencepiece package, and the protobuf class of its models: each loaded where it is needed."""

from __future__ import annotations

from typing import Any

from volt.errors import missing


def model_class() -> Any:
    """The protobuf class of a sentencepiece model. Raises MissingLibraryError if it is not installed."""
    try:
        from sentencepiece import sentencepiece_model_pb2 as pb2
    except ImportError:
        raise missing("sentencepiece or protobuf") from None
    return vars(pb2)["ModelProto"]  # made at run time, so unknown to type checkers


def load_library() -> Any:
    """The sentencepiece package. Raises MissingLibraryError if it is not installed."""
    try:
        import sentencepiece
    except ImportError:
        raise missing("sentencepiece") from None
    return sentencepiece
