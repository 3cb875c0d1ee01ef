"""Audit a commit using only git's objects: no artifacts, no backend libraries, no network.

Every record is checked against its name and its key, every log against its digest. Metrics and verdicts are derived
again from the logs, and the tree is rendered again from both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.change import REASON_WORDS, Chosen
from reconciler.diff.claims import AuditReport, Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.diff.run_selection import find_differing_evidence
from reconciler.errors import LogError
from reconciler.history.dates import find_wrong_commits, find_wrong_dates, verify_start
from reconciler.history.logs import Good, Logs, open_logs, read_record_files
from reconciler.history.records import RecordChecks
from reconciler.history.rendered import verify_tree_files
from reconciler.history.runs import (
    find_copies,
    find_missing_runs,
    find_rewritten_records,
    note_shallow,
    verify_candidates,
    verify_release,
    verify_runs,
)
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen.log_files import (
    ACCURACY_LOG,
    BASELINE,
    COMPLIANCE,
    DETAIL,
    SUMMARY,
    VERIFY_ACCURACY,
    is_truncated,
)
from reconciler.reconcile.worker import TOOL
from reconciler.record.decisions import FOLDERS, is_decision, parse_decisions
from reconciler.resource.canonical import digest
from reconciler.resource.decisions import Decisions
from reconciler.resource.inputs import digest_inputs
from reconciler.resource.kinds import ACCURACY, AUDIT, PERFORMANCE, Address, Cell, Kind, rank_cell
from reconciler.resource.records import IMPORTED, UNKNOWN, Record
from reconciler.resource.settings import COUNTED
from reconciler.resource.wording import show_acceptance
from reconciler.rules.compliance.definition import FAIL, PASS, AuditVerdict, MissingLogError, RunLogs, VerdictInputs
from reconciler.rules.compliance.judging import collect_verdict_inputs, find_test, judge
from reconciler.rules.compliance.published import Published, is_passed, judge_files
from reconciler.rules.rounds import load_ruleset
from reconciler.storage import git
from reconciler.storage.collector import pause_collector
from reconciler.storage.files import LOGS, RECORDS
from reconciler.storage.git import Appearances, find_appearances
from reconciler.storage.untrusted_files import LARGEST_RECORD

# Compare a system's description, which makes no result stale, with the machines in the records.

_NODES = "number_of_nodes"


def verify_described(cell: Cell, name: str, record: Record, at: Snapshot) -> Iterator[Claim]:
    """Compare a system's description with the hardware that the spec declared for the run, and with the number of nodes
    on which it was placed, some of which may not belong to the system."""
    described = at.desired.submission.systems[cell.system].description
    stated = {field: text for field in COUNTED if (text := str(described.get(field, "")).strip()).isdecimal()}
    ran = {field: record.inputs[setting].value for field, setting in COUNTED.items() if setting in record.inputs}
    for field in sorted(stated.keys() & ran.keys()):
        if stated[field] != str(ran[field]):
            detail = f"{field} is {stated[field]} in the description of {cell.system}, but {ran[field]} in the run"
            yield Claim(str(cell), f"{name}: {field}", Proof.CONTRADICTED, detail)
    placed = record.facts["machine.nodes"].value if "machine.nodes" in record.facts else None
    nodes = stated.get(_NODES) if _NODES not in ran else None
    if isinstance(placed, list) and placed and nodes is not None and nodes != str(len(placed)):
        detail = f"{_NODES} is {nodes} in the description of {cell.system}, but the run used {len(placed)}"
        yield Claim(str(cell), f"{name}: {_NODES}", Proof.MISSING, detail)


# Decisions are not signed, and their names are derived from their bytes, so only the history shows a rewritten one.
#
# A repeated decision has a new time. If two decisions of one cell and kind have the same second, one was edited, unless
# both are in force.


class _Moment(Struct, frozen=True):
    """The subject and time of a decision, which are equal for all versions of it."""

    kind: str
    cell: str
    made: str


def find_rewritten_decisions(root: Path, at: Snapshot, appeared: Appearances) -> Iterator[Claim]:
    """Find decisions that were edited after they were committed. Revoked decisions are not reported."""
    present = _list_moments(at.decisions)
    if not present:
        return
    decided = {key: commit for key, commit in appeared.items() if is_decision(key[0])}
    contents = git.read_blobs(root, [blob for (path, blob) in decided if path not in present])
    first: dict[_Moment, tuple[str, str]] = {}
    for (path, blob), commit in decided.items():
        data = contents.get(blob, b"")
        moments = {path: present[path]} if path in present else {}
        if path not in present and len(data) <= LARGEST_RECORD:
            moments = _list_moments(parse_decisions({path: data}, at.decisions.today))
        for moment in moments.values():
            first.setdefault(moment, (path, commit.id))
    for path, moment in sorted(present.items()):
        was, brought = first.get(moment, (path, ""))
        if was not in present:
            added = f"{was}, which {brought[:12]} added with the time {moment.made} and another content"
            what = f"{moment.kind}: original decision"
            yield Claim(moment.cell, what, Proof.CONTRADICTED, f"{path} replaced {added}")


def _list_moments(decisions: Decisions) -> dict[str, _Moment]:
    """Return path → subject and time of each decision."""
    return {
        path: _Moment(type(item).__name__.lower(), str(item.cell or "submission"), item.made)
        for path, item in decisions.all.items()
    }


_DIGEST_TEXTS = {
    Proof.PROVEN: "SHA-256 {0}",
    Proof.CONTRADICTED: "the bytes differ from the recorded SHA-256 {0}",
    Proof.MISSING: f"{LOGS}/{{0}} is not in this commit",
}


def audit(root: Path, at: Snapshot) -> AuditReport:
    """Verify every claim of a commit, in a fixed order."""
    with pause_collector(), open_logs(root, at.commit) as logs:
        claims = tuple(_list_claims(root, at, logs))
    marks: dict[str, tuple[str, ...]] = {}
    for cell in sorted(at.difference.chosen, key=rank_cell):
        records = (at.records[identity] for identity in at.difference.chosen[cell].all if identity in at.records)
        if found := tuple(sorted({mark for record in records for mark in record.marks})):
            marks[str(cell)] = found
    return AuditReport(at.commit, claims, len(at.records), len(logs.checked), marks)


def _list_claims(root: Path, at: Snapshot, logs: Logs) -> Iterator[Claim]:
    yield from (Claim(path, "record", Proof.CONTRADICTED, why) for path, why in sorted(at.damaged.items()))
    published, checks = list_published_cells(at.difference.chosen), RecordChecks(at, logs)
    for cell in sorted(at.difference.chosen, key=rank_cell):
        yield from audit_cell(cell, at, logs, published=str(cell) in published, checks=checks)
    yield from checks.verify_others(at.records)
    yield from checks.verify_roles()
    yield from find_copies(at, logs)
    yield from _verify_other_logs(at, logs)
    appeared = find_appearances(root, at.commit, (RECORDS, *FOLDERS))
    yield from find_missing_runs(root, at, appeared)
    yield from find_rewritten_records(root, at, appeared)
    yield from find_rewritten_decisions(root, at, appeared)
    yield from find_wrong_dates(root, at, appeared)
    yield from find_wrong_commits(root, at.commit, appeared)
    yield from note_shallow(root)
    yield from verify_tree_files(root, at, logs)


def audit_cell(
    cell: Cell, at: Snapshot, logs: Logs, *, published: bool, checks: RecordChecks | None = None
) -> Iterator[Claim]:
    """Verify the claims of one cell's records. ``published``: its result is in the tree; ``checks``: shared between
    cells."""
    checks = checks or RecordChecks(at, logs)
    chosen = at.difference.chosen[cell]
    if not published:
        yield Claim(str(cell), "result", Proof.MISSING, _explain_missing(cell, at))
    runs = (("performance", chosen.performance), ("accuracy", chosen.accuracy), ("score", chosen.score), *chosen.tests)
    records = [(name, at.records[i]) for name, i in runs if i in at.records]
    verdicts = [(name, at.records[i]) for name, i in chosen.verdicts if i in at.records]
    needed = [a for _, record in [*records, *verdicts] for a in record.artifacts if a.place == "logs"]
    good = logs.read(needed)
    for name, record in records:
        if not record.imported_whole:
            yield _verify_inputs(cell, name, record, at)
        yield from _verify_digests(cell, name, record, logs)
        yield from verify_imported(cell, name, record, chosen, at, good) if record.imported_whole else ()
        yield from verify_runs(cell, name, record, at, good)
        yield from verify_start(cell, name, record, good)
        yield from verify_release(cell, name, record, good)
        yield from _report_unproven(cell, name, record)
        yield from _find_missing_sources(cell, name, record, at)
        yield from _verify_marks(cell, name, record, at)
        if name == "performance":
            yield from checks.verify_code(cell, name, record, good)
            yield from verify_described(cell, name, record, at)
            yield from verify_candidates(cell, record, at, logs)
    for name, record in verdicts:
        yield _verify_inputs(cell, f"{name} verdict", record, at)
        yield from _verify_digests(cell, f"{name} verdict", record, logs)
        yield from _find_missing_sources(cell, f"{name} verdict", record, at)
        yield verify_verdict(cell, name, record, chosen, at, good)
    yield from checks.verify(cell, chosen.all)
    yield from _verify_evidence(cell, chosen, at)


def _explain_missing(cell: Cell, at: Snapshot) -> str:
    findings = [f.message for f in at.difference.findings if f.where == str(cell)]
    due = [f"{c.address.label}: {REASON_WORDS[c.reason]}" for c in at.difference.changes if c.address.cell == cell]
    return "; ".join([*findings, *due]) or "no run is recorded"


def _verify_inputs(cell: Cell, name: str, record: Record, at: Snapshot) -> Claim:
    """Verify that the record's key follows from its inputs and is the one that the commit's spec requires."""
    inputs = {n: i.value for n, i in record.inputs.items() if i.value is not None}
    what = f"{name}: inputs"
    if digest_inputs(record.address.kind, inputs) != record.key:
        return Claim(str(cell), what, Proof.CONTRADICTED, "the key does not match the listed inputs")
    wanted = at.list_declared(record)
    if wanted is None or record.key != wanted.key:
        if accepted := _describe_acceptance(record, at):
            return Claim(str(cell), what, Proof.ACCEPTED, accepted)
        return Claim(str(cell), what, Proof.CONTRADICTED, "this commit's spec requires other inputs")
    detail = f"{len(record.inputs)} inputs give key {record.key[:12]}, which the spec requires"
    return Claim(str(cell), what, Proof.PROVEN, detail)


def _describe_acceptance(record: Record, at: Snapshot) -> str:
    """Return who accepted the record's other inputs, why and until when; "" without a decision."""
    acceptance = at.difference.accepted.get(record.address.cell) if record.address.cell else None
    counts = {(item.address, item.key.before) for item in acceptance.accepted} if acceptance else frozenset()
    if acceptance is None or (record.address, record.key) not in counts:
        return ""
    return f"not those that the spec requires: {show_acceptance(acceptance)}"


def _verify_digests(cell: Cell, name: str, record: Record, logs: Logs) -> Iterator[Claim]:
    for artifact in record.artifacts:
        if artifact.place == "logs":
            proof = logs.checked[artifact.sha256]
            yield Claim(str(cell), f"{name}: {artifact.name}", proof, _DIGEST_TEXTS[proof].format(artifact.sha256[:12]))


def _verify_other_logs(at: Snapshot, logs: Logs) -> Iterator[Claim]:
    """Find changed and missing logs of superseded, failed and further runs, which no cell uses."""
    known = at.committed.summaries
    audited = {identity for chosen in at.difference.chosen.values() for identity in chosen.all}
    reported = {a.sha256 for identity in audited if identity in known for a in known[identity].artifacts}
    for identity in sorted(known.keys() - audited):
        others = [a for a in known[identity].artifacts if a.place == "logs" and a.sha256 not in reported]
        logs.check(artifact.sha256 for artifact in others)
        for artifact in others:
            if (proof := logs.checked[artifact.sha256]) is not Proof.PROVEN:
                detail = _DIGEST_TEXTS[proof].format(artifact.sha256[:12])
                yield Claim(f"{RECORDS}/{identity}.json", artifact.name, proof, detail)


def _report_unproven(cell: Cell, name: str, record: Record) -> Iterator[Claim]:
    """Report the facts of an imported run that no log proves: a person declared them, or they are unknown."""
    if IMPORTED not in record.marks or record.imported_whole:
        return
    unknown = [mark.removeprefix(UNKNOWN) for mark in record.marks if mark.startswith(UNKNOWN)]
    declared = record.values.get("imported", {}).get("declared", {})
    if unknown:
        yield Claim(str(cell), f"{name}: made from", Proof.MISSING, f"unknown: {', '.join(unknown)}")
    elif declared:
        yield Claim(str(cell), f"{name}: made from", Proof.ATTESTED, f"{', '.join(declared)}, declared by a person")


def _find_missing_sources(cell: Cell, name: str, record: Record, at: Snapshot) -> Iterator[Claim]:
    """Find missing records of the engine, model, dataset or other run from which this one was made, directly or
    indirectly. Without them, it is unknown what ran."""
    left, seen = list(record.upstream.items()), set[str]()
    while left:
        role, identity = left.pop(0)
        if identity in seen:
            continue
        seen.add(identity)
        found = at.records.get(identity)
        if found is None:
            detail = f"the record of its {role}, {identity}, is not in this commit"
            yield Claim(str(cell), f"{name}: made from", Proof.MISSING, detail)
        else:
            left.extend(found.upstream.items())


def _verify_marks(cell: Cell, name: str, record: Record, at: Snapshot) -> Iterator[Claim]:
    """Find records without a mark that their spec assigns. Such records were edited, since the pass that wrote them
    knew the spec."""
    declared = at.list_declared(record)
    given = at.desired.detail(declared.address).marks if declared and IMPORTED not in record.marks else ()
    if lost := [mark for mark in given if mark not in record.marks]:
        detail = f"missing {' and '.join(lost)}, which the spec requires"
        yield Claim(str(cell), f"{name}: marks", Proof.CONTRADICTED, detail)


def _verify_evidence(cell: Cell, chosen: Chosen, at: Snapshot) -> Iterator[Claim]:
    if chosen.performance not in at.records or chosen.accuracy not in at.records:
        return
    one, other = (at.committed.summaries[identity] for identity in (chosen.performance, chosen.accuracy))
    unequal = find_differing_evidence(one, other)
    proof = Proof.CONTRADICTED if unequal else Proof.PROVEN
    names = ", ".join(name for name, _, _ in unequal)
    detail = f"different: {names}" if unequal else f"{len(one.evidence)} facts are equal (engine bytes, code, versions)"
    yield Claim(str(cell), "equal evidence", proof, detail)


# Derive the verdicts of compliance tests again from the logs.

_RUN = "performance/run_1/"
_LONGEST = 200  # characters of a quoted value
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def verify_verdict(cell: Cell, name: str, record: Record, chosen: Chosen, at: Snapshot, logs: Good) -> Claim:
    """Verify a verdict of this program. ``name``: the test's name."""
    claim = partial(Claim, str(cell), f"{name} verdict")
    compared = {AUDIT: dict(chosen.tests).get(name), **_map_runs(chosen)}
    if strangers := [run for run, own in compared.items() if record.upstream.get(run, own) != own]:
        return claim(Proof.CONTRADICTED, f"it compared another {' and '.join(strangers)} run than the published one")
    runs = {run: at.records[i] for run in compared if (i := record.upstream.get(run, "")) in at.records}
    if missing := _find_missing_logs(record, runs, logs):
        return claim(Proof.MISSING, f"not in this commit, or changed: {', '.join(missing)}")
    question = _collect_question(cell, record, runs, at, logs)
    try:
        again = judge(name, question)
    except MissingLogError as error:
        return claim(Proof.ATTESTED, f"{_show_verdict(record)}, not proven: {_describe_missing_answers(str(error))}")
    except (LogError, ValueError, KeyError) as error:
        return claim(Proof.CONTRADICTED, f"its logs cannot be judged: {error}")
    attested = _describe_unproven(name, question)
    if wrong := _find_difference(
        record, again, _decode_files(record, logs), whole=not attested and record.tool == TOOL
    ):
        return claim(Proof.CONTRADICTED, wrong)
    return claim(Proof.ATTESTED if attested else Proof.PROVEN, f"{_show_verdict(record)}, from its logs{attested}")


def _find_missing_logs(record: Record, runs: Mapping[str, Record], logs: Good) -> list[str]:
    needed = [(f"the {run} run's ", item.artifacts, (SUMMARY, DETAIL)) for run, item in runs.items()]
    needed.append(("", record.artifacts, (BASELINE, COMPLIANCE)))
    return [f"{of}{a.name}" for of, items, names in needed for a in items if a.name in names and a.sha256 not in logs]


def _collect_question(
    cell: Cell, record: Record, runs: Mapping[str, Record], at: Snapshot, logs: Good
) -> VerdictInputs:
    declared = at.list_declared(record)
    rules = at.desired.detail(declared.address).rules if declared else None
    question = collect_verdict_inputs(
        {name: item.value for name, item in record.inputs.items()},
        {run: _select_run_logs(read_record_files(made, logs)) for run, made in runs.items()},
        (record.address.cell or cell).scenario,  # an inferred cell has another cell's tests
        (bar.metric for bar in rules.bars) if rules else (),
        _read_answer_type(record),
        record.values.get("answers"),
    )
    texts = _decode_files(record, logs)
    reports = {name: texts[name] for name in (BASELINE, COMPLIANCE) if name in texts}
    if find_test(record.address.part).scored:
        reports = {COMPLIANCE: texts.get(VERIFY_ACCURACY, "")}  # they contain the scorer's output
    return replace(question, reports=reports)


def _map_runs(chosen: Chosen) -> dict[str, str]:
    return {PERFORMANCE: chosen.performance, ACCURACY: chosen.accuracy}


def _read_answer_type(record: Record) -> str:
    """Return the type as which the answers were read: no input records the default."""
    figures = record.values.get("figures", {})
    return str(figures.get("accuracy.compared as", "")).partition(",")[0] or str(figures.get("dtype", ""))


def _select_run_logs(files: Mapping[str, bytes], below: str = "", answers: str = "") -> RunLogs:
    """Select a run's logs. ``below`` and ``answers``: the folders of its logs and of its accuracy log."""
    log = files.get(f"{answers}{ACCURACY_LOG}")
    lines: Callable[[], list[bytes]] | None = log.splitlines if log and not is_truncated(log) else None
    return RunLogs(files.get(f"{below}{DETAIL}", b""), files.get(f"{below}{SUMMARY}", b""), lines)


def _decode_files(record: Record, logs: Good) -> dict[str, str]:
    return {name: data.decode(errors="replace") for name, data in read_record_files(record, logs).items()}


def _find_difference(record: Record, again: AuditVerdict, texts: Mapping[str, str], *, whole: bool) -> str:
    """Describe the first value of the record or its verify files that the logs contradict; "" if there is none.
    ``whole``: this version derived all values, from complete logs."""
    if bool(record.values.get("passed")) is not again.passed:
        return f"recorded {_show_verdict(record)}, the logs say {'; '.join(again.reasons) or PASS}"
    recorded = record.values.get("figures", {})
    for name, figure in again.figures.items():
        if name in recorded and recorded[name] != figure:
            return f"recorded {name}: {recorded[name]}, the logs say {figure}"
    derived = {"figures": dict(again.figures), "reasons": list(again.reasons), "by_speed": again.by_speed}
    for name, value in derived.items() if whole else ():
        if (stated := record.values.get(name, type(value)())) != value:
            return f"values.{name}: recorded {str(stated)[:_LONGEST]}, the logs say {str(value)[:_LONGEST]}"
    scored = find_test(record.address.part).scored  # its file contains the scorer's output
    for file, text in again.files.items():
        if file in texts and is_passed(texts[file], file, None) is not is_passed(text, file, None):
            return f"{file} differs from the logs, which say {'; '.join(again.reasons) or PASS}"
        if file in texts and not scored and (other := _find_other_numbers(texts[file], text)):
            return f"{file} says {other[0]}, the logs say {other[1]}"
    return ""


def _find_other_numbers(said: str, again: str) -> tuple[str, str] | None:
    """Return the numbers in which two texts differ. Another release may change words and order."""
    one, other = Counter(_NUMBER.findall(said)), Counter(_NUMBER.findall(again))
    if one == other:
        return None
    return ", ".join((one - other).elements()) or "nothing", ", ".join((other - one).elements()) or "nothing"


def _describe_unproven(name: str, question: VerdictInputs) -> str:
    """Describe the parts that the commit does not prove, as the end of a sentence; "" if there are none."""
    if find_test(name).scored:
        return "; the accuracy is the scorer's"
    if find_test(name).compare_answers and None in (question.audit.answers, question.accuracy.answers):
        return f"; the comparison of answers is not proven: {_describe_missing_answers(AUDIT)}"
    return "; the accuracy of differing answers is the scorer's" if question.reports else ""


def _describe_missing_answers(run: str) -> str:
    return f"the {run} run's complete accuracy log is not in this commit"


def _show_verdict(record: Record) -> str:
    return PASS if record.values.get("passed") else FAIL


def verify_imported(cell: Cell, name: str, record: Record, chosen: Chosen, at: Snapshot, logs: Good) -> Iterator[Claim]:
    """Verify a test that was imported unchanged. ``name``: the test's name."""
    proof, detail = Proof.PROVEN, f"{len(record.artifacts)} files give key {record.key[:12]}"
    if digest([[a.name, a.sha256] for a in record.artifacts]) != record.key:
        proof, detail = Proof.CONTRADICTED, "the files do not match the key"
    yield Claim(str(cell), f"{name}: inputs", proof, detail)
    claim = partial(Claim, str(cell), f"{name} verdict")
    files = {a.name: logs[a.sha256] for a in record.artifacts if a.sha256 in logs}
    if missing := [a.name for a in record.artifacts if a.name not in files and a.place == "logs"]:
        yield claim(Proof.MISSING, f"not in this commit, or changed: {', '.join(missing)}")
        return
    judged = list(judge_files(_collect_published(cell, name, files, chosen, at, logs)))
    for item in judged:
        said, found = (PASS if passed else FAIL for passed in (item.said, item.found))
        why = "; ".join(item.reasons)
        if said != found and item.again.by_type:
            yield claim(Proof.ATTESTED, f"{item.file} says {said}, as its script does: {why}")
            return
        if said != found and item.sure:
            yield claim(Proof.CONTRADICTED, f"{item.file} says {said}, but its logs say {found}: {why}")
            return
    other_files = [file for file in files if file.startswith("verify_") and file not in {item.file for item in judged}]
    if other_files or not judged:
        detail = f"; {', '.join(other_files)} not checked" if other_files else ""
        yield claim(Proof.ATTESTED, f"{len(judged)} verify files derived again from the logs{detail}")
        return
    yield claim(Proof.PROVEN, f"{', '.join(item.file for item in judged)} derived again from the logs")


def _collect_published(
    cell: Cell, name: str, files: Mapping[str, bytes], chosen: Chosen, at: Snapshot, logs: Good
) -> Published:
    ruleset = load_ruleset(at.desired.submission.round)
    settings = at.desired.detail(Address(Kind.RESULT, str(cell))).settings
    benchmark = ruleset.find_rules(cell.division, settings.official or cell.benchmark)
    try:
        rules = benchmark.find_test(name, cell.scenario) if benchmark else None
    except KeyError:
        rules = None
    published = {run: at.records.get(identity) for run, identity in _map_runs(chosen).items()}
    named = {run: read_record_files(record, logs) if record else {} for run, record in published.items()}
    return Published(
        test=name,
        rules=rules,
        scenario=cell.scenario,
        metrics=tuple(bar.metric for bar in benchmark.list_bars(cell.scenario)) if benchmark else (),
        audit=_select_run_logs(files, _RUN, "accuracy/"),
        performance=_select_run_logs(named[PERFORMANCE]),
        accuracy=_select_run_logs(named[ACCURACY]),
        text=lambda path: files[path].decode(errors="replace") if path in files else None,
    )
