"""How the arrays of a step are laid out: `Layout`, the options of `collate` that do not depend on its samples.

>>> Layout(pad_to_multiple=8).of(SampleFormat({"text": ["<s>", "<pad>", "</s>", "lo"]}))["pad"]
{'text': 1}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from volt import arguments
from volt.batches.options import WIDEST
from volt.batches.samples import MOST_ID, SampleFormat
from volt.errors import ConfigError, quoted


@dataclass(frozen=True, slots=True)
class Layout:
    """How samples are laid out.

    pad: the id that fills rows, or one for each field by its name; by default that of each field's <pad>
    left_pad_source, left_pad_target: whether padding stands in front
    pad_to_multiple: the width of a batch is a multiple of it
    dtype: of ids
    Packs have neither side nor multiple: only `pad` and `dtype` matter to them.

    >>> Layout(dtype="int32").left_pad_source
    True
    """

    pad: int | Mapping[str, int] | None = None
    left_pad_source: bool = True
    left_pad_target: bool = False
    pad_to_multiple: int = 1
    dtype: Literal["int64", "int32"] = "int64"

    def __post_init__(self) -> None:
        for pad in self.pad.values() if isinstance(self.pad, Mapping) else [self.pad]:
            if pad is not None:
                arguments.whole(pad, "pad", low=0, high=MOST_ID)
        object.__setattr__(
            self, "pad_to_multiple", arguments.whole(self.pad_to_multiple, "pad_to_multiple", low=1, high=WIDEST)
        )
        arguments.choice(self.dtype, "dtype", ("int64", "int32"))

    def of(self, samples: SampleFormat, *, packed: bool = False) -> dict[str, Any]:
        """The options of `collate`, or of `collate_packed`, for samples of this format.

        Raises ConfigError if a vocabulary lacks <pad> and no id is given, or the target's lacks EOS.
        """
        names = [*samples.vocabularies]
        if len(names) > 2:
            raise ConfigError(f"samples of {', '.join(names)}: a batch has a source and a target, or one field")
        eos = samples.vocabularies[names[-1]].eos
        if eos is None:
            raise ConfigError(f"the vocabulary of {names[-1]} has no EOS, which targets end in; add the token </s>")
        told = {"pad": self._pad(samples, names), "eos": eos, "dtype": self.dtype}
        if packed:
            return told
        sides = {"left_pad_source": self.left_pad_source, "left_pad_target": self.left_pad_target}
        return {**told, **sides, "pad_to_multiple": self.pad_to_multiple}

    def _pad(self, samples: SampleFormat, names: list[str]) -> int | Mapping[str, int]:
        if self.pad is not None:
            return self.pad
        pads: dict[str, int | None] = {name: samples.vocabularies[name].pad for name in names}
        for name, pad in pads.items():
            if pad is None:
                raise ConfigError(f"the vocabulary of {quoted(name)} has no <pad>; add the token, or give pad, an id")
        return {name: pad for name, pad in pads.items() if pad is not None}
