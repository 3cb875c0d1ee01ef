from pathlib import Path

from reconciler.execute.attempt_record import describe_artifact
from reconciler.record.store import find_artifact, keep
from reconciler.resource.records import LOG_LIMIT
from reconciler.rules.results.format import KeptFile
from reconciler.storage.files import RepositoryPaths


def test_artifact_of_names_the_place_where_the_store_keeps_it(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    for size in (LOG_LIMIT, LOG_LIMIT + 1):
        log = tmp_path / f"log-{size}"
        log.write_bytes(b"x" * size)
        artifact = describe_artifact(KeptFile(log, "mlperf_log_detail.txt", in_git=True))
        assert keep(paths, log, artifact.name, in_git=True) == artifact
        assert find_artifact(paths, artifact.place, artifact.sha256).is_file()
