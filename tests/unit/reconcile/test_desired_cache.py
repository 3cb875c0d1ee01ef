"""The compiled desired state and its cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from reconciler.desired.cache_file import Compiled, digest_variables, read, write
from reconciler.errors import SpecError
from reconciler.observed.digest_cache import DigestCache
from reconciler.reconcile.desired_cache import DesiredCache, list_code, load_desired
from reconciler.resource.records import Recorded
from reconciler.storage.files import RepositoryPaths
from tests.passes.repository import SPEC, Repository, make_repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "repository")


def compile_once(paths: RepositoryPaths, *names: str) -> Compiled:
    """As a process that looks once."""
    kept = DesiredCache()
    found = load_desired(paths, names, Recorded(), DigestCache(paths), kept)
    kept.save()
    return found


def caches(paths: RepositoryPaths) -> list[Path]:
    return sorted(paths.index.glob("desired-*.jsonl"))


def said(found: Compiled) -> list[object]:
    """Everything there is to know of a compiled state."""
    desired = found.desired
    details = [(r, desired.detail(r.address)) for r in desired.resources]
    return [desired.digest, desired.name, desired.missing_cells, found.fingerprint, found.pins, found.spec, details]


def test_warm_state_is_the_cold_one(repository: Repository) -> None:
    cold = compile_once(repository.paths)
    (cache,) = caches(repository.paths)
    before = cache.stat().st_mtime_ns
    warm = compile_once(repository.paths)
    assert said(warm) == said(cold)
    assert caches(repository.paths) == [cache]
    assert cache.stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "folder", "other"])
def test_damaged_cache_costs_time_only(repository: Repository, damage: str) -> None:
    cold = compile_once(repository.paths)
    (cache,) = caches(repository.paths)
    data = cache.read_bytes()
    cache.unlink()
    match damage:
        case "flip":
            cache.write_bytes(data[:-200] + bytes([data[-200] ^ 1]) + data[-199:])
        case "cut":
            cache.write_bytes(data[: len(data) // 2])
        case "empty":
            cache.touch()
        case "folder":
            cache.mkdir()
        case _:
            cache.write_text('{"format": 1}\n', encoding="utf-8")
    assert said(compile_once(repository.paths)) == said(cold)


def test_state_lives_on_when_its_cache_goes(repository: Repository) -> None:
    """Another process may compile another spec in the meantime."""
    compile_once(repository.paths)
    warm = compile_once(repository.paths)
    for path in caches(repository.paths):
        path.unlink()
    assert said(warm) == said(compile_once(repository.paths))


def test_edit_is_seen_also_when_size_and_time_stay(repository: Repository) -> None:
    before = compile_once(repository.paths)
    path = repository.root / SPEC
    status = path.stat()
    repository.edit(SPEC, "target_qps: 100,", "target_qps: 999,")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert compile_once(repository.paths).desired.digest != before.desired.digest


def test_variable_is_read_again(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.edit(SPEC, "model: {retraining", 'model: {path: "${NETS}/net.onnx", retraining')
    for name in ("one", "two"):
        repository.write(f"{name}/net.onnx", name)
    found = []
    for name in ("one", "two", "one"):
        monkeypatch.setenv("NETS", str(repository.root / name))
        found.append(compile_once(repository.paths).desired.digest)
    assert found[0] == found[2] != found[1]
    monkeypatch.delenv("NETS")
    assert any(
        "the environment variable NETS is not set" in note for note in compile_once(repository.paths).desired.notes
    )
    monkeypatch.setenv("NETS", str(repository.root / "two"))
    assert compile_once(repository.paths).desired.digest == found[1]


@pytest.mark.parametrize("value", ["", "d", "di", "Zwq4-long"])  # hidden in this process from then on
def test_short_values_are_put_back(repository: Repository, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    repository.edit(SPEC, "model: {retraining", 'model: {path: "${B}/${A}net.onnx", retraining')
    repository.write(f"nets/{value}net.onnx", "net")
    for name, set_to in (("A", value), ("B", str(repository.root / "nets"))):
        monkeypatch.setenv(name, set_to)
    cold = compile_once(repository.paths)
    (cache,) = caches(repository.paths)
    before = cache.stat().st_mtime_ns
    assert said(compile_once(repository.paths)) == said(cold)
    assert cache.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "text", ["{A}B{A}", "{B}A{B}", "{A}B{B}", "{B}1{A}", "{A}/x0{A}/x", "{A}/x1{A}/x", "{B}/y0{A}/x"]
)
def test_a_name_between_two_is_no_value(repository: Repository, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A location is named by its number."""
    values = {"A": str(repository.root / "nets"), "B": str(repository.root / "data")}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    found = compile_once(repository.paths)
    noted = structs.replace(found.desired, notes=(text.format(**values),))
    path = repository.root / "kept.jsonl"
    write(
        path,
        structs.replace(
            found, desired=noted, variables=digest_variables(values), written=("${A}/x", "${B}/y", "${A}B${B}")
        ),
    )
    kept = read(path)
    assert kept is not None
    assert kept.desired.notes == noted.notes


def test_a_path_that_is_not_text_is_compiled_anew(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.edit(SPEC, "model: {retraining", 'model: {path: "${NETS}/net.onnx", retraining')
    monkeypatch.setenv("NETS", os.fsdecode(os.fsencode(repository.root) + b"/\xff"))
    first, second = compile_once(repository.paths), compile_once(repository.paths)
    assert first.desired.digest == second.desired.digest
    assert not caches(repository.paths)


def test_file_that_is_edited_changes_what_is_made_from_it(repository: Repository) -> None:
    before = compile_once(repository.paths).desired
    repository.edit("benchmarks/tiny.py", "A benchmark of", "The benchmark of")
    after = compile_once(repository.paths).desired
    assert {r.key for r in before.resources} & {r.key for r in after.resources} == set()


def test_broken_spec_is_an_error_each_time(repository: Repository) -> None:
    compile_once(repository.paths)
    repository.edit(SPEC, "kind: Submission", "kind: Submision")
    for _ in range(2):
        with pytest.raises(SpecError):
            compile_once(repository.paths)


def test_read_only_repository_compiles_without_a_cache(repository: Repository) -> None:
    repository.paths.work.mkdir()
    repository.paths.index.write_text("no folder", encoding="utf-8")
    assert said(compile_once(repository.paths)) == said(compile_once(repository.paths))


def test_process_that_compiles_again_needs_no_cache_and_sees_every_edit(repository: Repository) -> None:
    kept, stamps = DesiredCache(), DigestCache(repository.paths)

    def again() -> Compiled:
        stamps.refresh()
        return load_desired(repository.paths, (), Recorded(), stamps, kept)

    first = again()
    assert caches(repository.paths) == []
    assert again() is first
    for old, new in [("target_qps: 100,", "target_qps: 101,"), ("spec:\n", "# moved down\nspec:\n")]:
        repository.edit(SPEC, old, new)
        assert said(again()) == said(compile_once(repository.paths))
    repository.edit("benchmarks/tiny.py", "A benchmark of", "The benchmark of")
    assert said(again()) == said(compile_once(repository.paths))


@pytest.mark.parametrize(
    "path",
    [
        "reconciler/rules/compliance/test09.py",
        "reconciler/rules/rounds/v5.1.yaml",
        "reconciler/spec/adapters/mlcflow.yaml",
        "reconciler/storage/launch/adapters.py",
        "harness/benchmarks/bert/benchmark.yaml",
        "harness/contract.py",
    ],
)
def test_state_depends_on_code(path: str) -> None:
    assert path in list_code()


def test_missing_code_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list_code(tmp_path)


_COMPILE = """
import sys
from pathlib import Path
from reconciler.observed.digest_cache import DigestCache
from reconciler.reconcile.desired_cache import DesiredCache, load_desired
from reconciler.resource.records import Recorded
from reconciler.storage.files import RepositoryPaths
paths, before = RepositoryPaths(Path(sys.argv[1])), set(sys.modules)
load_desired(paths, (), Recorded(), DigestCache(paths), DesiredCache())
loaded = (sys.modules[name] for name in set(sys.modules) - before if name.startswith(("reconciler.", "harness.")))
print(*(module.__file__ for module in loaded))
"""


def test_every_module_that_compiles_is_stamped(repository: Repository) -> None:
    command = [sys.executable, "-c", _COMPILE, str(repository.paths.root)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    root = Path(__file__).parents[3]
    modules = {Path(path).relative_to(root).as_posix() for path in loaded}
    assert "reconciler/spec/loading.py" in modules
    assert modules <= set(list_code())
