"""Content of a package, and everything that speaks against it: the submission at a commit, checked from all sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from reconciler.check.engine import check_tree
from reconciler.diff.amendment import SubmissionState, find_unamended
from reconciler.errors import ReconcilerError
from reconciler.history.snapshot import read_snapshot
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.publish.preconditions import (
    Refusal,
    collect_chosen_ids,
    find_refused_acceptances,
    find_refused_cells,
    find_refused_code,
    find_refused_inferences,
    find_refused_records,
    find_refused_remotes,
)
from reconciler.publish.rendered_tree import assemble_content, find_log, is_publishable
from reconciler.publish.tree_files import write_tree
from reconciler.reconcile.planning import PlanResult, list_cells
from reconciler.record.index import load_record
from reconciler.resource.kinds import Cell
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.records import Record
from reconciler.resource.rules import Severity
from reconciler.resource.settings import SubmissionSettings
from reconciler.rules.programs import load_program
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.files import compute_blob_id
from reconciler.storage import git
from reconciler.storage.leftovers import open_temporary
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.tree.content import Content, LogRef, SubmissionContent
from reconciler.tree.render import render


class PackedSubmission(Struct, frozen=True):
    """All that is packed, and what it was made from."""

    seen: PlanResult
    content: SubmissionContent
    ruleset: Ruleset
    files: tuple[tuple[str, Content], ...]
    commit: str

    def stored(self, ref: LogRef) -> Path:
        return find_log(self.seen.paths, ref)


def load_packed_submission(seen: PlanResult) -> PackedSubmission:
    """ReconcilerError where there is no commit."""
    commit = git.find_head(seen.paths.root)
    if commit is None:
        raise ReconcilerError("there is no commit to pack", fix="commit specs/ and state/")
    content, ruleset = assemble_content(seen.paths, seen.desired, seen.difference)
    return PackedSubmission(seen, content, ruleset, tuple(render(content, ruleset)), commit)


def find_refusals(submission: PackedSubmission, *, despite_embargo: bool, accepted: bool = False) -> list[Refusal]:
    """Every reason against packing; the embargo and what was ``accepted`` are none when the user says so."""
    seen = submission.seen
    committed = _committed(submission)
    settings = seen.desired.submission
    found = [
        Refusal(path, "the spec is not committed", "commit it") for path in sorted(seen.spec) if not committed(path)
    ]
    found += find_refused_cells(list_cells(seen), seen.difference.findings)
    found += find_refused_records(_records(seen), committed, _known_spec(seen))
    found += find_refused_acceptances(seen.difference.acceptances, committed, wanted=accepted)
    found += find_refused_code(submission.content)
    found += _uncommitted(seen, settings, committed)
    found += find_refused_inferences(submission.content, submission.ruleset, _log_of(submission))
    if not despite_embargo:
        found += find_refused_remotes(settings, git.list_remotes(seen.paths.root), datetime.now(UTC).date())
    if not submission.content.cells:
        found.append(Refusal("the submission", "no cell can be published", "see: reconcile status"))
    else:
        found += _broken_rules(submission)
    return list(dict.fromkeys(found))


def find_unamended_cells(submission: PackedSubmission, base: str) -> list[Refusal]:
    """``base``: the commit that was submitted before."""
    seen = submission.seen
    before = read_snapshot(seen.paths.root, base)
    amendments, committed = seen.decisions.amendments, _committed(submission)
    found = find_unamended(
        SubmissionState(before.desired, before.difference), SubmissionState(seen.desired, seen.difference), amendments
    )
    fix = f"reconcile amend CELL --since {base[:12]} --objection … --reason …"
    refused = [Refusal(str(cell), why, fix.replace("CELL", str(cell))) for cell, why in found.items()]
    loose = [path for path in sorted(amendments) if not committed(path)]
    return refused + [Refusal(path, "the amendment is not committed", "commit it") for path in loose]


def _committed(submission: PackedSubmission) -> Callable[[str], bool]:
    """True where a path's bytes, below the repository, are those of the commit."""
    root = submission.seen.paths.root
    known = git.list_files_at(root, submission.commit)

    def committed(path: str) -> bool:
        try:
            return path in known and compute_blob_id((root / path).read_bytes()) == known[path][0]
        except OSError as error:
            refuse_storage_error(error, root / path)
            return False

    return committed


def _known_spec(seen: PlanResult) -> Callable[[str, str], bool]:
    known: dict[tuple[str, str], bool] = {}

    def found(path: str, blob: str) -> bool:
        if (path, blob) not in known:
            known[path, blob] = bool(git.find_blob_commits(seen.paths.root, path, blob))
        return known[path, blob]

    return found


def _records(seen: PlanResult) -> dict[Cell, list[tuple[str, Record]]]:
    chosen = is_publishable(seen.difference)
    return {
        cell: [(identity, load_record(seen.paths, identity)) for identity in collect_chosen_ids(records)]
        for cell, records in chosen.items()
    }


def _uncommitted(seen: PlanResult, settings: SubmissionSettings, committed: Callable[[str], bool]) -> Iterator[Refusal]:
    """Published files in the repository must be in its commit, or another checkout packs other bytes."""
    paths = [path for paths in settings.code.values() for path in paths]
    paths += map(str, settings.get_below("documents.").values())
    root = seen.paths.root.resolve()
    for path in dict.fromkeys(paths):
        top = (root / path).resolve()
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(top).parts)
            if not file.is_file() or hidden or file.suffix == ".pyc" or not file.is_relative_to(root):
                continue
            if not committed(name := file.relative_to(root).as_posix()):
                yield Refusal(name, "it is published, and not committed", "commit it")


def _log_of(submission: PackedSubmission) -> Callable[[Cell], DetailLog]:
    by_cell = {content.cell: content for content in submission.content.cells}

    def read(cell: Cell) -> DetailLog:
        detail = by_cell[cell].performance[DETAIL]
        data = submission.stored(detail).read_bytes() if isinstance(detail, LogRef) else detail
        return parse_detail(data)

    return read


def _broken_rules(submission: PackedSubmission) -> list[Refusal]:
    """List the findings of `check` in the tree as it would be packed."""
    with open_temporary("package") as folder:
        write_tree(folder, submission.files, (), submission.stored)
        if submission.ruleset.layout in PROGRAMS:
            report = load_program(submission.ruleset.layout).check(folder)
        else:
            report = check_tree(folder, round_name=submission.ruleset.round)
    return [
        Refusal(
            finding.cell or str(finding.complaint.place),
            f"{finding.complaint.place}: {finding.complaint.found}, wanted {finding.complaint.wanted}",
            finding.complaint.fix or "see: reconcile check",
        )
        for finding in report.findings
        if finding.severity is Severity.ERROR
    ]
