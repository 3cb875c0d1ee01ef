"""The server of one run: started on a rendered repository, awaited and ended; or a running one."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

import harness
from harness.backends import BackendEngine, LoadPlan
from harness.backends.triton.protocol import SHARED, SharedInputs, find_differences, get, post, read_problem
from harness.backends.triton.repository import MODEL, list_policies, read_settings, write_repository
from harness.catalog import TritonRunOptions
from harness.child.piped_process import end_process
from harness.contract import LOG_PARTS, show_install
from harness.errors import HarnessError, ProblemClass
from harness.machine.numa import find_ranges
from harness.machine.placement import WorkerPlace
from harness.verbs.command import SERVICE_LOG

_LOOK = 0.05  # seconds
_ASKED = 30.0  # seconds that a server has to describe itself
_LINES, _ERRORS, _LONGEST = 12, 4, 600  # lines of output and of errors shown with a failure; characters per line
_END = 1 << 16  # bytes read to find these lines
_ERROR = re.compile(r"E\d{4} |error:")
_DYING = 2.0  # seconds between a broken connection and the end of its process
_ENDING = 10.0  # seconds that it has for an orderly end
_REGIONS = "mlperf_triton_"  # regions of shared memory: the Python backend's, and inputs
_TRIES = 3  # tries, since another process may take a port before the server starts
_TAKEN = "Address already in use"
_FIX = "see the server's log; the next pass starts or queries it again"


@dataclass(slots=True)
class TritonServer:
    """``process``: its process, if this run started it. ``grpc``: its port for gRPC, 0 if unknown."""

    host: str
    port: int
    model: str
    timeout: float
    log: Path
    grpc: int = 0
    process: subprocess.Popen[bytes] | None = None
    folder: Path | None = None
    version: str = ""
    regions: str = ""
    kept: Path | None = None

    @property
    def name(self) -> str:
        return f"http://{self.host}:{self.port}"

    def explain(self, problem: str, fix: str = _FIX, kind: ProblemClass = "backend") -> HarnessError:
        """Describe a failure, with the end of the process and its last output."""
        ended = self._find_end() if kind == "resources" else None
        if ended is not None:
            problem = f"the server ended with {f'signal {-ended}' if ended < 0 else f'status {ended}'} ({problem})"
        said = self._read_last_lines()
        text = f"{self.name}: {problem}" + (f"; the server's last output:\n{said}" if said else "")
        return HarnessError(text, kind, fix)

    def explain_broken(self, error: BaseException) -> HarnessError:
        if isinstance(error, TimeoutError):
            fix = "raise run.options.timeout_s for a slow model"
            return self.explain(f"no answer within {self.timeout:g} s", fix, "resources")
        if isinstance(error, ValueError):
            return self.explain(str(error), "check the address: is it Triton's HTTP port?")
        return self.explain(f"the connection was lost ({type(error).__name__}: {error})", _FIX, "resources")

    def ask(self, path: str) -> dict[str, Any]:
        """Request a document. Raises HarnessError if that fails."""
        try:
            status, text = get(self.host, self.port, path, _ASKED)
        except OSError as error:
            raise self.explain(f"the server does not answer ({error})", _FIX, "resources") from error
        if status != 200:
            raise self.explain(f"HTTP {status} for {path}: {read_problem(text.encode())}", "check the model's name")
        try:
            found: dict[str, Any] = dict(json.loads(text).items())
        except (ValueError, AttributeError, RecursionError) as error:
            fix = "check the address: is it Triton's HTTP port?"
            raise self.explain(f"{path} is not a document: {text[:80]!r}", fix, "input") from error
        return found

    def check(self, engine: BackendEngine, batch_size: int) -> None:
        """Raise HarnessError if the server does not serve the model, or serves another model under its name."""
        self.version = str(self.ask("/v2").get("version", ""))
        path = f"/v2/models/{quote(self.model, safe='')}"
        try:
            metadata = self.ask(path)
        except HarnessError as error:
            if "HTTP 40" not in error.problem:
                raise
            fix = "set run.options.model to the server's name for the model"
            raise self.explain(f"the server has no model {self.model}", fix, "input") from error
        try:
            differs = find_differences(metadata, engine.inputs, engine.outputs)
            largest = int(self.ask(f"{path}/config").get("max_batch_size", 0))
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            fix = "check the address: is it Triton's HTTP port?"
            problem = f"{path} does not describe a model ({type(error).__name__}: {error})"
            raise self.explain(problem, fix, "input") from error
        if differs:
            fix = "serve the model of this benchmark, or fix run.options.model or url"
            raise self.explain(f"{self.model} is another model: {differs}", fix, "input")
        if largest < batch_size:
            fix = (
                f"set run.batch_size to {largest}, or raise max_batch_size there"
                if largest
                else "enable batching on the server"
            )
            raise self.explain(f"{self.model} takes batches of {largest}, not {batch_size}", fix, "input")

    def share(self, stream: int, samples: Sequence[np.ndarray], batch_size: int) -> SharedInputs | None:
        """Share memory for the inputs of a stream; None if there is no room for it, or the server refuses it."""
        name = f"{self.regions}inputs_{stream}"
        try:
            made = SharedInputs(name, samples, batch_size)
        except OSError:
            return None
        asked = {"key": f"/{name}", "offset": 0, "byte_size": made.size}
        try:
            status, _ = post(self.host, self.port, f"/v2/systemsharedmemory/region/{name}/register", asked, _ASKED)
        except OSError:
            status = 0
        if status != 200:
            made.close()
        return made if status == 200 else None

    def close(self) -> None:
        """End a server that this run started, and keep its output with the run's logs."""
        if self.process is None or self.folder is None:
            return
        self.process.terminate()
        end_process(self.process, _ENDING)
        if self.kept is not None and self.log.is_file():
            with self.kept.open("ab") as out, self.log.open("rb") as stream:
                shutil.copyfileobj(stream, out)
        remove_regions(self.regions)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _find_end(self) -> int | None:
        if self.process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(_DYING)
        return None

    def _read_last_lines(self) -> str:
        """Read the errors, if any, since tables of settings follow them; otherwise the last lines."""
        if not self.log.is_file():
            return ""
        with self.log.open("rb") as stream:
            stream.seek(max(0, self.log.stat().st_size - _END))
            lines = stream.read().decode(errors="replace").splitlines()
        wrong = [line[:_LONGEST] for line in lines if _ERROR.match(line)]
        return "\n".join(wrong[-_ERRORS:] or lines[-_LINES:])


def find_server(plan: LoadPlan, engine: BackendEngine, folder: Path) -> TritonServer:
    """Find the server at the spec's address, or the one of harness.service; otherwise start one on a repository
    rendered from the engine in ``folder``."""
    options = TritonRunOptions(plan.options)
    url = options.url or plan.service_url
    if not url:
        return _start(plan, options, engine, folder)
    at = urlsplit(url.strip().removesuffix("/"))
    if at.scheme != "http" or not at.hostname or at.path:
        raise HarnessError(f"{url} is not a server address", "input", "write http://HOST:PORT")
    if not options.model:
        fix = "set run.options.model; POST /v2/repository/index of the server lists its models"
        raise HarnessError("run.options.model is not set", "input", fix)
    parts = [Path(plan.service_log, name) for name in LOG_PARTS] if plan.service_log else [Path()]
    log = next((path for path in reversed(parts) if path.is_file()), parts[0])  # the last part of its output
    port = at.port or 80
    found = TritonServer(at.hostname, port, options.model, options.timeout_s, log, grpc=options.grpc_port)
    _wait(found, options.ready_timeout_s)
    return found


def _start(plan: LoadPlan, options: TritonRunOptions, engine: BackendEngine, engine_folder: Path) -> TritonServer:
    program = find_program(options.server)
    if program is None:
        problem = (
            f"no tritonserver found at {options.server}" if options.server else "tritonserver is not installed here"
        )
        fix = f"{show_install('triton')}; or set run.options.server to its path, or run.options.url to its address"
        raise HarnessError(problem, "missing", fix)
    remove_left_regions()
    settings = read_settings(plan, engine)
    for attempt in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix="triton-", dir=plan.folder))
        write_repository(folder / "repository", engine, engine_folder, settings)
        policies = list_policies(engine, settings)
        grpc = options.protocol == "grpc"
        server = _launch(program, folder, options.timeout_s, plan.folder / SERVICE_LOG, policies, grpc=grpc)
        try:
            _wait(server, options.ready_timeout_s)
            return server
        except BaseException as error:
            server.close()
            if attempt + 1 == _TRIES or _TAKEN not in str(error):
                raise
    raise AssertionError("see the last attempt above")


def _launch(
    program: ServerProgram, folder: Path, timeout: float, kept: Path, policies: Mapping[str, WorkerPlace], *, grpc: bool
) -> TritonServer:
    ports = free_ports(2 if grpc else 1)
    regions = f"{_REGIONS}{os.getpid()}_{folder.name.removeprefix('triton-')}_"
    log = folder / "server.log"
    backends = make_backends(program, folder)
    words = [*list_arguments(folder / "repository", ports, regions, backends), *list_policy_arguments(policies)]
    command = [str(program.path), *words]
    environment = {**make_environment(program, dict(os.environ)), "RECONCILE_PARENT": str(os.getpid())}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.child.orphan", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return TritonServer(
        "127.0.0.1",
        ports[0],
        MODEL,
        timeout,
        log,
        grpc=ports[1] if grpc else 0,
        process=process,
        folder=folder,
        regions=regions,
        kept=kept,
    )


def list_arguments(repository: Path, ports: Sequence[int], regions: str, backends: Path | None) -> list[str]:
    """List the arguments of tritonserver: HTTP and, with a second port, gRPC on the loopback interface; one fixed
    model."""
    grpc = ["--grpc-address=127.0.0.1", f"--grpc-port={ports[1]}"] if len(ports) > 1 else ["--allow-grpc=false"]
    return [
        f"--model-repository={repository}",
        *([f"--backend-directory={backends}"] if backends else []),
        "--http-address=127.0.0.1",
        f"--http-port={ports[0]}",
        *grpc,
        "--allow-metrics=false",
        "--model-control-mode=none",
        "--disable-auto-complete-config",
        "--exit-on-error=true",
        "--exit-timeout-secs=5",
        f"--backend-config=python,shm-region-prefix-name={regions}",
    ]


def list_policy_arguments(policies: Mapping[str, WorkerPlace]) -> list[str]:
    """List the arguments that place the instances of each policy, memory and threads. Triton takes processors as
    ranges."""
    words = []
    for name, place in sorted(policies.items()):
        cores = ",".join(f"{first}-{last}" for first, last in find_ranges(place.processors))
        words += [f"--host-policy={name},numa-node={place.node}", f"--host-policy={name},cpu-cores={cores}"]
    return words


def _wait(server: TritonServer, longest: float) -> None:
    """Wait until the server and the model are ready. Raises HarnessError if the server ends first, or the time is
    up."""
    give_up = time.monotonic() + longest
    silent = ""
    while time.monotonic() < give_up:
        if server.process is not None and (status := server.process.poll()) is not None:
            ending = f"signal {-status}" if status < 0 else f"status {status}"
            raise server.explain(f"the server ended with {ending} before it was ready", "see its output")
        try:
            status, text = get(server.host, server.port, "/v2/health/ready", min(_ASKED, longest))
            if status == 200:
                return
            silent = f"HTTP {status} {read_problem(text.encode())}".strip()
        except OSError as error:
            silent = str(error)
        time.sleep(_LOOK)
    fix = "see its output; raise run.options.ready_timeout_s if it needs longer"
    raise server.explain(f"the server was not ready within {longest:g} s ({silent})", fix)


def free_ports(count: int) -> list[int]:
    """Find ports on this machine without a listener."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def remove_regions(prefix: str, shared: Path = SHARED) -> None:
    """Remove the shared memory of a server that did not end in order."""
    for path in shared.glob(f"{prefix}*") if prefix else ():
        path.unlink(missing_ok=True)


def remove_left_regions(shared: Path = SHARED) -> None:
    """Remove regions of our finished runs that killed servers left behind."""
    for path in shared.glob(f"{_REGIONS}*"):
        owner = path.name.removeprefix(_REGIONS).partition("_")[0]
        if owner.isdecimal() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


# The location and the environment of a Triton server on this machine.

_WHEEL = "pytriton"  # the module of the package nvidia-pytriton, never imported: only its server is used
_WHEEL_LIBRARIES = "nvidia_pytriton.libs"
_USUAL = Path("/opt/tritonserver/bin/tritonserver")  # in NVIDIA's containers
_STUB, _PYTHON_BACKEND = "triton_python_backend_stub", ("libtriton_python.so", "triton_python_backend_utils.py")


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """``path``: the path of tritonserver. ``root``: the installation folder. ``wheel``: True for nvidia-pytriton, whose
    Python backend folder is assembled for the Python of this process."""

    path: Path
    root: Path
    wheel: bool = False


def find_program(named: str) -> ServerProgram | None:
    """Find the server. ``named``: path from the spec, or ""."""
    if named:
        path = Path(named).expanduser()
        return _describe(path) if path.is_file() else None
    spec = importlib.util.find_spec(_WHEEL)
    folders = (Path(place) for place in (spec.submodule_search_locations or ())) if spec else ()
    there = shutil.which("tritonserver")
    for path in (*(folder / "tritonserver/bin/tritonserver" for folder in folders), Path(there or _USUAL), _USUAL):
        if path.is_file():
            return _describe(path)
    return None


def _describe(path: Path) -> ServerProgram:
    root = path.resolve().parents[1]
    wheel = (root / "python_backend_stubs").is_dir()
    return ServerProgram(path, root.parents[1] if wheel else root, wheel)


def list_digested(program: ServerProgram) -> Iterator[Path]:
    """List the files with code: the server, its own library and its backends."""
    yield program.path.resolve()
    inside = program.root / _WHEEL / "tritonserver" if program.wheel else program.root
    # Skip dangling links, and pipes, since reading a pipe would block.
    yield from (path for path in inside.glob("backends/**/*.so") if path.is_file())
    libraries = program.root / _WHEEL_LIBRARIES if program.wheel else inside / "lib"
    yield from (path for path in libraries.glob("libtritonserver*.so*") if path.is_file() and not path.is_symlink())


def make_environment(program: ServerProgram, environment: dict[str, str]) -> dict[str, str]:
    """Make the environment of the server, whose Python backend must find the same project and libraries as this
    process."""
    packages = dict.fromkeys(
        (str(Path(harness.__file__).parents[1]), *(path for path in sys.path if path and Path(path).is_dir()))
    )
    libraries = [sysconfig.get_config_var("LIBDIR") or "", environment.get("LD_LIBRARY_PATH", "")]
    if program.wheel:
        libraries.insert(0, str(program.root / _WHEEL_LIBRARIES))
    return {
        **environment,
        "PATH": f"{Path(sys.executable).parent}:{environment.get('PATH', '')}",
        "PYTHONPATH": ":".join(packages),
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
    }


def make_backends(program: ServerProgram, folder: Path) -> Path | None:
    """Return the backends folder for the server; None for its default. Raises HarnessError if its Python backend is not
    built for this Python."""
    if not program.wheel:
        return None
    inside = program.root / _WHEEL / "tritonserver"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = inside / "python_backend_stubs" / python / _STUB
    if not stub.is_file():
        known = ", ".join(sorted(path.name for path in stub.parents[1].glob("*")))
        fix = f"use Python {known}, or another Triton: run.options.server"
        raise HarnessError(f"nvidia-pytriton has no Python backend for Python {python}", "missing", fix)
    target = folder / "backends" / "python"
    target.mkdir(parents=True)
    for name in _PYTHON_BACKEND:
        (target / name).symlink_to(inside / "backends/python" / name)
    (target / _STUB).symlink_to(stub)
    return target.parent
