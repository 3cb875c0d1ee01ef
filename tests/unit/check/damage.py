"""Random damage to a tree: files removed, bytes flipped, fields retyped, folders added. Seeded: it can be repeated."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    "",
    "NaN",
    [],
    {},
    [[1]],
    {"a": None},
    "9" * 400,
    float("nan"),
    10**30,
)

_NUMBER = re.compile(rb"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?![\w.])")
NUMBERS = (
    *(b"1e400", b"-1e400", b"1e308", b"1e-400", b"1e999999999", b"-1e999999999", b"1e-999999999", b"1e999999"),
    *(b"9" * 50, b"9" * 400, b"9" * 4000, b"9" * 5000, b"0x" + b"f" * 5000, b"0." + b"0" * 400 + b"1", b"5e-324"),
    *(b"0", b"-0", b"-1", b"NaN", b"Infinity", b"-Infinity", b"sNaN", b"18446744073709551616", b"1_000", b"1:2:3"),
    *(
        b"true",
        b"null",
        b"[]",
        b"{}",
        b'"1e999999999"',
        b"0x1p99999",
        "\u0661\u0662".encode(),
        "\u00b2".encode(),
        b"1e",
    ),
)

_CODE = "src"


def damage(root: Path, seed: int) -> str:
    """One to three random changes; gives their names, for the message of a failing test."""
    choose = random.Random(seed)
    names = []
    for _ in range(choose.randint(1, 3)):
        change = choose.choice(CHANGES)
        change(root, choose)
        names.append(change.__name__)
    return f"seed {seed}: {', '.join(names)}"


def _files(root: Path) -> list[Path]:
    """Without code: whatever it says, no one judges it."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in found if _CODE not in path.relative_to(root).parts)


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())


def remove_file(root: Path, choose: random.Random) -> None:
    if files := _files(root):
        choose.choice(files).unlink()


def remove_folder(root: Path, choose: random.Random) -> None:
    folders = [path for path in _folders(root) if path.name not in ("closed", "open", "network")]
    if folders:
        shutil.rmtree(choose.choice(folders))


def flip_bytes(root: Path, choose: random.Random) -> None:
    if files := [path for path in _files(root) if path.stat().st_size]:
        path = choose.choice(files)
        data = bytearray(path.read_bytes())
        for _ in range(choose.randint(1, 20)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        path.write_bytes(data)


def cut_file(root: Path, choose: random.Random) -> None:
    if files := _files(root):
        path = choose.choice(files)
        data = path.read_bytes()
        path.write_bytes(data[: choose.randint(0, len(data))])


def retype_field(root: Path, choose: random.Random) -> None:
    documents = [path for path in _files(root) if path.name in ("measurements.json", "sys1.json")]
    if documents:
        path = choose.choice(documents)
        try:
            document = json.loads(path.read_bytes())
            document[choose.choice(sorted(document))] = choose.choice(_VALUES)
            path.write_text(json.dumps(document))
        except (ValueError, TypeError, IndexError):
            path.write_text(json.dumps(choose.choice(_VALUES)))


def retype_logged(root: Path, choose: random.Random) -> None:
    logs = [path for path in _files(root) if path.name == "mlperf_log_detail.txt"]
    if not logs:
        return
    path = choose.choice(logs)
    lines = path.read_bytes().split(b"\n")
    index = choose.randrange(len(lines))
    try:
        entry = json.loads(lines[index].partition(b" ")[2])
        entry[choose.choice(("value", "value", "value", "key", "metadata"))] = choose.choice(_VALUES)
        lines[index] = b":::MLLOG " + json.dumps(entry).encode()
    except (ValueError, TypeError):
        del lines[index]
    path.write_bytes(b"\n".join(lines))


def change_number(root: Path, choose: random.Random) -> None:
    """Wherever one is, of whichever file."""
    if files := [path for path in _files(root) if path.stat().st_size < 1 << 20]:
        path = choose.choice(files)
        data = path.read_bytes()
        if found := list(_NUMBER.finditer(data)):
            at = choose.choice(found)
            path.write_bytes(data[: at.start()] + choose.choice(NUMBERS) + data[at.end() :])


def retype_conf(root: Path, choose: random.Random) -> None:
    confs = [path for path in _files(root) if path.name == "user.conf"]
    values = ("= nan", "= inf", "= 1e999999999", "= -1", "=", "= 0x", "= 1 # x", "= 99999999999999999999999", "= é")
    if confs:
        name = choose.choice(
            ("*.*.min_duration", "*.Offline.target_qps", "a.b.c.d", "*.SingleStream.target_latency", "x")
        )
        with choose.choice(confs).open("a") as stream:
            stream.write(f"{name} {choose.choice(values)}\n")


def add_folder(root: Path, choose: random.Random) -> None:
    if folders := _folders(root):
        names = ("server", "Offline", "TEST01", "run_1", "a b", ".x", "TEST99", "results", "mlperf_log_detail.txt", "é")
        path = choose.choice(folders) / choose.choice(names)
        if not path.exists():
            path.mkdir()


def folder_for_file(root: Path, choose: random.Random) -> None:
    if files := _files(root):
        path = choose.choice(files)
        path.unlink()
        path.mkdir()


def link_for_file(root: Path, choose: random.Random) -> None:
    if files := _files(root):
        path = choose.choice(files)
        path.unlink()
        path.symlink_to(choose.choice(("nowhere", "/dev/zero", ".", path.name)))


def copy_over(root: Path, choose: random.Random) -> None:
    if len(files := _files(root)) > 1:
        source, target = choose.sample(files, 2)
        target.write_bytes(source.read_bytes())


CHANGES: tuple[Callable[[Path, random.Random], None], ...] = (
    *(remove_file, remove_folder, flip_bytes, cut_file, retype_field, retype_logged, retype_conf),
    *(add_folder, folder_for_file, link_for_file, copy_over),
)
