"""The power kit itself, where a checkout of it is named: its client, its server and its check, the whole way.

The analyzer's licensed daemon is a stand-in, and so is the time server, which needs a port of root's.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.resource.rules import Severity
from reconciler.verify.engine import verify_tree
from tests.cluster.lab import add_waiting
from tests.passes.repository import SPEC, make_repository
from tests.power.test_measured_passes import measured
from tests.processes import find_free_ports, wait_for
from tests.shared import need

need("mlperf_loadgen")
HERE = Path(__file__).parent
KIT = os.environ.get("RECONCILE_POWER_KIT", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not KIT, reason="RECONCILE_POWER_KIT names no checkout of mlcommons/power-dev"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a time server's port is root's"),
]
_CONF = """\
[server]
ntpServer: 127.0.0.1
listen: 127.0.0.1 {port}
[ptd]
ptd: {daemon}
[analyzer1]
networkPort: {meter}
deviceType: 49
interfaceFlag:
devicePort: /dev/null
"""


@pytest.fixture
def director(tmp_path: Path) -> Iterator[str]:
    port, meter = find_free_ports(2)
    daemon = tmp_path / "ptd"
    daemon.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "daemon.py"} "$@"\n')
    daemon.chmod(0o755)
    conf = tmp_path / "server.conf"
    conf.write_text(_CONF.format(port=port, daemon=daemon, meter=meter))
    server = [sys.executable, Path(KIT) / "ptd_client_server/server.py", "-c", conf]
    with (
        (tmp_path / "server.log").open("wb") as log,
        subprocess.Popen([sys.executable, HERE / "time_server.py"]) as clock,
        subprocess.Popen(server, cwd=tmp_path, stdout=log, stderr=log) as process,
    ):
        wait_for(lambda: b"Ready to accept connections" in (tmp_path / "server.log").read_bytes())
        yield f"127.0.0.1:{port}"
        process.terminate()
        clock.terminate()


def test_kit_measures_a_run_and_its_own_check_passes(tmp_path: Path, director: str) -> None:
    repository = make_repository(tmp_path / "lab")
    meter = f'{{director: "{director}", ntp: 127.0.0.1, kit: "{KIT}", analyzer: WT310}}'
    repository.edit(SPEC, "      status: available\n", f"      status: available\n      power: {meter}\n")
    # Long enough for samples of a second each, and for the kit to see which belong to the run.
    add_waiting(repository, 0.6)
    report = repository.reconcile()
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    power = measured(repository).values["power"]
    (checked,) = repository.objects_of("Run:open/box/tiny/Offline/performance", "power-check.txt")
    assert power["check"] == "passed", checked.read_text()
    assert power["watts"] == "200"
    assert repository.reconcile().outcomes == ()

    (samples,) = repository.paths.tree.rglob("run_1/spl.txt")
    assert found_of_power(repository.paths.tree) == set(), "what the kit and the daemon wrote is believed"
    before, texts = hashlib.sha1(samples.read_bytes()).hexdigest(), samples.read_text(encoding="utf-8")
    samples.write_text(texts.replace("Watts,200", "Watts,20"), encoding="utf-8")
    after = hashlib.sha1(samples.read_bytes()).hexdigest()
    for name in ("client.json", "server.json"):
        session = samples.parents[1] / "power" / name
        session.write_text(session.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    assert found_of_power(repository.paths.tree) == {("power.watts", Severity.ERROR)}


def found_of_power(tree: Path) -> set[tuple[str, Severity]]:
    return {(f.rule.id, f.severity) for f in verify_tree(tree).findings if f.rule.kind == "power"}
