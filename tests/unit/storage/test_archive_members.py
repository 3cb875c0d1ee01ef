"""Archives made to hang, fill or crash anyone who opens them: each reader of ours refuses them with a word, at once."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError, StorageError
from reconciler.fetch.fetch import unpack_folder
from reconciler.publish.unpacking import unpack
from reconciler.storage.code_archive import unpack_code

_SIZE = slice(124, 136)  # of a head (POSIX, ustar)


def head(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, written: bytes = b"") -> bytes:
    """``written``: the bytes of the size, where it is none that tarfile would write."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    raw = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    if written:
        raw[_SIZE] = written
    total = 256 + sum(raw[:148]) + sum(raw[156:512])
    raw[148:156] = b"%06o\0 " % total
    return bytes(raw)


def block(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def attributes(text: bytes) -> bytes:
    return head("attributes", len(text), tarfile.XHDTYPE) + block(text)


END = bytes(1024)
FILE = head("closed/a.py", 1) + block(b"x")
BELOW_ZERO = b"\xff" * 10 + b"\xfc\x00"  # -1024: the reader would begin again with the file before
NAME = head("././@LongLink", 5, tarfile.GNUTYPE_LONGNAME) + block(b"abcd\0")
TARS = {
    "a size below zero": FILE + head("closed/b.py", written=BELOW_ZERO) + END,
    "attributes with a size below zero": FILE + attributes(b"14 size=-2048\n") + head("closed/b.py") + END,
    "names within names": NAME * 3000 + FILE + END,
    "attributes within attributes": attributes(b"12 path=aaa\n") * 3000 + FILE + END,
    "a name of megabytes": head("././@LongLink", 3 << 20, tarfile.GNUTYPE_LONGNAME) + bytes(3 << 20) + FILE + END,
    "attributes of megabytes": head("attributes", 3 << 20, tarfile.XHDTYPE) + bytes(3 << 20) + FILE + END,
    "a length of no attribute": attributes(b"0 size=1\n") + FILE + END,
}


def read_code(data: bytes, _: Path) -> None:
    unpack_code(gzip.compress(data))


def read_submission(data: bytes, folder: Path) -> None:
    (folder / "x.tar").write_bytes(data)
    unpack(folder / "x.tar", folder / "out", None)


def read_published(data: bytes, folder: Path) -> None:
    (folder / "x.tar").write_bytes(data)
    unpack_folder(folder / "x.tar", "closed/", folder / "out", known=1 << 20, moved=lambda _: None)


READERS: dict[str, tuple[Callable[[bytes, Path], None], type[Exception]]] = {
    "code of a run": (read_code, ValueError),
    "a submission": (read_submission, ReconcilerError),
    "of a publisher": (read_published, StorageError),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("attack", TARS)
def test_a_hostile_archive_is_refused(reader: str, attack: str, tmp_path: Path) -> None:
    read, expected = READERS[reader]
    with pytest.raises(expected):
        read(TARS[attack], tmp_path)


@pytest.mark.parametrize("reader", READERS)
def test_the_same_without_the_attack_is_read(reader: str, tmp_path: Path) -> None:
    READERS[reader][0](FILE + END, tmp_path)


@pytest.mark.parametrize(
    ("data", "why"),
    [(FILE * 2 + END, "closed/a.py"), (FILE + head("s.py", 0, tarfile.GNUTYPE_SPARSE) + END, "s.py")],
    ids=["twice", "holes"],
)
def test_code_of_two_meanings_is_none(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=f"{why} is not a file of code"):
        unpack_code(gzip.compress(data))


def make_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("closed/a.py", b"pass\n" * 100)
    return stream.getvalue()


def edit(data: bytes, central: int, local: int, value: int) -> bytes:
    """A field of two bytes, in both heads of the one file."""
    out = bytearray(data)
    for at in (data.index(b"PK\x01\x02") + central, data.index(b"PK\x03\x04") + local):
        out[at : at + 2] = value.to_bytes(2, "little")
    return bytes(out)


@pytest.mark.parametrize(
    "data",
    [
        edit(make_zip(), 8, 6, 1),
        edit(make_zip(), 10, 8, 97),
        make_zip().replace(b"pass", b"fail")[:45] + b"\xff" * 8 + make_zip()[53:],
        lzma.compress(FILE + END)[:60],
    ],
    ids=["a-password", "an-unknown-method", "damaged", "cut"],
)
def test_an_archive_that_cannot_be_opened_says_so(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be unpacked"):
        read_published(data, tmp_path)
