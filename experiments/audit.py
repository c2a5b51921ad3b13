"""Check the dependencies: declared, used, new enough, licensed, and without published faults.

    python experiments/audit.py

imports      imports of volt and volt_cli are declared, optional ones happen within functions, needed ones happen at all
versions     installed versions meet the requirements, which have lower bounds
licences     of everything an installation brings along: permissive or weak copyleft
advisories   published faults of the installed versions, if pip-audit is installed and online

A line with FAULT names what is wrong; the exit status is then 1.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
)
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LATE = ("ext", "trial")  # packages that need an extra
OPEN = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python Software|ISC|MPL|Mozilla|0BSD|Unlicense|Zlib|HPND)\b",
    re.IGNORECASE,
)


def imports() -> Iterator[tuple[str, str, bool]]:
    """Find imported packages: name, file and line, and whether the import is late.

    Whoever imports a module of LATE uses its library, so the imports of these modules are late.
    """
    for path in sorted([*ROOT.glob("volt/**/*.py"), *ROOT.glob("cli/volt_cli/**/*.py")]):
        for node, is_late in _statements(ast.parse(path.read_text(encoding="utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in [node.module or ""] if isinstance(node, ast.ImportFrom) else named:
                package = name.partition(".")[0]
                if package not in sys.stdlib_module_names | {"volt", "volt_cli", ""}:
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    yield package, place, is_late or path.parent.name in LATE


def _statements(node: ast.AST, is_late: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    for inner in ast.iter_child_nodes(node):
        for_types = isinstance(inner, ast.If) and "TYPE_CHECKING" in ast.unparse(inner.test)
        later = is_late or for_types or isinstance(inner, ast.FunctionDef)
        yield inner, later
        yield from _statements(inner, later)


def declared() -> tuple[list[Requirement], list[Requirement]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        Requirement(text) for rows in project["optional-dependencies"].values() for text in rows
    ]
    return [Requirement(text) for text in project["dependencies"]], extras


def faults_of_imports(needed: set[str], optional: set[str]) -> Iterator[str]:
    sources, used = packages_distributions(), set[str]()
    for package, place, is_late in imports():
        names = {canonicalize_name(name) for name in sources.get(package, [package])}
        used |= names
        if not names & (needed | optional):
            yield f"{place}: {package} is not declared"
        elif not names & needed and not is_late:
            yield f"{place}: {package} is optional, but imported with the module"
    yield from (
        f"{name} is declared as needed, and nothing imports it" for name in sorted(needed - used)
    )


def faults_of_versions(requirements: list[Requirement]) -> Iterator[str]:
    for requirement in requirements:
        if not any(bound.operator in (">=", "==", "~=") for bound in requirement.specifier):
            yield f"{requirement.name} has no lower bound"
        if not requirement.specifier.contains(
            found := distribution(requirement.name).version, prereleases=True
        ):
            yield f"{requirement} is required, {found} is installed"


def closure(names: set[str]) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    waiting = sorted(names)
    while waiting:
        if (name := waiting.pop()) not in found:
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:
                continue
            needed = [Requirement(text) for text in found[name].requires or ()]
            waiting += [
                canonicalize_name(r.name)
                for r in needed
                if not r.marker or r.marker.evaluate({"extra": ""})
            ]
    return found


def licence_of(one: Distribution) -> str:
    about = one.metadata
    classifiers = [
        row.rpartition(" :: ")[2]
        for row in about.get_all("Classifier") or ()
        if row.startswith("License")
    ]
    return (
        about["License-Expression"]
        or ", ".join(classifiers)
        or (about["License"] or "").split("\n")[0]
    )[:70]


def advisories(names: dict[str, Distribution]) -> tuple[str, list[str]]:
    if (program := shutil.which("pip-audit")) is None:
        return "not checked: pip install pip-audit", []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as table:
        table.write("".join(f"{name}=={one.version}\n" for name, one in names.items()))
        table.flush()
        command = [
            program,
            "--no-deps",
            "--disable-pip",
            "--progress-spinner=off",
            "--format=json",
            "-r",
            table.name,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    try:
        rows = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return f"not checked: no answer ({done.stderr.strip()[-90:]})", []
    faults = [
        f"{one['name']} {one['version']}: {fault['id']}"
        for one in rows
        for fault in one.get("vulns", ())
    ]
    skipped = sum("skip_reason" in one for one in rows)
    return f"{len(rows) - skipped} packages checked, {skipped} skipped", faults


def main() -> int:
    required, optional = declared()
    names, others = ({canonicalize_name(one.name) for one in rows} for rows in (required, optional))
    brought = closure(names)
    licences = [f"{name} {one.version}: {licence_of(one)}" for name, one in sorted(brought.items())]
    checks = {
        "imports": (
            f"{len(names)} needed, {len(others)} optional",
            list(faults_of_imports(names, others)),
        ),
        "versions": (", ".join(map(str, required)), list(faults_of_versions(required))),
        "licences": (
            "\n            ".join(licences),
            [row for row in licences if not OPEN.search(row)],
        ),
        "advisories": advisories(brought),
    }
    for check, (summary, faults) in checks.items():
        print("\n".join([f"{check:<11} {summary}", *(f"FAULT       {fault}" for fault in faults)]))
    return int(any(faults for _, faults in checks.values()))


if __name__ == "__main__":
    sys.exit(main())
