"""Declared commands in real containers whose image has nothing of ours: one with little more than BusyBox and the
user's program, one with Python and LoadGen. Through podman where it can run here, and bubblewrap, which needs less.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.errors import SpecError
from reconciler.resource.records import Record
from tests import processes
from tests.passes.doomed import start_doomed_pass
from tests.passes.repository import SPEC, Repository, make_repository
from tests.passes.server import with_service
from tests.passes.standin import with_command
from tests.passes.test_command_files import audited
from tests.passes.test_commands import SLEEPER, wait_for
from tests.shared import make_once, need

need("mlperf_loadgen")
RUN = "Run:open/box/tiny/Offline/performance"
PROGRAM = "/opt/program"  # the user's, in the image without a Python on its PATH
APPLETS = ("sh", "env", "cat", "sleep")
# What a command sees there, before it does anything.
INSIDE = """\
import importlib.util, os, shutil
assert os.path.exists("/inside"), "not in the image"
assert not [name for name in ("harness", "reconciler") if importlib.util.find_spec(name)], "ours is in the image"
assert bool(shutil.which("python3")) == os.path.exists("/bin/python3")
"""


def make_image(root: Path, *, python: bool) -> None:
    """A folder with BusyBox, and with this interpreter and its LoadGen under the paths that they have here."""
    import mlperf_loadgen

    busybox = shutil.which("busybox")
    assert busybox
    interpreter, library = Path(sys.executable).resolve(), Path(str(mlperf_loadgen.__file__))
    for name in ("bin", "opt", "tmp", "etc", "proc", "dev", "run", "sys", "root"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o777)
    (root / "inside").touch()
    shutil.copy(busybox, root / "bin/busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    standard = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(interpreter.parents[1])}))
    skipped = shutil.ignore_patterns("test", "tests", "idlelib", "ensurepip", "site-packages", "*.pyc", "config-*")
    shutil.copytree(standard, root / standard.relative_to("/"), ignore=skipped)
    (root / standard.relative_to("/") / "site-packages").mkdir(exist_ok=True)
    shutil.copy(library, root / standard.relative_to("/") / "site-packages")
    modules = (standard / "lib-dynload").glob("*.so")
    said = subprocess.run(["ldd", interpreter, library, *modules], capture_output=True, text=True, check=True).stdout
    needed = {Path(found) for found in re.findall(r"(/[^ :]+) \(0x", said)} | {interpreter}
    for path in needed:
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.resolve(), place)
    (root / ("bin/python3" if python else PROGRAM[1:])).symlink_to(interpreter)


class Podman:
    """``words`` of a launcher; its images lie in a folder of the test's own."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="podman"))  # it refuses a long path
        self.program = ["podman", "--root", f"{self.folder}/i", "--runroot", f"{self.folder}/s"]
        self.program += ["--storage-driver=vfs"]
        self.program += ["--events-backend=file", "--cgroup-manager=cgroupfs"]
        archive = folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(image, ".", filter=give_to_root)
        try_or_skip([*self.program, "import", str(archive), "localhost/box:1"])
        archive.unlink()
        digest = try_or_skip([*self.program, "images", "--digests", "--format={{.Digest}}"])
        options = ["--network=host", "--cgroups=disabled", "--ulimit=host"]
        self.words = [*self.program, "run", *options, f"localhost/box@{digest}"]
        try_or_skip([*self.words[:-1], "--rm", self.words[-1], "/bin/cat", "/inside"])

    def list_left(self) -> str:
        return try_or_skip([*self.program, "ps", "--all", "--quiet"])

    def remove(self) -> None:
        """Files that belong to other users of its namespace."""
        subprocess.run([*self.program, "unshare", "rm", "-rf", str(self.folder)], capture_output=True, check=False)


def give_to_root(item: tarfile.TarInfo) -> tarfile.TarInfo:
    item.uid = item.gid = 0
    return item


class Bubblewrap:
    def __init__(self, folder: Path, image: Path) -> None:
        seen = str(folder.parent)
        self.words = ["bwrap", "--bind", str(image), "/", "--dev", "/dev", "--proc", "/proc", "--bind", seen, seen]
        try_or_skip([*self.words, "/bin/cat", "/inside"])

    def list_left(self) -> str:
        """Its processes are those of this machine: a test looks for them by their numbers."""
        return ""

    def remove(self) -> None:
        pass


Container = Podman | Bubblewrap
TOOLS: dict[str, tuple[str, Callable[[Path, Path], Container]]] = {
    "podman": ("podman", Podman),
    "bubblewrap": ("bwrap", Bubblewrap),
}


def try_or_skip(command: list[str]) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["it says nothing"])[-1]
        pytest.skip(f"{command[0]} does not run here: {last}")
    return ended.stdout.strip()


@pytest.fixture(params=["podman", "bubblewrap"])
def tool(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    for program in (TOOLS[name][0], "busybox", "ldd"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return name


@pytest.fixture
def enter(tool: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Container]]:
    """Gives what starts the container of an image, with Python on its PATH or not."""
    made: list[Container] = []

    def start(python: bool) -> Container:
        shared = make_once(tmp_path_factory, f"image-{python}", lambda folder: build(folder / "root", python))
        image = tmp_path / "image"
        shutil.copytree(shared, image, symlinks=True)
        (tmp_path / "tool").mkdir()
        made.append(TOOLS[tool][1](tmp_path / "tool", image))
        return made[-1]

    yield start
    for container in made:
        container.remove()


def build(root: Path, python: bool) -> Path:
    make_image(root, python=python)
    return root


def place(repository: Repository, container: Container, program: str) -> Repository:
    """The command starts there, by a program of the image."""
    status = "      status: available\n"
    more = f"      launcher: {json.dumps(container.words)}\n      python: none\n"
    repository.edit(SPEC, status, f"{status}{more}")
    text = (repository.root / SPEC).read_text(encoding="utf-8")
    repository.write(SPEC, text.replace(sys.executable, program))
    for script in (repository.root / "ours").glob("*.py"):
        script.write_text(INSIDE + script.read_text(encoding="utf-8"), encoding="utf-8")
    return repository


def record_of(repository: Repository, address: str = RUN) -> Record:
    return next(record for record in repository.records().values() if str(record.address) == address)


@pytest.mark.parametrize(("python", "program"), [(False, PROGRAM), (True, "python3")], ids=["busybox", "python"])
def test_an_image_needs_nothing_of_ours(
    tmp_path: Path, enter: Callable[[bool], Container], monkeypatch: pytest.MonkeyPatch, python: bool, program: str
) -> None:
    container = enter(python)
    monkeypatch.setenv("MY_TOKEN", "sesame-4711")
    more = "        env: {TOKEN: {from_env: MY_TOKEN}, WHERE: '{scenario}', PATH: '/bin:/nowhere'}\n"
    repository = place(with_command(tmp_path / "it's here", more=more), container, program)
    head = 'assert (len(os.environ["TOKEN"]), os.environ["WHERE"], os.environ["TZ"]) == (11, "Offline", "UTC")\n'
    repository.edit("ours/run.py", INSIDE, INSIDE + head)
    report = repository.reconcile()
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    record = record_of(repository)
    assert record.inputs["launcher"].value[-1] == container.words[-1]
    assert record.facts["machine.host"].value == os.uname().nodename
    owners = {path.stat().st_uid for path in repository.root.rglob("*")}
    assert owners == {os.getuid()}
    assert not [p for p in repository.root.rglob("*") if p.is_file() and b"sesame-4711" in p.read_bytes()]
    assert container.list_left() == ""
    assert repository.reconcile().outcomes == ()


def test_audit_settings_are_placed_for_a_test_there(tmp_path: Path, enter: Callable[[bool], Container]) -> None:
    repository = place(audited(tmp_path / "lab"), enter(False), PROGRAM)
    repository.reconcile()
    assert record_of(repository, "ComplianceTest:open/box/tiny/Offline/TEST01").problem == ""
    assert not list(repository.root.rglob("audit.config"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_what_runs_there_ends_with_the_pass(
    tmp_path: Path, enter: Callable[[bool], Container], number: signal.Signals
) -> None:
    container = enter(False)
    repository = with_command(tmp_path / "lab")
    repository.write("ours/run.py", SLEEPER)
    place(repository, container, PROGRAM)
    before = list_sleepers()
    started = start_doomed_pass(repository)
    wait_for(repository.root / "ours/pids")
    left = list_sleepers() - before
    assert left
    started.send_signal(number)
    started.wait(120)
    processes.wait_for(lambda: not left & list_sleepers())
    processes.wait_for(lambda: container.list_left() == "")


def make_sleeping(tmp_path: Path, container: Podman, launcher: list[str]) -> Repository:
    """Of a command behind these words, or with them within its own where there are none."""
    repository = with_command(tmp_path / "lab")
    repository.write("ours/run.py", SLEEPER)
    if launcher:
        container.words = launcher
        return place(repository, container, PROGRAM)
    folder = str(repository.root)
    words = [*container.words[:-1], "--userns=keep-id", f"--volume={folder}:{folder}", f"--workdir={folder}/ours"]
    own = ", ".join(map(json.dumps, [*words, container.words[-1], PROGRAM]))
    repository.edit(SPEC, json.dumps(sys.executable), own)
    return repository


def end_and_look(repository: Repository) -> None:
    before = list_sleepers()
    started = start_doomed_pass(repository)
    wait_for(repository.root / "ours/pids")
    left = list_sleepers() - before
    assert left
    started.kill()
    started.wait(120)
    processes.wait_for(lambda: not left & list_sleepers())


def start_podman(enter: Callable[[bool], Container]) -> Podman:
    container = enter(False)
    if not isinstance(container, Podman):
        pytest.skip("bubblewrap leaves no container behind")
    return container


def test_a_users_own_container_ends_with_the_pass(tmp_path: Path, enter: Callable[[bool], Container]) -> None:
    container = start_podman(enter)
    end_and_look(make_sleeping(tmp_path, container, []))
    processes.wait_for(lambda: container.list_left() == "")


def test_a_container_that_goes_on_keeps_nothing_of_the_pass(tmp_path: Path, enter: Callable[[bool], Container]) -> None:
    container = start_podman(enter)
    shown = ["--userns=keep-id", f"--volume={tmp_path}:{tmp_path}", "--detach", "--name=box"]
    try_or_skip([*container.words[:-1], *shown, container.words[-1], "sleep", "600"])
    try:
        end_and_look(make_sleeping(tmp_path, container, [*container.program, "exec", "box"]))
        assert container.list_left()
    finally:
        try_or_skip([*container.program, "rm", "--force", "box"])


def list_sleepers() -> set[int]:
    """Processes of the command as this machine numbers them."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == PROGRAM.encode():
            found.add(int(path.parent.name))
    return found


def test_a_server_starts_there_and_is_asked_from_here(tmp_path: Path, enter: Callable[[bool], Container]) -> None:
    container = enter(False)
    more = '          ready: {url: "{service_url}/health", timeout: 60 s}\n'
    repository = place(with_service(tmp_path / "lab", more=more), container, PROGRAM)
    report = repository.reconcile()
    assert report.after.plan.in_sync, [outcome.message for outcome in report.outcomes]
    assert (repository.root / "ended").read_text() == "in order\n"
    assert container.list_left() == ""


@pytest.mark.parametrize(
    ("launcher", "ours"),
    [('[docker, run, "lab/box@sha256:' + "0" * 64 + '"]', True), ("[ssh, n1]", False), ("[srun, -N, 2]", False)],
    ids=["our own harness", "another machine", "a cluster"],
)
def test_what_cannot_start_without_us_is_refused(tmp_path: Path, launcher: str, ours: bool) -> None:
    repository = (make_repository if ours else with_command)(tmp_path / "lab")
    status = "      status: available\n"
    repository.edit(SPEC, status, f"{status}      launcher: {launcher}\n      python: none\n")
    with pytest.raises(SpecError) as refused:
        repository.look()
    lines = (repository.root / SPEC).read_text(encoding="utf-8").splitlines()
    assert {lines[problem.line - 1].strip() for problem in refused.value.problems} == {"python: none"}
