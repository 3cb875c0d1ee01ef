"""What commands print, one file each: the only tests that hold whole sentences.

All is printed in copies of a kept repository, so that it is the same on every machine. After words were changed,
``python -m tests.goldens`` writes the files anew: read the difference before it is committed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.conftest import console
from tests.passes.repository import HERE, Repository

FOLDER = Path(__file__).parent
KEPT = HERE / "made_by_0_1/repository"
CELL, SERVER = "closed/edge/tiny/Offline", "open/edge/tiny/Server"
SPEC = "specs/runs.yaml"
WHEN = "2026-11-23T00:00:00Z"
SETTINGS = {"COLUMNS": "100", "NO_COLOR": "1"} | {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"), ("DATE", WHEN))
}


def keep(repository: Repository) -> None:
    """Leave the repository as it was recorded."""


def render(repository: Repository) -> None:
    assert console(repository.root).code == 2  # one of its results is INVALID


def change_batch(repository: Repository) -> None:
    repository.edit(SPEC, "fp32, batch_size: 8}", "fp32, batch_size: 4}")
    repository.commit()


def misspell(repository: Repository) -> None:
    repository.edit(SPEC, "fp32, batch_size: 8}", "fp32, batchsize: 8}")


def forge(repository: Repository) -> None:
    """Put a digit before the rate of one run."""
    rate = b'"result_samples_per_second", "value": '
    path = repository.log_of(f"Run:{CELL}/performance", "mlperf_log_detail.txt")
    path.write_bytes(path.read_bytes().replace(rate, rate + b"9"))
    repository.commit()


FIRST, LAST = 24, 4  # lines of a long output: what follows repeats what was shown
STATES: dict[str, Callable[[Repository], None]] = {
    "recorded": keep, "rendered": render, "changed": change_batch, "misspelt": misspell, "forged": forge
}  # fmt: skip


@dataclass(frozen=True)
class Golden:
    state: str
    words: tuple[str, ...]


GOLDENS = {
    name: Golden(state, tuple(words.split()))
    for name, state, words in (
        ("status", "recorded", "status"),
        ("plan", "recorded", "plan"),
        ("why", "recorded", f"why {CELL}"),
        ("why-invalid", "recorded", f"why {SERVER}"),
        ("show", "recorded", f"show {CELL}"),
        ("history", "recorded", f"history {CELL}"),
        ("logs", "recorded", f"logs {CELL}"),
        ("validate", "recorded", "validate"),
        ("audit", "recorded", "audit"),
        ("package", "recorded", "package"),
        ("check-nothing-rendered", "recorded", "check"),
        ("unknown-command", "recorded", "staus"),
        ("missing-argument", "recorded", "why"),
        ("unknown-cell", "recorded", "why closed/edge/other/Offline"),
        ("explain", "recorded", "explain spec.benchmarks.NAME.engine.batch_size"),
        ("gc", "recorded", "gc --dry-run"),
        ("status-rendered", "rendered", "status"),
        ("check", "rendered", "check"),
        ("verify-tree", "rendered", "verify-tree .reconcile/tree"),
        ("plan-changed", "changed", "plan"),
        ("why-changed", "changed", "why open/edge/tiny/Server"),
        ("status-changed", "changed", "status"),
        ("pr", "changed", "pr --base HEAD~1"),
        ("diff", "changed", "diff HEAD~1"),
        ("validate-misspelt", "misspelt", "validate"),
        ("audit-forged", "forged", "audit"),
    )
}
_CHANGING = (
    (re.compile(r"\b\d+ (?:second|minute|hour|day|week|month|year)s? ago|\bjust now\b"), "<age>"),
    (re.compile(r"(?<=this machine has )[^;)\n]+"), "<something else>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?"), "<time>"),
)


def make(state: str, folder: Path) -> Repository:
    shutil.copytree(KEPT, folder / "lab")
    repository = Repository(folder / "lab")
    repository.commit()
    STATES[state](repository)
    return repository


def show(golden: Golden, repository: Repository) -> str:
    said = console(repository.root, *golden.words)
    text = f"$ reconcile {' '.join(golden.words)}\n{said.out}{said.err}exit code {said.code}\n"
    text = text.replace(str(repository.root), "<root>")
    for pattern, shown in _CHANGING:
        text = pattern.sub(shown, text)
    lines = [line.rstrip() for line in text.splitlines()]
    if len(lines) > FIRST + LAST:
        lines[FIRST:-LAST] = ["[…]"]
    return "".join(f"{line}\n" for line in lines)
