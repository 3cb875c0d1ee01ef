"""The legacy layout, the network division, documents, code, power folders and inferred cells in a rendered tree."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.benchmark_catalog import BENCHMARKS
from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import Cell
from reconciler.resource.settings import CellSettings
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.edit import read
from reconciler.storage.files import hash_bytes, hash_listing
from reconciler.tree.assemble import Calibration, describe_code, list_extras, render_calibration
from reconciler.tree.content import CellCode, SubmissionContent
from reconciler.tree.render import render
from reconciler.tree.source import LARGEST, DiskSources, find_unlicensed

from .conftest import reference

CELL = Cell("open", "box", "digits", "Offline")


def tree(submission: SubmissionContent, ruleset: Ruleset) -> dict[str, object]:
    return dict(render(submission, ruleset))


def test_the_legacy_layout_keeps_its_parts_apart(submission: SubmissionContent) -> None:
    ruleset = load_ruleset("v5.1")
    assert ruleset.layout == "legacy"
    paths = set(tree(submission, ruleset))
    closed = "closed/ACME"
    assert {
        f"{closed}/systems/box.json",
        f"{closed}/code/resnet/main.py",
        f"{closed}/measurements/box/resnet/Offline/box_Offline.json",
        f"{closed}/measurements/box/resnet/Offline/user.conf",
        f"{closed}/measurements/box/resnet/Offline/README.md",
        f"{closed}/compliance/box/resnet/Offline/TEST04/verify_performance.txt",
        f"{closed}/results/box/resnet/Offline/performance/run_1/mlperf_log_detail.txt",
        f"{closed}/results/box/resnet/Offline/accuracy/accuracy.txt",
        f"{closed}/documentation/calibration.md",
    } <= paths
    assert not [path for path in paths if "/src/" in path or "measurements.json" in path]


def test_calibration_is_for_closed_and_network(submission: SubmissionContent, ruleset: Ruleset) -> None:
    only = replace(submission, official_only=frozenset({"documentation/calibration.md"}))
    paths = set(tree(only, ruleset))
    assert "closed/ACME/documentation/calibration.md" in paths
    assert "open/ACME/documentation/calibration.md" not in paths


def test_the_network_division_says_what_it_is(submission: SubmissionContent, ruleset: Ruleset) -> None:
    cells = [replace(item, cell=replace(item.cell, division="network")) for item in submission.cells[2:]]
    system = replace(submission.systems[0], division="network", description={"network_type": "Ethernet"})
    files = tree(replace(submission, cells=tuple(cells), systems=(system,)), ruleset)
    document = json.loads(files["network/ACME/systems/box.json"])  # type: ignore[arg-type]
    assert (document["is_network"], document["network_type"], document["network_protocol"]) == ("true", "Ethernet", "")
    assert set(ruleset.network.fields) <= set(document)


def test_an_inferred_cell_says_so(submission: SubmissionContent, ruleset: Ruleset) -> None:
    source = submission.cells[0]
    inferred = replace(source, cell=CELL, inferred_from=source.cell)
    files = tree(replace(submission, cells=(source, inferred)), ruleset)
    readme = files["open/ACME/results/box/digits/Offline/README.md"]
    assert b"**Inferred**: the runs in this folder are those of `open/box/digits/SingleStream`" in readme  # type: ignore[operator]
    for name in ("user.conf", "performance/run_1/mlperf_log_detail.txt", "accuracy/accuracy.txt"):
        folder = "open/ACME/results/box/digits"
        assert files[f"{folder}/Offline/{name}"] == files[f"{folder}/SingleStream/{name}"]
    assert b"Inferred" not in files["open/ACME/results/box/digits/SingleStream/README.md"]  # type: ignore[operator]


def test_power_files_pass_through(submission: SubmissionContent, ruleset: Ruleset) -> None:
    cell = submission.cells[0]
    own = b"summary open/box/digits/SingleStream"
    assert cell.performance["mlperf_log_summary.txt"] == reference(own)
    power = {"power/client.json": b"{}\r\n", "run_1/spl.txt": b"\xff", "run_1/mlperf_log_summary.txt": own}
    files = tree(replace(submission, cells=(replace(cell, power=power),)), ruleset)
    folder = "open/ACME/results/box/digits/SingleStream/performance"
    assert files[f"{folder}/power/client.json"] == b"{}\r\n"
    assert files[f"{folder}/run_1/spl.txt"] == b"\xff"
    other = replace(cell, power={"run_1/mlperf_log_summary.txt": b"another run"})
    with pytest.raises(ReconcilerError, match="is not the log of the published run"):
        tree(replace(submission, cells=(other,)), ruleset)


def code(folder: Path) -> Path:
    (folder / "lib/__pycache__").mkdir(parents=True)
    (folder / "main.py").write_text("print()\n")
    (folder / "lib/a.py").write_text("")
    (folder / "lib/__pycache__/a.pyc").write_bytes(b"")
    (folder / ".hidden").write_text("")
    return folder


def test_published_code(tmp_path: Path) -> None:
    code(tmp_path / "one")
    sources = DiskSources(tmp_path)
    assert set(sources.list_files(["one"])) == {"main.py", "lib/a.py"}
    assert set(sources.list_files(["one/main.py"])) == {"main.py"}
    (tmp_path / "two").mkdir()
    (tmp_path / "two/b.sh").write_text("")
    assert set(sources.list_files(["one", "two"])) == {"one/main.py", "one/lib/a.py", "two/b.sh"}


def test_what_a_tree_cannot_hold_is_refused(tmp_path: Path) -> None:
    folder, sources = code(tmp_path / "one"), DiskSources(tmp_path)
    (folder / "two words.py").write_text("")
    with pytest.raises(ReconcilerError, match="is not a valid name in a submission tree"):
        sources.list_files(["one"])
    (folder / "two words.py").unlink()
    (folder / "link").symlink_to("main.py")
    with pytest.raises(ReconcilerError, match="symbolic link"):
        sources.list_files(["one"])
    (folder / "link").unlink()
    with (folder / "big.bin").open("wb") as stream:
        stream.truncate(LARGEST + 1)
    with pytest.raises(ReconcilerError, match="a submission tree allows 50 MB"):
        sources.list_files(["one"])
    with pytest.raises(ReconcilerError, match="no such folder"):
        sources.list_files(["none"])
    with pytest.raises(ReconcilerError, match="is not there"):
        sources.read_document("none.md", "documents.calibration")
    with pytest.raises(ReconcilerError, match="two published files"):
        sources.list_files(["one/main.py", "one/main.py"])


def test_licences() -> None:
    header = b"# SPDX-License-Identifier: Apache-2.0\n"
    assert find_unlicensed({"a.py": b"x", "README.md": b"x"}) == ("a.py",)
    assert find_unlicensed({"a.py": header, "b.cu": b"// " + header, "empty.py": b""}) == ()
    assert find_unlicensed({"a.py": b"x", "lib/b.py": b"x", "LICENSE.txt": b"x"}) == ()
    assert find_unlicensed({"a.py": b"x", "harness/b.py": b"x", "harness/LICENSE": b"x"}) == ("a.py",)


SRC = "open/ACME/src/digits/"


ONE, OTHER = {"run.py": b"one\n", "lib/a.py": b"a\n"}, {"run.py": b"other\n"}


def src(submission: SubmissionContent, ruleset: Ruleset, *codes: CellCode) -> dict[str, Any]:
    tree = dict(render(replace(submission, kept_code=codes), ruleset))
    return {path.removeprefix(SRC): content for path, content in tree.items() if path.startswith(SRC)}


def kept(scenario: str, files: dict[str, bytes], **more: Any) -> CellCode:
    return CellCode(Cell("open", "box", "digits", scenario), "resnet", files, tool="mlperf-reconciler 0.1.0", **more)


def test_cells_with_one_code_share_the_folder(submission: SubmissionContent, ruleset: Ruleset) -> None:
    more = {**ONE, "lib/b.py": b"b\n"}
    found = src(submission, ruleset, kept("Offline", ONE), kept("SingleStream", more))
    assert {name: found[name] for name in more} == more
    assert set(found) == {*more, "README.md", "REPRODUCE.md"}


def test_two_versions_of_code_are_apart_with_their_cells(submission: SubmissionContent, ruleset: Ruleset) -> None:
    found = src(submission, ruleset, kept("Offline", ONE), kept("SingleStream", OTHER))
    folders = sorted({name.partition("/")[0] for name in found if "/" in name})
    assert sorted(found[f"{folder}/run.py"] for folder in folders) == [b"one\n", b"other\n"]
    assert found["REPRODUCE.md"].count(b"\n## open/box/digits/") == 2
    again = src(submission, ruleset, kept("SingleStream", OTHER), kept("Offline", ONE))
    assert {name for name in again if name != "REPRODUCE.md"} == {name for name in found if name != "REPRODUCE.md"}


def test_what_the_code_brings_of_its_own_is_not_written_over(submission: SubmissionContent, ruleset: Ruleset) -> None:
    found = src(submission, ruleset, kept("Offline", {"README.md": b"theirs\n", "run.py": b""}))
    assert found["README.md"] == b"theirs\n"


def test_own_harness_is_repeated_by_a_selector_with_units(submission: SubmissionContent, ruleset: Ruleset) -> None:
    settings, digests = {"engine": {"backend": "null"}, "target_latency": "15 ms"}, {"model.onnx": "ab" * 32}
    cell = kept("Server", ONE, settings=settings, extras=("openvino", "language"), digests=digests)
    text = src(submission, ruleset, cell)["REPRODUCE.md"].decode()
    (install,) = [line for line in text.splitlines() if "pip install" in line]
    assert shlex.split(install)[-1] == "mlperf-reconciler[language,openvino]==0.1.0"
    (apply,) = [line for line in text.splitlines() if line.startswith("reconcile apply")]
    assert shlex.split(apply)[2:] == ["division=open", "system=box", "benchmark=digits", "scenario=Server"]
    spec = read(text.partition("```yaml\n")[2].partition("```")[0])["spec"]
    assert spec["benchmarks"]["digits"] == settings
    assert spec["divisions"] == {"open": {"box": {"digits": {"Server": {}}}}}
    assert f"\n{'ab' * 32}  model.onnx\n" in text


def follow_copies(text: str, src: Path, folder: Path) -> None:
    lines = [line for line in text.splitlines() if line.startswith("mkdir")]
    folder.mkdir()
    subprocess.run(["bash", "-euc", "\n".join(lines)], cwd=folder, env={**os.environ, "SRC": str(src)}, check=True)


@pytest.mark.parametrize("stated", [True, False])
def test_a_folder_of_code_is_copied_without_what_is_published_next_to_it(
    submission: SubmissionContent, ruleset: Ruleset, tmp_path: Path, stated: bool
) -> None:
    ours = {"run.py": b"one\n", "lib/a.py": b"a\n", "build/b.py": b"b\n"}
    files = {**ours, "mine.py": b"", "left-out.txt": b"", "service/serve.py": b"", "configs/a/b/c.yaml": b""}
    places = {"benchmarks/mine.py": "", "ours": "", "server": "service/", "settings": "configs/"}
    listing = hash_listing({name: hash_bytes(data) for name, data in ours.items()})
    digests = {"Run performance: harness.code.sha256": listing} if stated else {}
    settings = {"harness": {"command": ["run"]}}
    cell = kept("Offline", files, places=places, settings=settings, digests=digests)
    found = src(replace(submission, code={"digits": {"docs/more.md": b""}}), ruleset, cell)
    for name, content in found.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    follow_copies(found["REPRODUCE.md"].decode(), tmp_path / "src", tmp_path / "empty")
    copied = {path.relative_to(tmp_path / "empty").as_posix() for path in (tmp_path / "empty").rglob("*.*")}
    others = {"benchmarks/mine.py", "server/serve.py", "settings/a/b/c.yaml"}
    assert copied == {*others, *(f"ours/{name}" for name in ours)}


def test_exactly_what_ran_is_installed_from_the_list_of_a_cell(submission: SubmissionContent, ruleset: Ruleset) -> None:
    cells = [kept("Offline", ONE), kept("Server", ONE, lists_software=True)]
    text = src(submission, ruleset, *cells)["REPRODUCE.md"].decode()
    (install,) = [line for line in text.splitlines() if "--no-deps" in line]
    assert shlex.split(install)[3] == "$SRC/../../*/box/digits/Server/README.md"


@pytest.mark.parametrize(
    ("backend", "code", "extras"),
    [
        ("onnxruntime", "bert", {"cpu", "bert"}),
        ("onnxruntime", "unet3d_brats", {"cpu", "unet3d"}),
        ("", "", {"loadgen"}),
    ],
)
def test_extras_are_those_of_backend_engine_and_benchmark(backend: str, code: str, extras: set[str]) -> None:
    assert set(list_extras(CellSettings({"engine.backend": backend, "benchmark.code": code}))) == extras


def test_cells_of_one_code_are_one_spec_and_say_what_differs(submission: SubmissionContent, ruleset: Ruleset) -> None:
    own = {"Offline": {"batch_size": 8}, "SingleStream": {"batch_size": 1}}
    cells = [kept(name, ONE, settings={"as": "resnet", "engine": engine}) for name, engine in own.items()]
    text = src(submission, ruleset, *cells)["REPRODUCE.md"].decode()
    spec = read(text.partition("```yaml\n")[2].partition("```")[0])["spec"]
    assert spec["benchmarks"] == {"digits": {"as": "resnet"}}
    found = spec["divisions"]["open"]["box"]["digits"]
    assert found == {name: {"engine": {"batch_size": str(engine["batch_size"])}} for name, engine in own.items()}


MADE = {
    "precision": "int8",
    "samples": 500,
    "document": "# Calibration\n\nPost-training quantization to int8.\n",
    "comparison": {"x": 1.0, "cosine": 0.999},  # floats, as a child measures them
}


def test_models_that_were_made_alike_share_a_section() -> None:
    one = Calibration(("closed/box/resnet/Offline",), "resnet", "int8", {"precision": "int8"}, MADE, "ab" * 32)
    other = Calibration(("closed/box/resnet/Server",), "resnet", "int8", {"precision": "int8"}, MADE, "ab" * 32)
    third = Calibration(
        ("closed/small/resnet/Offline",), "resnet", "int8", {"precision": "int8"}, {**MADE, "samples": 9}
    )
    text = render_calibration([third, other, one]).decode()
    assert text.count("## resnet") == 2
    assert "Of closed/box/resnet/Offline and closed/box/resnet/Server." in text
    assert "- samples: 500" in text
    assert text.count("Post-training quantization to int8.") == 2
    assert text.count("# Calibration\n") == 1
    assert "comparison" not in text
    assert render_calibration([one, other, third]) == render_calibration([third, other, one])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_named_code_exists(name: str) -> None:
    named = re.findall(r"`(.+)`", describe_code(CellSettings({"benchmark.code": name})))
    assert bool(named) is not BENCHMARKS[name].elsewhere
    assert all(importlib.util.find_spec(module) for module in named)
