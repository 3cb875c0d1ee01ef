"""Check a commit's records for contradictions within each record and with the records it was made from.

A record's key is computed from its inputs, which include the keys of its sources. It names its sources by digest, so
they were complete before it, and their files' digests are evidence in it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from reconciler.diff.claims import Claim, Proof
from reconciler.execute.record_clock import FORM
from reconciler.execute.run_code import digest_own_harness
from reconciler.history.logs import Good, Logs
from reconciler.history.snapshot import Snapshot
from reconciler.resource.canonical import canonicalise, is_digest
from reconciler.resource.inputs import CODE, Role, digest_inputs
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.records import CODE_ARCHIVE, IMPORTED, NOT_HANDED_ON, Ended, Record
from reconciler.resource.settings import BACKGROUND, COMMAND
from reconciler.storage.code_archive import LEFT_OUT, read_left_out, unpack_code
from reconciler.storage.files import RECORDS, hash_bytes, hash_listing

CLOCKS = timedelta(hours=1)  # allowed difference between clocks
TIME_ZONES = timedelta(days=1)  # error of a clock that takes local time for UTC
WHY = "a clock was wrong, or the record was dated again"
_ATTEMPT = re.compile(r"(\d{8}T\d{6}\.\d{6})-\d+")  # the id of an attempt in a pass contains its machine's time
_HARNESS, _HARNESS_CODE, _BENCHMARK = "harness/", "harness.code", "benchmark.code"
_PARTS = ("service/", "build/", "score/", "configs/")  # folders of an archive with code other than the command's
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_FEW = 4  # names of inputs to list
_BUILT = (Kind.DATASET, Kind.MODEL, Kind.ENGINE, Kind.SERVICE)


class RecordChecks(Struct):
    """Check each record once, even if several cells use it. ``code``: archive of code → its problem as the harness's
    code. ``harnesses``: name → digest of the files of each harness of which the commit has a complete archive."""

    at: Snapshot
    logs: Logs
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    code: dict[tuple[str, str], tuple[Proof, str]] = field(default_factory=dict)
    harnesses: dict[str, Mapping[str, str]] | None = None
    started: frozenset[str] = frozenset()

    def list_contradictions(self, identity: str) -> tuple[str, ...]:
        """List a record's contradictions as "field: why"."""
        if identity not in self.found:
            self.found[identity] = tuple(_list_contradictions(self.at.records[identity], self.at))
        return self.found[identity]

    def verify(self, cell: Cell, identities: Iterable[str]) -> Iterator[Claim]:
        """Verify the records that count for the cell and all records they were made from."""
        built: set[str] = set()
        wrong = False
        for identity in self._list_lineage(identities):
            record = self.at.records[identity]
            for why in self.list_contradictions(identity):
                wrong = True
                name, _, detail = why.partition(": ")
                what = f"{record.address.label}: {name}"
                yield Claim(str(cell), what, Proof.CONTRADICTED, f"{RECORDS}/{identity}.json: {detail}")
            yield from self._report_doubtful_times(cell, identity, record)
            if record.address.kind in _BUILT:
                built.add(str(record.address.kind))
        if built and not wrong:
            detail = f"{', '.join(sorted(built))}: keys match their inputs, digests match the files"
            yield Claim(str(cell), "made from", Proof.PROVEN, detail)

    def _report_doubtful_times(self, cell: Cell, identity: str, record: Record) -> Iterator[Claim]:
        """Report times that only a wrong or corrected clock can explain as a question."""
        if IMPORTED in record.marks:
            return
        what, began = f"{record.address.label}: started", read_time(record.started)
        for role, made in sorted(record.upstream.items()):
            before = read_time(self.at.records[made].started) if made in self.at.records else None
            if began is not None and before is not None and began + CLOCKS < before <= began + TIME_ZONES:
                detail = f"{RECORDS}/{identity}.json started {record.started}, before its {role} ({before:{_TIME}})"
                yield Claim(str(cell), what, Proof.MISSING, f"{detail}: {WHY}")
        clock = read_clock(record)
        if clock is not None and began is not None and began > clock + CLOCKS and not self._follows_another(began):
            detail = f"{RECORDS}/{identity}.json started at {record.started}, its attempt at {clock:%Y-%m-%dT%H:%M:%SZ}"
            yield Claim(str(cell), what, Proof.MISSING, f"{detail}: {WHY}")

    def _follows_another(self, began: datetime) -> bool:
        """Return True if the record got a date just after another record's because the clock was slow."""
        if not self.started:
            self.started = frozenset(summary.started for summary in self.at.committed.summaries.values())
        return f"{began - timedelta(microseconds=1):{FORM}}" in self.started

    def _list_lineage(self, identities: Iterable[str]) -> list[str]:
        """List the records and their available ancestors in a fixed order."""
        ahead, found = sorted(identities), dict[str, None]()
        while ahead:
            identity = ahead.pop(0)
            if identity in self.at.records and identity not in found:
                found[identity] = None
                ahead += sorted(self.at.records[identity].upstream.values())
        return list(found)

    def verify_others(self, identities: Iterable[str]) -> Iterator[Claim]:
        """Verify records that no cell of the commit uses, since a later spec may use them."""
        for identity in sorted(identities):
            if identity not in self.found and identity in self.at.records:
                for why in self.list_contradictions(identity):
                    name, _, detail = why.partition(": ")
                    yield Claim(f"{RECORDS}/{identity}.json", name, Proof.CONTRADICTED, detail)

    def verify_roles(self) -> Iterator[Claim]:
        """Find facts with the role evidence in one record of a harness and note in another, since only evidence must be
        equal."""
        known: dict[tuple[str, Kind, str], dict[Role, str]] = {}
        for identity in sorted(self.found):
            record = self.at.records[identity]
            if _HARNESS_CODE not in record.facts:
                continue
            code = str(record.facts[_HARNESS_CODE].value)
            for name, fact in record.facts.items():
                known.setdefault((code, record.address.kind, name), {}).setdefault(fact.role, identity)
        for (made_by, _, name), roles in sorted(known.items(), key=str):
            if Role.EVIDENCE in roles and Role.NOTE in roles:
                detail = f"it is a note, but evidence in {roles[Role.EVIDENCE]} of the same harness {made_by[:12]}"
                path = f"{RECORDS}/{roles[Role.NOTE]}.json"
                yield Claim(path, f"facts.{name}", Proof.CONTRADICTED, detail)

    def verify_code(self, cell: Cell, name: str, record: Record, logs: Good) -> Iterator[Claim]:
        """Verify that the archived code of a run, of our harness or of a command, has the recorded digest."""
        command = COMMAND in record.inputs
        stated = record.inputs.get(CODE) if command else record.facts.get(_HARNESS_CODE)
        kept = next((a for a in record.artifacts if a.name == CODE_ARCHIVE and a.sha256 in logs), None)
        if stated is None or IMPORTED in record.marks:
            return
        if kept is None:
            detail = f"{str(stated.value)[:12]}, not proven: the run's {CODE_ARCHIVE} is not in this commit"
            yield Claim(str(cell), f"{name}: {_HARNESS_CODE}", Proof.ATTESTED, detail)
            return
        asked = kept.sha256, str(stated.value)
        if asked not in self.code:
            benchmark = record.inputs.get(_BENCHMARK)
            try:
                files = unpack_code(logs[kept.sha256])
                self.code[asked] = (
                    _judge_command(files, asked[1], str(benchmark.value) if benchmark else "")
                    if command
                    else self._judge_harness(files, asked[1])
                )
            except ValueError as error:
                self.code[asked] = Proof.CONTRADICTED, f"{CODE_ARCHIVE} cannot be read: {error}"
        yield Claim(str(cell), f"{name}: {_HARNESS_CODE}", *self.code[asked])

    def _judge_harness(self, files: Mapping[str, bytes], stated: str) -> tuple[Proof, str]:
        proof, detail = _judge_code(files, stated)
        if proof in (Proof.ATTESTED, Proof.MISSING):
            whole = self._read_harnesses().get(stated, {})
            others = sorted(name for name, digest in _list_own(files).items() if whole and whole.get(name) != digest)
            if others:
                return Proof.CONTRADICTED, (
                    f"{_HARNESS}{others[0]} in {CODE_ARCHIVE} differs from harness {stated[:12]}, which another run of "
                    f"this commit archived completely"
                )
            if whole:
                return Proof.PROVEN, f"{stated[:12]}, whose files another run of this commit lists"
        return proof, detail

    def _read_harnesses(self) -> Mapping[str, Mapping[str, str]]:
        if self.harnesses is None:
            archives = {
                artifact.sha256: artifact
                for summary in self.at.committed.summaries.values()
                for artifact in summary.artifacts
                if artifact.name == CODE_ARCHIVE and artifact.place == "logs"
            }
            self.harnesses = {}
            for data in self.logs.read(archives.values()).values():
                with contextlib.suppress(ValueError):
                    files = unpack_code(data)
                    left = read_left_out(files.get(_HARNESS + LEFT_OUT, b""))
                    if left:
                        whole = left | _list_own(files)
                        self.harnesses[hash_listing(whole)] = whole
        return self.harnesses


def _list_contradictions(record: Record, at: Snapshot) -> Iterator[str]:
    values = {name: item.value for name, item in record.inputs.items() if item.value is not None}
    foreign = IMPORTED in record.marks
    if not record.imported_whole:
        yield from _check_key(record, values, at)
    yield from _check_address(record, values)
    if bool(record.problem) is (record.ended is Ended.DONE):
        yield f"ended: {record.ended}, but its problem is {record.problem or 'empty'}"
    yield from _check_values(record, values)
    for role, identity in sorted(record.upstream.items()):
        made = at.records.get(identity)
        if made is None:
            continue
        if values.get(role) != made.key and (role in values or not foreign):
            yield f"upstream.{role}: the key of {identity} differs from inputs.{role}"
        if not foreign:
            yield from _check_upstream(role, identity, made, record)
    if not foreign:
        yield from _check_sources(record, values)
        clock, began = read_clock(record), read_time(record.started)
        # A record may start later than its attempt, to be newer than another record of its cell.
        if clock is not None and began is not None and began < clock:
            yield f"started: {record.started}, before its attempt {record.attempt}"


def _check_key(record: Record, values: Mapping[str, object], at: Snapshot) -> Iterator[str]:
    if digest_inputs(record.address.kind, values, record.revision) == record.key:
        return
    asked = at.by_key.get(record.key)
    wanted = {i.name: canonicalise(i.value) for i in at.desired.detail(asked.address).inputs} if asked else {}
    others = [name for name in sorted({*values, *wanted}) if wanted and values.get(name) != wanted.get(name)]
    if not others:
        yield f"key: {record.key[:12]} does not match the listed inputs"
    for name in others[:_FEW]:
        here, there = (_show(found.get(name)) for found in (values, wanted))
        yield f"inputs.{name}: it is {here}, but the key {record.key[:12]} is for {there}"


def _show(value: object) -> str:
    return "nothing" if value is None else str(value)[:80]


def _check_address(record: Record, values: Mapping[str, object]) -> Iterator[str]:
    """Check that the address of a run, and the addresses of the cells that share it, match its inputs."""
    for field_name, address in (("address", record.address), *(("shared", other) for other in record.shared)):
        cell = address.cell
        if not address.is_run or cell is None:
            continue
        wanted = {"scenario": cell.scenario, "system.name": cell.system}
        if address.kind is Kind.RUN:
            wanted["mode"] = address.mode
        for name, value in wanted.items():
            if name in values and values[name] != value:
                yield f"{field_name}: it is {address}, but inputs.{name} is {_show(values[name])}"


def _check_values(record: Record, values: Mapping[str, object]) -> Iterator[str]:
    """Check that the values recorded by a build match its artifacts and inputs."""
    known = {artifact.name: artifact.sha256 for artifact in record.artifacts}
    listed = record.values.get("files")
    for name, digest in sorted(listed.items()) if isinstance(listed, dict) else ():
        if name in known and known[name] != digest:
            yield f"values.files.{name}: {str(digest)[:12]}, but its artifact is {known[name][:12]}"
    said = record.values.get("engine")
    stated = said if isinstance(said, dict) else {}
    for name in ("backend", "precision", "batch_size"):
        asked = values.get(f"engine.{name}")
        if asked is not None and name in stated and stated[name] != asked:
            yield f"values.engine.{name}: {_show(stated[name])}, but inputs.engine.{name} is {_show(asked)}"


def _check_upstream(role: str, identity: str, made: Record, record: Record) -> Iterator[str]:
    kind = record.address.kind
    if made.ended is not Ended.DONE:
        yield f"upstream.{role}: {identity} failed, so nothing can be made from it"
    if lost := sorted(set(made.marks) - set(record.marks)):
        yield f"marks: missing {' and '.join(lost)}, which its source {identity} has"
    if kind is not Kind.RUN or made.address.kind is not Kind.RUN:  # a run that follows another does not read its files
        yield from _check_files(role, identity, made, record)
    began, before = read_time(record.started), read_time(made.started)
    if began is not None and before is not None and began + TIME_ZONES < before and IMPORTED not in made.marks:
        yield f"started: {record.started}, before its source {identity} ({made.started})"


def _check_files(role: str, identity: str, made: Record, record: Record) -> Iterator[str]:
    """Check that the digests of the sources' files are among the record's facts. A verdict reads only some of its runs'
    files."""
    handed = [a for a in made.artifacts if a.name not in NOT_HANDED_ON]
    stated = {a.name: record.facts.get(f"{role}.{a.name}") for a in handed}
    some = any(fact is not None for fact in stated.values())
    for artifact in handed:
        name, fact = f"facts.{role}.{artifact.name}", stated[artifact.name]
        if fact is None:
            if record.address.kind is not Kind.VERDICT and (some or role in _FILES_OF):
                yield f"{name}: missing, but {identity} has that file"
        elif fact.value != artifact.sha256:
            yield f"{name}: {str(fact.value)[:12]}, but {identity} has {artifact.sha256[:12]}"
        elif fact.role is not Role.EVIDENCE and not role.startswith(BACKGROUND):
            yield f"{name}: its role is {fact.role}; files that a run used must be evidence"
    digest, files = record.facts.get(f"{role}.digest"), {artifact.name: artifact.sha256 for artifact in handed}
    if role == "engine" and digest is not None and digest.value and digest.value != hash_listing(files):
        yield f"facts.{role}.digest: it does not match the files of {identity}"


def _check_sources(record: Record, values: Mapping[str, object]) -> Iterator[str]:
    """Find sources that the record does not name although it states digests of their files. Also find harness code that
    is not recorded as evidence."""
    for role in sorted(_FILES_OF & values.keys() - record.upstream.keys()):
        stated = [name for name, fact in record.facts.items() if name.startswith(f"{role}.") and is_digest(fact.value)]
        if stated:
            yield f"upstream.{role}: missing, but the record states {stated[0]}"
    code = record.facts.get(_HARNESS_CODE)
    if code is not None and code.role is not Role.EVIDENCE:
        yield f"facts.{_HARNESS_CODE}: its role is {code.role}; the code that ran must be evidence"


_FILES_OF = frozenset({"dataset", "model", "engine", "run"})


def read_clock(record: Record) -> datetime | None:
    """Read the start of the attempt by the machine's clock from its id; None if no pass made the attempt."""
    named = _ATTEMPT.fullmatch(record.attempt)
    try:
        return datetime.strptime(named[1], "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC) if named else None
    except ValueError:
        return None


def read_time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _list_own(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return name → digest of our own harness's files in an archive of code."""
    own = {n.removeprefix(_HARNESS): d for n, d in files.items() if n.startswith(_HARNESS) and n.endswith(".py")}
    return {name: hash_bytes(data) for name, data in own.items()}


def _judge_command(files: Mapping[str, bytes], stated: str, benchmark: str) -> tuple[Proof, str]:
    """Compare a command's archived code with its digest, which covers one file, or the names and digests of all files
    in its folder, including hidden files, which are not archived. ``benchmark``: the digest of a benchmark's file among
    them. Raises ValueError for an invalid list of files that are not archived."""
    left = read_left_out(files.get(LEFT_OUT, b""))
    digests = left | {name: hash_bytes(data) for name, data in files.items() if name != LEFT_OUT}
    own = {name: digest for name, digest in digests.items() if not name.startswith(_PARTS)}
    alone = {name: digest for name, digest in own.items() if digest != benchmark}
    if stated in map(hash_listing, (digests, own, alone)) or [stated] in (list(own.values()), list(alone.values())):
        return Proof.PROVEN, f"{stated[:12]}, from the files in {CODE_ARCHIVE}"
    detail = f"{stated[:12]}, not proven: {CODE_ARCHIVE} has different files, or the code has hidden files"
    return Proof.ATTESTED, detail


def _judge_code(files: Mapping[str, bytes], stated: str) -> tuple[Proof, str]:
    left, digests = read_left_out(files.get(_HARNESS + LEFT_OUT, b"")), _list_own(files)
    if not digests:
        return Proof.CONTRADICTED, f"{CODE_ARCHIVE} has no files of the harness"
    if hash_listing({**left, **digests}) == stated:
        detail = f"{stated[:12]}, from {len(digests)} files in {CODE_ARCHIVE} and {len(left)} listed digests"
        return Proof.PROVEN, detail
    if left:
        return Proof.CONTRADICTED, f"recorded {stated[:12]}, but {CODE_ARCHIVE} has another harness's code"
    here = digest_own_harness()
    own_code = hash_listing(here)
    others = sorted(name for name, digest in digests.items() if here.get(name) != digest)
    if stated == own_code and others:
        return Proof.CONTRADICTED, f"{_HARNESS}{others[0]} in {CODE_ARCHIVE} differs from harness {stated[:12]}"
    if stated != own_code and not others:
        return Proof.MISSING, f"recorded {stated[:12]}, but all files in {CODE_ARCHIVE} are of harness {own_code[:12]}"
    return Proof.ATTESTED, f"{stated[:12]}, not proven: the archive omits files without listing their digests"
