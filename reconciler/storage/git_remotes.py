"""Exchange between this clone and its remotes, the folders of git's state, and the owner of the clone.

Never force: a push that is refused is tried again on top of what the remote has, or given up.
"""

from __future__ import annotations

from pathlib import Path

from reconciler.errors import RepositoryError
from reconciler.storage.git_process import ask, refuse_disk_of_git

_LIMIT = 60.0  # seconds in which a remote answers


def list_control_folders(root: Path) -> tuple[Path, ...]:
    """List the folders with HEAD and the refs: one, two in a linked work tree, none outside a repository."""
    answer = ask(root, "rev-parse", "--git-dir", "--git-common-dir")
    names = answer.out.decode(errors="surrogateescape").splitlines() if answer.status == 0 else []
    return tuple(dict.fromkeys((root / name).resolve() for name in names))


def read_author(root: Path) -> str:
    """ "Ada Lovelace <ada@acme.com>", as a commit made now would have it; "" when git would refuse to make one."""
    answer = ask(root, "var", "GIT_AUTHOR_IDENT")
    return answer.out.decode(errors="replace").rpartition(">")[0] + ">" if answer.status == 0 else ""


def find_hook_path(root: Path, name: str) -> Path:
    """Find the path of a hook of this clone. Raises RepositoryError outside a repository."""
    for _ in range(2):  # a single read that fails is "no repository" as well
        answer = ask(root, "rev-parse", "--git-path", f"hooks/{name}", own=True)
        refuse_disk_of_git(answer, root)
        if answer.status == 0:
            break
    else:
        raise RepositoryError(f"{root} is not in a git repository", fix="`git init` makes one")
    return (root / answer.out.decode(errors="surrogateescape").rstrip("\n")).resolve()


def find_branch(root: Path) -> str:
    """The branch checked out; "" on a detached HEAD."""
    answer = ask(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    return answer.out.decode().strip() if answer.status == 0 else ""


def resolve_commit(root: Path, name: str) -> str:
    """The commit of a ref, "" when there is none."""
    answer = ask(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return answer.out.decode().strip() if answer.status == 0 else ""


def is_ancestor(root: Path, one: str, other: str) -> bool:
    return ask(root, "merge-base", "--is-ancestor", one, other).status == 0


def list_addresses(root: Path, remote: str) -> tuple[str, ...]:
    """Everywhere that a push to this remote goes; it may be several places. Raises RepositoryError when there is no
    such remote."""
    answer = ask(root, "remote", "get-url", "--push", "--all", remote)
    if answer.status:
        raise RepositoryError(f"no remote {remote!r}", fix="`git remote -v` lists the remotes")
    return tuple(answer.out.decode(errors="surrogateescape").split("\n")[:-1])


def fetch(root: Path, remote: str, name: str) -> str:
    """Fetch one branch; gives the commit that it is at there. Raises RepositoryError with what git said."""
    wanted = f"+refs/heads/{name}:refs/remotes/{remote}/{name}"
    answer = ask(root, "fetch", "--quiet", "--no-tags", remote, wanted, limit=_LIMIT, own=True)
    if answer.status:
        said = answer.error or "no answer"
        raise RepositoryError(f"git fetch {remote} {name}: {said}", fix=f"see whether `git fetch {remote}` works")
    return resolve_commit(root, f"refs/remotes/{remote}/{name}")


def fast_forward(root: Path, commit: str) -> None:
    """Move the branch checked out forward, and the work tree with it; edited files are left alone."""
    answer = ask(root, "merge", "--ff-only", "--quiet", commit, own=True)
    if answer.status:
        raise RepositoryError(f"git merge --ff-only: {answer.error}", fix="commit or stash what git names")


def push(root: Path, remote: str, name: str) -> None:
    """Push the branch; where the remote has moved on, once more on top of that. Raises RepositoryError."""
    for last in (False, True):
        answer = ask(root, "push", "--quiet", remote, f"HEAD:refs/heads/{name}", limit=_LIMIT, own=True)
        if answer.status == 0:
            return
        if last or not any(word in answer.error for word in ("fetch first", "non-fast-forward", "cannot lock ref")):
            said = answer.error or "no answer"
            raise RepositoryError(f"git push {remote}: {said}", fix="the records are committed here; push them later")
        rebase(root, fetch(root, remote, name))


def rebase(root: Path, onto: str) -> None:
    """Put this branch's own commits on top of another; on a conflict nothing changes. Raises RepositoryError."""
    answer = ask(root, "rebase", "--quiet", "--autostash", onto, own=True)
    if answer.status:
        ask(root, "rebase", "--abort", own=True)
        raise RepositoryError(f"git rebase {onto[:12]}: {answer.error}", fix="rebase by hand; nothing was changed")
