"""`package` and `unpack`: the submission tree as archives."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reconciler.cli.shared.options import ExistingPath, complete_refs, file_option, json_option, spec_option, takes
from reconciler.cli.shared.output import say_report
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.errors import ERROR, IN_SYNC, ReconcilerError
from reconciler.history.packaging import (
    choose_archive,
    find_refusals,
    find_unamended_cells,
    load_packed_submission,
    prepare_registration,
    write_package,
)
from reconciler.publish.archive import MANIFEST
from reconciler.publish.encryption import ENDINGS, decrypt, is_encrypted
from reconciler.publish.preconditions import Refusal
from reconciler.publish.unpacking import require_file, unpack, verify_digests
from reconciler.reconcile.planning import compute_plan
from reconciler.render.documents import render_document
from reconciler.resource.quantities import join_listing, show_count, show_size
from reconciler.resource.wording import show_acceptance
from reconciler.storage import git
from reconciler.storage.leftovers import open_temporary

_LONGEST = 4096  # bytes of a password including its line ending


def password_options() -> list[click.Option]:
    return [
        click.Option(
            ["--password-file"],
            metavar="FILE",
            type=ExistingPath(dir_okay=False, path_type=Path),
            help="Read the password from the first line of FILE. Default: prompt for it.",
        ),
        click.Option(["--password-env"], metavar="NAME", help="Read the password from this environment variable."),
    ]


def read_password(file: Path | None, variable: str | None, *, confirm: bool) -> str:
    if file is not None and variable is not None:
        raise click.UsageError("--password-file or --password-env, not both")
    if file is not None:
        return _read_first_line(file)
    if variable is not None:
        if not os.environ.get(variable):
            raise ReconcilerError(f"the environment variable {variable} is not set", fix=f"export {variable}=…")
        return os.environ[variable]
    asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True)
    return asked


def _read_first_line(file: Path) -> str:
    """Read the first line of a file or pipe, such as the shell's `<(pass show mlperf)`."""
    try:
        with file.open("rb") as stream:
            line = stream.readline(_LONGEST + 1)
        word = line.decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ReconcilerError(f"{file} cannot be read as a password: {error}", fix="name a text file") from error
    if not word or len(line) > _LONGEST:
        raise ReconcilerError(f"{file} has no password in its first line", fix="write it there")
    return word


_LISTED = 30
_PLACES = 4  # cells listed for a reason that several have
_OUTPUT = file_option(
    "The archive to write; by default one named after submitter, round and commit in .reconcile/packages/."
)
_ENCRYPT = click.Option(
    ["--encrypt"], type=click.Choice(tuple(ENDINGS)), help="Encrypt it with this program; no plain copy is kept."
)
_EMBARGO = click.Option(
    ["--despite-embargo"],
    is_flag=True,
    help="Pack even though the results are secret and a remote is on a public host.",
)
_ACCEPTED = click.Option(
    ["--accepted"], is_flag=True, help="Also pack cells whose results count only by `accept`; the manifest names them."
)
_AMENDS = click.Option(
    ["--amends"],
    default="",
    metavar="COMMIT",
    shell_complete=complete_refs,
    help="Pack a corrected submission: it may differ from COMMIT only where `amend` explains it.",
)


@click.command("package")
@takes([_OUTPUT, _ENCRYPT, *password_options(), _EMBARGO, _ACCEPTED, _AMENDS, spec_option(), json_option()])
def package_command(
    output: Path | None,
    encrypt: str | None,
    password_file: Path | None,
    password_env: str | None,
    despite_embargo: bool,
    accepted: bool,
    amends: str,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Pack the submission tree: a tar.gz that is the same for the same commit, its SHA-1 and SHA-256, and a manifest.

    Refused, with every reason and what to do about it, are rehearsals, synthetic data, unknown inputs of imported runs,
    cells that are not ready or break a rule, accepted results, and what is not committed.

    For MLPerf Endpoints it also writes the folders of runs that MLCommons' command line registers, and prints the
    commands without running them.
    """
    if output is not None and output.exists() and not output.is_file():
        raise ReconcilerError(
            f"{output} is not a file", fix="name a file: the manifest and the digests are put next to it"
        )
    paths, options = find_asked_cells(specs)
    submission = load_packed_submission(compute_plan(paths, options))
    refusals = find_refusals(submission, despite_embargo=despite_embargo, accepted=accepted)
    if amends:
        refusals += find_unamended_cells(submission, git.resolve(paths.root, amends))
    if refusals:
        _report_refusals(refusals, as_json=as_json)
        return ERROR
    target = output or choose_archive(submission)
    secret = read_password(password_file, password_env, confirm=True) if encrypt else ""
    packed, written = write_package(submission, target, encrypt or "", secret, amends)
    commands, explained = ([], "") if encrypt else prepare_registration(submission, target)
    parts = {"commit": submission.commit, "files": written, "sha256": packed.sha256, "registration": commands}
    what = f"{show_count(len(packed.files), 'file')} of {show_count(len(submission.content.cells), 'cell')}"
    accepted_cells = submission.seen.difference.accepted
    lines = [
        f"Packed {what} of commit {submission.commit[:12]}: {show_size(packed.size)}, sha256 {packed.sha256}",
        *(f"  {path}" for path in written),
        *(f"  accepted {cell}: {show_acceptance(acceptance)}" for cell, acceptance in accepted_cells.items()),
        *([explained] if explained else []),
    ]
    say_report(render_document("package", **parts), "\n".join(lines), as_json=as_json)
    return IN_SYNC


def _report_refusals(refusals: list[Refusal], *, as_json: bool) -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        places.setdefault((refusal.reason, refusal.fix), []).append(refusal.where)
    lines = [f"Nothing is packed; {show_count(len(places), 'reason')}:"]
    shown = list(places.items())[:_LISTED]
    for number, ((reason, fix), where) in enumerate(shown, 1):
        lines.append(f"  {join_listing(where, most=_PLACES)}: {reason}")
        if number == len(shown) or shown[number][0][1] != fix:  # one fix for all reasons above it
            lines.append(f"    fix: {fix}")
    if len(places) > len(shown):
        lines.append(f"  … and {len(places) - len(shown)} more; --json lists all")
    say_report(render_document("package", refused=refusals), "\n".join(lines), as_json=as_json)


_FILE = click.Argument(["file"], metavar="FILE", type=ExistingPath(dir_okay=False, path_type=Path))
_UNPACK_INTO = click.Option(
    ["-o", "--output"],
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new folder; by default the archive's name without its endings, here.",
)
_VERIFY = click.Option(
    ["--verify"], is_flag=True, help="Verify it first: the digests next to FILE, and every file against its manifest."
)


@click.command("unpack")
@takes([_FILE, _UNPACK_INTO, _VERIFY, *password_options(), json_option()])
def unpack_command(
    file: Path, output: Path | None, verify: bool, password_file: Path | None, password_env: str | None, as_json: bool
) -> int:
    """Unpack an archive that `package` wrote, encrypted or not. Names that lead out of DIR, and links, are refused."""
    require_file(file)
    folder = output or Path(_strip_endings(file.name))
    ending = next((e for e in ENDINGS.values() if file.name.endswith(e)), "")
    manifest = file.with_name(f"{file.name.removesuffix(ending)}{MANIFEST}{ending}")
    if verify and not manifest.is_file():
        raise ReconcilerError(f"there is no {manifest.name} to verify with", fix="fetch it too, or omit --verify")
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
    report = {"folder": folder, "files": unpacked.files, "bytes": unpacked.size, "verified": checked}
    lines = [f"ok: {line}" for line in checked] or ["Not verified."]
    lines.append(f"Unpacked {show_count(unpacked.files, 'file')} ({show_size(unpacked.size)}) into {folder}")
    say_report(render_document("unpack", **report), "\n".join(lines), as_json=as_json)
    return IN_SYNC


def _strip_endings(name: str) -> str:
    for ending in (*ENDINGS.values(), ".gz", ".tgz", ".tar"):
        name = name.removesuffix(ending)
    return name
