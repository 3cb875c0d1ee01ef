"""Encrypt with a well-maintained tool as a child process. The password goes through a pipe, so that no argument,
environment variable or file contains it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from reconciler.errors import ReconcilerError
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.process import Child, build_child_environment

ENDINGS = {"gpg": ".gpg", "openssl": ".enc"}
_ROUNDS = "600000"  # rounds of PBKDF2-HMAC-SHA256, as password guides recommend
_PATIENCE = 3600.0  # seconds for one file


def encrypt(tool: str, source: Path, target: Path, password: str) -> None:
    """Encrypt with AES-256. Decrypt with ``gpg -d`` or ``openssl enc -d -aes-256-cbc -pbkdf2 -iter 600000``."""
    _crypt(tool, source, target, password, decrypting=False)


def decrypt(source: Path, target: Path, password: str) -> None:
    """Decrypt by the file's suffix. Raises ReconcilerError for a wrong password or a damaged file."""
    tool = next((name for name, ending in ENDINGS.items() if source.name.endswith(ending)), "")
    if not tool:
        raise ReconcilerError(
            f"{source} is not encrypted", fix=f"its name does not end in {', '.join(ENDINGS.values())}"
        )
    _crypt(tool, source, target, password, decrypting=True)


def is_encrypted(path: Path) -> bool:
    return path.name.endswith(tuple(ENDINGS.values()))


def _crypt(tool: str, source: Path, target: Path, password: str, *, decrypting: bool) -> None:
    if shutil.which(tool) is None:
        raise ReconcilerError(f"{tool} is not installed", fix=f"install {tool}, or use --encrypt with the other one")
    if not password or "\n" in password:
        raise ReconcilerError("the password is empty or contains a line break", fix="use one line of text")
    reading, writing = os.pipe()
    try:
        os.write(writing, password.encode() + b"\n")
        os.close(writing)
        with open_temporary("pack") as home:
            command = _make_command(tool, source, target, reading, home, decrypting=decrypting)
            status, said = _run(command, home, reading)
            if tool == "gpg":
                _run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], home, None)
    finally:
        os.close(reading)
    if status != 0 or not target.is_file():
        target.unlink(missing_ok=True)
        fix = "check the password, and that the file is complete" if decrypting else "see its output"
        raise ReconcilerError(f"{tool} could not {'open' if decrypting else 'encrypt'} {source.name}: {said}", fix=fix)


def _make_command(tool: str, source: Path, target: Path, reading: int, home: Path, *, decrypting: bool) -> list[str]:
    files = source.resolve(), target.resolve()
    if tool == "openssl":
        mode = ["-d"] if decrypting else ["-salt"]
        derive = ["-aes-256-cbc", "-pbkdf2", "-iter", _ROUNDS, "-md", "sha256"]
        return ["openssl", "enc", *mode, *derive, "-in", str(files[0]), "-out", str(files[1]), "-pass", f"fd:{reading}"]
    mode = ["--decrypt"] if decrypting else ["--symmetric", "--cipher-algo", "AES256", "--no-symkey-cache"]
    quiet = ["--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", "--passphrase-fd", str(reading)]
    return ["gpg", "--homedir", str(home), *quiet, "--output", str(files[1]), *mode, str(files[0])]


def _run(command: Sequence[str], folder: Path, reading: int | None) -> tuple[int | None, str]:
    log = folder / "said"
    keep_open = () if reading is None else (reading,)
    with Child(command, folder=folder, log=log, environment=build_child_environment(), keep_open=keep_open) as child:
        status = child.wait(_PATIENCE)
    lines = log.read_text(errors="replace").splitlines()
    said = [line for line in lines if "keybox" not in line and "trustdb" not in line]
    return status, " ".join(said[-3:])
