"""Objects to and from an S3 of our own on the loopback interface; needs the extra dev-s3."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import StoreError
from reconciler.record.store import find_object
from reconciler.storage.files import RepositoryPaths
from reconciler.stores.remote import open_remote
from reconciler.stores.transfer import TransferStatus
from tests.shared import need

from .test_transfer import fates, made, pulled, pushed

need("s3fs")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    server = pytest.importorskip("moto.server")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries themselves


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Any]]:
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
    running.stop()


@pytest.fixture
def bucket(options: dict[str, Any], request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("_", "-").strip("[]")[:50].lower()
    open_remote("s3://x/y", options).system.mkdir(name)
    return name


def test_objects_pass_through_s3_and_a_large_one_in_parts(tmp_path: Path, options: dict[str, Any], bucket: str) -> None:
    here, elsewhere = RepositoryPaths(tmp_path / "here"), RepositoryPaths(tmp_path / "elsewhere")
    large = bytes(range(256)) * (110 << 12)  # 110 MiB: two parts and more
    items = made(here, tmp_path, b"one", large)
    remote = open_remote(f"s3://{bucket}/folder", options)
    assert remote.list_files() == {}
    assert remote.get_size(items[0].sha256) is None
    assert fates(pushed(here, remote, items)) == [TransferStatus.MOVED] * 2
    assert remote.list_files() == {item.sha256: item.size for item in items}
    assert fates(pushed(here, remote, items)) == [TransferStatus.PRESENT] * 2
    elsewhere.incoming.mkdir(parents=True)
    (elsewhere.incoming / items[1].sha256).write_bytes(large[: 50 << 20])
    assert fates(pulled(elsewhere, remote, items)) == [TransferStatus.MOVED] * 2
    assert find_object(elsewhere, items[1].sha256).read_bytes() == large
    remote.system.pipe_file(remote.find_path(items[0].sha256), b"eno")
    assert fates(pulled(RepositoryPaths(tmp_path / "third"), remote, items[:1])) == [TransferStatus.WRONG]
    remote.system.rm_file(remote.find_path(items[0].sha256))
    assert fates(pulled(RepositoryPaths(tmp_path / "fourth"), remote, items[:1])) == [TransferStatus.ABSENT]


def test_a_bucket_that_is_not_there_is_named_and_not_made(tmp_path: Path, options: dict[str, Any]) -> None:
    items = made(RepositoryPaths(tmp_path), tmp_path, b"one")
    remote = open_remote("s3://nowhere/folder", options)
    with pytest.raises(StoreError, match="does not exist") as raised:
        pushed(RepositoryPaths(tmp_path), remote, items)
    assert "bucket" in raised.value.fix
    with pytest.raises(StoreError, match="does not exist"):
        pulled(RepositoryPaths(tmp_path / "other"), remote, items)


def test_missing_credentials_and_a_server_that_is_gone_are_distinguished(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    items = made(RepositoryPaths(tmp_path), tmp_path, b"one")
    no_one = open_remote("s3://bucket/folder", {"endpoint_url": options["endpoint_url"]})
    with pytest.raises(StoreError, match="refuses") as raised:
        pulled(RepositoryPaths(tmp_path / "other"), no_one, items)
    assert "credentials" in raised.value.fix
    gone = open_remote("s3://bucket/folder", {**options, "endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(StoreError, match="does not answer"):
        pulled(RepositoryPaths(tmp_path / "other"), gone, items)
