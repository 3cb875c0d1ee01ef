"""The whole request of a harness's own command: for a run, a score and a build, bare and with all that it declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contract import CommandRequest
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.requests import make_request
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.ruled_values import AccuracyLogRule, ExtraFiles, Metric
from reconciler.resource.settings import CellSettings
from reconciler.rules.context import RuleContext
from reconciler.storage.files import RepositoryPaths, hash_file

CELL = "closed/box/net/Offline"


def begin(root: Path, kind: Kind, settings: dict[str, Any], *, audit: bool = False, **more: Any) -> Attempt:
    asked = {"scenario": "Offline", "mode": "performance", "model_key": "net", "target_qps": 7}
    inputs = {**asked, **({"test": "TEST04", "audit.mode": 2} if audit else {})} if kind is Kind.RUN else {}
    what = f"{CELL}/performance" if kind is Kind.RUN else CELL
    origins = {name: (value, "specs/a.yaml:1") for name, value in inputs.items()}
    intent = Intent("1", Address(kind, what), "k" * 64, 1, "2026", origins, CellSettings(settings), **more)
    attempt = create(RepositoryPaths(root).attempts, intent)
    (attempt.inputs / "run").mkdir(parents=True)
    (root / "src/below").mkdir(parents=True)
    (root / "src/run.py").touch()
    return attempt


def ask(attempt: Attempt, root: Path) -> CommandRequest:
    request = make_request(attempt, RepositoryPaths(root))
    assert isinstance(request, CommandRequest)
    return request


def place(attempt: Attempt) -> dict[str, str]:
    return {name: str(getattr(attempt, name)) for name in ("run_dir", "output", "counter")}


def test_a_bare_run_writes_its_own_folder_and_must_follow_the_conf_that_was_written(tmp_path: Path) -> None:
    attempt = begin(tmp_path, Kind.RUN, {"harness.command": ["go"]}, clock="2026-01-02T00:00:00")
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="run",
        command=("go",),
        cwd=str(attempt.run_dir),
        **place(attempt),
        logs=str(attempt.run_dir),
        since="2026-01-02T00:00:00",
        user_conf=str(attempt.user_conf),
        user_conf_sha256=hash_file(attempt.user_conf),
    )
    assert attempt.run_dir.is_dir()


DECLARED = {
    "harness.cwd": "src",
    "harness.code": "src/run.py",
    "harness.logs": "logs/{scenario}",
    "harness.outputs": ["{mode}.txt", "more"],
    "harness.timeout": 90_000,
    "harness.env.MODE": "{loadgen_mode}",
    "harness.env.TOKEN": ["env", "SECRET"],
    "hardware.mig": "1x 2g.20gb, 1x 1g.10gb",
}


def test_a_run_is_given_all_that_its_command_declares(tmp_path: Path) -> None:
    settings = {**DECLARED, "harness.command": ["go", "{run_dir}", "{user_conf}"]}
    attempt = begin(tmp_path, Kind.RUN, settings)
    src = (tmp_path / "src").resolve()
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="run",
        command=("go", str(attempt.run_dir), str(attempt.user_conf)),
        cwd=str(src),
        **place(attempt),
        env={"MODE": "PerformanceOnly"},
        secrets={"TOKEN": "SECRET"},
        timeout=90.0,
        logs=str(src / "logs/Offline"),
        user_conf=str(attempt.user_conf),
        user_conf_sha256=hash_file(attempt.user_conf),
        outputs=("performance.txt", "more"),
        code=str(src / "run.py"),
        code_location="src/run.py",
        slices=("2g.20gb", "1g.10gb"),
    )


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"harness.code": "src/run.py"}, "src"),
        ({"harness.code": "src/below"}, "src/below"),
        ({"harness.code": "src", "harness.cwd": "src/{mode}"}, "src/performance"),
        ({"client.code": "src/run.py"}, "src"),
    ],
)
@pytest.mark.parametrize("kind", [Kind.RUN, Kind.SCORE])
def test_a_command_starts_in_its_folder(settings: dict[str, str], folder: str, kind: Kind, tmp_path: Path) -> None:
    command = "harness.command" if kind is Kind.RUN else "harness.score.command"
    attempt = begin(tmp_path, kind, {**settings, command: ["go"]})
    wanted = folder.replace("performance", "accuracy") if kind is Kind.SCORE else folder
    found = ask(attempt, tmp_path)
    assert found.cwd == str((tmp_path / wanted).resolve())
    own = settings.get("harness.code") or (settings["client.code"] if kind is Kind.RUN else "")
    assert found.code == (str((tmp_path / own).resolve()) if own else "")


@pytest.mark.parametrize(("how", "at"), [("", ""), ("written", ""), ("own", ""), ("own", "conf/{scenario}.conf")])
def test_a_conf_that_the_command_writes_itself_is_looked_for_where_it_says(how: str, at: str, tmp_path: Path) -> None:
    settings = {"harness.command": ["go"], **({"harness.user_conf": how} if how else {})}
    settings |= {"harness.user_conf_at": at} if at else {}
    attempt = begin(tmp_path, Kind.RUN, settings)
    found = ask(attempt, tmp_path)
    assert bool(found.user_conf_sha256) is (how != "own")
    assert found.user_conf_at == (str((attempt.run_dir / "conf/Offline.conf").resolve()) if at else "")


@pytest.mark.parametrize("audit", [True, False])
@pytest.mark.parametrize("placed", [True, False])
def test_audit_settings_are_placed_under_a_declared_lock(audit: bool, placed: bool, tmp_path: Path) -> None:
    settings = {"harness.command": ["go"], "harness.cwd": "src"}
    settings |= {"harness.audit_config": "placed"} if placed else {}
    attempt = begin(tmp_path, Kind.RUN, settings, audit=audit)
    found = ask(attempt, tmp_path)
    assert found.place_audit == (str(attempt.audit_file) if audit and placed else "")
    assert bool(found.lock) is placed
    other = begin(tmp_path / "b", Kind.RUN, settings)
    assert not placed or ask(other, tmp_path / "b").lock != found.lock


def test_a_score_is_of_the_log_of_its_run_and_leaves_what_the_round_wants_to_see(tmp_path: Path) -> None:
    settings = {**DECLARED, "harness.score.command": ["score", "{accuracy_log}", "{mode}", "{run_dir}"]}
    shown = ExtraFiles("images", ("1", "2"))
    rules = RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), shown=shown)
    attempt = begin(tmp_path, Kind.SCORE, settings, rules=rules)
    log = str(attempt.inputs / "run/mlperf_log_accuracy.json")
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="score",
        command=("score", log, "accuracy", str(attempt.run_dir)),
        cwd=str((tmp_path / "src").resolve()),
        **place(attempt),
        env={"MODE": "AccuracyOnly"},
        secrets={"TOKEN": "SECRET"},
        timeout=90.0,
        outputs=("images",),
        code=str((tmp_path / "src/run.py").resolve()),
        code_location="src/run.py",
    )
    bare = begin(tmp_path / "b", Kind.SCORE, {"harness.score.command": ["score"]})
    assert ask(bare, tmp_path / "b") == CommandRequest(
        purpose="score", command=("score",), cwd=str(bare.run_dir), **place(bare)
    )


def test_a_build_has_its_own_words_else_those_of_the_harness(tmp_path: Path) -> None:
    settings = {
        **DECLARED,
        "harness.image": "net",
        "harness.build.command": ["build", "{image}", "{run_dir}"],
        "harness.build.timeout": 5000,
        "harness.build.outputs": ["{precision}.engine"],
        "harness.build.env.KIND": "{precision}",
        "engine.precision": "fp8",
    }
    attempt = begin(tmp_path, Kind.ENGINE, settings, clock="2026-01-02T00:00:00")
    assert ask(attempt, tmp_path) == CommandRequest(
        purpose="build",
        command=("build", "net", str(attempt.run_dir)),
        cwd=str((tmp_path / "src").resolve()),
        **place(attempt),
        env={"KIND": "fp8"},
        timeout=5.0,
        since="2026-01-02T00:00:00",
        outputs=("fp8.engine",),
        code=str((tmp_path / "src/run.py").resolve()),
        code_location="src/run.py",
        slices=("1g.10gb",),
    )
    own = {"harness.build.image": "builder", "harness.build.code": "src/below", "harness.build.cwd": "."}
    found = ask(begin(tmp_path / "b", Kind.ENGINE, {**settings, **own}), tmp_path / "b")
    assert found.command[1] == "builder"
    assert (found.cwd, found.code) == (str((tmp_path / "b").resolve()), str((tmp_path / "b/src/below").resolve()))
    bare = begin(tmp_path / "c", Kind.ENGINE, {"harness.build.command": ["build"]})
    assert ask(bare, tmp_path / "c") == CommandRequest(
        purpose="build", command=("build",), cwd=str(bare.run_dir), **place(bare)
    )
