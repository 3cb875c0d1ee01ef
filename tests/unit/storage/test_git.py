"""Real git repositories in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.errors import RepositoryError
from reconciler.storage import git
from reconciler.storage.git_process import GitAnswer


def run(root: Path, *arguments: str, check: bool = True) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=check, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.com")
        monkeypatch.setenv(f"GIT_{name}_DATE", "1700000000 +0000")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "specs").mkdir(parents=True)
    run(folder, "init", "--quiet", "--initial-branch=main")
    return folder


@pytest.fixture
def committed(root: Path) -> Path:
    (root / "specs/a.yaml").write_text("one: 1\ntwo: 2\nthree: 3\n")
    run(root, "add", ".")
    run(root, "commit", "--quiet", "--message", "Declare three values")
    return root


def test_everything_answers_when_outside_a_repository(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("one: 1\n")
    assert git.find_root(tmp_path) is None
    assert git.find_head(tmp_path) is None
    assert git.read_file_at(tmp_path, "a.yaml") is None
    assert git.find_line_commits(tmp_path, "a.yaml", [1]) == {}
    assert git.find_blob_commits(tmp_path, "a.yaml", "0" * 40) == ()
    assert git.list_dirty(tmp_path, ["a.yaml"])
    with pytest.raises(RepositoryError, match="git add"):
        git.commit(tmp_path, ["a.yaml"], "Record")


def test_everything_answers_when_there_is_no_commit(root: Path) -> None:
    (root / "specs/a.yaml").write_text("one: 1\n")
    assert git.find_root(root / "specs") == root
    assert git.find_head(root) is None
    assert git.read_file_at(root, "specs/a.yaml") is None
    assert git.list_dirty(root, ["specs/a.yaml"])
    assert git.find_line_commits(root, "specs/a.yaml", [1]) == {1: git.LineCommit()}


def test_dirty_when_edited_untracked_or_missing(committed: Path) -> None:
    assert not git.list_dirty(committed, ["specs/a.yaml"])
    (committed / "specs/b.yaml").write_text("x: 1\n")
    assert not git.list_dirty(committed, ["specs/a.yaml"])
    assert git.list_dirty(committed, ["specs/a.yaml", "specs/b.yaml"])
    assert git.list_dirty(committed, ["specs/none.yaml"])
    (committed / "specs/a.yaml").write_text("one: 2\n")
    assert git.list_dirty(committed, ["specs/a.yaml"])


def test_dirty_when_its_name_is_not_text(committed: Path) -> None:
    path = "specs/\udce4.yaml"
    (committed / path).touch()
    assert git.list_dirty(committed, [path])
    assert git.find_line_commits(committed, path, [1]) == {}


def test_dirty_when_staged_but_not_committed(committed: Path) -> None:
    (committed / "specs/a.yaml").write_text("one: 2\n")
    run(committed, "add", ".")
    assert git.list_dirty(committed, ["specs/a.yaml"])


def test_blame_names_commit_author_and_uncommitted_lines(committed: Path) -> None:
    first = run(committed, "rev-parse", "HEAD")
    (committed / "specs/a.yaml").write_text("one: 1\ntwo: 22\nthree: 3\n")
    found = git.find_line_commits(committed, "specs/a.yaml", [1, 2, 9])
    assert sorted(found) == [1, 2]
    assert (found[1].commit, found[1].author, found[1].summary) == (first, "Ada", "Declare three values")
    assert found[1].when is not None
    assert found[1].when.timestamp() == 1700000000
    assert found[1].committed
    assert not found[2].committed


def test_blame_says_boundary_when_the_clone_is_shallow(committed: Path, tmp_path: Path) -> None:
    (committed / "specs/a.yaml").write_text("one: 1\ntwo: 22\nthree: 3\n")
    run(committed, "commit", "--quiet", "--all", "--message", "Raise two")
    run(tmp_path, "clone", "--quiet", "--depth=1", committed.as_uri(), "shallow")
    assert git.find_line_commits(tmp_path / "shallow", "specs/a.yaml", [1])[1].boundary


def test_head_file_when_ours_lies_below_the_top_of_git(committed: Path) -> None:
    assert git.read_file_at(committed / "specs", "a.yaml") == b"one: 1\ntwo: 2\nthree: 3\n"
    assert not git.list_dirty(committed / "specs", ["a.yaml"])


def test_variables_of_a_hook_do_not_redirect(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert git.find_root(committed) == committed
    assert not git.list_dirty(committed, ["specs/a.yaml"])
    (committed / "specs/a.yaml").write_text("one: 7\n")
    assert git.commit(committed, ["specs/a.yaml"], "Change one") == git.find_head(committed)


def test_commit_takes_only_its_paths_and_leaves_the_index(committed: Path) -> None:
    (committed / "specs/a.yaml").write_text("one: 5\n")
    (committed / "mine.txt").write_text("staged by the user\n")
    run(committed, "add", "mine.txt")
    (committed / "state/records").mkdir(parents=True)
    (committed / "state/records/x [1].json").write_text("{}\n")
    made = git.commit(committed, ["state/records/x [1].json"], "Record a run")
    assert run(committed, "show", "--name-only", "--format=%s", made).splitlines() == [
        "Record a run",
        "",
        "state/records/x [1].json",
    ]
    assert run(committed, "status", "--porcelain").splitlines() == ["A  mine.txt", " M specs/a.yaml"]


def test_commit_in_a_repository_without_commits(root: Path) -> None:
    (root / "r.json").write_text("{}\n")
    assert git.commit(root, ["r.json"], "Record") == git.find_head(root)


def test_commit_makes_nothing_when_nothing_is_new(committed: Path) -> None:
    before = git.find_head(committed)
    assert git.commit(committed, ["specs/a.yaml"], "Record") == ""
    assert git.commit(committed, [], "Record") == ""
    (committed / "specs/other.yaml").write_text("untracked\n")
    assert git.commit(committed, ["specs/a.yaml"], "Record") == ""
    assert git.find_head(committed) == before


def test_commit_waits_for_its_turn_where_another_git_holds_the_index(committed: Path) -> None:
    lock = committed / ".git/index.lock"
    lock.touch()
    (committed / "specs/a.yaml").write_text("one: 2\n")
    release = threading.Timer(0.5, lock.unlink)
    release.start()
    made = git.commit(committed, ["specs/a.yaml"], "Record")
    release.join()
    assert made == run(committed, "rev-parse", "HEAD")
    assert run(committed, "show", "HEAD:specs/a.yaml") == "one: 2"


def test_resolve_says_what_git_refuses_to_resolve(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch for a repository of another user
    with pytest.raises(RepositoryError, match="dubious ownership") as raised:
        git.resolve(committed, "HEAD")
    assert raised.value.fix.startswith("git config --global --add safe.directory")


def test_commits_of_blob_names_those_that_brought_it(committed: Path) -> None:
    first = run(committed, "rev-parse", "HEAD")
    blob = run(committed, "rev-parse", "HEAD:specs/a.yaml")
    (committed / "specs/a.yaml").write_text("one: 2\n")
    run(committed, "commit", "--quiet", "--all", "--message", "Change")
    run(committed, "revert", "--no-edit", "HEAD")
    assert git.find_blob_commits(committed, "specs/a.yaml", blob) == (run(committed, "rev-parse", "HEAD"), first)
    assert git.find_blob_commits(committed, "specs/a.yaml", "1" * 40) == ()


def test_initialise_only_where_there_is_no_repository(committed: Path, tmp_path: Path) -> None:
    assert not git.initialise(committed / "specs")
    (tmp_path / "new").mkdir()
    assert git.initialise(tmp_path / "new")


def test_repository_of_a_killed_git_is_made_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_killed(folder: Path, *_: str) -> GitAnswer:
        (folder / "config.lock").touch()
        return GitAnswer(-9, b"", "")

    with monkeypatch.context() as patch:
        patch.setattr(git, "ask", be_killed)
        with pytest.raises(RepositoryError, match="git init"):
            git.initialise(tmp_path / "new", own=True)
    assert git.initialise(tmp_path / "new", own=True)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [".git"]
    run(tmp_path / "new", "commit", "--quiet", "--allow-empty", "--message", "Begin")
    assert run(tmp_path / "new", "rev-parse", "--is-bare-repository") == "false"


def test_commit_of_folders_takes_new_and_removed_files_below_them(committed: Path) -> None:
    for name in ("records", "logs", "recordsmore"):
        (committed / "state" / name).mkdir(parents=True)
    (committed / "state/records/a.json").write_text("{}\n")
    (committed / "state/recordsmore/b.json").write_text("{}\n")
    made = git.commit(committed, ["state/records", "state/logs", "state/none"], "Record")
    assert run(committed, "show", "--name-only", "--format=", made) == "state/records/a.json"


def test_commit_says_what_git_said_when_a_hook_refuses(committed: Path) -> None:
    hook = committed / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no records today >&2\nexit 1\n")
    hook.chmod(0o755)
    (committed / "r.json").write_text("{}\n")
    with pytest.raises(RepositoryError, match="no records today"):
        git.commit(committed, ["r.json"], "Record")


def test_blobs_in_refs_of_every_branch(committed: Path) -> None:
    for branch, text in (("one", b"1\n"), ("two", b"2\n\n")):
        run(committed, "checkout", "--quiet", "-b", branch, "main")
        (committed / "state").mkdir(exist_ok=True)
        (committed / "state/r.json").write_bytes(text)
        run(committed, "add", "state")
        run(committed, "commit", "--quiet", "--message", branch)
    run(committed, "checkout", "--quiet", "main")
    assert sorted(git.list_blobs_in_refs(committed, "state", "")) == [b"1\n", b"2\n\n"]
    assert git.list_blobs_in_refs(committed, "state", ".yaml") == ()
    assert git.list_blobs_in_refs(committed, "nothing", "") == ()


def test_stream_gives_blobs_in_order_and_none_for_what_is_large_or_not_here(committed: Path) -> None:
    (blob,) = (blob for blob, _ in git.list_files_at(committed, "HEAD").values())
    empty = run(committed, "hash-object", "-w", os.devnull)
    asked = [empty, "0" * 40, blob, blob]
    text = b"one: 1\ntwo: 2\nthree: 3\n"
    assert list(git.stream_blobs(committed, asked, 100)) == [b"", None, text, text]
    assert list(git.stream_blobs(committed, [], 100)) == []
    assert list(git.stream_blobs(committed, [blob, empty], len(text))) == [text, b""]
    assert list(git.stream_blobs(committed, [blob, empty], len(text) - 1)) == [None, b""]


def test_blobs_are_named_without_being_opened(committed: Path) -> None:
    files = git.list_files_at(committed, "HEAD")
    named = {path: blob for path, (blob, _) in files.items()}
    assert git.list_blobs_at(committed, "HEAD", ["specs"]) == {p: b for p, b in named.items() if p.startswith("specs/")}
    for blob in named.values():
        (committed / ".git/objects" / blob[:2] / blob[2:]).unlink()
    assert git.list_blobs_at(committed, "HEAD", ["."]) == named


def test_many_damaged_blobs_stop_no_one(committed: Path) -> None:
    """Git complains of each, in more words than fit into a pipe that no one reads."""
    names = [f"{number}.txt" for number in range(900)]
    for name in names:
        (committed / name).write_text(name)
    blobs = run(committed, "hash-object", "-w", "--", *names).split()
    for blob in blobs:
        path = committed / ".git/objects" / blob[:2] / blob[2:]
        path.chmod(0o644)
        path.write_bytes(b"no object")
    assert set(git.stream_blobs(committed, blobs, 100)) == {None}
    with git.open_blobs(committed) as reader:
        assert reader.read(blobs) == {}


def test_tree_has_one_name_for_what_is_below_it(committed: Path) -> None:
    before = git.find_tree(committed, "HEAD", "specs")
    (committed / "other.txt").write_text("other\n")
    run(committed, "add", ".")
    run(committed, "commit", "--quiet", "--message", "Add another file")
    assert before
    assert git.find_tree(committed, "HEAD", "specs") == before
    assert git.find_tree(committed / "specs", "HEAD", "specs") == ""
    (committed / "specs/a.yaml").write_text("one: 2\n")
    run(committed, "commit", "--quiet", "--all", "--message", "Declare less")
    assert git.find_tree(committed, "HEAD", "specs") not in ("", before)


def test_blobs_in_refs_when_there_is_no_repository(tmp_path: Path) -> None:
    assert git.list_blobs_in_refs(tmp_path, "state", "") == ()


def test_remotes_are_where_git_goes_and_not_what_was_typed(committed: Path) -> None:
    run(committed, "remote", "add", "origin", "lab:acme/results (new).git")
    run(committed, "remote", "set-url", "--add", "--push", "origin", "lab:acme/results.git")
    run(committed, "remote", "set-url", "--add", "--push", "origin", "https://partner.org/results.git")
    run(committed, "config", "url.git@github.com:.insteadOf", "lab:")
    assert git.list_remotes(committed) == (
        ("origin", "git@github.com:acme/results (new).git"),
        ("origin", "git@github.com:acme/results.git"),
        ("origin", "https://partner.org/results.git"),
    )


def test_files_at_says_when_a_partial_clone_cannot_fetch(committed: Path, tmp_path: Path) -> None:
    run(committed, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    source = f"file://{committed}"
    run(committed, "clone", "--quiet", "--filter=blob:none", "--no-checkout", source, str(partial))
    run(partial, "config", "remote.origin.url", "file:///nonexistent")
    with pytest.raises(RepositoryError, match="is incomplete in this clone: could not fetch"):
        git.list_files_at(partial, run(partial, "rev-parse", "HEAD"))
    path = run(partial, "ls-tree", "-r", "--name-only", "HEAD").split("\n")[0]
    with pytest.raises(RepositoryError, match="is incomplete in this clone: could not fetch"):
        git.read_file_at(partial, path, refuse=True)
    assert git.read_file_at(partial, path) is None


def test_single_write_that_fails_ends_no_new_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git says neither of which error it was, nor leaves a trace of it."""
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    program, once = tmp_path / "bin/git", tmp_path / "once"
    once.touch()
    failing = (
        f'case "$*" in *init*) rm {once} 2>/dev/null && echo "fatal: could not set core.bare" >&2 && exit 128;; esac'
    )
    program.write_text(f'#!/bin/sh\n{failing}\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "new").mkdir()
    assert git.initialise(tmp_path / "new", own=True)
    assert not once.exists()
    assert git.find_root(tmp_path / "new") == tmp_path / "new"


@pytest.mark.parametrize(
    "author",
    [
        "Ada <a@b.c> 253402300800 +0000",
        "Ada <a@b.c> 99999999999999999999 +0000",
        "Ada <a@b.c> -1 +0000",
        "Ada <a@b.c>",
        "Ada",
        "A\x02d\x01a <a@b.c> 99999999999999999999 +0000",
    ],
    ids=["the year 10000", "no second at all", "before 1970", "no time", "no address", "control characters"],
)
def test_a_commit_of_no_time_that_there_is_ends_no_command(committed: Path, author: str) -> None:
    """A pull request may hold one: git itself takes it."""
    (committed / "specs/a.yaml").write_text("one: 2\ntwo: 2\nthree: 3\n")
    run(committed, "add", ".")
    text = f"tree {run(committed, 'write-tree')}\nparent {run(committed, 'rev-parse', 'HEAD')}\n"
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin"], cwd=committed, text=True,
        input=f"{text}author {author}\ncommitter {author}\n\nDeclare two\n", capture_output=True, check=True,
    ).stdout.strip()  # fmt: skip
    run(committed, "update-ref", "HEAD", made)
    line = git.find_line_commits(committed, "specs/a.yaml", [1])[1]
    assert (line.commit, line.summary, line.when) == (made, "Declare two", datetime.fromtimestamp(0, UTC))
    found = {commit.id: commit for commit in git.find_appearances(committed, made, ["specs"]).values()}
    assert (found[made].subject, found[made].when.year, found[made].committed.year) == ("Declare two", 1970, 1970)
    assert git.find_commit_times(committed, [made])[made].year == 1970
    assert git.find_day(committed, made).year == 1970
