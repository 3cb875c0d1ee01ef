"""Every command that writes: what it starts from, its words, and what holds once it has ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from reconciler.cli.main import main
from reconciler.loadgen.settings import RELEASES
from reconciler.rehearse import rehearsal_spec
from reconciler.rules.rounds import load_ruleset
from tests.passes.repository import Repository, make_repository
from tests.unit.check.written import TOKENS, open_cell
from tests.unit.cli.adopted import adopt_curve
from tests.unit.cli.conftest import CELL, SPEC, edit, git
from tests.unit.cli.test_import import export
from tests.unit.cli.test_package import DECLARED, believe_logs, full_length
from tests.unit.cli.test_start import make_loadgen
from tests.unit.cli.test_trees import contradict

SCORE = "Score:open/box/tiny/Offline"
DONE, NOT_IN_SYNC = 0, 2
_CHECKER = """\
import pathlib, sys
tree = pathlib.Path(sys.argv[sys.argv.index("--input") + 1])
print(sum(len(path.read_bytes()) for path in tree.rglob("*") if path.is_file()), "bytes")
print("SUMMARY: submission looks OK")
"""


@dataclass(frozen=True, slots=True)
class Written:
    """``start``: name of a folder that is copied for each try; ``words`` run in its ``at``. ``plan``: how `plan` ends
    afterwards, None where there is nothing to plan. ``exact``: what git would see is the same as after an undisturbed
    run; else it may hold times. ``then``: for a command that never ends, what is run instead of it. ``swept``: what it
    leaves half written goes with the next pass. ``commits``: nothing of what it commits is left to commit.
    ``other``: an end that says that nothing is left to do."""

    start: str
    words: tuple[str, ...]
    plan: int | None = DONE
    exact: bool = False
    at: str = "repository"
    then: tuple[str, ...] | None = None
    weight: float = 2
    swept: bool = False
    commits: bool = False
    other: str = ""


REASON = ("--reason", "the kernels are the same")
AMEND = ("amend", "digits", "--objection", "of a reviewer", *REASON)
REPORTS = ("--csv", "../findings.csv", "--html", "../findings.html", "--objections", "../drafts")
COMMANDS: dict[str, Written] = {
    "first pass": Written("declared tiny", (), weight=1),
    "pass": Written("unscored tiny", (), weight=3),
    "pass --commit": Written("unscored tiny", ("--commit",), weight=4, commits=True),
    # What a plan was made from is no longer there once it was begun: a pass goes on.
    "apply --commit": Written("planned tiny", ("apply", "plan.json", "--commit"), then=("--commit",), commits=True),
    "render": Written("unrendered", (), weight=2),
    "watch --commit": Written(
        "unscored tiny", ("watch", "--commit", "--debounce", "0.01"), then=("--commit",), weight=1, commits=True
    ),
    "adopt": Written("sent", ("adopt", "../sent", "--rehearsal"), exact=True, weight=4),
    "import": Written("declared", ("import", "../logs", "--cell", CELL), NOT_IN_SYNC, exact=True, weight=3),
    "accept": Written("changed", ("accept", "digits", *REASON, "--commit"), None, commits=True),
    "accept --revoke": Written(
        "accepted",
        ("accept", "digits", "--revoke", "--commit"),
        None,
        exact=True,
        commits=True,
        weight=3,
        other="nothing is accepted for this cell",
    ),
    "freeze": Written("recorded", ("freeze", "digits", *REASON, "--commit"), None, commits=True),
    "unfreeze": Written(
        "frozen",
        ("unfreeze", "digits", "--commit"),
        None,
        exact=True,
        commits=True,
        weight=3,
        other="digits is not frozen",
    ),
    "prune --commit": Written(
        "undeclared", ("prune", "--measured", "--max-share", "1", "--yes", "--commit"), None, exact=True, commits=True
    ),
    "gc": Written("littered", ("gc",), exact=True),
    "prune": Written("undeclared", ("prune", "--measured", "--max-share", "1", "--yes"), None, exact=True),
    "push": Written("stored", ("push",)),
    "pull": Written("cloned", ("pull",)),
    "package": Written("packable", ("package", "-o", "../packed.tar.gz"), exact=True, swept=True),
    "unpack": Written("packed", ("unpack", "../packed.tar.gz", "-o", "out"), None, exact=True, other=" is not empty"),
    "plan -o": Written("recorded", ("plan", "--deep", "-o", "plan.json"), swept=True),
    "init": Written("empty", ("init",), NOT_IN_SYNC, exact=True, other=" already; nothing was written"),
    "detect --write": Written("described", ("detect", "--write", "--system", "box"), None, exact=True),
    "sign": Written("unsigned", ("sign",), None),
    "embargo --install": Written("recorded", ("embargo", "--install"), weight=1),
    "move": Written(
        "movable", ("move", "resnet", "--to", "closed"), None, exact=True, other=" is in the closed division already"
    ),
    "try": Written("recorded", ("try", "digits", "target_qps=700", "min_query_count=600"), weight=1),
    "tune": Written(
        "recorded", ("tune", "digits", "--vary", "run.batch_size=1,8", "--quick", "-o", "../tuned.patch"), weight=0.5
    ),
    "densify": Written("curve", ("densify", "-o", "../denser.patch"), exact=True, weight=1),
    "amend --commit": Written("corrected", (*AMEND, "--since", "submitted", "--commit"), commits=True),
    "respond": Written("recorded", ("respond", "digits", "-o", "../answer"), exact=True, other=" is not empty"),
    "objections": Written(
        "contradicted", ("objections", "../sent", "--by", "Other", "-o", "../drafts"), None, exact=True
    ),
    "verify-tree": Written("contradicted", ("verify-tree", "../sent", *REPORTS), None, exact=True),
    "page --export": Written("recorded", ("page", "--export", "../page"), weight=1),
    "plot": Written("recorded", ("plot", "digits", "-o", "../plot.svg"), exact=True, weight=1),
    "pr --markdown": Written("corrected", ("pr", "--base", "submitted", "--markdown", "../pr.md"), None, weight=1),
    "fmt": Written("untidy", ("fmt",), exact=True, weight=1),
    "doctor --fix": Written("older", ("doctor", "--fix"), None),
    "audit --rerun": Written("recorded", ("audit", "--rerun", "digits"), weight=0.5),
    "fetch": Written("mirrored", ("fetch", "rnnt", "--mirror", "../lab", "--scratch", "../scratch"), None, weight=0.3),
}
if all(map(find_spec, ("onnx", "onnxruntime"))):
    asked = ("resnet50", "--division", "open", "--samples", "8", "--output", ".", "--busy")
    COMMANDS["rehearse"] = Written("unrehearsed", ("rehearse", *asked), commits=True, weight=0.5)

# What only looks, and may write caches: nothing of it is killed, and its disk refuses like any other.
LOOKS: dict[str, Written] = {
    "check": Written("recorded", ("check",), exact=True),
    "check --official": Written("official", ("check", "--official", "../checkout"), exact=True),
    "check PATH": Written("contradicted", ("check", "../sent"), None, exact=True),
    "attach": Written("unscored tiny", ("attach",), NOT_IN_SYNC, exact=True),
    "status": Written("recorded", ("status", "--json"), exact=True),
    "show": Written("recorded", ("show", "digits"), exact=True),
    "why": Written("changed", ("why", "digits"), None, exact=True),
    "logs": Written("recorded", ("logs", "digits"), exact=True),
    "diff": Written("corrected", ("diff", "submitted", "HEAD"), exact=True),
    "compare": Written("corrected", ("compare", "submitted", "HEAD"), exact=True),
    "compare trees": Written("sent", ("compare", "../sent", "../sent"), None, exact=True),
    "blame": Written("corrected", ("blame", "digits"), exact=True),
    "audit": Written("corrected", ("audit",), exact=True),
    "validate": Written("recorded", ("validate",), exact=True),
    "doctor": Written("recorded", ("doctor",), exact=True),
    "embargo": Written("recorded", ("embargo",), exact=True),
    "gc --dry-run": Written("recorded", ("gc", "--dry-run"), exact=True),
}


def run(root: Path, *words: str, code: int = DONE) -> None:
    """In this process: it has loaded everything already."""
    os.chdir(root)
    ended = main(list(words))
    assert ended == code, f"{' '.join(words)} in {root} ended with {ended}"


def make_starts(folder: Path, wanted: Collection[str]) -> None:
    """One folder for each start that is wanted, with ``repository`` in it; and for what those are made from."""
    for role in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{role}_NAME": "Tester", f"GIT_{role}_EMAIL": "tester@example.com"}
    recorded = _recorded(folder)
    if any(name.endswith(" tiny") for name in wanted):
        _tiny(folder)
    made = {"stored" if name == "cloned" else "packable" if name == "packed" else name for name in wanted} | {*wanted}

    def start(name: str, change: Callable[[Path], None]) -> None:
        if name not in made:
            return
        root = folder / name / "repository"
        if not root.exists():
            shutil.copytree(recorded, root, symlinks=True)
        change(root)

    start("unrendered", lambda root: shutil.rmtree(root / ".reconcile/tree"))
    start("changed", lambda root: edit(root, "batch_size: 8", "batch_size: 16"))
    start("littered", _litter)
    start("undeclared", _undeclare)
    start("accepted", lambda root: _decide(root, "accept"))
    start("frozen", lambda root: _decide(root, "freeze"))
    start("unsigned", _make_key)
    start("movable", lambda root: _edit_all(root, {"digits:\n      as: resnet": "resnet:", "digits:": "resnet:"}))
    start("described", lambda root: edit(root, "      hardware: {count: 0}\n", ""))
    start("mirrored", _mirror)
    start("corrected", _correct)
    start("contradicted", _contradict)
    start("official", _make_checkout)
    start("untidy", lambda root: edit(root, "  round: v6.1\n", "  round: v6.1   \n\n\n\n"))
    start("older", _declare_other_round)
    start("stored", _store)
    start("cloned", lambda root: _clone(folder / "stored", root))
    if "curve" in wanted:
        adopt_curve(folder / "adopted").rename(_make_folder(folder / "curve") / "repository")
    # One scenario: a pass over all of them takes minutes.
    pytest.MonkeyPatch().setattr(rehearsal_spec, "list_scenarios", lambda *_: ("Offline",))
    for name in made & {"sent", "declared", "packable", "empty", "unrehearsed"}:
        (folder / name / "repository").mkdir(parents=True)
    start("sent", lambda root: _send(recorded, root))
    start("declared", lambda root: _declare(recorded, root))
    start("packable", lambda root: _adopt_packable(recorded, root))
    if "packed" in wanted:
        shutil.copytree(folder / "packable", folder / "packed", symlinks=True)
        run(folder / "packed/repository", "package", "-o", "../packed.tar.gz")
        shutil.rmtree(folder / "packed/repository")
        (folder / "packed/repository").mkdir()


def _recorded(folder: Path) -> Path:
    root = folder / "recorded/repository"
    (root / "specs").mkdir(parents=True)
    (root / "specs/one.yaml").write_text(SPEC)
    (root / ".gitignore").write_text(".reconcile/\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    _commit(root)
    run(root, "--commit")
    return root


def _commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "State")


def _tiny(folder: Path) -> None:
    """A benchmark without a dataset worth the name: passes are short."""
    declared = make_repository(folder / "declared tiny/repository")
    (declared.root / ".gitignore").write_text(".reconcile/\n")
    declared.commit()
    (folder / "unscored tiny").mkdir()
    unscored = declared.copy(folder / "unscored tiny/repository")
    unscored.reconcile()
    for path in unscored.record_paths(SCORE):
        path.unlink()
    shutil.rmtree(unscored.paths.tree)

    planned = Repository(folder / "unscored tiny/repository").copy(folder / "planned tiny/repository")
    run(planned.root, "plan", "-o", "plan.json", code=NOT_IN_SYNC)


def _decide(root: Path, word: str) -> None:
    if word == "accept":
        edit(root, "batch_size: 8", "batch_size: 16")
        _commit(root)
    run(root, word, "digits", *REASON, "--commit")


def _edit_all(root: Path, changes: dict[str, str]) -> None:
    for before, after in changes.items():
        edit(root, before, after)
    _commit(root)


def _make_key(root: Path) -> None:
    key = root.parent / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tester", "-f", str(key)], check=True)
    git(root, "config", "gpg.format", "ssh")
    git(root, "config", "user.signingkey", "../key.pub")


def _mirror(root: Path) -> None:
    """Files of which no one publishes a digest."""
    lab = root.parent / "lab"
    paths = [f"data/LibriSpeech/dev-clean/1/{number % 3}/{number}.flac" for number in range(2703)]
    for path in ("models/rnn-t/DistributedDataParallel_1576581068.9962234-epoch-100.pt", *paths):
        (lab / path).parent.mkdir(parents=True, exist_ok=True)
        (lab / path).write_bytes(b"of no matter\n")


def _correct(root: Path) -> None:
    git(root, "tag", "submitted")
    edit(root, "batch_size: 8", "batch_size: 16")
    _commit(root)
    run(root, "--commit")


def _contradict(root: Path) -> None:
    sent = root.parent / "sent"
    open_cell(sent, "llama3.1-8b", "Server", TOKENS)
    contradict(sent)


def _make_checkout(root: Path) -> None:
    """A checker that reads the whole tree, and is content."""
    folder = root.parent / "checkout/tools/submission"
    folder.mkdir(parents=True)
    (folder / "submission_checker.py").write_text(_CHECKER)


def _declare_other_round(root: Path) -> None:
    """A package index is a folder that holds the LoadGen of that round alone."""
    edit(root, "round: v6.1", "round: v5.1")
    make_loadgen(root.parent, RELEASES["v5.1"], load_ruleset("v5.1").seeds())
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(root.parent), "PIP_CONFIG_FILE": os.devnull}
    os.environ.pop("PIP_CONSTRAINT", None)  # of the person who runs the tests


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _litter(root: Path) -> None:
    for number in range(40):
        name = f"{number:02}" + "0" * 62
        (root / ".reconcile/objects" / name[:2]).mkdir(exist_ok=True)
        (root / ".reconcile/objects" / name[:2] / name).write_text("no record names this\n")


def _undeclare(root: Path) -> None:
    edit(root, "Offline: {target_qps: 1000", "SingleStream: {target_latency: 10 ms")
    _commit(root)


def _store(root: Path) -> None:
    store = root.parent / "store"
    edit(root, "  rehearsal: true\n", f"  rehearsal: true\n  stores: {{lab: {{url: 'file://{store}'}}}}\n")
    _commit(root)


def _clone(stored: Path, root: Path) -> None:
    shutil.rmtree(root)
    git(root.parent, "clone", "--quiet", str(stored / "repository"), "repository")
    place(stored)
    run(stored / "repository", "push")
    shutil.copytree(stored / "store", root.parent / "store")
    shutil.rmtree(stored / "store")


def place(folder: Path) -> None:
    """A store is named by its full path: that of the copy at hand."""
    spec = folder / "repository/specs/one.yaml"
    if spec.exists() and "stores:" in (text := spec.read_text()):
        before = text[text.index("file://") : text.index("/store'")]
        spec.write_text(text.replace(before, f"file://{folder}"))


def _send(recorded: Path, root: Path) -> None:
    sent = root.parent / "sent"
    shutil.copytree(recorded / ".reconcile/tree", sent)
    system = sent / "open/Tester/systems/box.json"
    values = json.loads(system.read_text())
    system.write_text(json.dumps({name: value or "stated" for name, value in values.items()}))
    git(root, "init", "--quiet")


def _declare(recorded: Path, root: Path) -> None:
    (root / "specs").mkdir()
    (root / "specs/one.yaml").write_text(SPEC)
    export(recorded, root.parent / "logs", "performance")


def _adopt_packable(recorded: Path, root: Path) -> None:
    tree = root.parent / "sent"
    shutil.copytree(recorded / ".reconcile/tree", tree)
    full_length(tree)
    believe_logs(pytest.MonkeyPatch())  # for as long as this process lives
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / ".gitignore").write_text(".reconcile/\n")
    (root / "LICENSE").write_text("Apache-2.0\n")
    run(root, "adopt", str(tree), *DECLARED)
    _commit(root)
    run(root)


def seen_by_git(folder: Path) -> dict[str, bytes]:
    """Path → bytes of everything that is neither git's own nor made again from the rest."""
    found = (p for p in folder.rglob("*") if p.is_file() and not {".git", ".reconcile"} & set(p.parts))
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in found}


def _is_expected(item: str) -> bool:
    """An engine that is elsewhere, and what keeps an empty folder in git."""
    return " names " in item or item.endswith("/.gitkeep")


def find_wrong(folder: Path) -> list[str]:
    """Leftovers, locks, damage, and outcomes that are there twice."""
    root = folder / "repository"
    repository = Repository(root)
    left = [p for p in folder.rglob("*") if p.name.endswith((".partial", ".gone"))]
    # The index that a killed git was about to commit: no one waits for it, and its name is never used again.
    left += [p for p in (root / ".git").rglob("*.lock") if not p.name.startswith("next-index-")]
    # A note that is not whole may be one that is being written: it goes with the first commit a minute later.
    left += [p for p in (root / ".git").glob("reconcile-*") if p.is_dir() or p.stat().st_size]
    left += list((root / ".reconcile").glob("scratch-*"))
    wrong = [f"left over: {path.relative_to(folder)}" for path in left]
    wrong += [f"damaged: {item}" for item in repository.damage() if not _is_expected(item)]
    wrong += [f"done {count} times: {key[:12]}" for key, count in repository.done().items() if count > 1]
    if (root / ".git").exists():
        checked = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True)
        wrong += [checked.stderr] * bool(checked.returncode)
    return wrong


def find_uncommitted(root: Path) -> list[str]:
    words = ["git", "status", "--porcelain", "--", "state"]
    checked = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    return [f"not committed: {row}" for row in checked.stdout.splitlines()]
