"""Readers of files that anybody may have written: any bytes end in a value or in the error that their callers expect.

Inputs are mutations of good files: bytes flipped, cut, doubled and spliced, and what breaks parsers put in. A few
thousand a reader in each run of the tests; far more of other seeds with ``-m slow``.
"""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from harness.contract import Result
from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.event_log import _parse as parse_event
from reconciler.endpoints.rules.judge import judge_point
from reconciler.endpoints.rules.pareto import make_curve
from reconciler.endpoints.rules.power import compute_power
from reconciler.endpoints.rules.regions import derive_regions
from reconciler.endpoints.rules.results import UnreadablePointError, parse_point, parse_scores
from reconciler.errors import LogError, ReconcilerError, RecordError, SpecError
from reconciler.execute.attempt import read as read_attempt
from reconciler.loadgen.answers import find_wrong_answers
from reconciler.loadgen.compare import Asked, find_contradictions
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import CONFIG, RESULT_SUMMARY, split_answers
from reconciler.loadgen.summary import parse_summary
from reconciler.loadgen.user_conf import parse_user_conf
from reconciler.plan.saved import load as load_plan
from reconciler.publish.unpacking import unpack
from reconciler.record.codec import decode, summarize
from reconciler.record.decisions import parse_decisions
from reconciler.resource.canonical import show_decimal
from reconciler.rules.accuracy import find_impossible, parse_accuracy
from reconciler.rules.nameplate import compute_capacity
from reconciler.spec.files import Source
from reconciler.spec.files import decode as decode_spec
from reconciler.spec.loading import load_sources
from reconciler.storage.code_archive import pack_code, unpack_code
from reconciler.storage.documents import parse_json_object, parse_yaml_mapping
from reconciler.storage.files import hash_bytes
from reconciler.storage.untrusted_files import find_in_index
from tests.unit.check.damage import NUMBERS

ROOT = Path(__file__).parents[3]
DAY = date(2026, 1, 1)

DETAIL = "".join(
    f':::MLLOG {{"key": "{key}", "value": {value}, "time_ms": {at}.5, "namespace": "mlperf::logging", '
    f'"event_type": "POINT_IN_TIME", "metadata": {{"is_error": false, "is_warning": false, "file": "a.cc", '
    f'"line_no": 7, "pid": 1, "tid": 1}}}}\n'
    for at, (key, value) in enumerate(
        {
            "loadgen_version": '"6.0 @ 1234567"',
            "loadgen_date_time_utc": '"2026-01-01T00:00:00Z"',
            "test_datetime": '"2026-01-01T00:00:00Z"',
            "effective_scenario": '"Offline"',
            "effective_test_mode": '"PerformanceOnly"',
            "effective_target_qps": "1000",
            "effective_min_duration_ms": "600000",
            "effective_qsl_rng_seed": "1780908523862526354",
            "effective_sample_concatenate_permutation": "true",
            "power_begin": '"01-01-2026 00:00:00.000"',
            "power_end": '"01-01-2026 00:10:00.000"',
            "result_validity": '"VALID"',
            "result_samples_per_second": "1000.5",
            "num_errors": "0",
        }.items()
    )
).encode()
ACCURACY_RUN = (
    DETAIL.replace(b"PerformanceOnly", b"AccuracyOnly")
    .replace(b"effective_target_qps", b"qsl_reported_total_count")
    .replace(b'"value": 1000,', b'"value": 16,')
)
_LINE = DETAIL.partition(b"\n")[0].replace(b'"loadgen_version", "value": "6.0 @ 1234567"', b'"%b", "value": %b') + b"\n"
BATCHED_RUN = ACCURACY_RUN + b"".join(
    _LINE % (key, value)
    for at in range(12)
    for key, value in ((b"loaded_qsl_set", b"[%d, 2]" % at), (b"generated_query_count", b"2"), (b"power_end", b'"x"'))
)
ANSWERS = (
    b"[\n" + b",\n".join(b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "00" }' % (i, i) for i in range(16)) + b"\n]\n"
)
SUMMARY = b"""\
================================================
MLPerf Results Summary
================================================
SUT name : sut
Scenario : Offline
Mode     : PerformanceOnly
Samples per second: 1000.5
Result is : VALID
  Min duration satisfied : Yes

================================================
Test Parameters Used
================================================
samples_per_query : 24576
target_qps : 1000
min_duration (ms): 600000

No warnings encountered during test.

No errors encountered during test.
"""
CONF = b"*.Offline.target_qps = 1000\n# a comment\nresnet50.*.min_duration = 600000\n*.*.min_query_count=24576\n"
ACCURACY = b"accuracy=76.456%, good=38228, total=50000\nmAP=37.5% {'rouge1': 44.4, 'gen_len': 1000}\nhash=" + b"a" * 64
JSON = json.dumps(
    {"system_type": "edge", "accelerators_per_node": 8, "notes": ["a", {"b": 1.5}], "none": None}
).encode()
YAML = b"endpoints: [http://127.0.0.1:8000]\nmodel_params: {name: m, temperature: 0.0}\nlist:\n- a\n- 1e3\n"
RECORD = json.dumps(
    {
        "format": 1,
        "address": "Run:open/box/digits/Offline/performance",
        "key": "a" * 64,
        "revision": 1,
        "ended": "Done",
        "started": "2026-01-01T00:00:00.000000Z",
        "seconds": 1.5,
        "attempt": "x",
        "tool": "0.1.0",
        "inputs": {"target_qps": {"value": 1000, "origin": "specs/a.yaml:1:2"}},
        "facts": {"driver": {"value": "1", "role": "evidence"}},
        "artifacts": [["mlperf_log_detail.txt", "b" * 64, 10, "logs"]],
        "values": {"validity": "VALID", "metric": {"value": "1000", "unit": "samples/s"}, "reasons": []},
        "upstream": {"engine": "Engine/aaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbb"},
        "spec": {"specs/a.yaml": "c" * 40},
        "dirty": False,
        "marks": ["rehearsal"],
        "problem": "",
        "problem_class": "",
        "fix": "",
        "supersedes": "",
        "shared": [],
    },
    indent=1,
).encode()
DECISION = json.dumps(
    {"format": 1, "cell": "open/box/digits/Offline", "reason": "r", "by": "Ada <a@b>", "made": "2026", "until": None,
     "commit": ""}
).encode()  # fmt: skip
SPEC = b"""\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: one}
spec:
  round: v6.1
  submitter: Tester
  rehearsal: true
  systems: {box: {category: edge, status: available, hardware: {count: 0}}}
  benchmarks: {digits: {as: resnet, code: digits, engine: {backend: "null", batch_size: 8}}}
  divisions: {open: {box: {digits: {Offline: {target_qps: 1000, min_duration: 0, min_query_count: 512}}}}}
"""
SAMPLES = ROOT / "tests/unit/endpoints/rules/samples"
POINT = {name: (SAMPLES / name).read_bytes() for name in (CONFIG, RESULT_SUMMARY)}
SCORES = json.dumps(
    {"accuracy_scores": [{"dataset_name": "q", "score": {"rouge1": "44.4", "acc": 0.8}, "unit_samples": 4395,
      "num_repeats": 1, "complete": True, "dataset_type": "accuracy"}]}
).encode()  # fmt: skip
SOURCED = {"value_w": 350, "source_type": "vendor_spec", "source": "https://acme.example/spec"}
UNITS = {"model": "ACME 9000", "count_per_node": 2, "tdp_per_unit": SOURCED}
POWER = json.dumps(
    {"system_desc_id": "box", "cooling": "air", "scale_out": {"present": False}, "provisioned_power_kw": 2.1,
     "computed": {"major_components_w": 1400}, "node_sets": [{"node_set_id": 0, "system_node_ensemble_id": 0,
      "nodes_provisioned": 1, "power_method": "component_sum",
      "components": {"cpu": UNITS, "accelerator": UNITS, "scale_up_network": {"method": "none"}}}]}
).encode()  # fmt: skip
NAMEPLATE = b"Chassis:\n  Min PSUs Needed: 1\n  PSUs:\n  - {PowerCapacityWatts: 2400}\n  - {PowerCapacityWatts: 1e3}\n"
CODE = pack_code({"run.py": b"pass\n", "lib/" + "long" * 30 + ".py": b"x = 1\n"})
ENDPOINTS = load_endpoints_rules()
TOKENS = [
    *NUMBERS,
    *(b"[" * 5000, b'{"a":' * 5000, b"9" * 5000, b"-" * 300, b"1e400", b"-1e400", b"NaN", b"Infinity", b"1e-400"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"0", b"-1", b'"\\ud800"', b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b"\r"),
    *(b"\xe2\x80\xa8", b"\x1b[2J", b"\n::error::x\n", b"..", b"/", b"%s%n", b"{0}", b"*.*.", b" = ", b"&a *a", b"!!x "),
    *(b":::MLLOG ", b'"key": ', b'"value": ', b", ", b": ", b"\n", b"\t", b"'", b"\\", b"#", b"  ", b"- "),
]


def make_index(version: int) -> bytes:
    """As git writes it, of two files."""
    parts = [b"DIRC" + version.to_bytes(4, "big") + (2).to_bytes(4, "big")]
    for name in (b".reconcile/a", b"specs/a.yaml"):
        entry = bytes(60) + len(name).to_bytes(2, "big")
        pad = bytes(8 - (len(entry) + len(name)) % 8)
        parts.append(entry + (b"\0" if version == 4 and name[:1] == b"." else b"\x0c" if version == 4 else b"") + name)
        parts.append(b"\0" if version == 4 else pad)
    return b"".join(parts) + bytes(20)


def make_archive(kind: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz" if kind else "w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("closed/ACME/systems/a.json", "closed/ACME/results/" + "long" * 30 + ".txt"):
            info = tarfile.TarInfo(name)
            info.size = 5
            tar.addfile(info, io.BytesIO(b"hello"))
    return stream.getvalue()


def read_record(data: bytes, _: Path) -> None:
    summarize(decode(data, "a record"), "Run/a-b")


def read_decision(data: bytes, _: Path) -> None:
    found = parse_decisions({f"state/frozen/x-{hash_bytes(data)[:20]}.json": data}, DAY)
    assert len(found.damaged) + len(found.freezes) == 1
    assert found.digest is not None


def read_spec(data: bytes, _: Path) -> None:
    source = decode_spec(data, "a.yaml")
    load_sources(
        [source] if isinstance(source, Source) else [], Path(), {}, [] if isinstance(source, Source) else [source]
    )


def read_answers(data: bytes, _: Path) -> None:
    lines, whole = split_answers(data)
    list(find_wrong_answers(lines, parse_detail(ACCURACY_RUN), whole=whole))


def read_accuracy(data: bytes, _: Path) -> None:
    text = data.decode("utf-8", "replace")
    list(find_impossible(text, parse_accuracy(text, ("acc", "mAP")), 16))


def read_index(data: bytes, folder: Path) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git/index").write_bytes(data)
    assert find_in_index(folder, ".reconcile") in ("", ".reconcile/a") or data != make_index(2)


def read_archive(data: bytes, folder: Path) -> None:
    archive = folder / "x.tar"
    archive.write_bytes(data)
    unpacked = unpack(archive, folder / f"out-{hash_bytes(data)[:12]}", None)
    assert unpacked.size < 1 << 20


@dataclass(frozen=True)
class Reader:
    """``expected``: what its callers handle. ``cost``: how many times fewer inputs, for what is slow."""

    read: Callable[[bytes, Path], object]
    seeds: tuple[bytes, ...]
    expected: tuple[type[Exception], ...]
    cost: int = 1


def read_point(name: str) -> Callable[[bytes, Path], None]:
    """The file of this name, next to those that the client wrote; drawn as a point is."""

    def read(data: bytes, _: Path) -> None:
        point = parse_point({**POINT, name: data}, 192)
        regions = derive_regions((1, 8, 64), 64, ENDPOINTS)
        assert str((make_curve([point]), judge_point(point, ENDPOINTS, regions, dataset_size=192)))

    return read


def read_power(data: bytes, _: Path) -> None:
    power = compute_power(parse_json_object(data).values, ENDPOINTS, {0: 64}, {0: 8})
    assert str((power, power.find_point_kilowatts({0: 1}), power.accelerators))


def read_capacity(data: bytes, _: Path) -> None:
    assert show_decimal(compute_capacity(parse_yaml_mapping(data).values))


# What ``read_file`` of the tree readers turns into a finding.
UNUSABLE = (LogError, ValueError, RecursionError, TypeError, KeyError, AttributeError, OverflowError)
READERS: Mapping[str, Reader] = {
    "detail log": Reader(lambda data, _: touch_log(data), (DETAIL, BATCHED_RUN), (LogError,), 2),
    "answers": Reader(read_answers, (ANSWERS,), ()),
    "index of git": Reader(read_index, (make_index(2), make_index(4)), ()),
    "summary": Reader(lambda data, _: parse_summary(data), (SUMMARY,), (LogError,)),
    "user.conf": Reader(lambda data, _: parse_user_conf(data), (CONF,), (LogError, ValueError)),
    "accuracy.txt": Reader(read_accuracy, (ACCURACY,), (LogError, ValueError)),
    "JSON of a tree": Reader(lambda data, _: parse_json_object(data), (JSON,), UNUSABLE),
    "YAML of a tree": Reader(lambda data, _: parse_yaml_mapping(data), (YAML,), UNUSABLE, 4),
    "record": Reader(read_record, (RECORD,), (RecordError,)),
    "decision": Reader(read_decision, (DECISION,), ()),
    "spec": Reader(read_spec, (SPEC,), (SpecError,), 50),
    "summary of a point": Reader(read_point(RESULT_SUMMARY), (POINT[RESULT_SUMMARY],), (UnreadablePointError,), 10),
    "configuration of a point": Reader(read_point(CONFIG), (POINT[CONFIG],), (UnreadablePointError,), 20),
    "scores of a point": Reader(lambda data, _: parse_scores(data), (SCORES,), (UnreadablePointError,)),
    "power of a system": Reader(read_power, (POWER,), UNUSABLE),
    "nameplate": Reader(read_capacity, (NAMEPLATE,), UNUSABLE, 4),
    "code of a run": Reader(lambda data, _: unpack_code(data), (CODE,), (ValueError,), 4),
    "archive": Reader(read_archive, (make_archive(0), make_archive(1)), (ReconcilerError,), 10),
}


def touch_log(data: bytes) -> None:
    """Also what is computed only when it is asked for, and what judges it."""
    log = parse_detail(data)
    list(find_inconsistencies(log))
    find_contradictions(log, Asked("Offline", "performance", {"target_qps": "1000"}, {"qsl_rng_seed": 1}, whole=True))
    _ = (log.scenario, log.mode, log.validity, log.version, log.complete, log.audit)
    for name in ("started", "ended"):
        getattr(log, name)


def mutate(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at, end = sorted((chance.randrange(len(out) + 1), chance.randrange(len(out) + 1)))
        match chance.randrange(8):
            case 0 if out:
                out[at % len(out)] = chance.randrange(256)
            case 1:
                del out[at : min(end, at + chance.choice((1, 4, 64, 4096)))]
            case 2:
                out[at:at] = out[at : min(end, at + 256)]
            case 3:
                del out[at:]
            case 4 | 5:
                out[at:at] = chance.choice(TOKENS)
            case 6:
                lines = out.split(b"\n")
                chance.shuffle(lines) if chance.random() < 0.3 else lines.insert(at % len(lines), chance.choice(lines))
                out = bytearray(b"\n".join(lines))
            case _:
                word = chance.choice((b'": ', b", ", b"=", b" ", b"\n", b'"'))
                places = out.split(word)
                places[at % len(places)] = bytearray(chance.choice(TOKENS))
                out = bytearray(word.join(places))
    return bytes(out)


def fuzz(reader: Reader, seed: int, count: int, folder: Path) -> dict[str, int]:
    """How the inputs ended; raises what no one expects, with the input in its note."""
    chance, ended = random.Random(seed), dict[str, int]()
    for _ in range(count):
        data = mutate(chance.choice(reader.seeds), chance)
        try:
            reader.read(data, folder)
            end = "read"
        except reader.expected as error:
            end = type(error).__name__
        except Exception as error:
            error.add_note(f"input: {data[:2000]!r}")
            raise
        ended[end] = ended.get(end, 0) + 1
    return ended


@pytest.mark.parametrize("name", READERS)
def test_no_input_ends_otherwise(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    ended = fuzz(reader, 1, 2000 // reader.cost, tmp_path)
    assert sum(ended.values()) == 2000 // reader.cost
    assert ended.get("read"), "no input was read: the mutations are too rough to prove anything"


def read_saved_plan(folder: Path) -> None:
    with pytest.raises(ReconcilerError, match="not a saved plan"):
        load_plan(folder / "file")


def read_attempt_of(folder: Path) -> None:
    (folder / "file").rename(folder / "attempt.json")
    assert read_attempt(folder) is None


def read_result(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"file"):
        Result.read(folder / "file")


def read_event(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"line 1: it is not JSON"):
        parse_event((folder / "file").read_bytes(), 1)


@pytest.mark.parametrize("read", [read_saved_plan, read_attempt_of, read_result, read_event])
def test_brackets_without_end_are_no_document(read: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"[" * 200_000)
    read(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", READERS)
def test_no_input_ends_otherwise_at_length(name: str, seed: int, tmp_path: Path) -> None:
    reader = READERS[name]
    fuzz(reader, seed, 20_000 // reader.cost, tmp_path)
