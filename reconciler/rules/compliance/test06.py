"""TEST06: a language model's answers match the tokens it reports: first token, end of sequence, length."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from reconciler.errors import LogError
from reconciler.loadgen.log_files import VERIFY_ACCURACY
from reconciler.resource.kinds import AUDIT
from reconciler.rules.compliance.definition import AuditVerdict, ComplianceTest, VerdictInputs
from reconciler.rules.compliance.entries import Entry, locate_entry, unpack_entries

DTYPES = ("int32", "int64", "int16", "float32")


class _Checks(Struct):
    """Sample index and problem, by check; the first failing sample is enough. ``where``: file and line of the very
    first one."""

    first_token: str = ""
    eos: str = ""
    length: str = ""
    answers: int = 0
    where: str = ""


def judge_test06(audit: Iterable[Entry], scenario: str, *, eos_token_id: int = 2, dtype: str = "int32") -> AuditVerdict:
    """Judge the test. ``eos_token_id`` counts as a number, however it is written. Offline reports no first token."""
    needs_first, checks = scenario != "Offline", _Checks()
    try:
        for entry in audit:
            checks.answers += 1
            if not (checks.eos and checks.length and (checks.first_token or not needs_first)):
                _check_entry(entry, dtype, eos_token_id, checks, needs_first=needs_first)
                if not checks.where and (checks.eos or checks.length or checks.first_token):
                    checks.where = locate_entry(checks.answers)
    except LogError as error:
        names = ("First token", "EOS", "Sample length")
        text = "".join(f"{name} check pass: False\n" for name in names) + f"TEST06 verification failed\n{error}\n"
        return AuditVerdict((f"the answers cannot be read: {error}",), files={VERIFY_ACCURACY: text})
    if not checks.answers:
        checks.length = "the audit run logged no answers"
    first = str(not checks.first_token) if needs_first else "Skipped"
    reasons = tuple(filter(None, (checks.first_token, checks.eos, checks.length)))
    text = (
        f"First token check pass: {first}\n"
        f"EOS check pass: {not checks.eos}\n"
        f"Sample length check pass: {not checks.length}\n"
        f"{checks.answers} answers as {dtype}, end of sequence {eos_token_id}\n"
        f"TEST06 verification {'failed' if reasons else 'complete'}\n"
    )
    figures = {"answers": str(checks.answers), "eos_token_id": str(eos_token_id), "dtype": dtype}
    files = {VERIFY_ACCURACY: text + "".join(f"{reason}\n" for reason in reasons)}
    return AuditVerdict(reasons, figures, where=checks.where, files=files)


def _check_entry(entry: Entry, dtype: str, eos: int, checks: _Checks, *, needs_first: bool) -> None:
    try:
        count = entry.count(dtype)
    except ValueError as error:
        why = f"sample {entry.index}: {error}"
        checks.eos, checks.length = checks.eos or why, checks.length or why
        checks.first_token = checks.first_token or (why if needs_first else "")
        return
    if needs_first and not checks.first_token:
        checks.first_token = _find_wrong_first(entry, dtype)
    if not checks.eos and count > 2 and entry.read_last(dtype, 2) == (eos, eos):
        # The official script looks no further than the second token, which is the first one here.
        tokens = entry.read_last(dtype, count - 1)
        ending = next((n for n, token in enumerate(reversed(tokens)) if token != eos), len(tokens))
        checks.eos = f"sample {entry.index} ends with {ending} tokens {eos} (end of sequence), one at most is allowed"
    if count != entry.token_count and not checks.length:
        checks.length = f"sample {entry.index} has {count} tokens, and {entry.token_count} were reported"


def _find_wrong_first(entry: Entry, dtype: str) -> str:
    if entry.token_data is None:
        return f"sample {entry.index}: no first token was logged"
    try:
        first = unpack_entries(entry.token_data, dtype)
    except ValueError as error:
        return f"sample {entry.index}: first token: {error}"
    tokens = entry.read_first(dtype, len(first))
    same = all(a == b for a, b in zip(tokens, first, strict=False))
    return "" if same else f"sample {entry.index} begins with {tokens}, and {first} was reported first"


def _judge(inputs: VerdictInputs) -> AuditVerdict:
    entries, dtype = inputs.audit.read_entries(AUDIT), inputs.dtype or "int32"
    return judge_test06(entries, inputs.scenario, eos_token_id=inputs.eos_token_id, dtype=dtype)


# The verdict depends on the tokenizer, which no file states, so only a published pass can be contradicted.
TEST06 = ComplianceTest(
    judge=_judge,
    reads_answers=(AUDIT,),
    dtypes=DTYPES,
    usual_dtype="int32",
    shows_run=False,
    shown_whole=True,
    sure=False,
)
