"""`reconcile adopt`: a tree becomes a spec and records; nothing is left to run, and the render gives the tree again."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.importing.read_tree import read_tree
from reconciler.resource.kinds import Cell
from reconciler.rules.rounds import load_ruleset
from reconciler.tree.content import CellCode
from reconciler.tree.render import place_kept_code
from tests.unit.check.conftest import clean_trees, logs, tree_of
from tests.unit.check.made import SCENARIOS

from .conftest import CELL, Reconcile, commit, git

__all__ = ["clean_trees", "logs", "tree_of"]

FOLDER = "open/Tester/results/box/digits/Offline"
DETAIL = "mlperf_log_detail.txt"
LOG = f"{FOLDER}/performance/run_1/mlperf_log_summary.txt"


@pytest.fixture
def tree(recorded_once: Path, tmp_path: Path) -> Path:
    """A rendered tree with complete descriptions, as a colleague would send it."""
    root = tmp_path / "sent"
    shutil.copytree(recorded_once / ".reconcile/tree", root)
    system = root / "open/Tester/systems/box.json"
    values = json.loads(system.read_text())
    system.write_text(json.dumps({name: value or "stated" for name, value in values.items()}))
    return root


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "mine"
    root.mkdir()
    git(root, "init", "--quiet")
    monkeypatch.chdir(root)
    return root


def legacy(tree: Path) -> Path:
    """The same tree in the layout of rounds up to v5.1, with a lower-case scenario as some have it."""
    top = tree / "open/Tester"
    results = top / "results/box/digits/Offline"
    measurements = top / "measurements/box/digits/offline"
    measurements.mkdir(parents=True)
    for name in ("user.conf", "README.md"):
        (results / name).rename(measurements / name)
    (results / "measurements.json").rename(measurements / "box_harness_offline.json")
    results.rename(results.with_name("offline"))
    (top / "src").rename(top / "code")
    return tree


def test_nothing_is_left_to_run(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    report = reconcile.report("adopt", str(tree), "--rehearsal", ends=0)
    assert (report["cells"], len(report["records"]), report["left_out"], report["round"]) == (1, 3, {}, "v6.1")
    assert f"{FOLDER}/performance/run_1/{DETAIL}" in report["reproduced"]["same"]
    assert f"{FOLDER}/accuracy/accuracy.txt" in report["reproduced"]["same"]
    assert f"{FOLDER}/user.conf" in report["reproduced"]["same"]
    assert "open/Tester/model_mapping.json" in report["reproduced"]["same"]
    assert "open/Tester/systems/box.json" in report["reproduced"]["same"]
    assert set(report["reproduced"]["differing"]) <= {f"{FOLDER}/README.md", f"{FOLDER}/measurements.json"}
    reconcile.succeed("plan")
    assert reconcile()[0] == 0
    detail = f"{FOLDER}/performance/run_1/{DETAIL}"
    assert (empty / ".reconcile/tree" / detail).read_bytes() == (tree / detail).read_bytes()
    assert reconcile("validate")[0] == 0


def test_nothing_is_written_through_a_link(tree: Path, empty: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    (tmp_path / "outside").mkdir()
    (empty / "specs").symlink_to("../outside")
    code, _, err = reconcile("adopt", str(tree), "--rehearsal")
    assert (code, list((tmp_path / "outside").iterdir())) == (1, [])
    assert "specs/tester.yaml" in err


def test_committing_everything_leaves_the_working_folder_out(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    assert list((empty / ".reconcile/objects").rglob("*"))
    commit(empty, "Adopt a tree")
    names = git(empty, "ls-files").splitlines()
    assert "specs/tester.yaml" in names
    assert not any(name.startswith(".reconcile") for name in names)
    code, out, err = reconcile("plan")
    assert (code, err) == (0, ""), out


def test_a_working_folder_that_was_committed_stops_nothing(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    (empty / ".reconcile/.gitignore").unlink()
    commit(empty, "Adopt a tree, and all that this machine made of it")
    for command in ("plan", "status", "reconcile", "check"):
        code, out, err = reconcile(*([] if command == "reconcile" else [command]))
        assert (code, err.count("is in git")) == (2 if command == "check" else 0, 1), out + err
    assert git(empty, "status", "--porcelain") == ""


def test_the_legacy_layout(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    report = reconcile.report("adopt", str(legacy(tree)), "--rehearsal", ends=0)
    assert "open/Tester/measurements/box/digits/offline/user.conf" in report["reproduced"]["same"]
    assert f"{FOLDER.replace('Offline', 'offline')}/performance/run_1/{DETAIL}" in report["reproduced"]["same"]
    assert reconcile("plan")[0] == 0


def test_another_round_makes_every_run_stale(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    assert "every performance run is stale" in reconcile.succeed("adopt", str(tree), "--rehearsal", "--round", "v6.0")
    text = next((empty / "specs").glob("*.yaml")).read_text()
    assert "round: v6.0" in text
    assert "target_qps: 1000 /s" in text
    code, out, _ = reconcile("plan")
    assert (code, "Run performance" in out, "qsl_rng_seed" in out) == (2, True, True)


def test_a_description_keeps_its_bytes_until_the_spec_differs(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    place = "open/Tester/systems/box.json"
    values = json.loads((tree / place).read_text())
    original = json.dumps({**dict(sorted(values.items(), reverse=True)), "status": "Available"}, indent=7).encode()
    (tree / place).write_bytes(original)
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    assert reconcile("plan")[0] == 0
    assert reconcile()[0] == 0
    rendered = empty / ".reconcile/tree" / place
    assert rendered.read_bytes() == original
    spec = next((empty / "specs").glob("*.yaml"))
    spec.write_text(spec.read_text().replace("      description:\n", "      description:\n        room: basement\n"))
    assert reconcile()[0] == 0
    assert json.loads(rendered.read_text()) == {**values, "room": "basement"}
    (empty / "systems/box.json").unlink()
    code, out, err = reconcile()
    assert code != 0
    assert "systems/box.json" in out + err


def test_what_the_power_supplies_can_give_comes_along(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    place = "open/Tester/systems/box_power.yaml"
    supplies = "Box:  # as the maker says\n  Min PSUs Needed: 1\n  PSUs: [{PowerCapacityWatts: 550}]\n"
    (tree / place).write_text(supplies)
    assert place in reconcile.report("adopt", str(tree), "--rehearsal", ends=0)["reproduced"]["same"]
    assert "nameplate: systems/box_power.yaml" in next((empty / "specs").glob("*.yaml")).read_text()
    assert (reconcile("plan")[0], reconcile()[0]) == (0, 0)
    assert (empty / ".reconcile/tree" / place).read_text() == supplies
    assert (empty / "systems/box_power.yaml").read_text() == supplies


def test_code_and_documents_come_along(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    top = tree / "open/Tester"
    (top / "documentation").mkdir()
    (top / "documentation/calibration.md").write_text("None was needed.\n")
    (top / "src/digits/main.py").write_text("print()\n")
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    assert (empty / "documentation/calibration.md").read_text() == "None was needed.\n"
    assert reconcile()[0] == 0
    assert (empty / ".reconcile/tree/open/Tester/src/digits/main.py").read_text() == "print()\n"


def test_what_does_not_fit_is_left_out_and_named(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    assert f"{CELL}: min_duration is 0 s; round v6.1 requires at least 600 s" in reconcile.refuse("adopt", str(tree))
    assert not (empty / "specs").exists()
    (tree / FOLDER / f"accuracy/{DETAIL}").unlink()
    code, out, _ = reconcile("adopt", str(tree), "--rehearsal")
    assert (code, f"{CELL} (accuracy run)" in out) == (2, True)
    code, out, _ = reconcile("plan")
    assert (code, "Run accuracy" in out) == (2, True)


def test_compliance_tests_are_shown_as_they_came(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    test = tree / FOLDER / "TEST01"
    shutil.copytree(tree / FOLDER / "performance", test / "performance")
    (test / "verify_accuracy.txt").write_text("TEST PASS\n")
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    assert reconcile("plan")[0] == 0
    assert reconcile()[0] == 0
    rendered = empty / ".reconcile/tree" / FOLDER / "TEST01"
    for path in (p for p in test.rglob("*") if p.is_file()):
        assert (rendered / path.relative_to(test)).read_bytes() == path.read_bytes()


def test_a_repository_with_other_specs_is_left_alone(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    spec = next((empty / "specs").glob("*.yaml"))
    spec.write_text(spec.read_text() + "# mine\n")
    before = files_of(empty)
    assert "already has specs" in reconcile.refuse("adopt", str(tree), "--rehearsal")
    spec.rename(spec.with_name("other.yaml"))
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 1
    spec.with_name("other.yaml").rename(spec)
    assert files_of(empty) == before
    assert reconcile("adopt", str(empty))[0] == 1


def files_of(root: Path) -> dict[str, bytes]:
    """What git would see."""
    found = (p for p in root.rglob("*") if p.is_file() and not {".git", ".reconcile"} & set(p.parts))
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in found}


def test_adoption_that_was_broken_off_goes_on_and_doubles_nothing(
    tree: Path, empty: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spec is what declares anything, and comes last."""
    real, steps = os.replace, [0]

    def step(*names: str) -> None:
        steps[0] += 1
        if steps[0] == stop:
            raise KeyboardInterrupt
        real(*names)

    stop = 0
    monkeypatch.setattr(os, "replace", step)
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    whole, last = files_of(empty), steps[0]
    assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
    assert files_of(empty) == whole
    written = len(list((empty / "state/records").rglob("*.json"))) + len(list((empty / "state/logs").iterdir()))
    assert last > written
    for stop in range(1, last + 1, max(1, last // 8)):
        for name in ("specs", "state", "src", "documentation", ".reconcile"):
            shutil.rmtree(empty / name, ignore_errors=True)
        steps[0] = 0
        assert reconcile("adopt", str(tree), "--rehearsal")[0] == 130
        assert reconcile("adopt", str(tree), "--rehearsal")[0] == 0
        assert files_of(empty) == whole, f"broken off before step {stop} of {last}"


def test_a_folder_with_another_scenarios_logs_is_inferred(tree: Path) -> None:
    shutil.copytree(tree / FOLDER, tree / FOLDER.replace("Offline", "SingleStream"))
    taken = {item.cell.scenario: item for item in read_tree(tree).cells}
    assert taken["SingleStream"].source == taken["Offline"].cell
    assert taken["Offline"].source is None
    assert load_ruleset("v6.1").find_inference("SingleStream", "Offline", "edge") is None


@pytest.mark.parametrize(
    ("trap", "at"),
    [
        *((trap, LOG) for trap in ("link", "folder link", "pipe", "device", "hole")),
        *((trap, "open/Tester/src/digits/main.py") for trap in ("link", "pipe")),
    ],
)
def test_files_behind_links_are_not_taken(tree: Path, empty: Path, reconcile: Reconcile, trap: str, at: str) -> None:
    private = empty.parent / "private"
    private.mkdir()
    (private / "key").write_text("-----BEGIN PRIVATE KEY-----\n")
    target = tree / at
    if trap == "folder link":
        target = target.parent
        shutil.move(target, private / target.name)
        target.symlink_to(private / target.name)
    else:
        target.unlink(missing_ok=True)
    if trap in ("link", "device"):
        target.symlink_to(private / "key" if trap == "link" else "/dev/zero")
    elif trap == "pipe":
        os.mkfifo(target)
    elif trap == "hole":
        with target.open("wb") as stream:
            stream.truncate(1 << 40)
    if "results" in at:
        assert str(target) in reconcile.refuse("adopt", str(tree), "--rehearsal")
    else:
        code, out, _ = reconcile("adopt", str(tree), "--rehearsal")
        assert (code, str(target) in out) == (2, True), out
    assert not (empty / "src/digits/main.py").exists()
    assert not any("PRIVATE KEY" in p.read_text(errors="replace") for p in empty.rglob("*") if p.is_file())


def test_submitter_that_is_a_link_is_not_taken(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    shutil.move(tree / "open/Tester", empty.parent / "elsewhere")
    (tree / "open/Tester").symlink_to(empty.parent / "elsewhere")
    assert "has no submitter" in reconcile.refuse("adopt", str(tree), "--rehearsal")


def test_logs_behind_links_are_not_imported(tree: Path, recorded_once: Path, reconcile: Reconcile) -> None:
    folder = tree / FOLDER / "performance/run_1"
    shutil.move(folder / DETAIL, recorded_once.parent / "private")
    (folder / DETAIL).symlink_to(recorded_once.parent / "private")
    assert "a link that points elsewhere" in reconcile.refuse("import", str(folder), "--cell", CELL)


def test_a_power_measurement_is_published_again_byte_for_byte(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    performance = tree / FOLDER / "performance"
    session = {"power/client.json": b'{"ptd": 1}\n', "ranging/spl.txt": b"Time,1,Watts,2\n", "run_1/spl.txt": b"3\n"}
    for name, data in session.items():
        (performance / name).parent.mkdir(exist_ok=True)
        (performance / name).write_bytes(data)
    same = reconcile.report("adopt", str(tree), "--rehearsal", ends=0)["reproduced"]["same"]
    assert {f"{FOLDER}/performance/{name}" for name in session} <= set(same)
    assert reconcile("plan")[0] == 0


def test_a_bound_on_the_duration_of_an_accuracy_run_says_nothing(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    """LoadGen asks for every sample in this mode, and looks at no clock."""
    log = tree / FOLDER / "accuracy" / DETAIL
    settings = '"{}_max_duration_ms", "value": 0'
    text = log.read_text()
    for kind in ("requested", "effective"):
        text = text.replace(settings.format(kind), settings.format(kind)[:-1] + "660000")
    log.write_text(text)
    reconcile.succeed("adopt", str(tree), "--rehearsal", "--json")
    assert '"value": 660000' in text


def test_a_run_that_was_saved_below_another_is_not_read(tree: Path, empty: Path, reconcile: Reconcile) -> None:
    shutil.copytree(tree / FOLDER / "accuracy", tree / FOLDER / "accuracy/SAVE")
    assert reconcile.report("adopt", str(tree), "--rehearsal", ends=0)["left_out"] == {}


def audited(reconcile: Reconcile) -> dict[str, set[tuple[str, str]]]:
    """Benchmark → the conditions Audited of its cells."""
    found: dict[str, set[tuple[str, str]]] = {}
    for cell in reconcile.report("status")["cells"]:
        for condition in cell["conditions"]:
            if condition["type"] == "Audited":
                found.setdefault(cell["cell"].split("/")[2], set()).add((condition["status"], condition["reason"]))
    return found


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [("none", "True", "Imported"), ("missing", "False", "TestMissing"), ("failing", "False", "AuditFails")],
)
def test_required_compliance_tests_come_along_or_are_asked_for(
    fault: str, status: str, reason: str, tree_of: Callable[[str], Path], empty: Path, reconcile: Reconcile
) -> None:
    sent = tree_of("closed")
    for test in sorted(sent.glob("closed/*/results/*/*/*/TEST01")):
        if fault == "missing":
            shutil.rmtree(test)
        elif fault == "failing":
            text = test / "verify_performance.txt"
            text.write_text(text.read_text().replace("TEST PASS", "TEST FAIL"))
    assert reconcile.report("adopt", str(sent))["round"] == "v6.1"
    assert audited(reconcile)["resnet"] == {(status, reason)}


@pytest.mark.parametrize("missing", [False, True])
def test_tests_that_came_with_runs_count_next_to_a_backend_of_ours(
    tree_of: Callable[[str], Path], empty: Path, reconcile: Reconcile, missing: bool
) -> None:
    """The spec has the settings that REPRODUCE.md states; nothing but a test that did not come along is due."""
    sent = tree_of("closed")
    source = sent / "closed/Acme/src/resnet"
    settings = {"code": "resnet50", "engine": {"backend": "onnxruntime", "precision": "fp32", "batch_size": 2}}
    cells = [Cell("closed", "sys1", "resnet", scenario) for scenario in SCENARIOS]
    codes = [CellCode(cell, "resnet", {}, tool="mlperf-reconciler 0.1.0", settings=settings) for cell in cells]
    instructions = place_kept_code("resnet", codes, {})["REPRODUCE.md"]
    assert isinstance(instructions, bytes)
    (source / "REPRODUCE.md").write_bytes(instructions)
    if missing:
        shutil.rmtree(sent / "closed/Acme/results/sys1/resnet/Offline/TEST04")
    assert reconcile.report("adopt", str(sent), ends=0)["left_out"] == {}
    assert "backend: onnxruntime" in next((empty / "specs").glob("*.yaml")).read_text()
    due = {step["address"] for step in reconcile.report("plan")["steps"]}
    test = "closed/sys1/resnet/Offline/TEST04"
    wanted = {f"ComplianceTest:{test}", f"Verdict:{test}"} if missing else set()
    assert {address for address in due if "Test" in address or "Verdict" in address} == wanted
    assert bool(due) is missing
    shown = reconcile.report("show", "closed/sys1/resnet/Offline")["resources"]
    states = {item["address"].partition("/resnet/")[2]: item["state"] for item in shown if "TEST" in item["address"]}
    assert states["Offline/TEST01"].startswith("imported")
    assert states["Offline/TEST04"].startswith("Create" if missing else "imported")
    assert {status for status, _ in audited(reconcile)["resnet"]} == ({"True", "Unknown"} if missing else {"True"})


@pytest.mark.parametrize(
    ("engine", "backend"),
    [
        ("{backend: none-such}", "external"),
        ("{backend: onnxruntime, batch_size: [4, {a: ~}]}", "external"),
        ("{backend: onnxruntime, batch_size: 4}\n      harness: {code: run.py, service: [~], configs: 1}", "external"),
        ("{backend: openvino, batch_size: 4}", "openvino"),
    ],
)
def test_instructions_that_no_spec_may_have_are_passed_over(
    tree: Path, empty: Path, reconcile: Reconcile, engine: str, backend: str
) -> None:
    path = tree / "open/Tester/src/digits/REPRODUCE.md"
    text, count = re.subn(r"(?m)^      engine: .*$", f"      engine: {engine}", path.read_text())
    assert count == 1
    path.write_text(text)
    found = reconcile.report("adopt", str(tree), "--rehearsal", ends=0)
    assert found["left_out"] == {}
    assert list(found["unused"]) == (["src/digits/REPRODUCE.md"] if backend == "external" else [])
    assert f"engine: {{backend: {backend}" in next((empty / "specs").glob("*.yaml")).read_text()
    assert reconcile("plan")[0] == 0


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("          Offline:", "          Server:", "open/box/digits/Offline"),
        ("      code: digits", "      code: lost/mine.py", "lost/mine.py"),
        ("```yaml", "```yaml\x00", "open/box/digits/Offline"),
    ],
)
def test_adopt_says_why_it_cannot_use_the_instructions_of_a_tree(
    tree: Path, empty: Path, reconcile: Reconcile, old: str, new: str, why: str
) -> None:
    path = tree / "open/Tester/src/digits/REPRODUCE.md"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    out = reconcile.succeed("adopt", str(tree), "--rehearsal")
    (line,) = [line for line in out.splitlines() if "src/digits/REPRODUCE.md" in line]
    assert why in line
