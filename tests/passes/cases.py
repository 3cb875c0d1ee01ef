"""Cases: folders with a ``case.yaml`` (what happens between a first whole pass and the plan) and the golden texts.

``case.yaml`` holds ``steps``, a list of one-key mappings in the order in which they happen, and ``options`` of the look
and the pass that follow. A folder may bring its own ``spec.yaml``. Adding a case = adding a folder, then
``python -m tests.passes``, and reading what that wrote.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from reconciler.storage.files import remove
from tests.passes.repository import HERE, SPEC, Repository, make_repository


@dataclass(frozen=True, slots=True)
class Case:
    folder: Path
    steps: tuple[dict[str, Any], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> str:
        own = self.folder / "spec.yaml"
        return (own if own.exists() else HERE / "spec.yaml").read_text(encoding="utf-8")

    def golden(self, name: str) -> Path:
        return self.folder / name


def read_case(folder: Path) -> Case:
    document = YAML(typ="safe").load(folder / "case.yaml") or {}
    options = {name: tuple(v) if isinstance(v, list) else v for name, v in document.get("options", {}).items()}
    return Case(folder, tuple(document.get("steps", ())), options)


def case_names() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/case.yaml"))


def prepare(case: Case, passed: Callable[[str], Repository], root: Path) -> Repository:
    """The repository as the case wants it, ready to be looked at. ``passed``: that of a spec after a first pass."""
    if case.steps and "fresh" in case.steps[0]:
        repository = make_repository(root, case.spec)
    else:
        repository = passed(case.spec).copy(root)
        repository.reconcile()  # nothing: it is in sync wherever it lies
    for step in case.steps:
        ((verb, value),) = step.items()
        _VERBS[verb](repository, value)
    return repository


def _edit(repository: Repository, value: dict[str, str]) -> None:
    repository.edit(value.get("file", SPEC), value["old"], value["new"])


def _write(repository: Repository, files: dict[str, str]) -> None:
    for path, text in files.items():
        repository.write(path, text)


def _delete(repository: Repository, pattern: str) -> None:
    found = list(repository.root.glob(pattern))
    assert found, f"nothing matches {pattern}"
    for path in found:
        remove(path)


def _chosen(repository: Repository, value: dict[str, Any]) -> list[Path]:
    """Files by ``path`` (a pattern), or by ``record`` (an address): its objects, its record file, or a log."""
    if "path" in value:
        return repository.matching(value["path"])
    address = value["record"]
    if value.get("what") == "record":
        return repository.record_paths(address)
    if value.get("what") == "log":
        return [repository.log_of(address, value["name"])]
    return repository.objects_of(address, value.get("name", ""))


def _flip(repository: Repository, value: dict[str, Any]) -> None:
    for path in _chosen(repository, value):
        repository.flip(path, restore_times=value.get("restore_times", False))


def _lose(repository: Repository, value: dict[str, Any]) -> None:
    for path in _chosen(repository, value):
        path.unlink()


def _pass(repository: Repository, value: dict[str, Any] | None) -> None:
    repository.reconcile(**{name: tuple(v) if isinstance(v, list) else v for name, v in (value or {}).items()})


def _variable(repository: Repository, values: dict[str, str]) -> None:
    os.environ.update({name: value.replace("<root>", str(repository.root)) for name, value in values.items()})


_VERBS: dict[str, Callable[[Repository, Any], None]] = {
    "fresh": lambda repository, _: None,
    "edit": _edit,
    "write": _write,
    "delete": _delete,
    "flip": _flip,
    "lose": _lose,
    "commit": lambda repository, _: repository.commit(),
    "pass": _pass,
    "variable": _variable,
}
