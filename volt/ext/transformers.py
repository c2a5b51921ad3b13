"""Turn a vocabulary into a tokenizer of transformers, without writing files.

The tokenizer equals the one that transformers loads from a folder that VOLT exports.

One thing differs: with `skip_special_tokens`, a loaded folder leaves out all tokens with roles, and
this tokenizer only those in `SpecialTokens.skipped`, as VOLT does.

>>> from volt import Vocabulary
>>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), marker="none", pretokenizer="bytes")
>>> loaded = tokenizer(vocabulary, chat_template="{{ messages[0].content }}{{ eos_token }}")
>>> loaded.apply_chat_template([{"role": "user", "content": "loo"}], tokenize=False)
'loo</s>'
>>> loaded("loo</s>")["input_ids"] == [vocabulary.ids[piece] for piece in ("lo", "o", "</s>")]
True
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from volt import arguments
from volt.errors import VoltWarning, missing
from volt.formats.huggingface.chat_template import template_text
from volt.formats.huggingface.unigram import text_of
from volt.formats.huggingface.writing import contents, note_closing
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def tokenizer(
    vocabulary: Vocabulary, *, chat_template: str | Path | None = None
) -> PreTrainedTokenizerFast:
    """Return the tokenizer of transformers that has the ids of a vocabulary, and encodes text as
    VOLT does.

    vocabulary: if it is pruned, the tokens between are added, after all others, with a VoltWarning;
        `volt.write_vocabulary` returns notes on other differences
    chat_template: a Jinja template, or a Path to a file with one, for `apply_chat_template`

    Raises MissingLibraryError without transformers, VocabularyError if it cannot store the
    vocabulary, ConfigError for a template that is not valid.
    """
    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    template = None if chat_template is None else template_text(chat_template)
    closed, file, config = contents(vocabulary)
    for note in note_closing(vocabulary, closed):
        warnings.warn(note, VoltWarning, stacklevel=2)
    try:
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        raise missing("transformers", extra="transformers") from None
    for name in ("tokenizer_class", "added_tokens_decoder"):  # the backend contains these tokens
        del config[name]
    backend = Tokenizer.from_str(text_of(file))
    make_tokenizer = cast("Any", PreTrainedTokenizerFast)
    result: PreTrainedTokenizerFast = make_tokenizer(
        tokenizer_object=backend, chat_template=template, **config
    )
    return result
