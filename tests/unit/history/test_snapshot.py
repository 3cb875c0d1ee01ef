"""A commit as it was: which files are its spec, by which bytes its sources are known, whom its records were for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError, SpecError
from reconciler.history import snapshot
from reconciler.history.rendered import CommitSources
from reconciler.history.snapshot import read_snapshot
from reconciler.resource.kinds import Address
from reconciler.storage.files import hash_bytes, hash_listing
from tests.passes.repository import HERE
from tests.unit.cli.conftest import CELL, SPEC, git

OWN = """\
code: ./benchmarks/tiny.py
      harness: {command: [python, run.py, "{run_dir}", "{user_conf}"], code: driver}
      performance_sample_count: 16"""
FILES = {"driver/run.py": b"print()\n", "driver/parts/one.py": b"ONE = 1\n", "drivers/other.py": b"", "driver.md": b""}
RUN = Address.parse(f"Run:{CELL}/performance")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A benchmark and a harness of the user's own, both in the repository; weights on a disk that no one has here."""
    spec = SPEC.replace("code: digits", OWN).replace("{settings: {epochs: 1}}", '{path: "${NO_SUCH_DISK}/net.onnx"}')
    tiny = (HERE / "benchmarks/tiny.py").read_bytes()
    write(tmp_path, {"specs/one.yaml": spec.encode(), "benchmarks/tiny.py": tiny, **FILES})
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    return tmp_path


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def declare_part(system: str) -> bytes:
    """Of a spec in several files."""
    part = f"spec: {{systems: {{{system}: {{category: edge, status: available}}}}}}"
    return f"apiVersion: mlperf-reconciler/v1\nkind: Submission\n{part}\n".encode()


def commit(root: Path) -> None:
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message", "Change it")


def read_sources(root: Path) -> tuple[object, object]:
    """Digests of the benchmark's code and of the harness's folder, where they are known."""
    inputs = {item.name: item.value for item in read_snapshot(root, "HEAD").desired.detail(RUN).inputs}
    return inputs.get("benchmark.code"), inputs.get("harness.code.sha256")


def test_sources_in_the_repository_are_known_by_the_bytes_of_the_commit(root: Path) -> None:
    """Of a folder all files count, and none next to it."""
    tiny = hash_bytes((root / "benchmarks/tiny.py").read_bytes())
    below = {"run.py": hash_bytes(b"print()\n"), "parts/one.py": hash_bytes(b"ONE = 1\n")}
    assert read_sources(root) == (tiny, hash_listing(below))
    write(root, {"benchmarks/tiny.py": b"edited = 1\n", "driver/run.py": b"edited\n", "drivers/other.py": b"edited\n"})
    assert read_sources(root) == (tiny, hash_listing(below))
    commit(root)
    edited = hash_listing({**below, "run.py": hash_bytes(b"edited\n")})
    assert read_sources(root) == (hash_bytes(b"edited = 1\n"), edited)


def test_a_source_that_is_too_large_to_be_read_is_known_by_no_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = read_sources(root)
    largest = (root / "benchmarks/tiny.py").stat().st_size
    monkeypatch.setattr(snapshot, "_LARGEST_SOURCE", largest)
    assert read_sources(root) == known
    monkeypatch.setattr(snapshot, "_LARGEST_SOURCE", largest - 1)
    assert read_sources(root) == (None, None)


@pytest.mark.parametrize("place", ["../net.onnx", "/net.onnx"])
def test_of_a_source_outside_the_repository_a_commit_knows_nothing(root: Path, place: str) -> None:
    path = root / "specs/one.yaml"
    path.write_text(path.read_text().replace("${NO_SUCH_DISK}/net.onnx", place))
    commit(root)
    assert None not in read_sources(root)


def test_a_variable_of_any_value_hides_nothing_of_a_commit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_DISK", raising=False)
    keys = {resource.address: resource.key for resource in read_snapshot(root, "HEAD").desired.resources}
    monkeypatch.setenv("NO_SUCH_DISK", str(root / "driver"))
    again = read_snapshot(root, "HEAD").desired.resources
    assert {resource.address: resource.key for resource in again} == keys


def test_the_files_of_a_spec_are_those_that_are_not_hidden_and_are_yaml(root: Path) -> None:
    more = ("two.yml", "below/three.yaml", ".four.yaml", ".five/six.yaml", "below/.seven/eight.yml", "nine.txt", "yaml")
    write(root, {f"specs/{name}": declare_part(f"box{number}") for number, name in enumerate(more)})
    commit(root)
    found = read_snapshot(root, "HEAD")
    assert sorted(found.specs) == ["specs/below/three.yaml", "specs/one.yaml", "specs/two.yml"]
    assert found.specs["specs/one.yaml"] == git(root, "rev-parse", "HEAD:specs/one.yaml")


def test_a_commit_without_a_spec_says_so_and_what_to_do(root: Path) -> None:
    shutil.rmtree(root / "specs")
    commit(root)
    with pytest.raises(SpecError) as caught:
        read_snapshot(root, "HEAD")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.message) == ("specs", 0, "commit HEAD has no spec")
    assert problem.fix == "`reconcile init` writes a starter; or find a commit with specs: git log -- specs"
    write(root, {"specs/below/new.yaml": declare_part("box")})
    with pytest.raises(SpecError, match="commit yours: git add specs && git commit"):
        read_snapshot(root, "HEAD")
    identity = git(root, "rev-parse", "HEAD")
    with pytest.raises(SpecError, match=f"commit {identity[:12]} has no spec"):
        read_snapshot(root, identity)


def test_every_spec_that_is_too_large_or_no_text_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        root, {"specs/large.yaml": declare_part("large").ljust(2999, b"#") + b"\n", "specs/latin.yaml": b"# caf\xe9\n"}
    )
    commit(root)
    monkeypatch.setattr(snapshot, "LARGEST_FILE", 3000)
    with pytest.raises(SpecError) as caught:
        read_snapshot(root, "HEAD")
    assert [(problem.file, problem.line) for problem in caught.value.problems] == [("specs/latin.yaml", 1)]
    monkeypatch.setattr(snapshot, "LARGEST_FILE", 2999)
    with pytest.raises(SpecError) as caught:
        read_snapshot(root, "HEAD")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == ("specs/large.yaml", 1, 1)
    assert (problem.message, problem.fix) == ("it has 3,000 bytes", "keep data out of specs/")


FILES_COMMIT_SOURCES = {
    "run.py": "run",
    "code/main.py": "main",
    "code/below/part.py": "part",
    "code/.hidden": "hidden",
    "code/__pycache__/main.pyc": "compiled",
    "code/below/old.pyc": "compiled",
    "more/main.py": "other main",
    "deep/code/main.py": "deep main",
    ".env/tool.py": "tool",
    "bad/a b.py": "blank",
    "docs/how.md": "how",
}


@pytest.fixture
def sources(tmp_path: Path) -> CommitSources:
    for name, text in FILES_COMMIT_SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all", "--force")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    (tmp_path / "run.py").write_text("changed since")
    (tmp_path / "new.py").write_text("not committed")
    return CommitSources(tmp_path, git(tmp_path, "rev-parse", "HEAD"))


@pytest.mark.parametrize(
    ("paths", "published"),
    [
        ([], {}),
        (["run.py"], {"run.py": "run"}),
        (["code/below/part.py"], {"part.py": "part"}),
        (["code/below/old.pyc"], {"old.pyc": "compiled"}),  # named itself
        (["code"], {"main.py": "main", "below/part.py": "part"}),
        (["./code/"], {"main.py": "main", "below/part.py": "part"}),
        (["deep/../code/below"], {"part.py": "part"}),
        ([".env"], {"tool.py": "tool"}),
        (
            ["code", "run.py", "more"],
            {"code/main.py": "main", "code/below/part.py": "part", "run.py": "run", "more/main.py": "other main"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_files_are_published_below_the_name_of_their_folder_where_there_are_several(
    sources: CommitSources, paths: list[str], published: dict[str, str]
) -> None:
    assert sources.list_files(paths) == {name: text.encode() for name, text in published.items()}


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        (["nothing"], "nothing"),
        (["new.py"], "new.py"),
        (["code", "nothing"], "nothing"),
        (["../elsewhere"], "../elsewhere"),
        (["code/../../elsewhere"], "code/../../elsewhere"),
        (["/etc/hosts"], "/etc/hosts"),
        (["code", "deep/code"], "two published files would be code/main.py"),
        (["bad"], "bad/a b.py is not a valid name in a submission tree"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_published_is_refused(sources: CommitSources, paths: list[str], why: str) -> None:
    with pytest.raises(ReconcilerError, match=f"^{re.escape(why)}"):
        sources.list_files(paths)


def test_a_document_is_one_file_of_the_commit(sources: CommitSources) -> None:
    assert sources.read_document("docs/../docs/how.md", "calibration") == b"how"
    assert sources.read_document("run.py", "calibration") == b"run"
    for path, why in (
        ("docs", "calibration: docs"),
        ("none.md", "calibration: none.md"),
        ("../none.md", "../none.md"),
        ("bad/a b.py", "bad/a b.py is not a valid name"),
    ):
        with pytest.raises(ReconcilerError, match=f"^{re.escape(why)}"):
            sources.read_document(path, "calibration")
