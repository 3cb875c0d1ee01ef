"""The console script: exit codes, help, usage errors, bugs, colour. No repository needed."""

from __future__ import annotations

import contextlib
import errno
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click
import pytest

from reconciler.cli.command_table import COMMANDS
from reconciler.cli.help import read_topics
from reconciler.cli.main import main
from reconciler.cli.shared.repository import find_root
from reconciler.errors import ReconcilerError
from tests.unit.cli.conftest import CELL, Reconcile, commit, console, git

HEAVY = ("pydantic", "ruamel", "jsonschema", "git", "rich", "importlib.metadata")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported_by(*arguments: str, at: Path) -> set[str]:
    code = (
        "import sys; from reconciler.cli.main import main; main(sys.argv[1:]); sys.stdout.flush();"
        f"print(*[n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code, *arguments], cwd=at, capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


def test_help_lists_every_command_and_imports_nothing_heavy(tmp_path: Path) -> None:
    ended = console("--help", at=tmp_path)
    assert ended.returncode == 0
    assert all(f"\n  {name} " in ended.stdout for name in COMMANDS)
    assert "--commit" in ended.stdout
    assert "2 something selected is not in sync" in " ".join(ended.stdout.split())
    assert imported_by("--help", at=tmp_path) == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(name: str, reconcile: Reconcile) -> None:
    out = reconcile.succeed(name, "--help")
    assert f"Usage: reconcile {name}" in out
    assert "--no-color" in out


def test_version(reconcile: Reconcile) -> None:
    code, out, _ = reconcile("--version")
    assert (code, out.split()[0]) == (0, "reconcile")
    assert reconcile("-V") == (code, out, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("statsu",), "Did you mean `reconcile status`?"),
        (("zzz",), "`reconcile --help` lists the commands"),
        (("plan", "--bad"), "no such option: --bad"),
        (("--bad",), "no such option: --bad"),
        (("status", "-C", "lab"), "no such option: -C fix: -C goes before the command: reconcile -C DIR status"),
        (("rounds", "show", "-C", "lab"), "fix: -C goes before the command: reconcile -C DIR rounds"),
        (("--json", "plan"), "options of a command go after it: reconcile plan --json"),
        (("-C", "nowhere"), "does not exist"),
        (("-C", "", "status"), "'-C': it needs a folder, and an empty word names none"),
        (("",), "an empty word is no spec or cell fix: omit it"),
        (("plan", ""), "an empty word is no spec or cell fix: omit it"),
        (("why",), "missing argument 'CELL'"),
        (("plan", "--only"), "error: reconcile plan: option '--only' requires an argument"),
        (("plan", "--only", "Engines"), "is not one of"),
        (("plan", "-output=x.json"), "begins with two hyphens: --output=x.json"),
        (("compare", "one"), "reconcile compare A B, or A..B"),
    ],
)
def test_usage_errors_exit_1(arguments: tuple[str, ...], says: str, reconcile: Reconcile) -> None:
    code, out, err = reconcile(*arguments)
    assert (code, out) == (1, "")
    assert says in " ".join(err.split())


@pytest.mark.parametrize("arguments", [(), ("plan",), ("validate",), ("gc",)])
def test_outside_a_repository(arguments: tuple[str, ...], reconcile: Reconcile) -> None:
    err = reconcile.refuse(*arguments)
    assert "no repository here" in err
    assert "fix: `reconcile init`" in err


def test_a_bare_repository_is_to_be_cloned(
    tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "lab.git")
    for folder in ("lab.git", "lab.git/refs"):
        monkeypatch.chdir(tmp_path / folder)
        for words in (("status",), ("init",), ("init", "new")):
            err = reconcile.refuse(*words)
            assert f"this is a bare repository, without specs: {tmp_path}/lab.git\n" in err
            assert f"fix: clone it and run there: git clone {tmp_path}/lab.git DIR" in err


@pytest.mark.parametrize("arguments", [("audit",), ("pr", "--base", "main")])
def test_commits_outside_git_ask_for_a_first_commit(
    arguments: tuple[str, ...], tmp_path: Path, reconcile: Reconcile
) -> None:
    (tmp_path / "specs").mkdir()
    err = reconcile.refuse(*arguments)
    assert "not a git repository" in err
    assert "fix: run `git init`, then commit specs/ and state/" in err


def test_a_missing_spec_is_named(tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "specs").mkdir()
    assert "nothing.yaml" in reconcile.refuse("nothing.yaml")


def test_a_bug_exits_3_with_a_report(tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    monkeypatch.setenv("SECRET", "hunter2")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("reconciler.cli.shared.plan_options.compute_plan", broken)
    code, _, err = reconcile("plan")
    assert code == 3
    assert "this is a bug in reconcile: ZeroDivisionError: oh" in err
    report = next((tmp_path / ".reconcile").glob("bug-*.txt")).read_text()
    assert "command: reconcile plan" in report
    assert "in broken" in report
    assert "click " in report
    assert "hunter2" not in report


def fail(_: object) -> NoReturn:
    raise OSError(errno.EIO, os.strerror(errno.EIO), "specs")


def test_a_failing_disk_is_no_bug(tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of a bug looks for a repository on the very disk that failed."""
    (tmp_path / "specs").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)

    def broken(*_: object) -> None:
        monkeypatch.setattr(Path, "exists", fail)
        monkeypatch.setattr(os, "scandir", fail)
        raise KeyError("5993058f")

    monkeypatch.setattr("reconciler.cli.shared.plan_options.compute_plan", broken)
    code, out, err = reconcile("plan")
    monkeypatch.undo()
    report = next((tmp_path / "elsewhere").glob("bug-*.txt"))
    assert (code, out) == (1, "")
    assert err.startswith("error: cannot use specs: Input/output error (EIO)")
    assert f"KeyError: '5993058f', is in {report}" in err
    assert "fix: the disk or its connection fails" in err
    assert "in broken" in report.read_text()


@pytest.mark.parametrize(
    ("raised", "status", "says"),
    [
        (ReconcilerError("the spec is gone"), 1, "the spec is gone"),
        (KeyError("5993058f"), 3, "KeyError: '5993058f'"),
        (click.Abort(), 130, "Abort"),
        (OSError(errno.EIO, "Input/output error"), 1, "Input/output error"),
        (click.UsageError("no such option"), 1, "no such option"),
    ],
    ids=["error", "bug", "interruption", "disk", "usage"],
)
@pytest.mark.parametrize("second", [OSError(errno.EIO, "Input/output error", "\x1b[2J"), ValueError("odd"), "full"])
def test_a_report_that_fails_itself_still_ends_with_words_and_the_same_code(
    raised: BaseException,
    status: int,
    says: str,
    second: Exception | str,
    tmp_path: Path,
    reconcile: Reconcile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "specs").mkdir()

    def end(*_: object) -> NoReturn:
        raise raised

    def refuse(*_: object, **__: object) -> NoReturn:
        raise second if isinstance(second, Exception) else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("reconciler.cli.shared.plan_options.compute_plan", end)
    monkeypatch.setattr("reconciler.cli.main.say", refuse)
    monkeypatch.setattr("reconciler.cli.main.say_error", refuse)
    if second == "full":
        monkeypatch.setattr(sys.stderr, "write", refuse)
    code, _, err = reconcile("plan")
    assert code == status
    if second != "full":
        assert says in err
        assert ("Input/output error" if isinstance(second, OSError) else "odd") in err
        assert "\x1b" not in err
        assert ("fix: the disk" in err) == isinstance(second, OSError)


def test_a_vanished_file_is_no_bug(tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    monkeypatch.setattr("reconciler.cli.shared.plan_options.compute_plan", lambda *_: Path("gone").stat())
    err = reconcile.refuse("plan")
    assert "cannot use gone: No such file or directory (ENOENT)" in err
    assert "fix: another process removed it" in err
    assert not list(tmp_path.rglob("bug-*"))


def test_interruption_exits_130(tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reconciler.cli.shared.plan_options.compute_plan", interrupted)
    code, _, err = reconcile("plan")
    assert code == 130
    assert "run the command again" in err


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "reconciler.cli.main", "--help"]
    ended = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert ended.stderr == ""


@pytest.mark.parametrize("sign", ["specs", ".git", "state"])
def test_the_root_is_the_nearest_folder_with_a_sign(sign: str, tmp_path: Path) -> None:
    (tmp_path / "r" / sign).mkdir(parents=True)
    (tmp_path / "r" / "a/b").mkdir(parents=True)
    assert find_root(tmp_path / "r/a/b") == tmp_path / "r"
    assert find_root(tmp_path / "r" / sign) == tmp_path / "r"


@pytest.mark.parametrize("arguments", ["--help", "rounds --json"])
def test_a_full_output_is_no_bug(arguments: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reconciler.cli.main", *arguments.split()]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: cannot write to standard output: No space left on device (ENOSPC)\nfix: ")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("words", ["", "init"])
def test_a_working_folder_that_was_removed_is_named(words: str, tmp_path: Path) -> None:
    script = f'rmdir "$PWD" && "$0" -m reconciler.cli.main {words}'
    (tmp_path / "gone").mkdir()
    command = ["sh", "-c", script, sys.executable]
    ended = subprocess.run(command, cwd=tmp_path / "gone", capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.startswith("error: the working folder was removed\nfix: ")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_closed_output_takes_nothing_and_changes_no_exit_code(closed: str, tmp_path: Path) -> None:
    command = ["sh", "-c", f'"$0" -m reconciler.cli.main init lab {closed}', sys.executable]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert (tmp_path / "lab/specs/lab.yaml").is_file()


def test_help_without_a_topic_lists_every_document(reconcile: Reconcile) -> None:
    out = reconcile.succeed("help")
    assert [topic for topic in read_topics() if f"[{topic}]" not in out] == []


def test_help_of_a_topic_elsewhere_than_on_a_terminal_is_its_text(reconcile: Reconcile) -> None:
    code, out, _ = reconcile("help", "planning")
    assert (code, out.splitlines()[0]) == (0, "# Planning")
    assert "\x1b" not in out


def show_on_terminal(*arguments: str, **environment: str) -> str:
    """All that `help` and its pager write to a terminal of their own; the pager is quit after its first page."""
    ours, theirs = pty.openpty()
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "reconciler.cli.main", "help", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**known, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal of which the other end is closed
        while part := os.read(ours, 65536):
            if not shown:
                os.write(ours, b"q")
            shown += part
    os.close(ours)
    assert child.wait(timeout=60) == 0
    return shown.decode()


@pytest.mark.parametrize("environment", [{"PAGER": "cat", "LESS": "-FX"}, {"PAGER": "/no/pager"}])
def test_a_topic_on_a_terminal_has_no_codes_for_a_pager_without_colours(environment: dict[str, str]) -> None:
    shown = show_on_terminal("stores", **environment)
    assert "# Object stores" not in shown
    assert "(help pull-requests)" in " ".join(shown.split())
    assert "[1;4m" not in shown, "neither a code nor its visible form"


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
@pytest.mark.parametrize(("less", "coloured"), [(None, True), ("-R", True), ("-S", False)])
def test_less_shows_help_with_colours_only_where_it_shows_codes_as_such(less: str | None, coloured: bool) -> None:
    environment = {} if less is None else {"LESS": less}
    shown = show_on_terminal("stores", PAGER="less", LESSHISTFILE="-", **environment)
    assert "Object stores" in shown
    assert "ESC" not in shown
    assert ("\x1b[1;4m" in shown) is coloured


def test_help_of_a_command_is_what_the_command_says(reconcile: Reconcile) -> None:
    assert reconcile("help", "plan") == reconcile("plan", "--help")


def test_help_of_something_unknown_names_what_is_near(reconcile: Reconcile) -> None:
    assert "did you mean `reconcile help tutorial`?" in reconcile.refuse("help", "tutoral")
    assert "lists the topics" in reconcile("help", "qqq")[2]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def ask(*words: str) -> list[str]:
        monkeypatch.setenv("_RECONCILE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("reconcile", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            main([])
        rows = (line.split(",", 1) for line in capsys.readouterr().out.split())
        return [value for kind, value in rows if kind == "plain"]

    return ask


@pytest.mark.parametrize(
    ("command", "beginning"),
    [*((name, "open/") for name in ("show", "why", "try", "history", "move")), ("show", "Offl"), ("show", "dig")],
)
def test_a_cell_is_completed_from_its_beginning_or_that_of_a_part(
    command: str, beginning: str, declared: Path, complete: Callable[..., list[str]]
) -> None:
    assert declared.is_dir()
    assert complete(command, beginning) == [CELL]


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("plan", "sc"), ["scenario=Offline"]),
        (("status", "benchmark=d"), ["benchmark=digits"]),
        (("plan", "benchmark", "=", "d"), ["digits"]),
        (("plan", "scenario", "="), ["Offline"]),
        (("plan", "open/"), [CELL]),
        (("plan", "--exclude", "system=b"), ["system=box"]),
    ],
    ids=lambda given: " ".join(given),
)
def test_selectors_are_completed_however_the_shell_breaks_words(
    words: tuple[str, ...], found: list[str], complete: Callable[..., list[str]]
) -> None:
    assert complete(*words) == found


def test_paths_of_explain_are_completed(complete: Callable[..., list[str]]) -> None:
    assert complete("explain", "target_q") == ["target_qps"]
    assert complete("explain", "spec.benchmarks.llama3.1-8b.engine.ba") == [
        "spec.benchmarks.llama3.1-8b.engine.backend",
        "spec.benchmarks.llama3.1-8b.engine.batch_size",
    ]


def test_rounds_and_commits_are_completed(declared: Path, complete: Callable[..., list[str]]) -> None:
    git(declared, "init", "--quiet", "--initial-branch=main")
    commit(declared, "Declare")
    git(declared, "tag", "v1-submitted")
    assert complete("rounds", "show", "v6") == ["v6.1", "v6.0"]
    assert complete("init", "--round", "v4") == ["v4.1", "v4.0"]
    assert complete("audit", "--at", "v1") == ["v1-submitted"]
    assert complete("pr", "--base", "ma") == ["main"]
    assert complete("diff", "HEAD..ma") == ["HEAD..main"]
    assert complete("compare", "H") == ["HEAD"]


def test_nothing_is_completed_with_a_broken_spec_or_none(declared: Path, complete: Callable[..., list[str]]) -> None:
    (declared / "specs/one.yaml").write_text("spec: [")
    assert complete("show", "o") == []
    assert complete("-C", "/", "show", "o") == []


def test_completion_looks_where_the_command_would(
    declared: Path, complete: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(declared.parent)
    assert complete("-C", declared.name, "show", "o") == [CELL]


def test_the_unit_of_a_watch_has_its_options(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["-C", str(declared), "--wide", "watch", "--commit", "--systemd"]
    monkeypatch.setattr(sys, "argv", ["/venv/bin/reconcile", *words])
    assert "ExecStart=/venv/bin/reconcile --wide watch --commit\n" in reconcile.succeed(*words)
