"""Is what VOLT depends on declared, used, new enough, licensed, and without known faults?

    python experiments/audit.py [--offline]

Each row is a check, and FAULT stands before what is wrong:

    imports      what volt and volt_cli import is declared, what is optional is imported only within functions, and what
                 is declared as needed is imported
    versions     the installed versions are those that are asked for, and each has a lower bound
    licences     of all that an installation brings along; wrong is what is neither permissive nor of weak copyleft
    advisories   published faults of the installed versions: pip-audit asks for them, where it is installed and has an
                 answer; else the row says that nobody was asked

The exit status is 1 if there is a fault.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
OPEN = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Mozilla|0BSD|Unlicense|Zlib|HPND)\b", re.IGNORECASE
)


def imports() -> Iterator[tuple[str, str, bool]]:
    """Packages from elsewhere that are imported: each with file and line, and whether only later or for types.

    A module of volt/ext is imported by who has the library that it is for, so what it imports comes late.
    """
    for path in sorted([*ROOT.glob("volt/**/*.py"), *ROOT.glob("cli/volt_cli/**/*.py")]):
        for node, is_lazy in _statements(ast.parse(path.read_text(encoding="utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in [node.module or ""] if isinstance(node, ast.ImportFrom) else named:
                package = name.partition(".")[0]
                if package not in sys.stdlib_module_names | {"volt", "volt_cli", ""}:
                    yield package, f"{path.relative_to(ROOT)}:{node.lineno}", is_lazy or path.parent.name == "ext"


def _statements(node: ast.AST, is_lazy: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All that stands in a module, and whether it is left out when the module is imported."""
    for inner in ast.iter_child_nodes(node):
        for_types = isinstance(inner, ast.If) and "TYPE_CHECKING" in ast.unparse(inner.test)
        later = is_lazy or for_types or isinstance(inner, ast.FunctionDef)
        yield inner, later
        yield from _statements(inner, later)


def declared() -> tuple[list[Requirement], list[Requirement]]:
    """What pyproject.toml asks for, and what it offers besides."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [Requirement(text) for rows in project["optional-dependencies"].values() for text in rows]
    return [Requirement(text) for text in project["dependencies"]], extras


def faults_of_imports(needed: set[str], optional: set[str]) -> Iterator[str]:
    """What is imported and not declared, or declared and not imported. The names are those of distributions."""
    sources, used = packages_distributions(), set[str]()
    for package, place, is_lazy in imports():
        names = {canonicalize_name(name) for name in sources.get(package, [package])}
        used |= names
        if not names & (needed | optional):
            yield f"{place}: {package} is not declared"
        elif not names & needed and not is_lazy:
            yield f"{place}: {package} is optional, and imported before it is asked for"
    yield from (f"{name} is declared as needed, and nothing imports it" for name in sorted(needed - used))


def closure(names: set[str]) -> dict[str, Distribution]:
    """The distributions of these names and all that they need here."""
    found: dict[str, Distribution] = {}
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        if name not in found:
            found[name] = one
            asked = [Requirement(text) for text in one.requires or ()]
            waiting += [canonicalize_name(r.name) for r in asked if not r.marker or r.marker.evaluate({"extra": ""})]
    return found


def licence_of(one: Distribution) -> str:
    """What a distribution says of its licence, on one line."""
    told = one.metadata
    classifiers = [row.rpartition(" :: ")[2] for row in told.get_all("Classifier") or () if row.startswith("License")]
    return (told["License-Expression"] or ", ".join(classifiers) or (told["License"] or "").split("\n")[0])[:70]


def faults_of_versions(requirements: list[Requirement]) -> Iterator[str]:
    """Requirements that the installed versions do not meet, or that have no lower bound."""
    for requirement in requirements:
        if not any(bound.operator in (">=", "==", "~=") for bound in requirement.specifier):
            yield f"{requirement.name} has no lower bound"
        try:
            if not requirement.specifier.contains(found := distribution(requirement.name).version, prereleases=True):
                yield f"{requirement} is asked for, {found} is installed"
        except PackageNotFoundError:
            yield f"{requirement.name} is not installed; make all with: make check"


def advisories(names: dict[str, Distribution]) -> tuple[list[str], str]:
    """The faults that are published of the installed versions, and what could be asked."""
    program = shutil.which("pip-audit")
    if program is None:
        return [], "not asked: pip-audit is not installed; pip install pip-audit"
    with TemporaryDirectory() as folder:
        table = Path(folder, "installed.txt")
        table.write_text("".join(f"{name}=={one.version}\n" for name, one in names.items()))
        command = [program, "--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json", "-r", str(table)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], f"not asked: pip-audit had no answer ({(done.stderr.strip().splitlines() or ['silent'])[-1][:90]})"
    faults = [f"{one['name']} {one['version']}: {fault['id']}" for one in found for fault in one.get("vulns", ())]
    skipped = [one["skip_reason"] for one in found if "skip_reason" in one]
    told = f"{len(faults)} of {len(found) - len(skipped)} packages that could be asked for"
    return faults, f"{told}; not {len(skipped)}: {skipped[0]}" if skipped else told


def main() -> int:
    """Print the checks; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Are the dependencies declared, used, met, licensed and sound?")
    parser.add_argument("--offline", action="store_true", help="ask no service for advisories")
    offline = parser.parse_args().offline
    required, optional = declared()
    names, others = ({canonicalize_name(one.name) for one in rows} for rows in (required, optional))
    brought = closure(names)
    licences = [f"{name} {one.version}: {licence_of(one)}" for name, one in sorted(brought.items())]
    known, asked = ([], "not asked: --offline") if offline else advisories(brought)
    rows = {
        "imports": (f"{len(names)} needed, {len(others)} optional", list(faults_of_imports(names, others))),
        "versions": (", ".join(map(str, required)), list(faults_of_versions(required))),
        "licences": ("\n            ".join(licences), [row for row in licences if not OPEN.search(row)]),
        "advisories": (asked, known),
    }
    for check, (told, faults) in rows.items():
        print("\n".join([f"{check:<11} {told}", *(f"FAULT       {fault}" for fault in faults)]))
    return int(any(faults for _, faults in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
