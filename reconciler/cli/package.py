"""`reconcile package`: the tree as a reproducible archive, or every reason against it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import click

from reconciler import git
from reconciler.cli.looking import asked, cells_of
from reconciler.cli.options import json_option, spec_option, takes
from reconciler.cli.output import say, say_json
from reconciler.cli.passwords import password_of, password_options
from reconciler.errors import ERROR, IN_SYNC, ReconcilerError
from reconciler.files import replace
from reconciler.look import Look, look
from reconciler.mlperf.log import DetailLog, parse_detail
from reconciler.mlperf.ruleset import Ruleset
from reconciler.reconcile import TOOL, readable
from reconciler.record.index import load_record
from reconciler.render.documents import document
from reconciler.render.quantities import count, size
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.records import Artifact, Record
from reconciler.spec.files import blob_id
from reconciler.tree.check.engine import check_tree
from reconciler.tree.content import Content, LogRef, SubmissionContent
from reconciler.tree.findings import Severity
from reconciler.tree.pack.archive import MANIFEST, Packed, digest_line, digests_of, manifest_bytes, pack
from reconciler.tree.pack.encrypting import ENDINGS, encrypt
from reconciler.tree.pack.refusing import (
    Refusal,
    chosen_ids,
    refused_cells,
    refused_code,
    refused_inferences,
    refused_records,
    refused_remotes,
)
from reconciler.tree.publish import content_of, publishable
from reconciler.tree.render import render
from reconciler.tree.write import write_tree

_LISTED = 30
_OUTPUT = click.Option(
    ["-o", "--output"],
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive to write; by default .reconcile/packages/<submitter>-<round>-<commit>.tar.gz.",
)
_ENCRYPT = click.Option(
    ["--encrypt"], type=click.Choice(tuple(ENDINGS)), help="Encrypt it with this program; the plain one is not kept."
)
_EMBARGO = click.Option(
    ["--despite-embargo"], is_flag=True, help="Pack although the results are secret and a remote is at a public host."
)


@dataclass(frozen=True, slots=True)
class _Submission:
    """All that is packed, and what it was made from."""

    seen: Look
    content: SubmissionContent
    ruleset: Ruleset
    files: tuple[tuple[str, Content], ...]
    commit: str

    def stored(self, ref: LogRef) -> Path:
        return readable(self.seen.places, Artifact("", ref.sha256, ref.size, "logs"))


@click.command("package")
@takes([_OUTPUT, _ENCRYPT, *password_options(), _EMBARGO, spec_option(), json_option()])
def command(
    output: Path | None,
    encrypt: str | None,
    password_file: Path | None,
    password_env: str | None,
    despite_embargo: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Pack the submission tree: a tar.gz that is the same for the same commit, its SHA-1 and SHA-256, and a manifest.

    Refused, with every reason and what to do about it, are rehearsals, synthetic data, unknown inputs of imported runs,
    cells that are not ready or break a rule, and what is not committed.
    """
    places, options = asked(specs)
    submission = _submission(look(places, options))
    refusals = _refusals(submission, despite_embargo=despite_embargo)
    if refusals:
        _refuse(refusals, as_json=as_json)
        return ERROR
    target = output or _default(submission)
    secret = password_of(password_file, password_env, confirm=True) if encrypt else ""
    packed, written = _write(submission, target, encrypt or "", secret)
    if as_json:
        say_json(document("package", commit=submission.commit, files=[str(p) for p in written], sha256=packed.sha256))
    else:
        what = f"{count(len(packed.files), 'file')} of {count(len(submission.content.cells), 'cell')}"
        say(f"Packed {what} of commit {submission.commit[:12]}: {size(packed.size)}, sha256 {packed.sha256}")
        say("\n".join(f"  {path}" for path in written))
    return IN_SYNC


def _submission(seen: Look) -> _Submission:
    commit = git.head(seen.places.root)
    if commit is None:
        raise ReconcilerError("there is no commit to pack", fix="commit specs/ and state/")
    content, ruleset = content_of(
        seen.places,
        seen.desired,
        seen.difference,
        lambda identity: load_record(seen.places, identity),
        lambda ref: readable(seen.places, Artifact("", ref.sha256, ref.size, "logs")),
    )
    return _Submission(seen, content, ruleset, tuple(render(content, ruleset)), commit)


def _refusals(submission: _Submission, *, despite_embargo: bool) -> list[Refusal]:
    seen = submission.seen
    committed = _committed(submission)
    submitted = next(r for r in seen.desired.resources if r.kind is Kind.SUBMISSION)
    settings = seen.desired.detail(submitted.address).settings
    found = [
        Refusal(path, "the spec is not committed", "commit it") for path in sorted(seen.spec) if not committed(path)
    ]
    found += refused_cells(cells_of(seen), seen.difference.findings)
    found += refused_records(_records(seen), committed, _known_spec(seen))
    found += refused_code(submission.content)
    found += _uncommitted(seen, settings, committed)
    found += refused_inferences(submission.content, submission.ruleset, _log_of(submission))
    if not despite_embargo:
        found += refused_remotes(settings, git.remotes(seen.places.root), date.today())
    if not submission.content.cells:
        found.append(Refusal("the submission", "no cell can be published", "see: reconcile status"))
    else:
        found += _broken_rules(submission)
    return list(dict.fromkeys(found))


def _committed(submission: _Submission) -> Callable[[str], bool]:
    """Whether a path's bytes, below the repository, are those of the commit."""
    root = submission.seen.places.root
    known = git.files_at(root, submission.commit)

    def committed(path: str) -> bool:
        try:
            return path in known and blob_id((root / path).read_bytes()) == known[path][0]
        except OSError:
            return False

    return committed


def _known_spec(seen: Look) -> Callable[[str, str], bool]:
    known: dict[tuple[str, str], bool] = {}

    def found(path: str, blob: str) -> bool:
        if (path, blob) not in known:
            known[path, blob] = bool(git.commits_of_blob(seen.places.root, path, blob))
        return known[path, blob]

    return found


def _records(seen: Look) -> dict[Cell, list[tuple[str, Record]]]:
    chosen = publishable(seen.difference)
    return {
        cell: [(identity, load_record(seen.places, identity)) for identity in chosen_ids(records)]
        for cell, records in chosen.items()
    }


def _uncommitted(seen: Look, settings: object, committed: Callable[[str], bool]) -> Iterator[Refusal]:
    """Published files in the repository must be in its commit, or another checkout packs other bytes."""
    assert isinstance(settings, dict)
    paths = [path for paths in settings.get("code", {}).values() for path in paths]
    paths += [value for name, value in settings.items() if name.startswith("documents.")]
    root = seen.places.root.resolve()
    for path in dict.fromkeys(paths):
        top = (root / path).resolve()
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(top).parts)
            if not file.is_file() or hidden or file.suffix == ".pyc" or not file.is_relative_to(root):
                continue
            if not committed(name := file.relative_to(root).as_posix()):
                yield Refusal(name, "it is published, and not committed", "commit it")


def _log_of(submission: _Submission) -> Callable[[Cell], DetailLog]:
    by_cell = {content.cell: content for content in submission.content.cells}

    def read(cell: Cell) -> DetailLog:
        detail = by_cell[cell].performance["mlperf_log_detail.txt"]
        data = submission.stored(detail).read_bytes() if isinstance(detail, LogRef) else detail
        return parse_detail(data)

    return read


def _broken_rules(submission: _Submission) -> list[Refusal]:
    """What `check` finds in the tree as it would be packed."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(Path(folder), submission.files, (), submission.stored)
        report = check_tree(Path(folder), round_name=submission.ruleset.round)
    return [
        Refusal(
            finding.cell or str(finding.complaint.place),
            f"{finding.complaint.place}: {finding.complaint.found}, wanted {finding.complaint.wanted}",
            finding.complaint.fix or "see: reconcile check",
        )
        for finding in report.findings
        if finding.severity is Severity.ERROR
    ]


def _refuse(refusals: list[Refusal], *, as_json: bool) -> None:
    if as_json:
        rows = [{"where": r.where, "reason": r.reason, "fix": r.fix} for r in refusals]
        say_json(document("package", refused=rows))
        return
    lines = [f"Nothing is packed; {count(len(refusals), 'reason')}:"]
    for refusal in refusals[:_LISTED]:
        lines += [f"  {refusal.where}: {refusal.reason}", f"    fix: {refusal.fix}"]
    if len(refusals) > _LISTED:
        lines.append(f"  … and {len(refusals) - _LISTED} more; --json lists all")
    say("\n".join(lines))


def _default(submission: _Submission) -> Path:
    name = f"{submission.content.submitter}-{submission.ruleset.round}-{submission.commit[:12]}.tar.gz"
    return submission.seen.places.work / "packages" / name


def _write(submission: _Submission, target: Path, tool: str, secret: str) -> tuple[Packed, list[Path]]:
    packed = pack(target, submission.files, submission.stored)
    manifest = target.with_name(target.name + MANIFEST)
    replace(manifest, manifest_bytes(packed, _about(submission)))
    files = [target, manifest]
    if tool:
        plain, files = files, [path.with_name(path.name + ENDINGS[tool]) for path in files]
        try:
            for source, path in zip(plain, files, strict=True):
                path.unlink(missing_ok=True)
                encrypt(tool, source, path, secret)
        finally:
            for path in plain:
                path.unlink(missing_ok=True)
    for name, digest in digests_of(files[0]).items():
        beside = files[0].with_name(f"{files[0].name}.{name}")
        replace(beside, digest_line(digest, files[0].name))
        files.append(beside)
    return packed, files


def _about(submission: _Submission) -> dict[str, object]:
    cells = [
        {"cell": str(item.cell), **({"inferred_from": str(item.inferred_from)} if item.inferred_from else {})}
        for item in submission.content.cells
    ]
    return {
        "tool": TOOL,
        "commit": submission.commit,
        "round": submission.ruleset.round,
        "submitter": submission.content.submitter,
        "spec": dict(sorted(submission.seen.spec.items())),
        "cells": cells,
    }
