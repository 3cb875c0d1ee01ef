from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.endpoints.rules.point import SteadyWindow
from reconciler.endpoints.tree.content import DEDICATED, EndpointsContent, PointContent, canonicalise_model
from reconciler.endpoints.tree.point_file import write_yaml
from reconciler.endpoints.tree.reading import find_submissions, is_endpoints_submission
from reconciler.endpoints.tree.render import render_endpoints
from reconciler.errors import ReconcilerError
from reconciler.storage.documents import parse_json_object, parse_yaml_mapping
from tests.unit.endpoints.tree.curves import DATASET, DISCLOSED, RULES, make_curve, make_submission, write_submission

_POINT = "ACME/pending-submission-id/results/box/gpt-oss-120b/{}"


def render(submission: EndpointsContent | None = None) -> dict[str, Any]:
    return dict(render_endpoints(submission or make_submission(), RULES))


def point_of(submission: EndpointsContent, name: str) -> dict[str, Any]:
    return dict(parse_yaml_mapping(render(submission)[_POINT.format(f"{name}/point.yaml")]).values)


def change_point(concurrency: int, **changes: Any) -> EndpointsContent:
    """The submission with the facts of one point changed; ``measured`` gives changes of the run."""

    def changed(point: PointContent) -> PointContent:
        if point.measured.concurrency != concurrency:
            return point
        measured = replace(point.measured, **changes.get("measured", {}))
        return replace(point, facts=replace(point.facts, **{**changes, "measured": measured}))

    curve = make_curve()
    return make_submission(replace(curve, points=tuple(map(changed, curve.points))))


def test_a_point_states_what_ran() -> None:
    stated = point_of(make_submission(), "r5")
    assert (stated["concurrency"], stated["region"], stated["seed_set"]) == (5, "low_concurrency", "A")
    assert stated["runtime_settings"]["runtime"]["model_seed"] == 9315206023656308754
    assert stated["warmup"]["requests_issued"] == 0
    assert "offline" not in stated
    assert "steady_state" not in stated
    assert point_of(make_submission(), "r64")["offline"] == "elected"


def test_the_models_seed_is_the_sets_where_the_client_was_not_reported_one() -> None:
    seeds = {"scheduler_rng_seed": 1, "sample_index_rng_seed": 2}
    stated = point_of(change_point(5, measured={"seeds": seeds}), "r5")
    assert stated["runtime_settings"]["runtime"] == {**seeds, "model_seed": 9315206023656308754}


def test_a_dedicated_offline_point_has_the_size_of_the_dataset() -> None:
    stated = point_of(make_submission(make_curve(dedicated=True)), f"r{DATASET}")
    assert (stated["concurrency"], stated["region"], stated["offline"]) == (DATASET, "submitters_choice", DEDICATED)
    assert stated["runtime_settings"]["load_pattern"] == "max_throughput"


def test_the_steady_window_of_the_run_is_disclosed() -> None:
    window = SteadyWindow(True, 1, 5, 192, 960, Decimal("640.5"), {"tpot_p90": "Plateau"})
    stated = point_of(change_point(5, measured={"window": window}), "r5")["steady_state"]
    assert (stated["status"], stated["verdict"]) == ("windowable", "STEADY STATE")
    assert stated["window"] == {
        "super_pass_start": 1,
        "super_pass_end": 5,
        "super_pass_size": 192,
        "n_samples": 960,
        "duration_s": 640.5,
    }
    lost = point_of(change_point(5, measured={"window": replace(window, found=False)}), "r5")["steady_state"]
    assert (lost["status"], lost["verdict"]) == ("insufficient_passes", "not found")
    assert "super_pass_start" not in lost["window"]


def test_declared_nodes_shortfall_warmup_and_drafter_are_disclosed() -> None:
    warmup = {"duration": 12_500_000, "requests_issued": 64, "link_logs": "logs"}
    shortfall = {"replicas": 1, "fitting": 2, "reason": "topology"}
    stated = point_of(change_point(5, shortfall=shortfall, warmup=warmup, speculative={"model_id": "m"}), "r5")
    assert stated["dp_shortfall"] == {"dp_actual": 1, "dp_formula": 2, "reason": "topology"}
    assert stated["warmup"] == {
        "duration_s": 12.5,
        "requests_issued": 64,
        "requests_completed": 0,
        "data_source": "none",
        "concurrency": 0,
        "initialization_steps": [],
        "logs_retained": True,
        "link_logs": "logs",
    }
    assert stated["speculative_decoding"] == {"model_id": "m"}


def test_utilisation_is_the_share_of_the_curves_peak() -> None:
    files = render()
    shares = {}
    for concurrency in (1, 25, 64):
        values = parse_json_object(files[_POINT.format(f"r{concurrency}/system_desc.json")]).values
        shares[concurrency] = values["tps_utilization"]
    assert shares == {1: pytest.approx(2 / 26, abs=1e-6), 25: 1.0, 64: 1.0}


@pytest.mark.parametrize(
    ("division", "terms", "rows"),
    [
        (
            "Serviced",
            {"advertised_model": "oss-large 1.2", "pricing": "1 USD | million tokens", "rate_limits": "none"},
            [
                "| model as advertised | oss-large 1.2 |",
                "| pricing | 1 USD \\| million tokens |",
                "| rate limits and quotas | none |",
            ],
        ),
        ("RDI", {"augmentations": "a layer is pruned"}, ["| changes to the reference model | a layer is pruned |"]),
        ("Standardized", {}, []),
    ],
)
def test_terms_of_a_service_and_changes_of_the_model_are_published(
    division: str, terms: dict[str, str], rows: list[str]
) -> None:
    """In the document of the software, one row each; a point.yaml has no field for them."""
    submission = make_submission(make_curve(division=division, disclosed={**DISCLOSED, **terms}))
    lines = render(submission)["ACME/pending-submission-id/docs/software_disclosure.md"].decode().splitlines()
    titles = ("| model as advertised", "| pricing", "| rate limits", "| changes to")
    assert [line for line in lines if line.startswith(titles)] == rows
    stated = point_of(submission, "r5")
    assert stated["division"] == division
    assert not set(terms) & set(stated)


def test_own_documents_stand_in_place_of_the_rendered_ones() -> None:
    files = render(make_submission(code={"vllm": {"README.md": b"own", "serve.sh": b"#"}}, documents={"a.md": b"a"}))
    root = "ACME/pending-submission-id"
    assert files[f"{root}/src/vllm/README.md"] == b"own"
    assert files[f"{root}/src/vllm/serve.sh"] == b"#"
    assert {path for path in files if "/docs/" in path} == {f"{root}/docs/a.md", f"{root}/docs/software_disclosure.md"}


def test_two_curves_of_one_system_share_its_power() -> None:
    other = make_curve(model="deepseek-r1")
    assert sum(path.endswith("system_power.json") for path in render(make_submission(make_curve(), other))) == 1
    with pytest.raises(ReconcilerError, match="two power descriptors"):
        render(make_submission(make_curve(), replace(other, power={"cooling": "liquid"})))


def test_two_points_of_one_concurrency_are_refused() -> None:
    curve = make_curve()
    with pytest.raises(ReconcilerError, match="two files claim"):
        render(make_submission(replace(curve, points=(*curve.points, curve.points[0]))))


def test_a_name_that_no_folder_can_have_is_refused() -> None:
    with pytest.raises(ReconcilerError, match="cannot be a name"):
        render(make_submission(make_curve(system="../box")))


def test_the_folder_is_found_at_every_level(tmp_path: Path) -> None:
    root = write_submission(tmp_path)
    for place in (tmp_path, root.parent, root):
        (found,) = find_submissions(place)
        assert found.submitter == "ACME"
        assert is_endpoints_submission(place)
    assert not is_endpoints_submission(root / "docs")
    with pytest.raises(ReconcilerError, match="not an Endpoints submission"):
        find_submissions(root / "docs")


@pytest.mark.parametrize(
    "value",
    [
        *(
            "yes",
            "No",
            "null",
            "1.0",
            "2026-11-C1",
            "a: b",
            "#x",
            "",
            " x",
            "0x1",
            "1e3",
            "x\ny",
            "- a",
            "é",
            "~",
            "a b",
        ),
        *(0, -1, 2**63, True, None, 0.5, 1e-7, [], {}, [1, "a"], {"a": {"b": [{"c": 1, "d": "e"}]}}, [{}], [[]]),
    ],
)
def test_yaml_says_what_was_meant(value: object) -> None:
    written = write_yaml({"key": value, "after": 1})
    assert parse_yaml_mapping(written).values == {"key": value, "after": 1}


@pytest.mark.parametrize(
    ("name", "canonical"), [("openai/gpt-oss-120b", "gpt-oss-120b"), ("llama3.1-8b", "llama3_1-8b"), ("  a..b ", "a_b")]
)
def test_models_have_one_spelling(name: str, canonical: str) -> None:
    assert canonicalise_model(name) == canonical
