"""The jobs API of Ray's dashboard over HTTP. The submitting machine needs no Ray installation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

from reconciler.errors import ReconcilerError
from reconciler.execute.executors.queue_executor import QueueSilentError
from reconciler.storage.json_files import parse_json

_DEFAULT = "http://127.0.0.1:8265"
_LIMIT = 30.0  # seconds that the dashboard may take to answer
_PIECE, _MOST = 65_536, 64 << 20  # maximum bytes of an answer: per read, and in total
_LONGEST = 300  # characters of the dashboard's message to show


def find_address(declared: str, environment: Mapping[str, str] = os.environ) -> str:
    """Find the dashboard's address; if the spec declares none, search for it as Ray's own client does."""
    found = (declared, environment.get("RAY_API_SERVER_ADDRESS", ""), environment.get("RAY_ADDRESS", ""))
    return next((address for address in found if address.startswith(("http://", "https://"))), _DEFAULT).rstrip("/")


def list_jobs(address: str) -> list[dict[str, object]]:
    """List all jobs that it knows, including those of other users."""
    status, answer = _ask(address, "GET", "/api/jobs/")
    if status != 200:
        raise QueueSilentError(_describe(status, answer))
    try:
        found = parse_json(answer)
    except ValueError as error:
        raise QueueSilentError(f"{address} is not Ray's dashboard") from error
    return [job for job in found if isinstance(job, dict)] if isinstance(found, list) else []


def submit_job(address: str, job: Mapping[str, object]) -> bool:
    """Submit a job; return False if a job with its name exists. Raises ReconcilerError if Ray refuses it."""
    status, answer = _ask(address, "POST", "/api/jobs/", json.dumps(job).encode())
    if status == 200:
        return True
    if status == 400 and b"already exists" in answer:
        return False
    if status in (400, 401, 403, 404, 405, 415, 422):
        problem = f"Ray refuses the job: {_describe(status, answer)}"
        raise ReconcilerError(problem, fix="see executor.ray of the system, and its address")
    raise QueueSilentError(_describe(status, answer))


def stop_job(address: str, name: str) -> None:
    _ask(address, "POST", f"/api/jobs/{quote(name)}/stop")


def delete_job(address: str, name: str) -> None:
    """Delete an ended job, which frees its name."""
    _ask(address, "DELETE", f"/api/jobs/{quote(name)}")


def _ask(address: str, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    where = urlsplit(address)
    kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
    try:
        connection = kind(where.hostname or "", where.port, timeout=_LIMIT)
        try:
            connection.request(method, where.path + path, body, {"Content-Type": "application/json", **_authorise()})
            answer = connection.getresponse()
            return answer.status, _read(answer)
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as error:
        raise QueueSilentError(f"{address}: {error}") from error


def _read(answer: HTTPResponse) -> bytes:
    """Read an answer in pieces, since the timeout applies to each of them. Raises OSError."""
    give_up, data = time.monotonic() + _LIMIT, b""
    while piece := answer.read1(_PIECE):
        data += piece
        if len(data) > _MOST or time.monotonic() > give_up:
            raise TimeoutError("its answer has no end")
    return data


def _authorise() -> dict[str, str]:
    """Return the headers of Ray's own client: a token, and any that a proxy before the dashboard requires."""
    token = os.environ.get("RAY_AUTH_TOKEN", "")
    if not token and (path := os.environ.get("RAY_AUTH_TOKEN_PATH")):
        token = Path(path).read_text(encoding="utf-8").strip()
    try:
        more = json.loads(os.environ.get("RAY_JOB_HEADERS") or "{}")
    except ValueError:
        more = None
    if not isinstance(more, dict):
        raise ReconcilerError("RAY_JOB_HEADERS is not a JSON object", fix='write {"name": "value"}')
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return headers | {str(name): str(value) for name, value in more.items()}


def _describe(status: int, answer: bytes) -> str:
    """Return the last line of the answer, since errors arrive as complete tracebacks."""
    lines = answer.decode(errors="replace").strip().splitlines() or [""]
    return f"{lines[-1][:_LONGEST]} (HTTP {status})".lstrip()
