"""Attempts that travel through an S3 of our own on the loopback interface; needs the extra dev-s3."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from harness.contract import Result
from reconciler.execute.executors.executor import State
from reconciler.execute.executors.job_script import TWICE
from reconciler.resource.settings import StoreSettings
from reconciler.stores.manifest import AttemptStore
from reconciler.stores.remote import open_remote
from reconciler.stores.sender import StoreTransport
from tests.shared import need
from tests.unit.stores.test_remote_attempts import Lab, lab

need("s3fs")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    server = pytest.importorskip("moto.server")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries themselves
__all__ = ["lab"]  # a fixture


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    monkeypatch.setenv("S3_SECRET", "test")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield {"key": "test", "secret": ("from_env", "S3_SECRET"), "endpoint_url": f"http://{host}:{port}"}
    running.stop()


def test_attempt_travels_through_s3_and_leaves_no_note_there(lab: Lab, options: dict[str, Any]) -> None:
    store = StoreSettings("s3://lab/objects", options)
    remote = open_remote(store.url, options)
    remote.system.mkdir("lab")
    attempt = lab.begin()
    executor, handle = lab.submit(attempt, StoreTransport(lab.paths, {"lab": AttemptStore(store)}))
    assert [lab.run_job(), lab.run_job()] == [0, TWICE]
    lab.queue.ended = True
    assert executor.poll(handle).state is State.ENDED
    assert Result.read(attempt.result).done
    executor.harvest(handle)
    assert not [path for path in remote.system.find("lab") if "attempts" in path]
