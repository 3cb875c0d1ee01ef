"""Plans as JSON and back."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from reconciler.diff.change import Action, Drift, Finding, InputChange, Reason, Work
from reconciler.errors import ReconcilerError, StalePlanError
from reconciler.plan.plan import Plan
from reconciler.plan.saved import encode_plan, load, refuse_stale, save
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, AcceptedInput, AcceptedKey, Freeze, KeyChange
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.storage.packaged_files import read_shipped
from tests.unit.diff.simulated import Wish, World, desire


def whole() -> Plan:
    plan = World().plan(desire([Wish()]), blocked={Address(Kind.ENGINE, str(Wish().cell)): "why"})
    model, service = Address(Kind.MODEL, "net"), Address(Kind.SERVICE, "open/box/net/Server")
    explained = (
        InputChange("batch", 4, 8, Origin("specs/a.yaml", 3, 5), "before:1"),
        InputChange("model", "1" * 64, "2" * 64, Origin(str(model)), str(model), model),
        InputChange("harness.code.sha256", "4" * 64, "5" * 64, Origin("code"), files=("run.py changed",)),
        InputChange("service", "3" * 64, None, Origin("specs/a.yaml", 3), str(service), service),
    )
    steps = (replace(plan.steps[0], explained=explained, seconds=1.5, basis="history"), *plan.steps[1:])
    return replace(
        plan,
        steps=steps,
        drifts=(Drift(Address(Kind.MODEL, "net"), "model.onnx", "missing", "later"),),
        findings=(Finding("Invalid", "open/box/net/Offline", "m", "f"),),
        undeclared=(Address(Kind.RUN, "open/box/net/Server/accuracy"),),
        acceptances=(("state/accepted/a.json", accepted(), AcceptanceStatus.EXPIRED),),
        frozen=(Freeze(None, "over", "Ada <a@b>", "2026-03-01", None, ""), freeze()),
    )


def accepted() -> Acceptance:
    cell = Cell.parse("open/box/net/Offline")
    inputs = {"batch": AcceptedInput(4, None, "specs/a.yaml:3")}
    keys = AcceptedKey(Address(Kind.ENGINE, str(cell)), KeyChange("1" * 64, "2" * 64), inputs)
    return Acceptance(cell, "why", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", (keys,))


def freeze() -> Freeze:
    cell = Cell.parse("open/box/net/Server")
    return Freeze(cell, "embargo", "Ada <a@b>", "2026-03-01", date(2026, 5, 1), "1" * 40)


def test_saved_plan_is_the_plan(tmp_path: Path) -> None:
    save(whole(), tmp_path / "plan.json")
    assert load(tmp_path / "plan.json") == whole()


def test_a_plan_of_another_version_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**encode_plan(whole()), "version": 1}), encoding="utf-8")
    with pytest.raises(ReconcilerError) as caught:
        load(path)
    assert caught.value.message == f"{path}: plan version 1"
    assert caught.value.fix == "create a new plan: reconcile plan -o"


def test_a_step_is_withheld_where_all_that_it_is_for_is_frozen() -> None:
    plan = replace(whole(), frozen=(freeze(),))
    engine = next(step for step in plan.steps if step.change.address.kind is Kind.ENGINE)
    frozen, free = Address(Kind.ENGINE, "open/box/net/Server"), Address(Kind.ENGINE, "open/box/net/Offline")
    for address, shared, withheld in ((frozen, (), True), (free, (), False), (frozen, (free,), False)):
        step = replace(engine, change=replace(engine.change, address=address), shared=shared)
        assert plan.withholds(step) is withheld
    assert whole().withholds(engine)  # everything is


def test_the_shipped_schema_describes_every_plan() -> None:
    """Of a server, too."""
    schema = json.loads(read_shipped("schemas/plan.schema.json"))
    plan = World().plan(desire([Wish(service="one")]))
    assert Work.START in {step.change.how for step in plan.steps}
    for each in (plan, whole()):
        document = {**encode_plan(each), "desired": "1" * 64}  # a digest in plans of real states
        jsonschema.validate(json.loads(json.dumps(document)), schema)
    fields = schema["$defs"]["step"]["properties"]
    assert fields["how"]["enum"] == [*Work]
    assert fields["reason"]["enum"] == [*Reason]
    assert fields["action"]["enum"] == [*Action]


def test_a_plan_that_was_saved_before_a_field_came_has_its_default(tmp_path: Path) -> None:
    document = encode_plan(whole())
    del document["excluded"], document["steps"][0]["shared"], document["steps"][0]["note"]
    document["findings"][0].pop()
    (tmp_path / "plan.json").write_text(json.dumps(document), encoding="utf-8")
    loaded = load(tmp_path / "plan.json")
    assert loaded.steps[1:] == whole().steps[1:]
    assert (loaded.excluded, loaded.steps[0].shared, loaded.steps[0].change.note) == (0, (), "")
    assert loaded.findings == (replace(whole().findings[0], fix=""),)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", '{"version": 1}', '{"version": 99}', '{"version": 1, "steps": [[]]}', "\x00"]
)
def test_what_is_no_plan_is_an_error_with_its_fix(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReconcilerError) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert "reconcile plan -o" in caught.value.fix


def test_missing_plan_is_an_error_with_its_fix(tmp_path: Path) -> None:
    with pytest.raises(ReconcilerError, match="no such plan file"):
        load(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("change", "said"), [({"desired": "x"}, "the spec changed"), ({"recorded": "x"}, "records or decisions")]
)
def test_plan_of_another_world_is_refused(change: dict[str, str], said: str) -> None:
    with pytest.raises(StalePlanError, match=said):
        refuse_stale(whole(), replace(whole(), **change))
    refuse_stale(whole(), replace(whole(), steps=()))


def test_an_input_that_is_declared_now_is_of_no_other_resource(tmp_path: Path) -> None:
    model = Address(Kind.MODEL, "net")
    explained = (
        InputChange("now declared", "1" * 64, 7, Origin("specs/a.yaml", 3), str(model)),
        InputChange("now made", 7, "1" * 64, Origin(str(model)), "specs/a.yaml:3", model),
        InputChange("gone", "1" * 64, None, Origin("specs/a.yaml", 3), str(model), model),
        InputChange("gone as well", 7, None, Origin("specs/a.yaml", 3), "specs/a.yaml:4"),
    )
    plan = whole()
    plan = replace(plan, steps=(replace(plan.steps[0], explained=explained), *plan.steps[1:]))
    save(plan, tmp_path / "plan.json")
    assert load(tmp_path / "plan.json").steps[0].explained == explained
