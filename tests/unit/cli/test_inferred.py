"""Inferred cells in a whole pass: nothing is run for them, they follow their source, and the round has a say."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.loadgen.log import parse_detail

from .conftest import SPEC, Reconcile, edit, git

FOLDER = ".reconcile/tree/open/Tester/results/box/digits"
TWO = """\
          SingleStream: {min_duration: 0, min_query_count: 700}
          MultiStream: {infer_from: SingleStream}
          Offline: {infer_from: SingleStream}
"""
DETAIL = "performance/run_1/mlperf_log_detail.txt"


@pytest.fixture
def inferring(declared: Path) -> Path:
    path = declared / "specs/one.yaml"
    path.write_text(SPEC.replace("          Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}\n", TWO))
    return declared


def test_an_inferred_cell_follows_its_source(inferring: Path, reconcile: Reconcile) -> None:
    addresses = [step["address"] for step in reconcile.report("plan")["steps"]]
    assert not [a for a in addresses if a.startswith(("Run:", "Score:")) and "Offline" in a]
    reconcile.succeed()
    assert reconcile("plan")[0] == 0
    single, offline = inferring / FOLDER / "SingleStream", inferring / FOLDER / "Offline"
    for name in (DETAIL, "user.conf", "accuracy/accuracy.txt", "measurements.json"):
        assert (offline / name).read_bytes() == (single / name).read_bytes()
    assert "**Inferred**" in (offline / "README.md").read_text()
    cells = {cell["cell"].rpartition("/")[2]: cell for cell in reconcile.report("status")["cells"]}
    assert ("inferred" in cells["Offline"]["marks"], "inferred" in cells["SingleStream"]["marks"]) == (True, False)
    log = parse_detail((single / DETAIL).read_bytes())
    rate, estimate = log.get("result_qps_without_loadgen_overhead"), log.get("early_stopping_latency_ms")
    assert (float(cells["Offline"]["metric"]["value"]), cells["Offline"]["metric"]["unit"]) == (
        float(rate),
        "samples/s",
    )
    assert cells["MultiStream"]["metric"] == {"value": 8 * estimate / 10**6, "unit": "ms"}
    assert cells["SingleStream"]["metric"]["unit"] == "ms"
    edit(inferring, "min_query_count: 700", "min_query_count: 720")
    assert reconcile("plan")[0] == 2
    before = (offline / DETAIL).read_bytes()
    assert reconcile()[0] == 0
    assert (offline / DETAIL).read_bytes() == (single / DETAIL).read_bytes() != before


def test_an_audit_proves_an_inferred_cell_by_the_runs_of_its_source(inferring: Path, reconcile: Reconcile) -> None:
    edit(inferring, "min_query_count: 700", "min_query_count: 700, compliance: {TEST04: {attempts: 10}}")
    assert reconcile()[0] == 0
    (inferring / ".gitignore").write_text(".reconcile/\n")
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Record")):
        git(inferring, *command)
    claims = reconcile.report("audit", ends=0)["claims"]
    proofs = {(c["where"].rpartition("/")[2], c["what"]): c["proof"] for c in claims}
    assert proofs["Offline", "performance: metric"] == proofs["SingleStream", "performance: metric"] == "proven"
    assert proofs["Offline", "TEST04 verdict"] == proofs["SingleStream", "TEST04 verdict"] == "proven"


def test_what_the_round_does_not_infer(inferring: Path, reconcile: Reconcile) -> None:
    edit(inferring, "SingleStream: {min_d", "Server: {target_qps: 100, target_latency: 15 ms, min_d")
    edit(inferring, "          MultiStream: {infer_from: SingleStream}\n", "")
    edit(inferring, "infer_from: SingleStream", "infer_from: Server")
    assert "Offline is inferred from" in reconcile.refuse("validate")
    edit(inferring, "infer_from: Server", "infer_from: MultiStream")
    assert "open/box/digits/MultiStream is not declared" in reconcile.refuse("validate")


def test_only_on_edge_systems(inferring: Path, reconcile: Reconcile) -> None:
    edit(inferring, "category: edge", "category: datacenter")
    assert "on edge systems only" in reconcile.refuse("validate")


def test_published_code_and_documents(inferring: Path, reconcile: Reconcile) -> None:
    (inferring / "mine").mkdir()
    (inferring / "mine/run.py").write_text("print()\n")
    (inferring / "width.csv").write_text("1\n")
    edit(inferring, "      code: digits\n", "      code: digits\n      source: mine\n")
    edit(inferring, "  systems:\n", "  documents: {bandwidth: width.csv}\n  systems:\n")
    assert reconcile()[0] == 0
    top = inferring / ".reconcile/tree/open/Tester"
    assert (top / "src/digits/run.py").read_text() == "print()\n"
    assert (top / "documentation/bandwidth.csv").read_text() == "1\n"
    (inferring / "mine/run.py").write_text("print(2)\n")
    code, out, _ = reconcile("plan")
    assert (code, "Run " in out) == (2, False)
    assert reconcile()[0] == 0
    assert (top / "src/digits/run.py").read_text() == "print(2)\n"
