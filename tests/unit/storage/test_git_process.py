"""What a configuration of foreign origin makes git run, and that calls of ours do not: each is first shown to work."""

from __future__ import annotations

import errno
import os
import pty
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import RepositoryError, StorageError
from reconciler.storage import git
from reconciler.storage.git_process import GitAnswer, ask
from tests.unit.storage.test_git import identity, run

__all__ = ["identity"]

SPEC = "specs/a.yaml"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A repository as somebody sent it, with its .git: two commits, and an edit since."""
    root = tmp_path / "copied"
    (root / "specs").mkdir(parents=True)
    run(root, "init", "--quiet", "--initial-branch=main")
    for number in (1, 2):
        (root / SPEC).write_text(f"one: {number}\n")
        run(root, "add", ".")
        run(root, "commit", "--quiet", "--message", f"Declare {number}")
    (root / SPEC).write_text("one: 2\ntwo: 2\n")
    return root


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def program(tmp_path: Path, marker: Path) -> Path:
    """Leaves the marker and gives back what it is given."""
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    path.chmod(0o755)
    return path


def read_everything(root: Path) -> None:
    """Every question that `plan`, `status`, `show`, `why`, `pr` and `audit` put to git."""
    tip = git.find_head(root) or ""
    blob = run(root, "rev-parse", f"HEAD:{SPEC}")
    git.find_root(root / "specs")
    git.read_file_at(root, SPEC)
    git.list_dirty(root, [SPEC])
    git.is_shallow(root)
    git.find_line_commits(root, SPEC, [1, 2])
    git.find_line_commits(root, SPEC, [1], at="HEAD")
    git.find_blob_commits(root, SPEC, blob)
    git.list_blobs_in_refs(root, "specs", "")
    git.resolve(root, "HEAD")
    git.find_merge_base(root, "HEAD", "HEAD~1")
    git.find_parents(root, tip)
    git.find_prefix(root)
    git.list_files_at(root, tip)
    git.read_blobs(root, [blob])
    git.list_changed_files(root, "HEAD~1", tip)
    git.list_remotes(root)
    git.list_kept_files(root)
    git.find_appearances(root, tip, ["specs"])
    git.find_day(root, tip)
    git.list_control_folders(root)
    git.read_author(root)
    git.find_hook_path(root, "pre-push")
    git.find_branch(root)
    git.resolve_commit(root, "HEAD")
    git.is_ancestor(root, "HEAD~1", "HEAD")


# What is set in the copied repository ({program} leaves a mark), and a command of git that obeys it.
BROUGHT_ALONG: dict[str, tuple[dict[str, str], list[str]]] = {
    "a file-system monitor": ({"core.fsmonitor": "{program}"}, ["ls-files", "--others"]),
    "a hooks folder": ({"core.hooksPath": "{hooks}"}, ["update-index", "--refresh", "--really-refresh"]),
    "a clean filter": ({"filter.evil.clean": "{program}"}, ["blame", SPEC]),
    "a filter process": ({"filter.evil.process": "{program}"}, ["blame", SPEC]),
    "a filter with an odd name": ({"filter.e=vil.clean": "{program}"}, ["blame", SPEC]),
    "a text conversion": ({"diff.evil.textconv": "{program}"}, ["blame", SPEC]),
    "a diff driver": ({"diff.evil.command": "{program}"}, ["diff"]),
    "a diff program": ({"diff.external": "{program}"}, ["diff"]),
    "a verifier": ({"gpg.program": "{program}", "log.showSignature": "true"}, ["log"]),
    "an alias": ({"alias.mine": "!{program}"}, ["mine"]),
    "a pager": ({"core.pager": "{program}"}, ["--paginate", "log"]),
}


@pytest.mark.parametrize("what", BROUGHT_ALONG)
def test_reading_runs_nothing_of_a_copy(copied: Path, marker: Path, program: Path, what: str, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-index-change").symlink_to(program)
    settings, obeys = BROUGHT_ALONG[what]
    for name, value in settings.items():
        run(copied, "config", name, value.format(program=program, hooks=hooks))
    driver = "e=vil" if "odd" in what else "evil"
    (copied / ".git/info/attributes").write_text(f"*.yaml filter={driver} diff={driver}\n")
    if what == "a verifier":
        signed = run(copied, "cat-file", "commit", "HEAD")
        head, _, rest = signed.partition("\n\n")
        text = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n{rest}\n"
        made = subprocess.run(
            ["git", "hash-object", "-t", "commit", "-w", "--stdin"], cwd=copied, input=text, text=True,
            capture_output=True, check=True,
        ).stdout.strip()  # fmt: skip
        run(copied, "update-ref", "HEAD", made)

    read_everything(copied)
    assert not marker.exists()
    on_a_terminal(copied, obeys)
    assert marker.exists(), "git itself does not run it: this proves nothing"


def on_a_terminal(root: Path, arguments: list[str]) -> None:
    """A pager is only started for one."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            ["git", *arguments],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            check=False,
            timeout=20,
        )
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.fixture
def partial(copied: Path, tmp_path: Path) -> Path:
    """A clone without the contents of files."""
    run(copied, "config", "uploadpack.allowFilter", "true")
    folder = tmp_path / "partial"
    run(copied, "clone", "--quiet", "--filter=blob:none", "--no-checkout", f"file://{copied}", str(folder))
    return folder


def test_partial_clone_fetches_what_is_asked_for(partial: Path) -> None:
    blob = run(partial, "rev-parse", f"HEAD:{SPEC}")
    assert git.list_files_at(partial, "HEAD") == {SPEC: (blob, 7)}
    assert git.read_blobs(partial, [blob]) == {blob: b"one: 2\n"}


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("core.sshCommand", "ssh://example.invalid/x.git"),
        ("remote.origin.uploadpack", ""),
        ("remote.origin.vcs", ""),
        ("credential.https://example.invalid.helper", "https://example.invalid/x.git"),
        # A file that the server's cookies are written over, and a stranger who is taken for the server.
        ("http.saveCookies", "https://example.invalid/x.git"),
        ("http.https://example.invalid.cookieFile", "https://example.invalid/x.git"),
        ("http.sslVerify", "https://example.invalid/x.git"),
        ("http.proxy", "https://example.invalid/x.git"),
        ("remote.origin.proxy", "https://example.invalid/x.git"),
        ("credential.protectProtocol", "https://example.invalid/x.git"),
        ("fetch.bundleURI", "https://example.invalid/x.git"),
    ],
)
def test_partial_clone_starts_no_program(partial: Path, program: Path, marker: Path, name: str, url: str) -> None:
    blob = run(partial, "rev-parse", f"HEAD:{SPEC}")
    run(partial, "config", name, str(program))
    if url:
        run(partial, "config", "remote.origin.url", url)
    with pytest.raises(RepositoryError, match=f"(?i){name} of this clone may start a program"):
        git.list_files_at(partial, "HEAD")
    assert git.read_blobs(partial, [blob]) == {}
    assert not marker.exists()


@pytest.mark.parametrize(
    "name", ["http.https://github.com/.extraheader", "http.postBuffer", "credential.username", "core.longpaths"]
)
def test_partial_clone_with_harmless_settings_still_fetches(partial: Path, name: str) -> None:
    """Workflows keep what opens a remote in the configuration of the clone."""
    blob = run(partial, "rev-parse", f"HEAD:{SPEC}")
    run(partial, "config", name, "1")
    assert git.read_blobs(partial, [blob]) == {blob: b"one: 2\n"}


def test_partial_clone_uses_no_protocol_that_is_a_program(partial: Path, program: Path, marker: Path) -> None:
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    run(partial, "config", "remote.origin.url", f"ext::{program}")
    run(partial, "config", "protocol.ext.allow", "always")
    with pytest.raises(RepositoryError, match="is incomplete in this clone"):
        git.list_files_at(partial, "HEAD")
    assert not marker.exists()
    run(partial, "ls-tree", "-r", "-l", "HEAD", check=False)
    assert marker.exists(), "git itself does not run it: this proves nothing"


def test_objects_that_stand_for_others_are_not_believed(copied: Path) -> None:
    """`git replace` and grafts rewrite history for anyone who reads it, and no digest shows it."""
    tip, before = run(copied, "rev-parse", "HEAD"), run(copied, "rev-parse", "HEAD~1")
    blob, other = run(copied, "rev-parse", f"HEAD:{SPEC}"), run(copied, "rev-parse", f"HEAD~1:{SPEC}")
    run(copied, "replace", blob, other)
    run(copied, "replace", tip, before)
    assert run(copied, "cat-file", "blob", blob) == "one: 1"
    assert git.read_blobs(copied, [blob]) == {blob: b"one: 2\n"}
    assert git.find_parents(copied, tip) == (before,)
    assert git.read_file_at(copied, SPEC) == b"one: 2\n"


def test_checkout_of_an_audit_runs_no_hook_or_filter(copied: Path, program: Path, marker: Path, tmp_path: Path) -> None:
    (copied / ".git/hooks/post-checkout").symlink_to(program)
    run(copied, "config", "filter.evil.smudge", str(program))
    (copied / ".git/info/attributes").write_text("* filter=evil\n")
    templates = tmp_path / "templates"
    (templates / "hooks").mkdir(parents=True)
    (templates / "hooks/post-checkout").symlink_to(program)
    run(copied, "config", "init.templateDir", str(templates))
    assert (git.clone_at(copied, "HEAD", tmp_path / "clone") / SPEC).read_text() == "one: 2\n"
    assert not marker.exists()


def test_own_calls_have_the_hooks_of_the_clone(copied: Path, program: Path, marker: Path) -> None:
    (copied / ".git/hooks/pre-commit").symlink_to(program)
    assert ask(copied, "commit", "--quiet", "--all", "--message", "Declare 3", own=True).status == 0
    assert marker.exists()


def test_an_included_configuration_runs_nothing(copied: Path, program: Path, marker: Path, tmp_path: Path) -> None:
    """By path, and on a condition."""
    for name, condition in (("one", "include.path"), ("two", f"includeIf.gitdir:{copied}/.path")):
        path = tmp_path / name
        path.write_text(f'[core]\n fsmonitor = {program}\n[filter "evil"]\n clean = {program}\n')
        run(copied, "config", condition, str(path))
    (copied / ".git/info/attributes").write_text("*.yaml filter=evil\n")
    read_everything(copied)
    assert not marker.exists()
    run(copied, "ls-files", "--others")
    assert marker.exists(), "git itself does not run it: this proves nothing"


def say_who_made_what(root: Path) -> tuple[object, ...]:
    found = git.find_appearances(root, run(root, "rev-parse", "HEAD"), ["specs"])
    first = git.find_line_commits(root, SPEC, [1])[1]
    return sorted((commit.id, commit.author, commit.subject) for commit in found.values()), first.commit, first.author


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("i18n.logOutputEncoding", "UTF-16"),
        ("mailmap.file", "{listed}"),
        ("mailmap.file", "/dev/full"),
        ("blame.ignoreRevsFile", "{listed}"),
        ("diff.orderFile", "{listed}/nowhere"),
        ("log.showRoot", "false"),
        ("color.ui", "always"),
        ("core.commitGraph", "true"),
    ],
)
def test_settings_of_a_copy_change_nothing_that_is_said(copied: Path, tmp_path: Path, name: str, value: str) -> None:
    """Nor is there a file without end that git would read first."""
    (copied / SPEC).write_text("one: 2\n")
    said = say_who_made_what(copied)
    listed, tip = tmp_path / "listed", run(copied, "rev-parse", "HEAD")
    listed.write_text("Mallory <m@example.com> <ada@example.com>\n" if "mail" in name else f"{tip}\n")
    run(copied, "config", name, value.format(listed=listed))
    if name == "core.commitGraph":  # one that says of a commit that it changed nothing
        run(copied, "commit-graph", "write", "--reachable")
        graph = copied / ".git/objects/info/commit-graph"
        now, before = (bytes.fromhex(run(copied, "rev-parse", f"HEAD{back}^{{tree}}")) for back in ("", "~1"))
        graph.chmod(0o644)
        graph.write_bytes(graph.read_bytes().replace(now, before))
        assert run(copied, "log", "-1", "--raw", "--format=") == "", "git believes it"
    assert say_who_made_what(copied) == said
    assert len(said[0]) == 2


def test_reading_enters_no_submodule(copied: Path, program: Path, marker: Path, tmp_path: Path) -> None:
    """A work tree of a submodule has a configuration of its own, and a clone may be set up to look into it always."""
    other = tmp_path / "other"
    other.mkdir()
    run(other, "init", "--quiet")
    run(other, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    run(copied, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    run(copied, "commit", "--quiet", "--message", "Add a submodule")
    for name, value in (("submodule.recurse", "true"), ("diff.submodule", "log"), ("status.submoduleSummary", "true")):
        run(copied, "config", name, value)
    run(copied / "sub", "config", "core.fsmonitor", str(program))
    read_everything(copied)
    git.commit(copied, ["specs"], "Declare 3")
    assert not marker.exists()
    run(copied, "status")
    assert marker.exists(), "git itself does not run it: this proves nothing"


def test_grafts_are_not_believed(copied: Path) -> None:
    tip, before = run(copied, "rev-parse", "HEAD"), run(copied, "rev-parse", "HEAD~1")
    (copied / ".git/info/grafts").write_text(f"{tip}\n")
    assert run(copied, "rev-list", "--count", "HEAD") == "1"
    assert git.find_merge_base(copied, "HEAD", before) == before
    assert git.is_ancestor(copied, before, "HEAD")


def test_objects_of_another_repository_are_read_as_what_their_names_say(copied: Path, tmp_path: Path) -> None:
    """Alternates may lead anywhere that this account can read: to objects of a repository that the sender may not see.
    A commit must name one for it to be shown, and anyone who can name it knows its bytes' digest."""
    secret = tmp_path / "secret"
    secret.mkdir()
    run(secret, "init", "--quiet")
    (secret / "token").write_text("hunter2\n")
    run(secret, "add", ".")
    run(secret, "commit", "--quiet", "--message", "Keep a secret")
    (copied / ".git/objects/info/alternates").write_text(f"{secret}/.git/objects\n")
    tip = git.find_head(copied) or ""
    shown = git.read_blobs(copied, [blob for blob, _ in git.list_files_at(copied, tip).values()])
    assert b"hunter2\n" not in shown.values()
    assert b"hunter2\n" not in git.list_blobs_in_refs(copied, ".", "")
    with_ref = run(secret, "rev-parse", "HEAD")
    (copied / ".git/refs/heads/theirs").write_text(f"{with_ref}\n")
    assert git.resolve(copied, "theirs") == with_ref  # a copied .git holds refs, and those are its sender's


@pytest.mark.parametrize(
    "said",
    ["fatal: couldn't read .git/packed-refs: Input/output error", "fatal: failed to stat '.': Stale file handle"],
    ids=["failing", "stale"],
)
def test_a_git_whose_disk_refuses_has_not_found_nothing(
    said: str, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 128\n')
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    for look in (git.find_head, lambda root: git.find_hook_path(root, "pre-push")):
        with pytest.raises(StorageError, match=f"{copied}: {said.rpartition(': ')[2]}"):
            look(copied)


def test_a_git_that_says_nothing_is_asked_about_by_its_folder(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git.find_blob_commits(copied, SPEC, "0" * 40) == ()
    with pytest.raises(RepositoryError, match="no commit 'nowhere'"):
        git.resolve(copied, "nowhere")

    def fail(_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        git.resolve(copied, "nowhere")


@pytest.mark.parametrize("said", ["", "fatal: not a git repository (or any of the parent directories): .git"])
@pytest.mark.parametrize("times", [1, 2])
def test_what_git_finds_at_the_second_time_is_there(
    said: str, times: int, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single read of the file server that went stale."""
    head, real = git.find_head(copied), shutil.which("git")
    assert head is not None
    fails = tmp_path / "bin/fails"
    fails.parent.mkdir()
    script = (
        f'#!/bin/sh\nif [ -s "{fails}" ]; then sed -i 1d "{fails}"; echo "{said}" >&2; exit 128; fi\nexec {real} "$@"\n'
    )
    (tmp_path / "bin/git").write_text(script)
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    for look, found in (
        (git.find_head, head),
        (git.find_root, copied.resolve()),
        (lambda root: git.resolve(root, "HEAD"), head),
    ):
        fails.write_text("once\n" * times)
        if times == 1:
            assert look(copied) == found
        elif look in (git.find_head, git.find_root):
            assert look(copied) is None
        else:
            with pytest.raises(RepositoryError):
                look(copied)


def test_a_clone_that_failed_is_made_again(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = [], git.ask

    def ask_badly(root: Path, *words: str, **named: Any) -> GitAnswer:
        asked.append(words[0])
        if len(asked) > 1:
            return answer(root, *words, **named)
        (tmp_path / "clone").mkdir()
        (tmp_path / "clone/half").touch()
        return GitAnswer(128, b"", "fatal: update_ref failed for ref 'HEAD': couldn't set 'HEAD'")

    monkeypatch.setattr(git, "ask", ask_badly)
    made = git.clone_at(copied, "HEAD", tmp_path / "clone")
    assert (made / SPEC).is_file()
    assert not (made / "half").exists()
