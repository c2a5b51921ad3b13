"""Trials: train language models on a text with vocabularies of several sizes; find the best size.

    text → train, dev, test → trainings of several sizes → bits per character by size → best size

Needs PyTorch: `pip install 'volt-vocab[torch]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.trial.report import TrialResult as TrialResult
    from volt.trial.running import run as run
    from volt.trial.running import run_sides as run_sides
    from volt.trial.running import run_superwords as run_superwords
    from volt.trial.sides import SidesResult as SidesResult
    from volt.trial.superwords import SuperwordResult as SuperwordResult

__getattr__, __dir__, __all__ = lazy(__name__)
