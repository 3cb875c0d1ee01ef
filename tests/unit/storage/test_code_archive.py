"""The code of a run as one file: what goes in comes out, whatever is hidden or too large stays out."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from reconciler.storage.code_archive import (
    LARGEST_CODE,
    LEFT_OUT,
    describe_left_out,
    list_changed_files,
    pack_code,
    read_code,
    unpack_code,
)
from reconciler.storage.code_files import select_kept_names
from reconciler.storage.files import hash_file

FILES = {"run.py": b"pass\n", "lib/a b.py": b"\xff\x00", "empty": b""}


def test_what_is_packed_comes_out_and_has_the_same_bytes_each_time() -> None:
    data = pack_code(FILES)
    assert unpack_code(data) == FILES
    assert pack_code(dict(reversed(FILES.items()))) == data


def _tar(**fields: object) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        member = tarfile.TarInfo("x")
        for name, value in fields.items():
            setattr(member, name, value)
        tar.addfile(member, io.BytesIO(b"x" * member.size))
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no archive",
        gzip.compress(b"no tar" * 200),
        pack_code(FILES)[:60],
        _tar(type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        _tar(type=tarfile.DIRTYPE),
    ],
    ids=["empty", "no-archive", "no-tar", "cut", "link", "folder"],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"archive of code|file of code"):
        unpack_code(data)


def test_hidden_and_ignored_files_are_no_code_and_links_out_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    (folder / "lib").mkdir(parents=True)
    for name in ("run.py", "lib/more.py", ".env", "lib/.secret", "built.log", "old.pyc"):
        (folder / name).write_text(name)
    (tmp_path / "outside").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "inside").symlink_to("run.py")
    assert set(read_code(folder)[0]) == {"run.py", "lib/more.py", "inside"}
    assert read_code(folder)[1] == {"link": hash_file(tmp_path / "outside")}
    (folder / ".gitignore").write_text("more.py\n")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    assert set(read_code(folder, "service/")[0]) == {"service/run.py", "service/inside"}


def test_what_builds_and_runs_write_is_no_code_unless_git_tracks_it(tmp_path: Path) -> None:
    outputs = ("build/bin/tool", "lib/build/cache.bin", "logs/a.txt", "mlperf_log_detail.txt", "run.log", ".cache/x")
    outputs = (*outputs, "accuracy.txt", "predictions.json")
    written = ("tuned/last.json", "best.json", "lib/accuracy.txt", "tuned/kernel.cu")
    for name in ("run.py", "builder/build.py", *outputs, *written):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    names = ["run.py", "builder/build.py", *outputs, *written]
    found = {"tuned/", "best.json", "lib/accuracy.txt"}
    assert set(select_kept_names(tmp_path, names)) == {"run.py", "builder/build.py", *written}
    assert set(select_kept_names(tmp_path, names, found)) == {"run.py", "builder/build.py"}
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert set(select_kept_names(tmp_path, names, found)) == {"run.py", "builder/build.py"}
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert set(select_kept_names(tmp_path, names, found)) == set(names)


def test_a_published_submission_is_no_code_of_the_harness_in_it(tmp_path: Path) -> None:
    """Its folders are not, even if git tracks them, where a system has a run next to its description."""
    code = ["Makefile", "code/main.py", "code/systems/known.py", "code/results/parse.py"]
    staged = ["compliance/box/a.txt", "documentation/c.md", "measurements/b.json", "systems/box.json"]
    result = "results/{}/tiny/Offline/performance/run_1/accuracy.csv"
    others = [*code, *staged, result.format("other"), "results/box/a.json"]
    for name in (*others, result.format("box")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert select_kept_names(tmp_path, others) == others
    assert select_kept_names(tmp_path, [*others, result.format("box")]) == code


def test_what_is_too_large_for_code_is_named_by_its_digest(tmp_path: Path) -> None:
    large = tmp_path / "model.bin"
    large.write_bytes(b"x" * (LARGEST_CODE + 1))
    (tmp_path / "run.py").write_text("")
    assert read_code(tmp_path) == ({"run.py": b""}, {"model.bin": hash_file(large)})


def test_a_file_of_the_code_may_have_the_name_of_the_list() -> None:
    large = {"weights.bin": "0" * 64}
    kept = {"run.py": b"1", LEFT_OUT: describe_left_out(large)}
    assert list_changed_files(kept, {"run.py": b"1"}, large) == []
    assert list_changed_files(kept, {"run.py": b"2"}, {}) == ["run.py changed", "weights.bin removed"]
    own = {"run.py": b"1", LEFT_OUT: b"my notes\n"}
    assert list_changed_files(own, own, {}) == []
    assert list_changed_files(own, {**own, LEFT_OUT: b"other notes\n"}, {}) == [f"{LEFT_OUT} changed"]
