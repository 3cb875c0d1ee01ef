"""What is fetched of a benchmark's files: from publishers, archives and mirrors; what must come by hand."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError, StorageError
from reconciler.fetch import fetch as fetching
from reconciler.fetch.download import DownloadLimits, DownloadProgress
from reconciler.fetch.fetch import (
    Due,
    FetchResult,
    FetchStatus,
    Mirror,
    check_room,
    decide,
    fetch,
    unpack_folder,
    unpack_member,
)
from reconciler.fetch.scratch import FileState, Scratch, find_scratch, look_for
from reconciler.reconcile.readiness import check_scratch
from reconciler.rules.benchmark_files import BenchmarkFiles, FileDigest, SourceFile, load_benchmark_files
from reconciler.spec.declaration import add_scratch_places
from reconciler.spec.locations import Variables
from reconciler.spec.quantities import UnfitError
from reconciler.storage.storage_errors import PARTIAL
from tests.unit.fetch.serving import Behaviour, serve

QUICK = DownloadLimits(timeout=30.0, attempts=2, backoff=0.01)  # no server here is slow; a busy machine may be


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return find_scratch({"MLPERF_SCRATCH_PATH": str(tmp_path / "scratch")})


def make_file(path: str, *sources: str, data: bytes = b"", **rest: object) -> SourceFile:
    digest = FileDigest("md5", hashlib.md5(data, usedforsecurity=False).hexdigest(), "it") if data else None
    values = {"about": "", "licence": "free", "size": 1000, "digest": digest, **rest}
    return SourceFile(path=path, sources=sources, **values)  # type: ignore[arg-type]


def make_benchmark(*files: SourceFile) -> BenchmarkFiles:
    return BenchmarkFiles(folder="b", names=("b",), datasets=("data/b",), models=("models/b.onnx",), files=files)


def bring(
    scratch: Scratch, *files: SourceFile, mirror: Mirror | None = None, optional: bool = False
) -> list[FetchResult]:
    due = decide(scratch, [make_benchmark(*files)], mirror, optional=optional)
    return fetch(scratch, due, QUICK, DownloadProgress(), parallel=3)


def zip_files(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def tar_files(files: Mapping[str, bytes], links: Iterable[tuple[str, str]] = ()) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return stream.getvalue()


def test_files_come_and_a_second_fetch_asks_for_nothing(scratch: Scratch) -> None:
    behaviour = Behaviour({"/m": b"model", "/l": b"labels"})
    with serve(behaviour) as address:
        files = (
            make_file("models/b.onnx", f"{address}/m", data=b"model"),
            make_file("data/b/labels.txt", f"{address}/l"),
        )
        assert [item.fate for item in bring(scratch, *files)] == [FetchStatus.FETCHED, FetchStatus.FETCHED]
        assert [item.fate for item in bring(scratch, *files)] == [FetchStatus.HERE, FetchStatus.HERE]
    assert len(behaviour.asked) == 2
    assert (scratch.root / "data/b/labels.txt").read_bytes() == b"labels"


def test_a_failure_keeps_no_other_file_from_coming(scratch: Scratch) -> None:
    with serve(Behaviour({"/m": b"model"})) as address:
        gone, there = make_file("data/gone", f"{address}/gone"), make_file("data/m", f"{address}/m")
        ended = bring(scratch, gone, there)
    assert [item.fate for item in ended] == [FetchStatus.FAILED, FetchStatus.FETCHED]
    assert "404" in ended[0].why


def test_a_file_whose_digest_no_one_publishes_must_be_the_one_that_was_fetched_first(scratch: Scratch) -> None:
    behaviour = Behaviour({"/f": b"first"})
    with serve(behaviour) as address:
        file = make_file("data/f", f"{address}/f")
        (first,) = bring(scratch, file)
        (scratch.root / "data/f").unlink()
        behaviour.files["/f"] = b"other"
        (second,) = bring(scratch, file)
    assert first.sha256 == hashlib.sha256(b"first").hexdigest()
    assert second.fate is FetchStatus.FAILED
    assert "the first fetch" in second.why


def test_a_damaged_file_is_named_and_left_alone(scratch: Scratch) -> None:
    (scratch.root / "models").mkdir(parents=True)
    (scratch.root / "models/b.onnx").write_bytes(b"damaged")
    (ended,) = bring(scratch, make_file("models/b.onnx", "http://127.0.0.1:9/m", data=b"model"))
    assert ended.fate is FetchStatus.FAILED
    assert str(scratch.root / "models/b.onnx") in ended.why
    assert "move it away" in ended.fix
    assert (scratch.root / "models/b.onnx").read_bytes() == b"damaged"


def test_a_file_that_changed_since_it_was_proved_is_read_again(scratch: Scratch) -> None:
    file = make_file("models/b.onnx", data=b"model")
    path = scratch.root / "models/b.onnx"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"model")
    assert look_for(scratch, file, deep=False).presence is FileState.UNPROVED
    assert look_for(scratch, file, deep=True).presence is FileState.HERE
    assert look_for(scratch, file, deep=False).presence is FileState.HERE
    path.write_bytes(b"edited")
    assert look_for(scratch, file, deep=True).presence is FileState.WRONG


def test_another_published_version_under_the_same_name_counts(scratch: Scratch) -> None:
    known = [hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (b"new", b"old")]
    digest = FileDigest("md5", known[0], "it", others=(known[1],))
    (scratch.root / "models").mkdir(parents=True)
    (scratch.root / "models/b.onnx").write_bytes(b"old")
    file = make_file("models/b.onnx", "http://127.0.0.1:9/m", digest=digest)
    assert [item.fate for item in bring(scratch, file)] == [FetchStatus.HERE]


def test_what_is_behind_a_form_is_reported_with_its_place_and_comes_by_hand(scratch: Scratch) -> None:
    images = make_file("data/b/*.jpg", count=3, by_hand="register first")
    (ended,) = bring(scratch, images)
    assert (ended.fate, ended.why) == (FetchStatus.BY_HAND, "")
    assert ended.fix == f"register first; save it as {scratch.root}/data/b/*.jpg"
    (scratch.root / "data/b").mkdir(parents=True)
    for name in ("1.jpg", "2.jpg"):
        (scratch.root / "data/b" / name).write_bytes(b"i")
    assert [item.why for item in bring(scratch, images)] == ["2 of 3 files exist"]
    (scratch.root / "data/b/3.jpg").write_bytes(b"i")
    assert [item.fate for item in bring(scratch, images)] == [FetchStatus.HERE]


def test_optional_files_come_when_they_are_asked_for(scratch: Scratch) -> None:
    with serve(Behaviour({"/f": b"data"})) as address:
        file = make_file("data/f", f"{address}/f", optional=True)
        assert bring(scratch, file) == []
        assert [item.fate for item in bring(scratch, file, optional=True)] == [FetchStatus.FETCHED]


@pytest.mark.parametrize("pack", [zip_files, tar_files])
def test_files_come_out_of_archives(scratch: Scratch, pack: object) -> None:
    packed = pack({"top/val/1.jpg": b"one", "top/val/2.jpg": b"two", "top/train/3.jpg": b"three", "l.txt": b"labels"})  # type: ignore[operator]
    behaviour = Behaviour({"/a": packed})
    with serve(behaviour) as address:
        images = make_file("data/b/*.jpg", f"{address}/a", data=packed, unpack="top/val/", packed=1000, count=2)
        labels = make_file("data/map.txt", f"{address}/a", data=packed, member="l.txt", packed=1000)
        assert [item.fate for item in bring(scratch, images, labels)] == [FetchStatus.FETCHED, FetchStatus.FETCHED]
        assert [item.fate for item in bring(scratch, images, labels)] == [FetchStatus.HERE, FetchStatus.HERE]
    assert sorted(path.name for path in (scratch.root / "data/b").iterdir()) == ["1.jpg", "2.jpg"]
    assert (scratch.root / "data/map.txt").read_bytes() == b"labels"
    assert [path for path in scratch.incoming.iterdir() if path.suffix != ".lock"] == []
    assert len(behaviour.asked) == 1, "the archive comes once for all that is in it"


def test_an_archive_that_nothing_proves_comes_anew_where_it_could_not_be_unpacked(scratch: Scratch) -> None:
    behaviour = Behaviour({"/a.zip": b"<html>come back later</html>"})
    with serve(behaviour) as address:
        images = make_file("data/b/*.jpg", f"{address}/a.zip", unpack="val/", packed=1000)
        (refused,) = bring(scratch, images)
        behaviour.files["/a.zip"] = zip_files({"val/1.jpg": b"one"})
        (came,) = bring(scratch, images)
    assert (refused.fate, came.fate) == (FetchStatus.FAILED, FetchStatus.FETCHED), refused.why


def test_what_a_killed_fetch_left_half_written_goes(scratch: Scratch) -> None:
    here = make_file("data/a.bin", "http://127.0.0.1:9/a")
    for folder in (scratch.incoming, scratch.notes, scratch.root / "data"):
        folder.mkdir(parents=True)
        (folder / ".a.bin.json.x1.partial").write_bytes(b"{")
    (scratch.root / "data/a.bin").write_bytes(b"x")
    assert [item.fate for item in bring(scratch, here)] == [FetchStatus.HERE]
    left = [path.parent for path in scratch.root.rglob("*.partial")]
    assert left == [scratch.root / "data"], "others write there"


def test_an_archive_that_is_here_already_is_only_unpacked(scratch: Scratch) -> None:
    packed = tar_files({"val/1.jpg": b"one"})
    images = make_file("data/b/*.jpg", "http://127.0.0.1:9/a.tgz", data=packed, unpack="val/", packed=1000)
    assert images.digest is not None
    scratch.incoming.mkdir(parents=True)
    (scratch.incoming / f"{images.digest.value[:16]}-a.tgz").write_bytes(packed)
    assert [item.fate for item in bring(scratch, images)] == [FetchStatus.FETCHED]


@pytest.mark.parametrize("name", ["val/../../escaped", "val//etc/escaped"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.tgz").write_bytes(tar_files({name: b"x"}))
    with pytest.raises(StorageError, match="points outside"):
        unpack_folder(tmp_path / "a.tgz", "val/", tmp_path / "out" / "in", known=1000, moved=lambda _: None)
    assert not list(tmp_path.rglob("escaped"))


def test_links_in_an_archive_are_left_there(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(tar_files({"val/1": b"x"}, links=[("val/2", "/etc/passwd")]))
    assert unpack_folder(tmp_path / "a.tgz", "val/", tmp_path / "out", known=1000, moved=lambda _: None) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["1"]


def test_a_link_in_place_of_what_is_being_unpacked_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(tar_files({"val/1": b"x"}))
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / f"out/.1{PARTIAL}").symlink_to(tmp_path / "mine")
    unpack_folder(tmp_path / "a.tgz", "val/", tmp_path / "out", known=1000, moved=lambda _: None)
    assert ((tmp_path / "mine").read_text(), (tmp_path / "out/1").read_bytes()) == ("mine", b"x")


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(tar_files({"f": bytes(1 << 20)}))
    with pytest.raises(StorageError, match="would unpack to"):
        unpack_member(tmp_path / "a.tgz", "f", tmp_path / "out", known=1000)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [b"no archive", tar_files({"f": bytes(range(256)) * 400})[:300], b""])
def test_what_is_no_whole_archive_is_reported(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.tgz").write_bytes(data)
    with pytest.raises(StorageError, match=r"a\.tgz"):
        unpack_member(tmp_path / "a.tgz", "f", tmp_path / "out", known=1 << 20)
    assert not (tmp_path / "out").exists()


def test_a_web_server_as_mirror_has_archives_where_their_files_belong(scratch: Scratch) -> None:
    packed = zip_files({"val/1.jpg": b"one"})
    behaviour = Behaviour({"/lab/data/b/images.zip": packed, "/lab/models/b%20c.onnx": b"model"})
    with serve(behaviour) as address:
        images = make_file("data/b/*.jpg", "https://x.example/images.zip", data=packed, unpack="val/", packed=9)
        model = make_file("models/b c.onnx", "https://x.example/m", data=b"model")
        ended = bring(scratch, images, model, mirror=Mirror(f"{address}/lab/"))
    assert [item.fate for item in ended] == [FetchStatus.FETCHED, FetchStatus.FETCHED], ended


@pytest.mark.parametrize("as_address", [True, False])
def test_a_folder_as_mirror_gives_also_what_comes_by_hand(scratch: Scratch, tmp_path: Path, as_address: bool) -> None:
    lab = tmp_path / "lab"
    (lab / "data/b").mkdir(parents=True)
    for name in ("1.jpg", "2.jpg"):
        (lab / "data/b" / name).write_bytes(name.encode())
    (lab / "data/labels.txt").write_bytes(b"labels")
    images = make_file("data/b/*.jpg", count=2, by_hand="register first")
    labels = make_file("data/labels.txt", "https://x.example/a.zip", data=b"archive", member="l.txt")
    mirror = Mirror(lab.as_uri() if as_address else str(lab))
    ended = bring(scratch, images, labels, make_file("data/none", "https://x.example/n"), mirror=mirror)
    assert [item.fate for item in ended] == [FetchStatus.FETCHED, FetchStatus.FETCHED, FetchStatus.FAILED]
    assert (scratch.root / "data/b/2.jpg").read_bytes() == b"2.jpg"
    assert (scratch.root / "data/labels.txt").read_bytes() == b"labels"


def test_a_mirror_that_has_some_files_leaves_the_others_to_be_brought(scratch: Scratch, tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    for folder in ("data/b", "data/c"):
        (lab / folder).mkdir(parents=True)
        (lab / folder / "1.jpg").write_bytes(b"one")
    by_hand = make_file("data/b/*.jpg", count=3, by_hand="register first")
    published = make_file("data/c/*.jpg", "https://x.example/c.zip", count=3, unpack="c/")
    ended = bring(scratch, by_hand, published, mirror=Mirror(str(lab)))
    assert [(item.fate, item.why.rpartition("/")[2]) for item in ended] == [
        (FetchStatus.BY_HAND, "1 of 3 files exist"),
        (FetchStatus.FAILED, "c: 1 of 3 files exist"),
    ]
    assert (scratch.root / "data/b/1.jpg").read_bytes() == b"one"


def test_a_full_disk_is_reported_before_anything_comes(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "measure_free", lambda _: 100 << 20)
    file = make_file("data/f", "http://127.0.0.1:9/f", size=200 << 20)
    due: list[Due] = decide(scratch, [make_benchmark(file)], None, optional=False)
    with pytest.raises(StorageError, match="200 MiB needed"):
        check_room(scratch, due)


def test_a_scratch_space_is_named_or_found(tmp_path: Path) -> None:
    assert find_scratch({"MLPERF_SCRATCH_PATH": "/a"}, "/b").root == Path("/b")
    assert find_scratch({"MLPERF_SCRATCH_PATH": "/a"}).root == Path("/a")
    with pytest.raises(ReconcilerError) as caught:
        find_scratch({})
    assert "MLPERF_SCRATCH_PATH" in caught.value.fix


def test_relative_scratch_space_is_refused_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", "data")
    with pytest.raises(ReconcilerError) as caught:
        find_scratch(os.environ)
    (check,) = check_scratch()
    assert (check.missing, check.text, check.fix) == (True, caught.value.message, caught.value.fix)
    with pytest.raises(UnfitError) as unfit:
        add_scratch_places({}, BenchmarkFiles(folder="", names=(), datasets=(), models=()), Variables(os.environ), {})
    assert (unfit.value.message, unfit.value.fix) == (caught.value.message, caught.value.fix)


def test_every_file_of_every_benchmark_has_a_way_to_come() -> None:
    known, lengths = load_benchmark_files(), {"md5": 32, "sha256": 64, "git": 40}
    assert {"resnet50", "retinanet", "ssd-resnet34", "bert", "3d-unet", "dlrm-v2", "rnnt"} <= set(known)
    for item in known.values():
        for file in item.files:
            assert bool(file.sources) != bool(file.by_hand), file.path
            assert all(source.startswith(("https://", "http://")) for source in file.sources)
            assert file.licence
            assert file.size
            assert file.path.startswith(("data/", "models/"))
            assert (file.count == 1) == (not file.is_pattern), file.path
            assert not any(source.startswith("http://") for source in file.sources) or file.digest, file.path
            assert file.digest is None or len(file.digest.value) == lengths[file.digest.algorithm]
            assert bool(file.packed) == file.is_archive, file.path


def make_listing(*names: str) -> bytes:
    return json.dumps({"images": [{"file_name": name} for name in names]}).encode()


def test_the_files_that_a_list_names_come_after_it(scratch: Scratch) -> None:
    listing = make_listing("1.jpg", "2 a.jpg", "3.jpg")
    behaviour = Behaviour({"/l": listing, "/i/1.jpg": b"one", "/i/2%20a.jpg": b"two", "/i/3.jpg": b"three"})
    with serve(behaviour) as address:
        images = make_file("data/b/*.jpg", f"{address}/i/", count=3, listed_in="data/list.json")
        labels = make_file("data/list.json", f"{address}/l", data=listing)
        (scratch.root / "data/b").mkdir(parents=True)
        (scratch.root / "data/b/1.jpg").write_bytes(b"one")
        assert [item.fate for item in bring(scratch, images, labels)] == [FetchStatus.FETCHED, FetchStatus.FETCHED]
    assert (scratch.root / "data/b/2 a.jpg").read_bytes() == b"two"
    assert {path for path, *_ in behaviour.asked} == {"/l", "/i/2%20a.jpg", "/i/3.jpg"}
    assert len(list(scratch.incoming.glob("*.lock"))) == 2  # one for the list, one for all that it names


def test_of_many_files_those_that_come_stay(scratch: Scratch) -> None:
    listing = make_listing("1.jpg", "2.jpg")
    with serve(Behaviour({"/l": listing, "/i/2.jpg": b"two"})) as address:
        images = make_file("data/b/*.jpg", f"{address}/i", count=2, listed_in="data/list.json")
        ended = bring(scratch, make_file("data/list.json", f"{address}/l", data=listing), images)
    assert [item.fate for item in ended] == [FetchStatus.FETCHED, FetchStatus.FAILED]
    assert "1 of 2 files could not be fetched" in ended[1].why
    assert "/i/1.jpg" in ended[1].why
    assert (scratch.root / "data/b/2.jpg").read_bytes() == b"two"


@pytest.mark.parametrize("name", ["../escaped.jpg", "/escaped.jpg", ".."])
def test_a_list_that_names_files_elsewhere_is_refused(scratch: Scratch, name: str) -> None:
    (scratch.root / "data").mkdir(parents=True)
    (scratch.root / "data/list.json").write_bytes(make_listing(name))
    images = make_file("data/b/*.jpg", "http://127.0.0.1:9/i", count=1, listed_in="data/list.json")
    (ended,) = bring(scratch, images)
    assert ended.fate is FetchStatus.FAILED
    assert "not a file name" in ended.why
