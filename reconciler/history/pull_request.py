"""Consequences of merging a pull request: compares its commits cell by cell, with remarks for its reviewer."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import BUILT
from reconciler.diff.change import Change, Difference, InputChange, Reason, Work, list_input_changes
from reconciler.diff.claims import Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.diff.impact import CellEffect, DueWork, Effect, Impact, Remark
from reconciler.errors import ReconcilerError, SpecError
from reconciler.history.commit_records import name_record
from reconciler.history.logs import Logs, open_logs
from reconciler.history.snapshot import Shared, Snapshot, read_snapshot
from reconciler.plan.expectation import Expectation
from reconciler.reconcile.planning import make_expectation
from reconciler.resource.decisions import AcceptanceStatus, Freeze, find_freeze
from reconciler.resource.embargo import explain_refusal, make_embargo
from reconciler.resource.kinds import Address, Cell, Kind, rank_cell
from reconciler.resource.records import Recorded
from reconciler.resource.wording import show_acceptance
from reconciler.spec.locations import SECRETS
from reconciler.storage import git
from reconciler.storage.files import LOGS, RECORDS, RepositoryPaths
from reconciler.storage.git import find_appearances

# A pull request's changes to decisions and to frozen cells: remarks for its reviewer.

_AGAIN = "restore it, or remove it and repeat the decision"


def review_decisions(base: Snapshot, head: Snapshot, cells: Iterable[CellEffect]) -> tuple[Remark, ...]:
    """Review changes to decisions and to frozen cells. Both snapshots are from one repository; ``cells``: the effect
    of merging on each."""
    damaged = (
        Remark("error", path, 0, f"the decision is damaged: {why}", _AGAIN)
        for path, why in head.decisions.damaged.items()
    )
    return (*damaged, *_review_acceptances(base, head), *_review_freezes(base, head), *_find_frozen(base, head, cells))


def _review_acceptances(base: Snapshot, head: Snapshot) -> Iterator[Remark]:
    for path, item, status in head.difference.acceptances:
        text = f"{item.cell}: accepts {show_acceptance(item, status)}"
        if path not in base.decisions.acceptances:
            fix = "merge it only if the recorded results may count for these inputs"
            yield Remark("warning", path, 0, text, fix)
        elif status in (AcceptanceStatus.EXPIRED, AcceptanceStatus.CHANGED):
            yield Remark("notice", path, 0, text, "measure the cell, or accept again")
    for path, item in base.decisions.acceptances.items():
        if path not in head.decisions.acceptances and path not in head.decisions.damaged:
            yield Remark("notice", path, 0, f"{item.cell}: its acceptance is revoked")


def _review_freezes(base: Snapshot, head: Snapshot) -> Iterator[Remark]:
    for path, freeze in head.decisions.freezes.items():
        if path not in base.decisions.freezes:
            yield Remark("notice", path, 0, f"{_show_subject(freeze)} is to be {freeze}")
    for path, freeze in base.decisions.freezes.items():
        if path not in head.decisions.freezes and freeze in base.decisions.frozen:
            fix = "merge it only if the frozen results may change again"
            yield Remark("warning", path, 0, f"{_show_subject(freeze)} is to be unfrozen; it is {freeze}", fix)


def _show_subject(freeze: Freeze) -> str:
    return str(freeze.cell or "the whole submission")


def _find_frozen(base: Snapshot, head: Snapshot, cells: Iterable[CellEffect]) -> Iterator[Remark]:
    """Yield cells that were frozen before merging and that it changes, at the responsible line."""
    for cell in cells:
        freeze = find_freeze(cell.cell, base.decisions.frozen)
        published = (at.difference.chosen.get(cell.cell) for at in (base, head))
        if freeze is None or cell.effect in (Effect.WAS_STALE, Effect.NEVER):
            continue
        if cell.effect is not Effect.UNAFFECTED:
            what = str(cell.effect)
        elif len(set(published)) > 1:
            what = "one with other published records"
        else:
            continue
        line = next((cause.origin for cause in cell.causes if cause.origin.line), None)
        fix = f"do not change it, or: reconcile unfreeze {freeze.cell or '--all'}"
        text = f"{cell.cell} is {freeze}; merging makes it {what}"
        yield Remark("warning", line.file if line else "", line.line if line else 0, text, fix)


Predict = Callable[[Address, Snapshot], float | None]


def compute_impact(
    base: Snapshot, head: Snapshot, predict: Predict, remarks: Iterable[Remark] = (), *, withheld: str = ""
) -> Impact:
    """Both snapshots are from one repository; ``predict``: returns a step's seconds, None if unknown. ``withheld``: why
    measured figures must be left out, "" if they may appear."""
    before, after = _list_due(base.desired, base.difference), _list_due(head.desired, head.difference)
    head.records.fetch(change.previous for change in head.difference.changes)
    cells = [*after, *(cell for cell in before if cell not in after)]
    found = tuple(_compare_cell(cell, before, after, head, base, predict) for cell in sorted(cells, key=rank_cell))
    steps = {c.key: c for c in head.difference.changes if c.how is Work.MAKE}.values()
    was = _DueBefore.collect(base.difference.changes)
    return Impact(
        base=base.commit,
        head=head.commit,
        cells=found,
        added=_sum_up([change for change in steps if not was.includes(change)], head, predict),
        due_before=_sum_up(list(filter(was.includes, steps)), head, predict),
        remarks=(*remarks, *review_decisions(base, head, found), *(() if withheld else _find_thin_margins(head))),
        withheld=withheld,
    )


class _DueBefore(Struct, frozen=True):
    """What is due on the base: the keys of these resources, and the addresses of those without a record."""

    keys: frozenset[str]
    never: frozenset[Address]

    @classmethod
    def collect(cls, changes: Iterable[Change]) -> _DueBefore:
        made = [change for change in changes if change.how is Work.MAKE]
        never = frozenset(change.address for change in made if change.reason is Reason.NOT_RECORDED)
        return cls(frozenset(change.key for change in made), never)

    def includes(self, change: Change) -> bool:
        """Return True for the same resource, and for another version of a resource that was never made."""
        return change.key in self.keys or (change.reason is Reason.NOT_RECORDED and change.address in self.never)


def _sum_up(changes: Sequence[Change], head: Snapshot, predict: Predict) -> DueWork:
    times = [predict(change.address, head) for change in changes]
    known = [t for t in times if t is not None]
    return DueWork(Counter(change.address.label for change in changes), sum(known), len(times) - len(known))


def _list_due(desired: Desired, difference: Difference) -> dict[Cell, list[Change]]:
    """Return every declared cell, with the changes of its own resources and of their sources."""
    changes, accepted = {change.address: change for change in difference.changes}, difference.accepted
    order = {address: number for number, address in enumerate(changes)}
    found: dict[Cell, list[Change]] = {}
    for resource in desired.resources:
        if resource.cell is None or resource.kind is not Kind.RESULT:
            continue
        lineage = desired.list_lineage(resource.address) if changes else []
        # Inputs of accepted results may be remade for other cells.
        spared = BUILT if resource.cell in accepted else ()
        due = sorted(order.keys() & lineage, key=order.__getitem__)
        found[resource.cell] = [changes[address] for address in due if address.kind not in spared]
    return found


def _compare_cell(
    cell: Cell,
    before: Mapping[Cell, list[Change]],
    after: Mapping[Cell, list[Change]],
    head: Snapshot,
    base: Snapshot,
    predict: Predict,
) -> CellEffect:
    if cell not in after:
        return CellEffect(cell, Effect.REMOVED)
    made = [change for change in after[cell] if change.how is Work.MAKE]
    due = tuple(dict.fromkeys(change.address.label for change in made))
    times = [predict(change.address, head) for change in made]
    seconds = None if any(t is None for t in times) else sum(t for t in times if t is not None)
    was = _DueBefore.collect(before.get(cell, ()))
    due_before = tuple(dict.fromkeys(change.address.label for change in made if was.includes(change)))
    causes = [cause for change in made for cause in _list_causes(change, head, base)]
    own, earlier = (tuple(c for c, on_base in causes if on_base is wanted) for wanted in (False, True))
    effect = _derive_effect(cell, before, made, head, base)
    return CellEffect(cell, effect, due, due_before, own, earlier, seconds if made else 0.0)


def _derive_effect(
    cell: Cell, before: Mapping[Cell, list[Change]], made: list[Change], head: Snapshot, base: Snapshot
) -> Effect:
    if cell not in before:
        return Effect.ADDED
    was = _DueBefore.collect(before[cell])
    accepted = head.difference.accepted.get(cell)
    if not made and accepted is not None and accepted != base.difference.accepted.get(cell):
        return Effect.ACCEPTED
    if made and all(map(was.includes, made)):
        return Effect.NEVER if all(change.reason is Reason.NOT_RECORDED for change in made) else Effect.WAS_STALE
    if made:
        return Effect.STALE
    if was.keys:
        return Effect.SETTLED
    result = Address(Kind.RESULT, str(cell))
    same = base.desired.by_address[result].key == head.desired.by_address[result].key
    return Effect.UNAFFECTED if same else Effect.RENDERED


def _list_causes(change: Change, head: Snapshot, base: Snapshot) -> list[tuple[InputChange, bool]]:
    """Return own inputs that differ from the record, and whether the base has the same value."""
    record = head.records.get(change.previous)
    if record is None:
        return []
    found = list_input_changes(head.desired.detail(change.address).inputs, record.inputs)
    own = [item for item in found if item.upstream is None]
    if change.address not in base.desired.by_address:
        return [(item, False) for item in own]
    then = {item.name: item.value for item in base.desired.detail(change.address).inputs}
    return [(item, then.get(item.name) == item.after) for item in own]


def _find_thin_margins(head: Snapshot) -> list[Remark]:
    """Return a remark for each published run that met a constraint only narrowly, since the next run may miss it."""
    fix = "lower the target a little, or expect a repeat"
    return [
        Remark("warning", "", 0, f"{cell}: {text}", fix)
        for cell, chosen in head.difference.chosen.items()
        for text in head.committed.thin.get(chosen.performance, ())
    ]


_RENDER = "render the tree again (`reconcile`), and commit the result"
_REDATED = "commit again with the right date, or explain the wrong clock in the pull request"
_MEASURE = "restore the original records and logs, or measure again; `reconcile audit` shows every claim"


def find_forgeries(root: Path, base: str, at: Snapshot, *, withheld: bool = False) -> tuple[Remark, ...]:
    """Find additions that their own logs contradict: results under a correct name, and files of a tree that were not
    rendered. Only additions and changes are read again; `audit` reads the whole commit. ``withheld``: leave out
    measured figures."""
    changed = git.list_changed_files(root, base, at.commit)
    cells, edited = _list_touched(at, changed), _list_edited(at, changed)
    others = {path for path in changed if path.startswith(f"{RECORDS}/")}
    if not cells and not edited and not others:
        return ()
    with open_logs(root, at.commit) as logs:
        denied = _find_contradicted(at, cells, logs, {name_record(path) for path in others}, withheld=withheld)
        rewritten = _find_rewritten(root, at, others, withheld=withheld)
        return (*denied, *rewritten, *_find_redated(root, base, at), *_find_edited(root, at, edited, logs))


def _find_redated(root: Path, base: str, at: Snapshot) -> Iterator[Remark]:
    from reconciler.history.dates import find_wrong_commits

    commits = f"{base}..{at.commit}"
    for claim in find_wrong_commits(root, commits, find_appearances(root, commits, (RECORDS,))):
        severity = "error" if claim.proof is Proof.CONTRADICTED else "warning"
        yield Remark(severity, "", 0, f"{claim.what}: {claim.detail}", _REDATED)


def _find_rewritten(root: Path, at: Snapshot, changed: Collection[str], *, withheld: bool) -> Iterator[Remark]:
    """Yield records that the pull request removes and rewrites."""
    if not (gone := {path for path in changed if name_record(path) not in at.committed.summaries}):
        return
    from reconciler.history.runs import find_rewritten_records

    appeared = find_appearances(root, at.commit, (RECORDS,))
    for claim in find_rewritten_records(root, at, appeared, gone):
        yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)


def _list_touched(at: Snapshot, changed: Collection[str]) -> list[Cell]:
    """List the cells whose results use a new record or log."""
    new = {path for path in changed if path.startswith((f"{RECORDS}/", f"{LOGS}/"))}
    return sorted(cell for cell in at.difference.chosen if _is_touched(cell, at, new)) if new else []


def _is_touched(cell: Cell, at: Snapshot, new: Collection[str]) -> bool:
    known = at.committed.summaries
    records = _list_needed(at, at.difference.chosen[cell].all)
    logs = (a.sha256 for identity in records for a in known[identity].artifacts if a.place == "logs")
    return any(f"{RECORDS}/{i}.json" in new for i in records) or any(f"{LOGS}/{digest}" in new for digest in logs)


def _list_edited(at: Snapshot, changed: Collection[str]) -> set[str]:
    """List files of the commit's tree that the pull request changes."""
    tree = at.desired.submission.tree.rstrip("/")
    return {path for path in changed if tree and path.startswith(f"{tree}/")}


def _find_contradicted(
    at: Snapshot, cells: list[Cell], logs: Logs, new: Collection[str], *, withheld: bool
) -> Iterator[Remark]:
    """Find results that their logs contradict. ``new``: records that the pull request adds, used or not."""
    from reconciler.history.audit import audit_cell
    from reconciler.history.records import RecordChecks
    from reconciler.history.runs import find_copies

    published, checks = list_published_cells(at.difference.chosen), RecordChecks(at, logs)
    lineage = _list_needed(at, [*(i for cell in cells for i in at.difference.chosen[cell].all), *new])
    at.records.fetch(lineage)
    for cell in cells:
        for claim in audit_cell(cell, at, logs, published=str(cell) in published, checks=checks):
            if claim.proof is Proof.CONTRADICTED:
                yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)
    for claim in (*checks.verify_others(lineage), *checks.verify_roles()):
        yield Remark("error", claim.where, 0, _explain(claim, withheld=withheld), _MEASURE)
    touched = set(map(str, cells))
    for claim in find_copies(at, logs) if cells else ():
        if claim.where in touched:
            yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)


def _list_needed(at: Snapshot, identities: Iterable[str]) -> set[str]:
    """Return these records and all that they were made from."""
    ahead = list(identities)
    found: set[str] = set()
    while ahead:
        identity = ahead.pop()
        if identity not in found and identity in at.committed.summaries:
            found.add(identity)
            ahead += [upstream for _, upstream in at.committed.summaries[identity].upstream]
    return found


def _explain(claim: Claim, *, withheld: bool) -> str:
    return f"{claim.where}: {claim.what}: {'its logs say otherwise' if withheld else claim.detail}"


def _find_edited(root: Path, at: Snapshot, touched: set[str], logs: Logs) -> Iterator[Remark]:
    if not touched:
        return
    tree = at.desired.submission.tree.rstrip("/")
    from reconciler.history.rendered import find_committed_tree, find_unlike_files, render_commit

    committed = find_committed_tree(root, at.commit, tree)
    if not committed or not list_published_cells(at.difference.chosen):
        return
    try:
        files = render_commit(root, at, logs)
    except (ReconcilerError, KeyError, OSError) as error:
        yield Remark("warning", tree, 0, f"its files cannot be compared: the tree cannot be rendered: {error}")
        return
    for name, _, why in find_unlike_files(root, files, committed, logs):
        if f"{tree}/{name}" in touched:
            yield Remark("error", f"{tree}/{name}", 0, f"a rendered file was edited: {why}", _RENDER)


class Compared(Struct, frozen=True):
    """The comparison of two commits. ``outside``: the parts of ``impact`` that a comment, an annotation or a workflow's
    page may show."""

    impact: Impact
    outside: Impact


def assess_merge(paths: RepositoryPaths, base: str, head: str) -> Compared:
    """Compare with the merge base, as a merge would. Raises RepositoryError for a commit that is missing here."""
    root = paths.root
    tip, wanted = git.resolve(root, base), git.resolve(root, head)
    parted = git.find_merge_base(root, tip, wanted)
    base_commit = parted or tip
    apart: tuple[Remark, ...] = ()
    if not parted and tip not in git.find_parents(root, wanted):
        removed = f"files of {tip[:10]} that head does not have count as removed"
        fix = "git fetch --unshallow" if git.is_shallow(root) else "start the branch from the base"
        apart = (Remark("warning", "", 0, f"head and base have no common history here: {removed}", fix),)
    # A clone without local work, as in a workflow, is used once: nothing is cached there. Few records are read in full:
    # the sources of changes, and new ones.
    index = paths.index if paths.index.is_dir() else None
    today, shared = datetime.now(UTC).date(), Shared(index, keep=False)
    try:
        after = read_snapshot(root, wanted, today=today, shared=shared)
    except SpecError as error:
        remarks = (*review_specs(error), *review(root, base_commit, wanted, {}), *apart)
        broken = Impact(base_commit, wanted, (), remarks=remarks)
        return Compared(broken, broken)
    remarks = (*review(root, base_commit, wanted, after.damaged), *apart)
    try:
        before = read_snapshot(root, base_commit, today=today, shared=shared)
    except SpecError as error:
        before, first = _make_empty_base(after, base_commit), error.problems[0]
        place = f"{first.file}:{first.line}" if first.line else first.file
        remarks = (*remarks, Remark("notice", "", 0, f"the base has no valid spec: {place}: {first.message}"))
    shared.reader.save()
    found = compute_impact(before, after, _make_predictor(), (*remarks, *find_forgeries(root, base_commit, after)))
    why = check_embargo_of_page(root, before, after)
    if not why:
        return Compared(found, found)
    remarks = (*remarks, *find_forgeries(root, base_commit, after, withheld=True))
    return Compared(found, compute_impact(before, after, _predict_by_formula, remarks, withheld=why))


def check_embargo_of_page(root: Path, *commits: Snapshot) -> str:
    """Explain why measured figures may not be on the pull request's page; "" if they may. An embargo that either commit
    declares counts: merging may end it, but proposing to end it does not."""
    embargoes = [make_embargo(at.desired.submission) for at in commits]
    today, pages = datetime.now(UTC).date(), list_page_addresses(root)
    return next(filter(None, (explain_refusal(e, page, today) for e in embargoes for page in pages)), "")


def list_page_addresses(root: Path) -> list[str]:
    """List the addresses of the pull request's repository: the one that its workflow states, or else all remotes of
    this clone. If there are none, list one address that matches nothing."""
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    known = f"{server}/{name}" if server and name else os.environ.get("CI_PROJECT_URL", "")
    return [known] if known else [url for _, url in git.list_remotes(root)] or [""]


def _make_empty_base(after: Snapshot, base: str) -> Snapshot:
    """Return a base without cells, for one without a readable spec."""
    empty = type(after.desired)(digest="", resources=(), detail=after.desired.detail, name="", by_address={})
    return Snapshot(base, {}, empty, after.recorded, type(after.difference)(changes=()), after.committed)


def _make_predictor() -> Callable[[Address, Snapshot], float | None]:
    """Predict from a commit's records; records similar to a step are looked up once."""
    known: dict[str, Expectation] = {}

    def predict(address: Address, at: Snapshot) -> float | None:
        if at.commit not in known:
            known[at.commit] = make_expectation(at.desired, at.recorded)
        return known[at.commit].predict(address)[0]

    return predict


def _predict_by_formula(address: Address, at: Snapshot) -> float | None:
    """Predict from an earlier run's speed."""
    return make_expectation(at.desired, Recorded()).predict(address)[0]


LARGE = 1 << 20  # bytes: the limit of one log in git
_READ = 2 << 20  # bytes to search for secrets

_SECRETS = (
    *((what, re.compile(pattern.encode())) for what, pattern in SECRETS.items()),
    (
        "a password",
        re.compile(
            rb"(?im)(?:^[ \t]*(?:export |- )?['\"]?|\{ *['\"]?|, *['\"])"
            rb"[\w.-]*(?:password|passwd|secret_key|secret_access_key|api_key)['\"]?\s*[:=]\s*['\"]?[^\s'\"{$<]{8,}"
        ),
    ),
)


def review_specs(error: SpecError) -> tuple[Remark, ...]:
    return tuple(
        Remark("error", p.file, p.line, f"{p.path}: {p.message}" if p.path else p.message, p.fix, p.column)
        for p in error.problems
    )


def review(root: Path, base: str, head: str, damaged: Mapping[str, str]) -> tuple[Remark, ...]:
    """Return remarks about the files that differ between two commits, and about the head's damaged records."""
    changed = git.list_changed_files(root, base, head)
    there = sorted(path for path, (_, blob) in changed.items() if blob)
    sizes = git.list_files_at(root, head, there) if changed else {}
    found = [*_review_records(changed, damaged), *_review_files(root, changed, sizes)]
    named = (replace(remark, file=_escape_path(remark.file)) for remark in found)
    return tuple(sorted(named, key=lambda remark: (remark.level, remark.file)))


def _escape_path(path: str) -> str:
    """Return a printable form of a name that is not UTF-8 or has control characters, for a terminal, a comment and
    JSON."""
    text = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _review_records(changed: Mapping[str, tuple[str, str]], damaged: Mapping[str, str]) -> Iterator[Remark]:
    for path, why in sorted(damaged.items()):
        fix = "restore it from the base; records never change"
        yield Remark("error", path, 0, f"the record is damaged: {why}", fix)
    for path, (status, _) in sorted(changed.items()):
        if path.startswith(f"{RECORDS}/") and status in "MT" and path not in damaged:
            yield Remark("error", path, 0, "a record was edited", "restore it; a new outcome is a new record")
        elif path.startswith(f"{RECORDS}/") and status == "D" and "/." not in path:
            text = "a record is deleted, and with it the evidence"
            yield Remark("warning", path, 0, text, "restore it unless intended")
        elif path.startswith(f"{LOGS}/") and status in "MDT" and "/." not in path:
            yield Remark("error", path, 0, "a recorded log was edited or deleted", "restore it from the base")


def _review_files(
    root: Path, changed: Mapping[str, tuple[str, str]], sizes: Mapping[str, tuple[str, int]]
) -> Iterator[Remark]:
    small = {}
    if local := next((path for path in sorted(sizes) if path.startswith(".reconcile/")), ""):
        text = "files of .reconcile/ are local to each machine"
        yield Remark("error", local, 0, text, "remove them from the branch: git rm -r --cached .reconcile")
    for path, (blob, size) in sorted(sizes.items()):
        if size > LARGE:
            yield Remark("warning", path, 0, f"the file has {size / 2**20:.1f} MiB", "keep large files outside git")
        if path in changed and size <= _READ and not path.startswith(f"{LOGS}/"):
            small[path] = blob
    contents = git.read_blobs(root, small.values())
    for path, blob in small.items():
        data = contents.get(blob, b"")
        for what, pattern in _SECRETS:
            if match := pattern.search(data):
                line = data.count(b"\n", 0, match.start()) + 1
                fix = "remove it from this branch's history and revoke it; specs must only refer to secrets"
                yield Remark("error", path, line, f"this looks like {what}", fix)
                break
