"""`reconcile unpack FILE`: the inverse of `package`."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.shared.existing_path import ExistingPath
from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.passwords import password_options, read_password
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.publish.archive import MANIFEST
from reconciler.publish.encryption import ENDINGS, decrypt, is_encrypted
from reconciler.publish.unpacking import require_file, unpack, verify_digests
from reconciler.render.documents import render_document
from reconciler.resource.quantities import show_count, show_size
from reconciler.storage.leftovers import open_temporary

_FILE = click.Argument(["file"], metavar="FILE", type=ExistingPath(dir_okay=False, path_type=Path))
_OUTPUT = click.Option(
    ["-o", "--output"],
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new folder; by default the archive's name without its endings, here.",
)
_VERIFY = click.Option(
    ["--verify"], is_flag=True, help="Verify it first: the digests next to FILE, and every file against its manifest."
)


@click.command("unpack")
@takes([_FILE, _OUTPUT, _VERIFY, *password_options(), json_option()])
def command(
    file: Path,
    output: Path | None,
    verify: bool,
    password_file: Path | None,
    password_env: str | None,
    as_json: bool,
) -> int:
    """Unpack an archive that `package` wrote, encrypted or not. Names that lead out of DIR, and links, are refused."""
    require_file(file)
    folder = output or Path(_bare(file.name))
    manifest = _manifest(file)
    if verify and not manifest.is_file():
        raise ReconcilerError(f"there is no {manifest.name} to verify by", fix="fetch it too, or leave --verify out")
    checked = list(verify_digests(file)) if verify else []
    with open_temporary("unpack") as scratch:
        archive, listed = file, manifest
        if is_encrypted(file):
            secret = read_password(password_file, password_env, confirm=False)
            archive, listed = scratch / "archive", scratch / "manifest"
            decrypt(file, archive, secret)
            if verify:
                decrypt(manifest, listed, secret)
        unpacked = unpack(archive, folder, listed.read_bytes() if verify else None)
    checked += unpacked.checked
    if as_json:
        report = {"folder": str(folder), "files": unpacked.files, "bytes": unpacked.size, "verified": checked}
        say_json(render_document("unpack", **report))
    else:
        say("\n".join([*(f"ok: {line}" for line in checked), ""][: len(checked)]) if checked else "Not verified.")
        say(f"Unpacked {show_count(unpacked.files, 'file')} ({show_size(unpacked.size)}) into {folder}")
    return IN_SYNC


def _manifest(file: Path) -> Path:
    ending = next((e for e in ENDINGS.values() if file.name.endswith(e)), "")
    return file.with_name(f"{file.name.removesuffix(ending)}{MANIFEST}{ending}")


def _bare(name: str) -> str:
    for ending in (*ENDINGS.values(), ".gz", ".tgz", ".tar"):
        name = name.removesuffix(ending)
    return name
