"""Run programs in processes of their own, as users do."""

import os
import subprocess
import sys

from support.places import ROOT


def start(*words, folder, status=0, **environment):
    """Run a program with `volt` on the PATH, and return its stdout."""
    tools = folder.parent / f"{folder.name}-tools"
    tools.mkdir(exist_ok=True)
    (tools / "volt").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m volt_cli "$@"\n')
    (tools / "volt").chmod(0o755)
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "cli"), os.environ.get("PYTHONPATH", "")])
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    variables = {**os.environ, "PYTHONPATH": python_path, "PATH": path, **environment}
    done = subprocess.run(
        [*map(str, words)], cwd=folder, env=variables, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == status, done.stderr
    return done.stdout
