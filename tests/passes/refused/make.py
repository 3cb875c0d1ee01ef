"""Makes ``repository`` next to it: what a version leaves that refuses a run whose trace took LoadGen some seconds.

    python -m tests.passes.refused.make CHECKOUT

CHECKOUT is one of commit 9869616d, in an environment in which `python3` has LoadGen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec.structs import replace
from reconciler.files import RepositoryPaths

from reconciler.record.codec import decode
from reconciler.record.store import write_record
from reconciler.resource.kinds import ORDER
from reconciler.resource.records import Ended
from tests.passes.tracing import make_tracing

KEPT = Path(__file__).with_name("repository")
SETTINGS = "target_latency: 1 ms, min_query_count: 2000"


def make(checkout: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repository = make_tracing(Path(folder) / "repository", "python3", delay=8, settings=SETTINGS)
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        start = [sys.executable, "-P", "-c", "from reconciler.cli.main import main; main()", "apply", "--busy"]
        subprocess.run(start, cwd=repository.root, env=environment, check=False)
        shutil.rmtree(KEPT, ignore_errors=True)
        for name in ("specs", "benchmarks", "ours", "state"):
            shutil.copytree(repository.root / name, KEPT / name)
        shutil.rmtree(KEPT / "state" / "records")
        named: dict[str, str] = {}
        records = [(p, decode(p.read_bytes(), p.name)) for p in repository.paths.records.glob("*/*.json")]
        for path, record in sorted(records, key=lambda item: ORDER[item[1].address.kind]):
            facts = {name: fact for name, fact in record.facts.items() if not name.startswith("machine.")}
            upstream = {name: named[identity] for name, identity in record.upstream.items()}
            copied = replace(record, facts=facts, upstream=upstream)  # the machine is none of anybody's business
            named[f"{path.parent.name}/{path.stem}"] = write_record(RepositoryPaths(KEPT), copied)
            for artifact in record.artifacts if record.ended is Ended.FAILED else ():
                # Its logs are in the store alone, which git does not take: here they are, under another name.
                (KEPT / "objects").mkdir(exist_ok=True)
                shutil.copy(repository.object_path(artifact.sha256), KEPT / "objects" / artifact.sha256)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
