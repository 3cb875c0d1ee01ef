"""Isolation of every test: no user's git settings, and no machine-wide lock shared with a real pass."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

from tests.compiled import compile_project, compile_tests
from tests.flushes import skip_flushes
from tests.schedule import LongFirst, rank, send_results_alone
from tests.warm.children import Warm, warm_children

# How long an example takes says nothing on a machine that others share. Whatever else is on by default stays on.
settings.register_profile("loaded", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")

_PERSON = {"NAME": "A Tester", "EMAIL": "tester@example.com"}
_PROCESSES_PER_CORE = 2.5  # many tests wait: for a run's least duration, for a process to end
_MOST_PROCESSES = 16
_MEMORY = Path("/dev/shm")  # files there take half the kernel's time
_ROOM = 8 << 30  # bytes; temporary files of the suite take less than half


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        if _has_room(_MEMORY):
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
        # Large arrays come and go in tests: pages of 2 MiB cost less. It is read when a process starts.
        os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        compile_project()
        if config.option.tx:  # there will be others
            compile_tests(config)
    else:
        send_results_alone(config)


def _has_room(folder: Path) -> bool:
    """Return True if all temporary files of the suite fit there, and programs among them may start."""
    if not os.access(folder, os.W_OK):
        return False
    found = os.statvfs(folder)
    room = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
    return room >= _ROOM and not found.f_flag & os.ST_NOEXEC


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use every core for the whole suite. Named tests run here, where a debugger reaches them, and so do those of a
    GPU, which has room for one."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.markexpr != "gpu"
    return min(int(len(os.sched_getaffinity(0)) * _PROCESSES_PER_CORE), _MOST_PROCESSES) if whole else 0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongFirst:
    return LongFirst(config, log)


def pytest_collection(session: pytest.Session) -> None:
    """Pause the garbage collector: thousands of tests and all their imports live on."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # nor ever again
    gc.set_threshold(50_000)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # a process among others
        items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Go back: ``-C`` changes this process's folder, and a passed test's folder is removed."""
    os.chdir(item.config.rootpath)


@pytest.fixture(scope="session", autouse=True)
def _isolate_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set real environment variables, since children inherit them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job in the background; children inherit that too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fsync)
        skip_flushes()
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # or every command line would compile all there is
        for part, value in _PERSON.items():
            patch.setenv(f"GIT_AUTHOR_{part}", value)
            patch.setenv(f"GIT_COMMITTER_{part}", value)
        patch.setenv("GIT_CONFIG_GLOBAL", str(_write_git_config(tmp_path_factory.mktemp("git"))))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("RECONCILE_BUSY", "1")  # anyone who tests may compile in the meantime
        patch.setenv("RECONCILE_LOCKS", str(tmp_path_factory.mktemp("locks")))
        yield


def _write_git_config(folder: Path) -> Path:
    """Write settings for new repositories without samples of hooks, which every copy would copy."""
    for name in ("hooks", "info"):
        (folder / "template" / name).mkdir(parents=True)
    path = folder / "config"
    path.write_text(f"[init]\n\ttemplateDir = {folder}/template\n")
    return path


@pytest.fixture(scope="session", autouse=True)
def warm(_isolate_environment: None) -> Iterator[Warm]:
    """Fork the children of this process's passes from one that has loaded their imports."""
    with warm_children() as warm:
        yield warm


@pytest.fixture
def cold_children(warm: Warm) -> Iterator[None]:
    """Start every child as a new process with its own command line, as for users."""
    with warm.off():
        yield
