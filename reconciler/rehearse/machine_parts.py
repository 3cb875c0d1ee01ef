"""Try parts of a machine that the project itself could not test, with short runs on generated data."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from harness.contract import BENCHMARKS
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.observed.installed_backends import find_missing_libraries, list_installed
from reconciler.observed.machine import list_accelerators, read_cpu_model
from reconciler.rehearse.rehearsal import RehearsalRequest, prepare_rehearsal
from reconciler.rehearse.rehearsal_spec import SYSTEM, Rehearsed, find_rehearsed
from reconciler.rules.benchmark_facts import load_benchmark_facts
from reconciler.spec.edit import New, set_value
from reconciler.storage.files import replace
from reconciler.storage.launch.adapters import build_launch
from reconciler.storage.launch.launcher import Launcher, is_pinned
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.process import ask

_LIMIT = 1800.0  # seconds that one step may take
_SHORT = 60.0
_SAMPLES = 32
_QUERIES = 256
_SAID = 4000  # final characters of a failing step's output
_OFFLINE, _LANGUAGE, _IMAGES = "Offline", "llama3.1-8b", "resnet50"
_TENSORRT: Mapping[str, New] = {"engine.backend": "tensorrt", "engine.precision": "fp16"}
_SHOWN = ("cell", "ready", "metric", "accuracy", "validity", "efficiency", "marks")
# Machine facts from packages other than the backends' own versions.
_NAMED = re.compile(
    r"tensorrt|cuda|nvidia|torch|onnxruntime|openvino|vllm|loadgen|transformers|nvidia-ml-py", re.IGNORECASE
)


class Given(Struct, frozen=True):
    """Facts that only the user can supply."""

    image: str = ""
    director: str = ""
    ntp: str = ""
    kit: str = ""
    profile: str = ""


class Tried(Struct, frozen=True):
    """``result``: worked, failed, or not tried. ``why``: the missing requirement, or the problem."""

    part: str
    result: str
    tries: str
    why: str = ""
    figures: Mapping[str, object] = field(default_factory=dict)
    said: str = ""


class FailedError(Exception):
    """A step that did not work as it should."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said[-_SAID:]


class MachinePart(Struct, frozen=True):
    """``tries``: a description. ``find_missing`` returns what this machine lacks for the part, "" if it can be
    tried."""

    tries: str
    find_missing: Callable[[Given], str]
    attempt: Callable[[Given, Path], Mapping[str, object]]


def _reconcile(root: Path, *words: str, codes: Sequence[int] = (IN_SYNC,)) -> Any:
    """Run a command of this program as a child and return its report. Raises FailedError for another exit code."""
    ended = ask([sys.executable, "-P", "-m", "reconciler.cli.main", "-C", str(root), *words, "--json"], _LIMIT)
    out = ended.out.decode(errors="replace")
    if ended.status not in codes:
        raise FailedError(f"`reconcile {' '.join(words)}` ended with {ended.status}", f"{ended.error}\n{out}")
    return json.loads(out)


def _find_benchmark(name: str) -> Rehearsed:
    return find_rehearsed(name, [f for code, f in load_benchmark_facts().items() if code in BENCHMARKS])


def _find_missing_packages(name: str, *distributions: str) -> str:
    installed = list_installed()
    missing = [each for each in distributions if each not in installed]
    missing += find_missing_libraries(BENCHMARKS[_find_benchmark(name).facts.code], installed)
    return f"not installed: {', '.join(missing)}" if missing else ""


def _prepare(root: Path, name: str, edits: Mapping[str, New], system: Mapping[str, New]) -> None:
    """Prepare a rehearsal with few samples. ``edits``: edits of the benchmark's entry; ``system``: edits of this
    machine's entry."""
    item = _find_benchmark(name)

    def change(text: str) -> str:
        for path, value in edits.items():
            text = set_value(text, ["spec", "benchmarks", item.entry, *path.split(".")], value)
        for path, value in system.items():
            text = set_value(text, ["spec", "systems", SYSTEM, *path.split(".")], value)
        return set_value(text, ["spec", "divisions", "open", SYSTEM, item.entry, _OFFLINE, "min_query_count"], _QUERIES)

    asked = RehearsalRequest(division="open", samples=_SAMPLES)
    prepare_rehearsal(root, [item], asked, lambda *_: None, change)


def _run(root: Path) -> dict[str, Any]:
    """Make its Offline runs. Raises FailedError for a step that fails or cannot be made."""
    seen = _reconcile(root, f"scenario={_OFFLINE}", codes=(IN_SYNC, NOT_IN_SYNC))
    unhappy = [outcome for outcome in seen["outcomes"] if outcome["status"] != "Done"]
    if unhappy:
        why = str(unhappy[0].get("message") or unhappy[0]["status"])
        raise FailedError(f"{unhappy[0].get('address', '')}: {why}", json.dumps(unhappy, indent=1))
    return {"cells": [{name: cell[name] for name in _SHOWN} for cell in seen["cells"]]}


def _measure(root: Path, name: str, edits: Mapping[str, New], system: Mapping[str, New]) -> dict[str, Any]:
    _prepare(root, name, edits, system)
    return _run(root)


def _try_tensorrt_llm(_: Given, root: Path) -> dict[str, Any]:
    root.mkdir(parents=True, exist_ok=True)
    options = root / "trtllm.yaml"
    replace(options, b"kv_cache_config: {enable_block_reuse: false}\n")
    words = ["trtllm-serve", "{model}", "--port", "{port}", "--extra_llm_api_options", str(options)]
    service = {"command": words, "ready": {"url": "{service_url}/health", "timeout": "20 min"}}
    return _measure(root, _LANGUAGE, {"engine.backend": "openai", "harness": {"service": service}}, {})


def _try_container(given: Given, root: Path) -> dict[str, Any]:
    """Start a harness in an image as a pass does. Its files must belong to this user, and it must end on request."""
    root.mkdir(parents=True, exist_ok=True)
    program, mark = _find_container_program(), root / "written"
    gpus = ("--gpus", "all") if list_accelerators() and program == "docker" else ()
    launcher = Launcher((program, "run", *gpus, given.image))
    script = f"echo $PROVED > {mark}; cat /etc/os-release; nvidia-smi -L || true"
    started = build_launch(launcher, ("sh", "-c", script), {"PROVED": "yes"}, f"prove-{os.getpid()}", (root,))
    ended = ask(started.command, _LIMIT)
    if ended.status or not mark.is_file() or mark.read_text().strip() != "yes":
        raise FailedError(f"{program} ended with {ended.status}, and wrote nothing here", ended.error)
    if mark.stat().st_uid != os.getuid():
        raise FailedError("files written by a container belong to another user", ended.error)
    sleeping = build_launch(launcher, ("sleep", "600"), {}, f"prove-{os.getpid()}-asleep", ())
    asked = ask(sleeping.command, _SHORT / 6)
    if asked.status != 124:  # ``ask``: not ended in time
        raise FailedError(f"a sleeping container ended with {asked.status}", asked.error)
    if (gone := ask(sleeping.ending, _SHORT)).status:
        raise FailedError(f"a container cannot be stopped: {' '.join(sleeping.ending)}", gone.error)
    return {"image": ended.out.decode(errors="replace").splitlines()}


def _try_mig(given: Given, root: Path) -> dict[str, Any]:
    """Run on slices of a GPU, which are removed again whatever the outcome of the run."""
    slices = {"profile": given.profile or _list_profiles()[0], "count": 1}
    lacks_tensorrt = _find_missing_packages(_IMAGES, "tensorrt")
    edits: Mapping[str, New] = {"engine.backend": "onnxruntime-cuda"} if lacks_tensorrt else _TENSORRT
    _prepare(root, _IMAGES, edits, {"hardware.mig": slices})
    try:
        made = _reconcile(root, "mig", "create", SYSTEM, "--run")["slices"]
        return {"slices": made, **_run(root)}
    finally:
        _reconcile(root, "mig", "destroy", "--run")


def _list_profiles() -> list[str]:
    """List the names of the slices into which a local GPU can be partitioned, smallest first."""
    listed = ask(["nvidia-smi", "mig", "-lgip"], _SHORT).out.decode(errors="replace")
    return list(dict.fromkeys(re.findall(r"MIG (\d+g\.\d+gb)\b", listed)))


def _try_power(given: Given, root: Path) -> dict[str, Any]:
    power = {"director": given.director, "ntp": given.ntp, "kit": str(Path(given.kit).resolve())}
    return _measure(root, _IMAGES, {}, {"power": power})


def _find_container_program() -> str:
    return next((name for name in ("podman", "docker") if shutil.which(name)), "")


def _find_missing_container(given: Given) -> str:
    if not _find_container_program():
        return "neither podman nor docker found"
    return "" if is_pinned(given.image) else "pass a local image: --image NAME@sha256:…"


def _find_missing_gpu() -> str:
    return "" if list_accelerators() else "no NVIDIA GPU found"


def _find_missing_meter(given: Given) -> str:
    missing = [f"--{name}" for name in ("director", "ntp", "kit") if not getattr(given, name)]
    return f"set the meter: {', '.join(missing)}" if missing else ""


_NO_MIG = "no GPU here supports MIG (`nvidia-smi mig -lgip` lists nothing)"
PARTS: Mapping[str, MachinePart] = {
    "cpu": MachinePart(
        "a short run of generated images with ONNX Runtime, with its accuracy",
        lambda _: _find_missing_packages(_IMAGES, "onnxruntime", "mlcommons-loadgen"),
        lambda _, root: _measure(root, _IMAGES, {}, {}),
    ),
    "tensorrt": MachinePart(
        "build an fp16 engine of generated weights, a short run with it, and its accuracy",
        lambda _: _find_missing_gpu() or _find_missing_packages(_IMAGES, "tensorrt"),
        lambda _, root: _measure(root, _IMAGES, _TENSORRT, {}),
    ),
    "tensorrt-llm": MachinePart(
        "start trtllm-serve with a generated model, probe it, and run briefly against it",
        lambda _: _find_missing_gpu() or ("" if shutil.which("trtllm-serve") else "trtllm-serve is not on PATH"),
        _try_tensorrt_llm,
    ),
    "container": MachinePart(
        "start a container as a pass does: folders, variables, file ownership, GPUs, and stopping",
        _find_missing_container,
        _try_container,
    ),
    "mig": MachinePart(
        "divide a GPU, run briefly on a slice, and restore the GPU (as root or through `sudo -n`)",
        lambda _: _find_missing_gpu() or ("" if _list_profiles() else _NO_MIG),
        _try_mig,
    ),
    "power": MachinePart(
        "a short run in a session with a power meter, checked by the kit",
        _find_missing_meter,
        _try_power,
    ),
}


def _try_part(name: str, given: Given, folder: Path) -> Tried:
    part = PARTS[name]
    if missing := part.find_missing(given):
        return Tried(name, "not tried", part.tries, missing)
    try:
        return Tried(name, "worked", part.tries, figures=part.attempt(given, folder / name))
    except FailedError as error:
        return Tried(name, "failed", part.tries, str(error), said=error.said)
    except (ReconcilerError, OSError, ValueError, KeyError) as error:
        return Tried(name, "failed", part.tries, f"{type(error).__name__}: {error}")


def describe_here() -> dict[str, Any]:
    """Describe versions and hardware, without anything that identifies the owner of the machine."""
    driver = ask(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], _SHORT)
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": read_cpu_model(),
        "accelerators": list_accelerators(),
        "driver": driver.out.decode(errors="replace").split()[:1] if not driver.status else [],
        "packages": {name: version for name, version in sorted(list_installed().items()) if _NAMED.search(name)},
    }


_SECRET = re.compile(r"TOKEN|SECRET|PASSW|KEY|CREDENTIAL", re.IGNORECASE)
_LEAST = 4  # characters of a name or a secret; shorter ones occur in ordinary words
_PATTERNS = (
    (r"[\w.+-]+@[\w-]+\.[\w.-]+", "[address]"),
    (r"(?i)\b([\w-]*(?:token|secret|passw\w*|api[_-]?key)[\"']?\s*[=:]\s*[\"']?)[^\s\"',}]+", r"\1[secret]"),
    (r"(?i)\b(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[device]"),
    (r"(?i)\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", "[address]"),
    (r"(?i)(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}:?[0-9a-f]{0,4}(?![\w:])", "[address]"),
)
_FOUR = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")


def redact(value: Any, given: Given, environment: Mapping[str, str]) -> Any:
    """Remove names, addresses and secrets from a document. Package versions that look like addresses remain."""
    if isinstance(value, dict):
        return {name: redact(item, given, environment) for name, item in value.items()}
    if isinstance(value, list):
        return [redact(item, given, environment) for item in value]
    return _redact(value, given, environment) if isinstance(value, str) else value


def _redact(text: str, given: Given, environment: Mapping[str, str]) -> str:
    hidden = {value: "[secret]" for name, value in environment.items() if _SECRET.search(name)}
    hidden |= {given.director: "[meter]", given.ntp: "[server]", given.image.partition("@")[0]: "[image]"}
    hidden |= {str(Path.home()): "[home]", str(Path.cwd()): "[folder]"}
    hidden |= dict.fromkeys((socket.gethostname(), socket.getfqdn()), "[host]")
    hidden |= {getpass.getuser(): "[user]"} if getpass.getuser() != "root" else {}
    for value in sorted(hidden, key=len, reverse=True):
        if len(value) >= _LEAST and value != "localhost":
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", hidden[value], text)
    for pattern, shown in _PATTERNS:
        text = re.sub(pattern, shown, text)
    versions = {*list_installed().values(), "127.0.0.1"}
    return _FOUR.sub(lambda found: found[0] if found[0] in versions else "[address]", text)


def try_parts(names: Sequence[str], given: Given) -> list[Tried]:
    """Try ``names``, or every part except ``mig``, which partitions a GPU and must be requested by name."""
    with open_temporary("prove") as folder:
        if names:
            return [_try_part(name, given, folder) for name in names]
        tried = [_try_part(name, given, folder) for name in PARTS if name != "mig"]
    return [*tried, Tried("mig", "not tried", PARTS["mig"].tries, "run: reconcile prove mig")]
