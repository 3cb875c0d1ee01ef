from pathlib import Path

from reconciler.execute.finish import Kept, artifact_of
from reconciler.files import Places
from reconciler.record.store import artifact_path, keep
from reconciler.resource.records import LOG_LIMIT


def test_artifact_of_names_the_place_where_the_store_keeps_it(tmp_path: Path) -> None:
    places = Places(tmp_path)
    for size in (LOG_LIMIT, LOG_LIMIT + 1):
        log = tmp_path / f"log-{size}"
        log.write_bytes(b"x" * size)
        artifact = artifact_of(Kept(log, "mlperf_log_detail.txt", in_git=True))
        assert keep(places, log, artifact.name, in_git=True) == artifact
        assert artifact_path(places, artifact.place, artifact.sha256).is_file()
