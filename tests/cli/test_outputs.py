"""What a command writes is none of what it reads: every option that names an output against every one that names an input.

The options come from the commands themselves, so that a new one must be given its place here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import Run, listed
from test_help import COMMANDS

from volt.errors import ConfigError
from volt.files.distinct import check_distinct
