"""Where a Triton server is on this machine, and what it needs to start."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.errors import HarnessError

_WHEEL = "pytriton"  # the module of the package nvidia-pytriton, never imported: only its server is used
_WHEEL_LIBRARIES = "nvidia_pytriton.libs"
_USUAL = Path("/opt/tritonserver/bin/tritonserver")  # in NVIDIA's containers
_STUB, _PYTHON_BACKEND = "triton_python_backend_stub", ("libtriton_python.so", "triton_python_backend_utils.py")


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """``path``: of tritonserver. ``root``: the folder of the installation. ``wheel``: it is that of nvidia-pytriton, of
    which the folder of the Python backend is put together for the Python of this process."""

    path: Path
    root: Path
    wheel: bool = False


def find_program(named: str) -> ServerProgram | None:
    """``named``: by the spec, or ""."""
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
    """What computes: the server, its own library and its backends."""
    yield program.path.resolve()
    inside = program.root / _WHEEL / "tritonserver" if program.wheel else program.root
    # A link may lead nowhere, and a pipe would be waited for.
    yield from (path for path in inside.glob("backends/**/*.so") if path.is_file())
    libraries = program.root / _WHEEL_LIBRARIES if program.wheel else inside / "lib"
    yield from (path for path in libraries.glob("libtritonserver*.so*") if path.is_file() and not path.is_symlink())


def make_environment(program: ServerProgram, environment: dict[str, str]) -> dict[str, str]:
    """Of the server, whose Python backend must find this project and its libraries as this process does."""
    packages = dict.fromkeys((str(Path(harness.__file__).parents[1]), *_list_packages()))
    libraries = [sysconfig.get_config_var("LIBDIR") or "", environment.get("LD_LIBRARY_PATH", "")]
    if program.wheel:
        libraries.insert(0, str(program.root / _WHEEL_LIBRARIES))
    return {
        **environment,
        "PATH": f"{Path(sys.executable).parent}:{environment.get('PATH', '')}",
        "PYTHONPATH": ":".join(packages),
        "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
    }


def _list_packages() -> list[str]:
    return [path for path in sys.path if path and Path(path).is_dir()]


def make_backends(program: ServerProgram, folder: Path) -> Path | None:
    """The folder of backends for the server; None where it knows its own. Raises HarnessError where its Python backend
    is not made for this Python."""
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
