"""What others may put into specs/, state/ and names: it is named, counts for nothing, and reads no secret."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest

from reconciler.storage import escaping
from tests.unit.check.conftest import logs
from tests.unit.check.made import make_tree
from tests.unit.storage.test_untrusted_files import make_hole, nest, swept

from .conftest import CELL, Reconcile, commit, edit, git
from .test_import import export

__all__ = ["swept"]

DEEP = 200_000


def named(folder: Path, data: bytes, start: str = "a" * 12) -> None:
    """Under the name that its bytes ask for, as anyone who attacks would name it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{start}-{hashlib.sha256(data).hexdigest()[:20]}.json").write_bytes(data)


def record(change: Callable[[str], str]) -> Callable[[Path], None]:
    def place(root: Path) -> None:
        folder = root / "state/records/Run"
        ours = min(path for path in folder.iterdir() if not path.name.startswith("a" * 12))
        text = json.dumps(json.loads(ours.read_bytes()))
        named(folder, change(text).encode())

    return place


def said(**values: object) -> Callable[[Path], None]:
    """A record of a run that says this of its outcome."""

    def change(text: str) -> str:
        document = json.loads(text)
        return json.dumps({**document, "values": {**document["values"], **values}})

    return record(change)


def asked(value: object) -> Callable[[Path], None]:
    def change(text: str) -> str:
        document = json.loads(text)
        document["inputs"]["min_query_count"] = {"value": value, "origin": ""}
        return json.dumps(document)

    return record(change)


def sized(size: int) -> Callable[[Path], None]:
    return record(lambda text: re.sub('("artifacts": .."[^"]+", "[^"]+", )[0-9]+', rf"\g<1>{size}", text))


def trap(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def place(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        make(root / name)

    return place


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


RECORD = f"state/records/Run/{'a' * 12}-{'b' * 20}.json"
DAMAGED: dict[str, Callable[[Path], object]] = {
    "a record that is a device": trap(RECORD, device),
    "a record that is a pipe": trap(RECORD.replace("b", "c"), os.mkfifo),
    "a record that is a hole": trap(RECORD.replace("b", "d"), make_hole),
    "a record of brackets": lambda root: named(root / "state/records/Run", b"[" * DEEP + b"]" * DEEP),
    "a record with nested values": record(
        lambda text: text.replace('"values": {', '"values": {"x": ' + "[" * DEEP + "]" * DEEP + ", ", 1)
    ),
    "a record of 4 million keys": lambda root: named(
        root / "state/records/Run", b"{" + b",".join(b'"%d":1' % i for i in range(4_000_000)) + b"}"
    ),
    "a record with 5,000 digits": record(lambda text: text.replace('"seconds": ', f'"seconds": {"9" * 5000}', 1)),
    "a record with a list as its key": record(lambda text: text.replace('"key": "', '"key": ["x"], "k": "', 1)),
    "a record of a googol of seconds": record(lambda text: re.sub('"seconds": [^,]+', f'"seconds": {10**100}', text)),
    "a record without end": record(lambda text: re.sub('"seconds": [^,]+', '"seconds": Infinity', text)),
    "a file of 10^30 bytes": sized(10**30),
    "a file of less than no bytes": sized(-1),
    "a result of a thousand million digits": said(metric={"value": "1e999999999", "unit": "samples/s"}),
    "a result of no number": said(metric={"value": "NaN", "unit": "samples/s"}),
    "a result that is a list": said(metric=["1", "samples/s"]),
    "margins that are a text": said(margins="wide"),
    "margins that are numbers": said(margins=[1, None]),
    "reasons that are a number": said(reasons=5),
    "a verdict that is an object": said(validity={"VALID": True}),
    "a suggestion of many digits": said(
        suggestion={"setting": "target_qps", "value": "9" * 5000, "unit": "", "why": ""}
    ),
    "an efficiency of no number": said(power={"efficiency": {"value": "inf", "unit": "samples/J"}}),
    "a key made of a fraction": asked(1e308),
    "a key made of an object": asked({"a": {"b": [1]}}),
    "a decision that is a device": trap("state/frozen/x-0123456789.json", device),
    "a decision that is a pipe": trap("state/frozen/y-0123456789.json", os.mkfifo),
    "a decision of brackets": lambda root: named(root / "state/frozen", b"[" * DEEP, "x"),
}


def test_what_is_no_record_counts_for_nothing(recorded: Path, reconcile: Reconcile) -> None:
    planted: dict[str, set[str]] = {}
    for attack, place in DAMAGED.items():
        before = set(recorded.glob("state/*/**/*.json"))
        place(recorded)
        added = set(recorded.glob("state/*/**/*.json")) - before
        planted[attack] = {path.relative_to(recorded).as_posix() for path in added}
        assert planted[attack], attack
    plan = reconcile.report("plan", ends=2)
    assert plan["steps"] == []
    found = json.dumps(plan["findings"])
    assert {attack: names for attack, names in planted.items() if not all(name in found for name in names)} == {}
    for command in (("status",), ("show", CELL), ("why", CELL)):
        code, out, err = reconcile(*command)
        assert code in (0, 2), err
        assert "digits" in out


SPECS: dict[str, Callable[[Path], object]] = {
    "a device": trap("specs/two.yaml", device),
    "a pipe": trap("specs/two.yaml", os.mkfifo),
    "a hole": trap("specs/two.yaml", make_hole),
    "1,200 nested folders": lambda root: nest(root / "specs", 1200),
}


@pytest.mark.parametrize("attack", SPECS)
def test_what_is_no_spec_is_an_error_that_names_it(recorded: Path, reconcile: Reconcile, attack: str) -> None:
    SPECS[attack](recorded)
    assert "specs" in reconcile.refuse("plan")


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_text("x"),
    "a hole": make_hole,
    "a device": device,
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize(
    ("folder", "attack"),
    [
        *product(("state", "state/accepted"), IN_THE_WAY),
        *product(("state/records", "state/logs"), ("a file", "a link to itself")),
    ],
)
def test_what_is_where_a_folder_belongs_is_named(
    recorded: Path, reconcile: Reconcile, tmp_path: Path, folder: str, attack: str
) -> None:
    logs = export(recorded, tmp_path / "logs", "performance")
    shutil.rmtree(recorded / folder, ignore_errors=True)
    IN_THE_WAY[attack](recorded / folder)
    code, out, err = reconcile("plan")
    assert code in (0, 1, 2), out + err
    assert code != 1 or (folder in err and "fix:" in err), err
    code, out, err = reconcile("import", str(logs), "--cell", CELL)
    refused = folder != "state/accepted" or attack == "a link to itself"
    assert (code, folder in err, "fix:" in err) == ((1, True, True) if refused else (0, False, False)), out + err


@pytest.mark.parametrize("make", [os.mkfifo, device, make_hole], ids=["pipe", "device", "hole"])
def test_a_conf_that_is_none_is_not_waited_for(
    recorded: Path, reconcile: Reconcile, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "theirs.conf")
    logs = export(recorded, tmp_path / "logs", "performance")
    code, _, err = reconcile("import", str(logs), "--cell", CELL, "--user-conf", str(tmp_path / "theirs.conf"))
    assert (code, "theirs.conf" in err, "fix:" in err) == (1, True, True), err


def test_large_files_of_a_commit_are_not_read(recorded: Path, reconcile: Reconcile) -> None:
    """Zeros cost nothing in git."""
    base = git(recorded, "rev-parse", "HEAD")
    with (recorded / RECORD).open("wb") as stream:
        stream.truncate(40 << 20)
    git(recorded, "add", "--force", "state")
    git(recorded, "commit", "--quiet", "--message", "Add a record")
    code, out, err = reconcile("pr", "--base", base)
    assert "41,943,040 bytes, too many for a record" in out + err
    assert code in (1, 2)


@pytest.mark.parametrize(("version", "below"), [("2", ""), ("3", ""), ("4", ""), ("4", "teams/acme/")])
def test_what_only_this_machine_writes_is_not_read_from_git(
    recorded: Path, reconcile: Reconcile, version: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache or a finished attempt that came with a branch would be believed."""
    root = recorded
    if below:
        (tmp_path / "mono/teams").mkdir(parents=True)
        git(tmp_path / "mono", "init", "--quiet")
        root = shutil.move(recorded, tmp_path / "mono" / below.rstrip("/"))
        shutil.rmtree(root / ".git")
        monkeypatch.chdir(root)
    git(root, "config", "index.version", version)
    (root / "docs/.reconcile").mkdir(parents=True)
    for name in ("docs/.reconcile/a", ".reconcile-notes", ".reconcile/attempts/x/result.json"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("{}")
    commit(root, "Add notes")
    assert reconcile("plan")[0] == 0
    git(root, "add", "--force", ".reconcile/attempts/x/result.json")
    if version == "3":
        (root / "later").write_text("x")
        git(root, "add", "--intent-to-add", "later")  # only then entries have more flags
    (root / ".reconcile/index/records.msgpack").write_bytes(b"not ours")
    planted = {path: path.read_bytes() for path in (root / ".reconcile").rglob("*") if path.is_file()}
    for command in ("plan", "status", "gc"):
        code, _, err = reconcile(command)
        assert (code, err.count(f"{below}.reconcile/attempts/x/result.json is in git")) == (0, 1), err
    assert {path: path.read_bytes() for path in (root / ".reconcile").rglob("*") if path.is_file()} == planted
    assert list((root.parents[1] if below else root).glob(f".git/reconcile/{below}index/*"))
    git(root, "rm", "--quiet", "-r", "--cached", ".reconcile")
    code, _, err = reconcile("plan")
    assert (code, "is in git" in err) == (0, False), err


def test_pr_names_files_of_the_machine_in_a_branch(recorded: Path, reconcile: Reconcile) -> None:
    git(recorded, "switch", "--quiet", "--create", "theirs")
    (recorded / ".reconcile/index").mkdir(parents=True, exist_ok=True)
    (recorded / ".reconcile/index/x").write_text("x")
    git(recorded, "add", "--force", ".reconcile/index/x")
    git(recorded, "commit", "--quiet", "--message", "Add a cache")
    git(recorded, "switch", "--quiet", "main")
    code, out, err = reconcile("pr", "--base", "main", "--head", "theirs")
    assert (code, ".reconcile/index/x" in out) == (1, True), err


PRIVATE = "do not show"


@pytest.mark.parametrize("names", ["{outside}", "../outside.md"])
def test_an_audit_reads_no_outer_file(recorded: Path, reconcile: Reconcile, tmp_path: Path, names: str) -> None:
    """Nor would two people see the same, who have different ones."""
    outside = tmp_path / "outside.md"
    outside.write_text(PRIVATE)
    edit(recorded, "rehearsal: true", f"rehearsal: true\n  documents: {{bandwidth: {names.format(outside=outside)}}}")
    git(recorded, "commit", "--quiet", "--all", "--message", "Publish a document")
    code, out, err = reconcile("audit")
    digest = hashlib.sha256(PRIVATE.encode()).hexdigest()[:12]
    assert (code, "is not in this commit" in out, digest in out + err) == (2, True, False), out + err
    outside.replace(recorded / "outside.md")
    edit(recorded, names.format(outside=outside), "outside.md", "Bring the document")
    assert "cannot be rendered" not in reconcile("audit")[1]


LOOKS = (
    *("plan --deep", "status", "show digits", "why digits", "logs digits", "validate", "history digits", "doctor"),
    *("blame digits", "gc --dry-run", "check", "audit", "pr --base before", "diff before HEAD", "embargo", "mig"),
    *("package -o ../x.tar.gz", "page --export ../page", "respond digits -o ../answer", "compare before HEAD"),
    *(
        "accept digits --reason same",
        "freeze digits --reason ours",
        "unfreeze digits",
        "amend digits",
        "fetch",
        "densify",
    ),
    *("plot digits -o ../plot.svg", "prune", "gc", "fmt", "push", "pull", "sign"),
)


def test_looking_at_a_pull_request_runs_no_code_of_it(recorded: Path, reconcile: Reconcile, tmp_path: Path) -> None:
    """A folder that git takes for a bare repository is the code of a harness; its command, scorer and launcher leave
    a trace too."""
    code, ran, program = recorded / "code", tmp_path / "ran", recorded / "launch"
    for name in ("objects", "refs", "wt"):
        (code / name).mkdir(parents=True)
        (code / name / "kept").write_text("")
    (code / "HEAD").write_text("ref: refs/heads/main\n")
    trap = f"bare = false\n\tworktree = wt\n\tfsmonitor = touch {ran}; false\n"
    (code / "config").write_text(f"[core]\n\trepositoryformatversion = 0\n\t{trap}")
    program.write_text(f'#!/bin/sh\ntouch {ran}\nexec "$@"\n')
    program.chmod(0o755)
    git(recorded, "tag", "before")
    harness = f"command: [{program}, '{{run_dir}}'], code: code, score: {{command: [{program}]}}, user_conf: harvested"
    model = "model: {settings: {epochs: 1}}"
    edit(recorded, model, f"{model}\n      harness: {{{harness}}}")
    edit(recorded, "hardware: {count: 0}", f"hardware: {{count: 0}}\n      launcher: [{program}]", "Bring a harness")
    assert "Performed" in reconcile("status")[1], "the spec is a valid one"
    for words in LOOKS:
        status, out, err = reconcile(*words.split())
        assert (status in (0, 1, 2), "bug" in err, ran.exists()) == (True, False, False), f"{words}: {out}{err}"
    git(code / "wt", "--git-dir", "..", "status")
    assert ran.exists(), "git itself does not run it: this proves nothing"
    for words in ("detect", "attach"):
        ran.unlink()
        reconcile(words)
        assert ran.exists(), f"{words} reaches the machine that the launcher leads to, as the threat model says"


__all__ = ["logs"]

# A workflow's command on a line of its own, a terminal's sequence, markup of both kinds, a formula, bytes of no
# encoding, a mention, and text that runs the other way.
NASTY = "=cmd\n::error file=x::y\r##[stop-commands]z\x1b[2J\x9b`|<img src=x onerror=1>|@all\u202e\u2028\udcff"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")


def is_quiet(text: str) -> bool:
    """Nothing for a terminal or a workflow to obey. Our own annotations begin with notice or error and one file of
    ours."""
    lines = [line.strip() for line in text.split("\n")]
    return not (_CONTROL.search(text) or "##[" in text or any(line.startswith("::error file=x") for line in lines))


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def elements(text: str) -> list[tuple[str, list[tuple[str, str | None]]]]:
    parser = Elements()
    parser.feed(text)
    return parser.found


@pytest.fixture(scope="session")
def named_tree(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submitter whose folders have such names, and who contradicts itself."""
    root = make_tree(tmp_path_factory.mktemp("named") / "tree", logs, lengthened=False)
    acme = root / "closed/Acme"
    name = os.fsencode(NASTY.replace("/", "")).decode(errors="surrogateescape")
    shutil.copytree(acme, root / "closed" / name)
    mallory = root / "closed" / name
    (mallory / "results/sys1").rename(mallory / "results" / name)
    (mallory / "systems" / f"{name}.json").write_text(
        json.dumps({"submitter": NASTY.encode(errors="replace").decode()})
    )
    for conf in mallory.rglob("user.conf"):
        conf.write_text(conf.read_text() + f"*.Offline.target_qps = 500\n*.*.min_duration = {NASTY!a}\n")
    (mallory / "results" / name / "resnet/Offline" / name).write_bytes(b"")
    return root


def outputs_of_a_tree(reconcile: Reconcile, root: Path, folder: Path) -> Iterator[tuple[str, str]]:
    for command in ("verify-tree", "check"):
        for style in ((), ("--json",), ("--all",)):
            code, out, err = reconcile(command, str(root), *style)
            assert code == 2, err
            yield f"{command} {style}", out + err
            if style == ("--json",):
                assert json.loads(out)
    written = [f"--html={folder}/a.html", f"--csv={folder}/a.csv", f"--objections={folder}/objections"]
    assert reconcile("verify-tree", str(root), *written)[0] == 2
    for path in (folder / "a.html", folder / "a.csv", *(folder / "objections").iterdir()):
        assert path.name.isprintable()
        yield path.name, path.read_bytes().decode()


def test_names_of_folders_are_only_shown(named_tree: Path, reconcile: Reconcile, tmp_path: Path) -> None:
    shown = dict(outputs_of_a_tree(reconcile, named_tree, tmp_path))
    files = {name for name in shown if name.endswith((".html", ".csv", ".md"))}
    assert {name for name, text in shown.items() if name not in files and not is_quiet(text)} == set()
    assert {name for name in files if _CONTROL.search(shown[name])} == set()
    assert "stop-commands" in shown["a.html"], "the name is not in it: this proves nothing"
    assert not [tag for tag, attrs in elements(shown["a.html"]) if tag == "img" or "onerror" in dict(attrs)]
    rows = list(csv.reader(io.StringIO(shown["a.csv"])))
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if cell[:1] in tuple("=+-@\t\r")]
    prose = [
        re.sub(r"(?s)(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", shown[name]) for name in files if name.endswith(".md")
    ]
    assert prose
    assert not [text for text in prose if re.search(r"(?<!\\)<img|@all", text)]


def commit_as(root: Path, text: str) -> None:
    """By somebody who names himself so."""
    author = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(
        ["git", "commit", "--quiet", "--all", "--message", text], cwd=root, check=True, env={**os.environ, **author}
    )


def test_words_of_commits_are_only_shown(recorded: Path, reconcile: Reconcile, tmp_path: Path) -> None:
    edit(recorded, "target_qps: 1000", "target_qps: 1100")
    commit_as(recorded, NASTY)
    page = tmp_path / "page.md"
    commands = (
        ("plan",), ("plan", "--json"), ("why", CELL), ("why", CELL, "--json"), ("blame", CELL), ("history", CELL),
        ("history", CELL, "--json"), ("pr", "--base", "HEAD~1", "--annotate", f"--markdown={page}"), ("status",),
        ("pr", "--base", "HEAD~1", "--json"), ("diff", "HEAD~1", "HEAD"), ("audit",), ("audit", "--json"),
    )  # fmt: skip
    seen = ""
    for command in commands:
        _, out, err = reconcile(*command)
        assert is_quiet(out + err), (command, out, err)
        seen += out
    assert is_quiet(page.read_text())
    assert "stop-commands" in seen, "the subject is not in it: this proves nothing"


SPEC_NAMES = ("box", "Tester", "one", "digits")


@pytest.mark.parametrize("name", SPEC_NAMES)
def test_names_in_a_spec_are_only_shown(recorded: Path, reconcile: Reconcile, name: str) -> None:
    """Names that become folders are refused; the refusal shows them."""
    path = recorded / "specs/one.yaml"
    text = path.read_text()
    quoted = json.dumps(NASTY[:-1])
    path.write_text(re.sub(rf"(?m)(^|[ {{]){name}\b(?=:|$)", r"\g<1>{}", text).replace("{}", quoted))
    for command in (("plan",), ("validate",), ("validate", "--json"), ("status",)):
        _, out, err = reconcile(*command)
        assert is_quiet(out + err), (command, out, err)
        assert "stop-commands" in out + err


def test_names_of_specs_and_records_are_only_shown(recorded: Path, reconcile: Reconcile) -> None:
    name = NASTY.replace("/", "")
    (recorded / "specs" / f"{name}.yaml").write_text("spec: {round: [}\n")
    (recorded / "state/records/Run" / f"{name}.json").write_text("{}")
    for command in (("plan",), ("validate",), ("status",), ("plan", "--json")):
        code, out, err = reconcile(*command)
        assert (code, is_quiet(out + err)) == (1, True), (command, out, err)
        assert "name is not UTF-8" in out + err
    commit(recorded, "Add them")
    code, out, err = reconcile("pr", "--base", "HEAD~1")
    assert (code, is_quiet(out + err)) == (1, True), out + err
    (recorded / "specs" / f"{name}.yaml").unlink()
    code, out, err = reconcile("plan")
    assert (code, is_quiet(out + err)) == (2, True), out + err
    assert "stop-commands" in out + err


MODEL = "model: {settings: {epochs: 1}}"
VALUE = "hunter2hunter2"


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process."""
    monkeypatch.setattr(escaping, "_HIDDEN_VALUES", {})
    monkeypatch.setattr(escaping, "_HIDDEN_LOCATIONS", {})
    escaping._compile_locations.cache_clear()


@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "DB_PASSWORD", "NGC_API_KEY", "SIGNING_KEY", "MY_PAT"]
)
def test_secret_is_no_place(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, VALUE)
    edit(declared, MODEL, f'model: {{path: "${{{name}}}/x"}}')
    for command in (("plan",), ("validate",), ("show", CELL), ("why", CELL)):
        code, out, err = reconcile(*command)
        assert (code, name in err, VALUE in out + err) == (1, True, False)


@pytest.mark.parametrize("value", [VALUE, "/mnt/kept/apart", "/p", "pin7", "two words/and more"])
def test_value_of_another_variable_is_neither_shown_nor_kept(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("NETS", value)
    edit(declared, MODEL, 'model: {path: "${NETS}/nets/net.onnx"}')
    for turn in ("cold", "warm"):
        forget(monkeypatch)
        for command in (("plan",), ("plan", "--json"), ("show", CELL), ("why", CELL)):
            code, out, err = reconcile(*command)
            assert (code in (0, 2), f"{value}/nets" in out + err) == (True, False), (turn, out, err)
    assert "${NETS}/nets/net.onnx" in reconcile("plan")[1]
    kept = [path for path in (declared / ".reconcile").rglob("*") if path.is_file()]
    assert any(path.name.startswith("desired-") for path in kept)
    assert not [path for path in kept if f"{value}/nets".encode() in path.read_bytes()]


def test_unclear_location_is_refused(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIN", "1234")
    edit(declared, MODEL, 'model: {path: "${PIN}"}')
    code, out, err = reconcile("plan")
    assert (code, "too short" in err, "1234" in out + err) == (1, True, False)


def test_variable_that_changes_is_noticed(
    declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    edit(declared, MODEL, 'model: {path: "${NETS}/net.onnx"}')
    (tmp_path / "full").mkdir()
    (tmp_path / "full/net.onnx").write_bytes(b"a net")
    for place in ("empty", "full", "empty"):
        monkeypatch.setenv("NETS", str(tmp_path / place))
        assert ("${NETS}/net.onnx" in reconcile("plan")[1]) is (place == "empty")
    monkeypatch.delenv("NETS")
    code, out, _ = reconcile("plan")
    assert (code, "specs/one.yaml:18:" in out, "the environment variable NETS is not set" in out) == (2, True, True)


def test_store_learns_what_is_listed(declared: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_AT", VALUE)
    edit(
        declared, "  rehearsal: true", '  rehearsal: true\n  stores: {lab: {url: "https://${HOSTED_AT}.example.com/x"}}'
    )
    code, out, err = reconcile("push", "--dry-run")
    assert (code, "HOSTED_AT would be sent to the store" in err, VALUE in out + err) == (1, True, False)
    monkeypatch.setenv("RECONCILE_STORE_VARIABLES", "OTHER,HOSTED_AT")
    code, out, err = reconcile("validate")
    assert (code, VALUE in out + err) == (0, False), err
