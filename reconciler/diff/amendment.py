"""Changes to a submitted result, and whether they are a correction. Pure.

The submission rules (fixing objections) allow code and its consequences to be corrected once an objection is accepted.
A mere repeat corrects nothing. A result may always be withdrawn or moved to the open division.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import Refused
from reconciler.diff.change import Chosen, Difference, Work
from reconciler.diff.difference import is_published
from reconciler.diff.fingerprint import compute_fingerprint
from reconciler.resource.canonical import canonicalise, digest
from reconciler.resource.decisions import AcceptedInput, Amendment
from reconciler.resource.kinds import Address, Cell, Kind

_SHARED = "Submission: "  # prefix of an input of files that cells share


class SubmissionState(Struct, frozen=True):
    """A submission in a commit or in the work tree."""

    desired: Desired
    difference: Difference

    def find_result(self, cell: Cell) -> str:
        """Return the digest of a published result and its inputs; "" if it is not published."""
        chosen = self.difference.chosen.get(cell)
        if chosen is None or not is_published(chosen):
            return ""
        return compute_fingerprint(self.desired.by_address[Address(Kind.RESULT, str(cell))], list(chosen.all))

    @property
    def results(self) -> dict[Cell, str]:
        found = {cell: self.find_result(cell) for cell in sorted(self.difference.chosen)}
        return {cell: result for cell, result in found.items() if result}


def compare_results(cell: Cell, before: SubmissionState, after: SubmissionState) -> tuple[str, str]:
    """Return the digests of a result in both states, "" if it is not published. They include the published description
    of its system if it differs."""
    was, now = before.find_result(cell), after.find_result(cell)
    old, new = ({n: value for n, (value, _) in _describe_system(s.desired, cell).items()} for s in (before, after))
    if old == new or not was or not now:
        return was, now
    return digest([was, old]), digest([now, new])


def list_differing_inputs(before: Desired, after: Desired, cell: Cell) -> dict[str, AcceptedInput]:
    """Return the differing inputs of a result and its upstream resources, by "Resource: name", without upstream
    keys."""
    old, new = (_collect_inputs(found, cell) | _describe_system(found, cell) for found in (before, after))
    found = {}
    for name in sorted(old.keys() | new.keys()):
        (was, _), (now, origin) = old.get(name, (None, "")), new.get(name, (None, ""))
        if was != now:
            found[name] = AcceptedInput(was, now, origin)
    return found


def _collect_inputs(desired: Desired, cell: Cell) -> dict[str, tuple[object, str]]:
    found: dict[str, tuple[object, str]] = {}
    for address in _list_lineage(desired, cell):
        for item in desired.detail(address).inputs:
            if item.upstream is None:
                found[f"{address.label}: {item.name}"] = canonicalise(item.value), str(item.origin)
    return found


def _describe_system(desired: Desired, cell: Cell) -> dict[str, tuple[object, str]]:
    """Collect the published description of the cell's system."""
    prefix = f"systems.{cell.system}."
    found = (item for item in desired.shared if item.name.startswith(prefix))
    return {f"{_SHARED}{item.name}": (canonicalise(item.value), str(item.origin)) for item in found}


def _list_lineage(desired: Desired, cell: Cell) -> Iterator[Address]:
    queue, done = [Address(Kind.RESULT, str(cell))], set[Address]()
    while queue:
        address = queue.pop()
        if address not in done and address in desired.by_address:
            done.add(address)
            yield address
            queue += desired.by_address[address].upstream


def list_repeated(before: Chosen, after: Chosen) -> tuple[str, ...]:
    """List the parts of the result whose published records are not the submitted ones."""
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in ("performance", "accuracy", "score")]
    tests = dict(before.tests)
    pairs += [(name, tests.get(name, ""), identity) for name, identity in after.tests]
    return tuple(name for name, was, now in pairs if now and was != now)


def judge_amendment(
    cell: Cell,
    before: SubmissionState,
    after: SubmissionState,
    inputs: Mapping[str, AcceptedInput],
    repeated: tuple[str, ...],
) -> tuple[Refused, ...]:
    """Return the reasons why the present result is not a correction of the submitted one."""
    if not before.find_result(cell):
        return (Refused("it has no result in the submitted commit", "pass that commit: --since COMMIT"),)
    if not after.find_result(cell):
        due = [c.address.label for c in after.difference.changes if c.address.cell == cell and c.how is Work.MAKE]
        why = f"it is not complete: {', '.join(due)} must be repeated" if due else "it is no longer published"
        fix = f"measure it (reconcile cell={cell}), or withdraw it: remove it from the spec, without an amendment"
        return (Refused(why, fix),)
    was, now = compare_results(cell, before, after)
    if was == now:
        return (Refused("it is the same as submitted", "correct it first, then record why"),)
    if cell in after.difference.accepted:
        why = "its results are accepted, not measured from this spec, and cannot correct a submission"
        return (Refused(why, f"measure it: reconcile accept {cell} --revoke, then reconcile cell={cell}"),)
    if repeated and all(name.startswith(_SHARED) for name in inputs):
        why = f"{', '.join(repeated)} was repeated with the same inputs, which is not a correction"
        return (Refused(why, "publish the submitted run: set the policy `publish`, or remove the later records"),)
    return ()


def find_unamended(
    before: SubmissionState, after: SubmissionState, amendments: Mapping[str, Amendment]
) -> dict[Cell, str]:
    """Find cells that differ from the submission without an amendment for exactly this difference. Return the problem
    of each."""
    covered = {(item.cell, item.result.before, item.result.after) for item in amendments.values()}
    submitted, found = before.results, {}
    for cell in after.results:
        was, now = compare_results(cell, before, after)
        if cell not in submitted:
            found[cell] = "it was not submitted"
        elif was != now and (cell, was, now) not in covered:
            found[cell] = "it differs from the submission, without an amendment"
    return found
