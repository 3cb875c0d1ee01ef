"""The only module that starts processes. A child has its own session and an allow-listed environment, and dies with its
parent."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.storage_errors import refuse_storage_error

CHOSEN_DEVICES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# Environment variables that a child may see; all others, above all secrets, are withheld.
ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"),
    *CHOSEN_DEVICES,
)
FIXED = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",  # LoadGen writes local time but labels it Z
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


# Environment variables that launchers read; children on this machine get none of them.
LAUNCHERS = (
    *("SLURM", "SALLOC_", "SRUN_", "PMI", "OMPI_", "PRTE_", "PBS_", "LSB_", "FLUX_", "KUBE", "DOCKER_", "CONTAINER"),
    *("PODMAN", "ENROOT_", "PYXIS_", "SSH_AUTH_SOCK", "KRB5CCNAME", "XDG_RUNTIME"),
)


def build_child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Build the complete environment of a child. ``RECONCILE_PARENT`` lets it detect that its parent has already
    ended."""
    passed = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    return {**passed, **FIXED, "RECONCILE_PARENT": str(os.getpid()), **(extra or {})}


def build_launcher_environment() -> dict[str, str]:
    """Build the environment of a launcher, including the variables that it reads itself. The parent of its children is
    not our process, and may be on another machine with other devices than those selected here."""
    environment = build_launched_environment()
    del environment["RECONCILE_PARENT"]
    return environment


def build_elsewhere_environment() -> dict[str, str]:
    """Build the environment of a child behind a launcher: the variables that it needs regardless of those set there,
    and the name of this pass."""
    return {**FIXED, "RECONCILE_LAUNCHED": "1", "RECONCILE_PASS": f"{platform.node()}-{os.getpid()}"}


def build_launched_environment() -> dict[str, str]:
    """Build the environment of a child that starts a launcher."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(LAUNCHERS)}
    environment = build_child_environment(variables)
    return {name: value for name, value in environment.items() if name not in CHOSEN_DEVICES}


def build_harness_command(
    verb: str, request: Path, result: Path, python: str = "", module: Sequence[str] = ("harness",)
) -> list[str]:
    """Build the command. ``-P`` keeps the working directory off the import path, so that a user's own ``harness``
    folder cannot shadow ours. ``python``: an interpreter elsewhere; "" for this one. ``module``: the module with its
    first arguments."""
    return [python or sys.executable, "-P", "-m", *module, verb, str(request), str(result)]


class Child:
    """A running child process whose output goes to a file. As a context manager, it ends the child on exit."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        log: Path,
        environment: Mapping[str, str],
        keep_open: Sequence[int] = (),
    ) -> None:
        with log.open("ab") as output:
            # This process keeps the pipe's other end: end of file ends an orphan if the kernel cannot kill it.
            self._process = subprocess.Popen(
                list(command),
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=tuple(keep_open),
            )
        self.pid = self._process.pid

    def wait(self, seconds: float) -> int | None:
        """Return the exit status once it has ended, None after ``seconds``. A negative status is the signal that ended
        it."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def report(self, data: bytes) -> None:
        """Send the child a few bytes on its standard input, which stays open."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(data)
                self._process.stdin.flush()

    def stop(self, grace: float = 2.0) -> None:
        """Ask the whole session to end, then force it."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            give_up = time.monotonic() + grace
            while self._process.poll() is None and time.monotonic() < give_up:
                time.sleep(0.02)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


def call(command: Sequence[str], *, folder: Path, stdin: bytes, limit: float) -> None:
    """Run a hook to its end. Raises ReconcilerError if it cannot be started, takes longer than ``limit`` seconds or
    ends with a status other than 0."""
    try:
        ended = subprocess.run(
            list(command),
            cwd=folder,
            env=build_child_environment(),
            input=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ReconcilerError(f"{command[0]}: not ended after {limit:g} s", fix="let it hand long work on") from None
    except OSError as error:
        refuse_storage_error(error, Path(command[0]))
        raise ReconcilerError(f"{command[0]}: {error.strerror}", fix="use an executable program") from error
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-200:]
        raise ReconcilerError(f"{command[0]}: ended with {ended.returncode} {said}".rstrip(), fix="see its output")


class ChildEnd(Struct, frozen=True):
    """The end of a short program, with its output and its errors."""

    status: int
    out: bytes
    error: str


def ask(command: Sequence[str], limit: float) -> ChildEnd:
    """Run a short cluster query with the environment variables that its programs read. It never raises: the status is
    127 if the program is missing, 124 if it takes longer than ``limit`` seconds."""
    return _run_short(command, build_launched_environment(), b"", limit)


# Environment variables that change where Python imports packages from; children get none of them.
_IMPORTING = ("PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE")


def list_import_folders() -> list[str]:
    """List the folders from which children with this interpreter import packages, in their order. It starts one only if
    this process has other folders. Raises ReconcilerError if it cannot."""
    if any(os.environ.get(name) for name in _IMPORTING):
        return _list_folders_of_child()
    return list(filter(None, sys.path))


@functools.cache
def _list_folders_of_child() -> list[str]:
    command = [sys.executable, "-P", "-c", "import json, sys; print(json.dumps(sys.path))"]
    ended = _run_short(command, build_child_environment(), b"", 60)
    if ended.status:
        fix = f"run {sys.executable} without {', '.join(_IMPORTING)}, as its children do"
        raise ReconcilerError(f"{sys.executable} does not start: {ended.error.strip()[-200:]}", fix=fix)
    folders: list[str] = json.loads(ended.out)
    return folders


# Environment variables that pip reads: the index and how to reach it.
_INDEX = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")


def run_pip(arguments: Sequence[str], limit: float, more: Mapping[str, str] = MappingProxyType({})) -> ChildEnd:
    """Run this interpreter's pip, never a local ``pip.py``, to its end, with the statuses of ``ask``. ``more``:
    variables for the packages that it builds."""
    index = {name: value for name, value in os.environ.items() if name.startswith(_INDEX)}
    with open_temporary("pip") as scratch:
        environment = build_child_environment({**index, **more, "TMPDIR": str(scratch)})
        return _run_short([sys.executable, "-P", "-m", "pip", *arguments], environment, b"", limit)


# Environment variables that signing programs and their agents read.
_KEYS = ("SSH_AUTH_SOCK", "GNUPGHOME", "GPG_AGENT_INFO", "XDG_RUNTIME_DIR", "SSH_SK_PROVIDER")


def run_signing_program(command: Sequence[str], stdin: bytes, limit: float) -> ChildEnd:
    """Run a signing program to its end. It never raises: the status is 127 if the program is missing, 124 if it takes
    longer than ``limit`` seconds. It has no terminal, so that it cannot wait for a passphrase."""
    keys = {name: os.environ[name] for name in _KEYS if name in os.environ}
    return _run_short(command, build_child_environment(keys), stdin, limit)


_MOST_SAID = 64 << 20  # bytes; anything longer is not an answer
_PIECE = 1 << 16


def _run_short(command: Sequence[str], environment: Mapping[str, str], stdin: bytes, limit: float) -> ChildEnd:
    """Run a program to its end; the status is 125 for too much output. An unfinished program is ended with all its
    children."""
    try:
        process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        refuse_storage_error(error, Path(command[0]))
        return ChildEnd(127, b"", f"{command[0]}: {error.strerror}")
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    give_up = time.monotonic() + limit
    out, said = bytearray(), bytearray()
    threads = [
        threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True),
        threading.Thread(target=_drain, args=(process.stdout, out), daemon=True),
        threading.Thread(target=_drain, args=(process.stderr, said), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads[1:]:
            thread.join(max(0.0, give_up - time.monotonic()))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, give_up - time.monotonic()))
        late = process.returncode is None or any(thread.is_alive() for thread in threads[1:])
    finally:
        if process.returncode is None or any(thread.is_alive() for thread in threads):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if max(len(out), len(said)) > _MOST_SAID:
        return ChildEnd(125, b"", f"{command[0]}: wrote more than {_MOST_SAID >> 20} MiB")
    if late:
        return ChildEnd(124, b"", f"{command[0]}: not ended after {limit:g} s")
    return ChildEnd(process.returncode, bytes(out), said.decode(errors="replace").strip())


def _feed(stream: IO[bytes], data: bytes) -> None:
    """Write the input, which the program need not read."""
    with contextlib.suppress(OSError), stream:
        stream.write(data)


def _drain(stream: IO[bytes], kept: bytearray) -> None:
    """Read the output; excess output is cut off, and its writer ends with a broken pipe."""
    with stream:
        while len(kept) <= _MOST_SAID and (piece := os.read(stream.fileno(), _PIECE)):
            kept += piece


def explain_signal(number: int, relief: str = "") -> str:
    """Explain the usual reason for this signal, and what helps. ``relief``: how to use less memory."""
    if number == signal.SIGKILL:
        return f"signal 9 usually means that the kernel ran out of memory{relief and ': '}{relief}"
    name = _NAMES.get(number, f"signal {number}")
    if number in _FAULTS:
        return f"{name} is a crash in the program or one of its libraries; see its last output"
    if number in _REQUESTS:
        return f"{name} is a request to stop, such as from a shutdown, a batch system or a user; run again"
    return f"find the sender of {name}"


_NAMES = {number.value: f"signal {number.value} ({number.name})" for number in signal.Signals}
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP)
_REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
