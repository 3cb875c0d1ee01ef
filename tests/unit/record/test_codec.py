"""Records as bytes and back."""

from __future__ import annotations

import contextlib
import json
import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import RecordError
from reconciler.record import codec
from reconciler.record.codec import check_plausible, decode, encode, make_record_id, summarize
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Ended, Record, RecordedFact, RecordedInput

PLAIN = Record(Address(Kind.RUN, "a/b/c/d/performance"), "0" * 64, 1, Ended.DONE, "2026-01-01", 1.0, "a", {})
# Values that have a shape of their own, and are refused in any other.
SHAPED = {"validity", "reasons", "metric", "margins", "suggestion", "bars", "accuracy_met", "passed", "figures"}
SHAPED |= {"power", "inferred", "imported"}
few = settings(max_examples=60)
text = st.text(max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
addresses = st.builds(Address, st.sampled_from(list(Kind)), st.from_regex(r"[a-z/]{1,12}", fullmatch=True))
texts = st.dictionaries(text, text, max_size=3)
records = st.builds(
    Record,
    address=addresses,
    key=st.text("0123456789abcdef", min_size=64, max_size=64),
    revision=st.integers(0, 9),
    ended=st.sampled_from(Ended),
    started=text,
    seconds=st.integers(0, 9999).map(lambda n: n / 1000),
    attempt=text,
    inputs=st.dictionaries(text, st.builds(RecordedInput, plain, text), max_size=3),
    facts=st.dictionaries(text, st.builds(RecordedFact, plain, st.sampled_from(Role)), max_size=3),
    artifacts=st.lists(
        st.builds(
            Artifact,
            st.from_regex(r"[a-z]{1,4}(/[a-z.]{0,3}[a-z]){0,2}", fullmatch=True),
            st.text("0123456789abcdef", min_size=64, max_size=64),
            st.integers(0, 99),
            st.sampled_from(["logs", "objects"]),
        ),
        max_size=3,
        unique_by=lambda artifact: artifact.name,
    ).map(tuple),
    values=st.dictionaries(text.filter(lambda name: name not in SHAPED), plain, max_size=3),
    upstream=texts,
    spec=texts,
    dirty=st.booleans(),
    marks=st.lists(text, max_size=2).map(tuple),
    problem=text,
    problem_class=text,
    fix=text,
    supersedes=text,
    shared=st.lists(addresses, max_size=2).map(tuple),
    tool=text,
)


@few
@given(records)
def test_record_is_its_bytes(record: Record) -> None:
    data = encode(record)
    assert decode(data, "here") == record
    assert encode(decode(data, "here")) == data


@pytest.mark.parametrize("name", ["tool", "marks", "values"])
def test_records_without_a_later_field_are_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(encode(PLAIN))
    del document[name]
    monkeypatch.setattr(Record, "LEFT_OUT", Record.LEFT_OUT | {name})
    monkeypatch.setattr(codec, "_REQUIRED", frozenset(Record.__struct_fields__) - Record.LEFT_OUT)
    assert decode(json.dumps(document).encode(), "here") == PLAIN


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1.0, 1.5, -1, 1 << 63, 1 << 70, "", "Run:a", [], {}, ["a"], [["a", "0" * 64, 1]]]
)


@few
@given(records, st.sampled_from(list(Record.__struct_fields__)), JUNK)
def test_what_is_read_does_not_depend_on_how_a_record_is_written(record: Record, name: str, value: Any) -> None:
    document = {**json.loads(encode(record)), name: value}
    plainly, otherwise = json.dumps(document), json.dumps({**document, "other": "\u00e9"})
    read = []
    for text_of in (plainly, otherwise):
        with contextlib.suppress(RecordError):
            read.append(repr(decode(text_of.encode(), "here")))
    assert read in ([], [read[0]] * 2 if read else [])


@few
@given(records, st.randoms())
def test_bytes_do_not_depend_on_the_order_of_names(record: Record, draw: Any) -> None:
    inputs = list(record.inputs.items())
    draw.shuffle(inputs)
    document = json.loads(encode(record))
    document["inputs"] = {name: {"value": i.value, "origin": i.origin} for name, i in inputs}
    assert encode(decode(json.dumps(document).encode(), "here")) == encode(record)


@few
@given(records)
def test_id_says_kind_key_and_bytes(record: Record) -> None:
    data = encode(record)
    identity = make_record_id(record.address, record.key, data)
    kind, _, name = identity.partition("/")
    assert kind == record.address.kind
    assert name.startswith(record.key[:12] + "-")
    assert identity != make_record_id(record.address, record.key, data + b" ")


@few
@given(records, st.binary(max_size=40), st.data())
def test_damaged_bytes_are_a_record_error_or_a_record(record: Record, noise: bytes, data: st.DataObject) -> None:
    whole = encode(record)
    at = data.draw(st.integers(0, len(whole)))
    for damaged in (whole[:at], whole[:at] + noise + whole[at:], noise):
        with contextlib.suppress(RecordError):
            decode(damaged, "here")


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_whole_record_of_another_format_is_none(version: int) -> None:
    document = {**json.loads(encode(PLAIN)), "format": version}
    with pytest.raises(RecordError) as caught:
        decode(json.dumps(document).encode(), "here")
    assert caught.value.message == f"here: record format {version} is newer than this program"


def run(values: dict[str, Any]) -> Record:
    address = Address(Kind.RUN, "open/box/net/Server/performance")
    return Record(address, "0" * 64, 1, Ended.DONE, "2026", 1.0, "a", {}, values=values)


def bar(metric: str, measured: str, met: bool, *, least: str | None = None, most: str | None = None) -> dict[str, Any]:
    return {"metric": metric, "measured": measured, "met": met, "least": least, "most": most}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"accuracy_met": True, "bars": [bar("acc", "75", False, least="76")]}, ""),  # a division without bars
        ({"bars": [bar("acc", "75", False, least="76")]}, ""),
        (
            {"accuracy_met": False, "bars": [bar("acc", "75", False, least="76"), bar("F1", "90", True, least="89")]},
            "acc is 75, the round requires at least 76",
        ),
        (
            {"accuracy_met": False, "bars": [bar("F1", "9", False, least="89"), bar("WER", "8", False, most="7.4")]},
            "F1 is 9, the round requires at least 89; WER is 8, the round requires at most 7.4",
        ),
        ({"passed": True, "reasons": ["slower"]}, ""),
        ({"reasons": ["slower"]}, ""),
        ({"passed": False, "reasons": ["slower", "2 answers differ"]}, "slower; 2 answers differ"),
        ({"validity": "VALID", "reasons": ["too slow"]}, ""),
        ({"validity": "INVALID", "reasons": ["too slow", "too short"]}, "too slow; too short"),
    ],
)
def test_summary_says_what_a_score_a_verdict_or_a_run_misses(values: dict[str, Any], problem: str) -> None:
    assert summarize(run(values), "Score/x").problem == problem


def test_summary_holds_what_comparing_and_choosing_need() -> None:
    inputs = {"source": "hf/llama", "version": 7, "mode": "performance", "harness.code.sha256": "b" * 64}
    facts = {
        "machine.host": RecordedFact("node7", Role.NOTE),
        "machine.cpu": RecordedFact("EPYC", Role.NOTE),
        "driver": RecordedFact("550.1", Role.EVIDENCE),
        "clocks": RecordedFact({"b": 1, "a": [2]}, Role.EVIDENCE),
    }
    values = {
        "validity": "VALID",
        "metric": {"value": "20.5", "unit": "tokens/s"},
        "inferred": {"SingleStream": {"value": "3", "unit": "ms"}, "MultiStream": {"value": "24", "unit": "ms"}},
        "power": {"efficiency": {"value": "0.5", "unit": "tokens/J"}},
        "by_speed": True,
    }
    whole = replace(
        run(values),
        inputs={name: RecordedInput(value, "spec.yaml:1") for name, value in inputs.items()},
        facts=facts,
        upstream={"model": "Model/1", "engine": "Engine/2"},
        marks=("trial", "quick"),
        dirty=True,
    )
    found = summarize(whole, "Run/x")
    assert found.pins == (("source", "hf/llama"), ("harness.code.sha256", "b" * 64))
    assert found.noted == (("machine.host", "node7"),)
    assert found.evidence == (("clocks", '{"a": [2], "b": 1}'), ("driver", '"550.1"'))
    assert (found.validity, found.metric) == ("VALID", ("20.5", "tokens/s"))
    assert found.inferred == (("MultiStream", "24", "ms"), ("SingleStream", "3", "ms"))
    assert (found.efficiency, found.by_speed) == (("0.5", "tokens/J"), True)
    assert found.upstream == (("engine", "Engine/2"), ("model", "Model/1"))
    assert (found.marks, found.dirty) == (("trial", "quick"), True)
    bare = summarize(PLAIN, "Run/y")
    assert (bare.pins, bare.noted, bare.evidence, bare.inferred, bare.upstream) == ((), (), (), (), ())
    assert (bare.metric, bare.efficiency, bare.by_speed, bare.dirty, bare.validity) == (None, None, False, False, "")


def test_pins_are_what_a_later_pass_falls_back_on() -> None:
    names = ("harness.code.sha256", "harness.config.a", "harness.service.code.sha256", "harness.service.config.b")
    names += ("harness.build.code.sha256", "harness.build.config.c", "client.tokenizer.sha256")
    first, others = ("source", "version", "engine.backend", "benchmark.code"), ("harness.batch", "codes", "sources")
    inputs = {name: RecordedInput(f"of {name}", "specs/a.yaml:1") for name in (*others, *names, *reversed(first))}
    found = summarize(replace(PLAIN, inputs=inputs), "Run/x").pins
    assert found == tuple((name, f"of {name}") for name in (*first, *sorted(names)))


@pytest.mark.parametrize(
    "artifacts",
    [
        [["a", "../../specs/spec.yaml", 1, "logs"]],
        [["a", "0" * 64, 1, "../objects"]],
        [["a", "0" * 64, "1", "logs"]],
        [["../a", "0" * 64, 1, "logs"]],
        [["/a", "0" * 64, 1, "logs"]],
        [["a/../b", "0" * 64, 1, "logs"]],
        [["", "0" * 64, 1, "logs"]],
        [["a\0b", "0" * 64, 1, "logs"]],
        [["a", "0" * 63, 1, "logs"]],
        [["a", "0" * 65, 1, "logs"]],
        [["a", "A" * 64, 1, "logs"]],
        [["a", "0" * 64, 1, "logs"], ["b", "0" * 63, 1, "logs"]],
        [["a", "0" * 64, -1, "logs"]],
        [["a", "0" * 64, 1, "logs"], ["a", "1" * 64, 1, "logs"]],
    ],
)
def test_artifacts_that_no_outcome_has_are_refused(artifacts: list[Any]) -> None:
    document = json.loads(encode(PLAIN))
    document["artifacts"] = artifacts
    with pytest.raises(RecordError):
        decode(json.dumps(document).encode(), "here")


def test_two_files_may_have_one_name_where_no_one_judges_them() -> None:
    spare = (Artifact("child.log", "0" * 64, 1), Artifact("child.log", "1" * 64, 1))
    assert decode(encode(replace(PLAIN, artifacts=spare)), "here").artifacts == spare
    failed = replace(PLAIN, artifacts=(spare[0]._replace(name="a"), spare[1]._replace(name="a")), ended=Ended.FAILED)
    assert decode(encode(failed), "here") == failed


@pytest.mark.parametrize("name", ["measured", "least", "most"])
def test_a_bar_that_is_no_measured_number_is_refused(name: str) -> None:
    bar = {"metric": "acc", "measured": "76.1", "met": True, "least": "75", "most": None}
    assert decode(encode(run({"bars": [bar]})), "here").values["bars"] == [bar]
    with pytest.raises(RecordError, match=f"{name} is 'plenty'"):
        decode(encode(run({"bars": [{**bar, name: "plenty"}]})), "here")


def test_a_record_with_values_of_other_types_is_an_error() -> None:
    with pytest.raises(RecordError, match="not a readable record"):
        summarize(replace(PLAIN, values={"metric": "fast"}), "here")


def test_half_a_character_is_refused_and_its_spelling_is_not() -> None:
    data = encode(replace(PLAIN, problem="\\ud800 is half a character"))
    assert decode(data, "here").problem == "\\ud800 is half a character"
    with pytest.raises(RecordError, match="not a readable record"):
        decode(data.replace(b"\\\\ud800", b"\\ud800"), "here")


@pytest.mark.parametrize("name", [name for name in Record.__struct_fields__ if name not in Record.LEFT_OUT])
def test_a_record_without_one_of_its_first_fields_is_refused(name: str) -> None:
    document = json.loads(encode(PLAIN))
    del document[name]
    with pytest.raises(RecordError, match=name):
        decode(json.dumps(document).encode(), "here")


def refuses(why: str) -> AbstractContextManager[object]:
    """``why``: "" where the record is one."""
    return pytest.raises(ValueError, match=why) if why else nullcontext()


@pytest.mark.parametrize(
    ("seconds", "fine"),
    [(0, True), (999_999_999.0, True), (1e9, False), (-0.001, False), (float("nan"), False), (float("inf"), False)],
)
def test_a_duration_is_one_that_a_pass_can_have_measured(seconds: float, fine: bool) -> None:
    with refuses("" if fine else "seconds"):
        check_plausible(replace(PLAIN, seconds=seconds))


@pytest.mark.parametrize(("size", "fine"), [(0, True), ((1 << 62) - 1, True), (1 << 62, False), (-1, False)])
def test_each_artifact_has_a_size_that_a_file_can_have(size: int, fine: bool) -> None:
    sound = Artifact("a", "0" * 64, 1)
    for artifacts in ((sound, Artifact("b", "1" * 64, size)), (Artifact("b", "1" * 64, size), sound)):
        with refuses("" if fine else "size"):
            check_plausible(replace(PLAIN, artifacts=artifacts))


@pytest.mark.parametrize(
    ("value", "keyed"),
    [
        ("fp8", True),
        (8, True),
        (True, True),
        (None, True),
        (["a", ["b", {"c": 1}]], True),
        ({"a": [1, None]}, True),
        (0.5, False),
        ([1, 0.5], False),
        ([0.5, 1], False),
        ({"a": {"b": 0.5}}, False),
        (b"a", False),
    ],
    ids=repr,
)
def test_an_input_is_a_value_that_a_key_was_made_of(value: Any, keyed: bool) -> None:
    sound = RecordedInput("Server", "spec.yaml:1")
    with refuses("" if keyed else "input 'engine.x' has a value of an unsupported type"):
        check_plausible(replace(PLAIN, inputs={"a": sound, "engine.x": RecordedInput(value, "spec.yaml:2")}))


RATE = {"value": "20.5", "unit": "tokens/s"}
MARGIN = {"name": "p99", "measured": "3", "limit": "4", "unit": "ms", "met": True, "headroom": "+25"}
SUGGESTION = {"setting": "target_qps", "value": "40", "unit": "queries/s", "why": "it was too fast"}
BAR = {"metric": "accuracy", "measured": "76.1", "met": True, "least": "75.7", "most": "80"}
SHOWN: dict[str, tuple[dict[str, Any], str, str]] = {
    "metric": (RATE, "value", "value"),
    **{f"margin's {name}": (MARGIN, name, name) for name in ("measured", "limit", "headroom")},
    **{f"bar's {name}": (BAR, name, name) for name in ("measured", "least", "most")},
    "suggestion": (SUGGESTION, "value", "suggestion"),
    "efficiency": (RATE, "value", "value"),
    "inferred": (RATE, "value", "value"),
}


def place(what: str, item: dict[str, Any]) -> dict[str, Any]:
    """The values of a record with one number in its place, behind one that is sound where there may be several."""
    match what.partition("'")[0]:
        case "metric" | "suggestion" as name:
            return {name: item}
        case "margin":
            return {"margins": [MARGIN, item]}
        case "bar":
            return {"bars": [BAR, item]}
        case "inferred":
            return {"inferred": {"MultiStream": RATE, "SingleStream": item}}
    return {"power": {"efficiency": item}}


@pytest.mark.parametrize("what", SHOWN)
def test_each_number_that_is_shown_was_measured(what: str) -> None:
    whole, field, name = SHOWN[what]
    for sound in ("1", "-9.5e40", "1e-40", "0", "0e-99", ""):  # nothing measured is no number at all
        check_plausible(replace(PLAIN, values=place(what, {**whole, field: sound})))
    for odd in ("fast", "nan", "1e41", "-1e41", "9e-41"):
        with pytest.raises(ValueError, match=f"^{name} is '{odd}', not a number$"):
            check_plausible(replace(PLAIN, values=place(what, {**whole, field: odd})))


def margin(name: str, headroom: str, *, met: bool = True) -> dict[str, Any]:
    return {"name": name, "measured": "1", "limit": "1", "unit": "ms", "met": met, "headroom": headroom}


LATE = {**margin("early stopping", "-10777.8", met=False), "measured": "979", "limit": "9", "unit": "queries over"}


@pytest.mark.parametrize(("measured", "limit"), [("979", "9"), ("1000", "30"), ("970", "0")])
def test_too_many_late_queries_are_counted_not_shared(measured: str, limit: str) -> None:
    late = {**LATE, "measured": measured, "limit": limit}
    problem = summarize(run({"validity": "INVALID", "margins": [late]}), "x").problem
    assert [int(number) for number in re.findall(r"\d+", problem)] == [int(measured), int(limit), 970]
    assert "%" not in problem


def test_a_count_of_late_queries_that_is_no_number_stays_legible() -> None:
    problem = summarize(run({"validity": "INVALID", "margins": [{**LATE, "measured": ""}]}), "x").problem
    assert "limit 9" in problem


@pytest.mark.parametrize(
    ("margins", "decides"),
    [
        ([], None),
        ([margin("duration", "0.1"), margin("queries", "0.0")], None),  # met exactly, as LoadGen arranges it
        ([margin("queries", "+0.0"), margin("p99 latency", "+12.5")], ("p99 latency", "+12.5")),
        ([margin("p99 TTFT", "40"), margin("p99 TPOT", "7.5")], ("p99 TPOT", "7.5")),
        ([margin("p99 latency", "30"), margin("duration", "-3", met=False)], ("duration", "-3")),
        ([margin("p99 latency", "-9", met=False), margin("queries", "-50", met=False)], ("queries", "-50")),
        ([margin("p99 latency", "")], None),
        ([margin("p99 latency", "-9", met=False), LATE], ("p99 latency", "-9")),  # not the share of a small count
        ([margin("p99 latency", "+3"), LATE], ("p99 latency", "+3")),
        ([LATE], None),
    ],
)
def test_the_margin_that_decides(margins: list[dict[str, Any]], decides: tuple[str, str] | None) -> None:
    assert summarize(run({"margins": margins}), "x").margin == decides
