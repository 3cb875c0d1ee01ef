"""Which benchmarks and scenarios a system's folder may and must hold, rule by rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.check.demands import Complaints
from reconciler.check.presence import (
    BENCHMARK_RULES,
    BenchmarkView,
    check_category,
    check_forbidden,
    check_known,
    check_official_name,
    check_required,
    check_stray,
    check_twice,
)
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.documents import parse_json_object
from reconciler.tree.findings import Severity
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.places import LEGACY, SubmitterPlace
from reconciler.tree.reading.system import SystemFile
from tests.unit.tree.small_cells import say

SHOWN = "closed/Acme/results/box"


def tell(
    root: Path,
    benchmark: str,
    names: str,
    category: str = "edge",
    division: str = "closed",
    official: str | None = None,
) -> list[str]:
    """Of a benchmark's folder with these scenarios, and files where a name has a dot: rule, place, found and wanted."""
    folder = root / "results/box" / benchmark
    folder.mkdir(parents=True)
    for name in names.split():
        (folder / name).write_text("") if "." in name else (folder / name).mkdir()
    place = SubmitterPlace(division, "Acme", root, f"{division}/Acme", LEGACY)
    described = parse_json_object(json.dumps({"system_type": category} if category else {}).encode())
    system = SystemFile("box", Read("systems/box.json", described))
    view = BenchmarkView(place, system, benchmark, benchmark if official is None else official, load_ruleset("v6.1"))
    return [
        f"{rule.id} {told.place}: {told.found}, not {told.wanted}{' (a note)' * (told.severity is Severity.NOTE)}"
        for rule, check in BENCHMARK_RULES
        for told in check(view)
    ]


RESNET, NEEDS = f"{SHOWN}/resnet", "which {} needs for {}"


@pytest.mark.parametrize(
    ("benchmark", "names", "category", "told"),
    [
        pytest.param("resnet", "SingleStream MultiStream Offline", "edge", [], id="all"),
        pytest.param("resnet", "SingleStream MultiStream Offline", "", [], id="of an unknown system"),
        pytest.param("resnet", "Offline", "", [], id="one of an unknown system"),
        pytest.param("llama3.1-8b", "Offline Server", "datacenter", [], id="one of two"),
        pytest.param(
            "llama3.1-8b",
            "Offline",
            "datacenter",
            [
                f"benchmark.scenarios {SHOWN}/llama3.1-8b: no Interactive or Server, "
                f"not Interactive or Server, {NEEDS.format('llama3.1-8b', 'datacenter')}"
            ],
            id="none of two",
        ),
        pytest.param("llama3.1-8b", "Offline Server Interactive", "datacenter", [], id="both of two"),
        pytest.param("resnet", "SingleStream MultiStream Offline Server", "datacenter,edge", [], id="of both"),
        pytest.param(
            "resnet",
            "SingleStream MultiStream",
            "edge",
            [f"benchmark.scenarios {RESNET}: no Offline, not Offline, {NEEDS.format('resnet', 'edge')}"],
            id="one fewer",
        ),
        pytest.param(
            "resnet",
            "SingleStream MultiStream Offline Server",
            "edge",
            [
                f"benchmark.forbidden {RESNET}/Server: Server of resnet in category edge, "
                "not a scenario that the round has for it"
            ],
            id="one more",
        ),
        pytest.param(
            "resnet",
            "Offline",
            "datacenter",
            [
                f"benchmark.category {RESNET}: resnet in category datacenter, "
                "not a benchmark that v6.1 has for datacenter"
            ],
            id="of another category",
        ),
    ],
)
def test_scenarios_are_those_that_the_round_has_for_the_system(
    tmp_path: Path, benchmark: str, names: str, category: str, told: list[str]
) -> None:
    assert tell(tmp_path / "closed", benchmark, names, category) == told
    assert tell(tmp_path / "open", benchmark, names, category, "open") == []


@pytest.mark.parametrize(
    ("division", "official", "told"),
    [
        ("closed", "resnet", [f"benchmark.name {SHOWN}/ours: folder ours, not resnet"]),
        ("open", "resnet", []),
        ("closed", "", [f"benchmark.known {SHOWN}/ours: unknown benchmark ours, not a benchmark of v6.1"]),
    ],
)
def test_folder_is_named_as_the_benchmark_that_it_is(
    tmp_path: Path, division: str, official: str, told: list[str]
) -> None:
    assert tell(tmp_path, "ours", "SingleStream MultiStream Offline", "edge", division, official) == told


def test_nothing_stands_beside_the_scenarios(tmp_path: Path) -> None:
    found = tell(tmp_path, "resnet", "SingleStream MultiStream Offline OFFLINE extra notes.txt")
    assert found == [
        f"benchmark.stray {RESNET}/extra: folder extra beside the scenarios, not scenario folders only",
        f"benchmark.stray {RESNET}/notes.txt: file notes.txt beside the scenarios, not scenario folders only (a note)",
        f"benchmark.twice {RESNET}/Offline: a second folder of Offline, beside OFFLINE, not one result of a scenario",
    ]


def judge(
    check: Callable[[BenchmarkView], Complaints], root: Path, division: str = "closed", **options: Any
) -> list[str]:
    place = SubmitterPlace(division, "Acme", root, f"{division}/Acme", LEGACY)
    described = parse_json_object(json.dumps({"system_type": options.pop("category", "edge")}).encode())
    system = SystemFile("box", Read("systems/box.json", described))
    ruleset = options.pop("ruleset", load_ruleset("v6.1"))
    return say(check(BenchmarkView(place, system, "ours", options.pop("official", "resnet"), ruleset)))


def test_what_to_do_about_a_folder_depends_on_its_division(tmp_path: Path) -> None:
    unknown = "closed/Acme/results/box/ours: unknown benchmark ours; wanted a benchmark of v6.1"
    assert judge(check_known, tmp_path, official="") == [unknown]
    mend = "to mend: enter the folder in model_mapping.json"
    opened = unknown.replace("closed", "open")
    assert judge(check_known, tmp_path, "open", official="") == [f"{opened}; {mend}"]
    assert judge(check_known, tmp_path) == []
    assert judge(check_official_name, tmp_path) == [
        "closed/Acme/results/box/ours: folder ours; wanted resnet; to mend: rename the folder to resnet"
    ]
    assert judge(check_category, tmp_path, category="datacenter") == [
        "closed/Acme/results/box/ours: resnet in category datacenter; wanted a benchmark that v6.1 has for datacenter; "
        "to mend: enter it in the open division"
    ]


def test_a_benchmark_of_which_a_category_needs_nothing_may_be_entered(tmp_path: Path) -> None:
    optional = SimpleNamespace(required=(), optional=("Offline",))
    needed = SimpleNamespace(required=("Offline",), optional=())
    neither = SimpleNamespace(required=(), optional=())
    for table, said in ((optional, 0), (needed, 0), (neither, 1)):
        benchmark = SimpleNamespace(tables={"edge": table})
        ruleset = SimpleNamespace(benchmark=lambda _, known=benchmark: known, binds=lambda *_: True, round="v6.1")
        assert len(judge(check_category, tmp_path, ruleset=ruleset)) == said


def test_folders_that_do_not_belong_are_removed(tmp_path: Path) -> None:
    for name in ("Server", "Offline", "offline", "notes"):
        (tmp_path / "results/box/ours" / name).mkdir(parents=True)
    (tmp_path / "results/box/ours/a.txt").touch()
    place = "closed/Acme/results/box/ours"
    assert judge(check_forbidden, tmp_path) == [
        f"{place}/Server: Server of resnet in category edge; wanted a scenario that the round has for it; "
        "to mend: remove the folder, or enter it in the open division"
    ]
    assert judge(check_stray, tmp_path) == [
        f"{place}/notes: folder notes beside the scenarios; wanted scenario folders only; "
        "to mend: remove it: the official checker takes it for a scenario",
        f"note {place}/a.txt: file a.txt beside the scenarios; wanted scenario folders only",
    ]
    assert judge(check_twice, tmp_path) == [
        f"{place}/offline: a second folder of Offline, beside Offline; wanted one result of a scenario; "
        "to mend: remove one of them"
    ]


def test_rules_of_a_benchmark_by_their_ids() -> None:
    assert [(rule.id, check) for rule, check in BENCHMARK_RULES] == [
        ("benchmark.known", check_known),
        ("benchmark.name", check_official_name),
        ("benchmark.category", check_category),
        ("benchmark.scenarios", check_required),
        ("benchmark.forbidden", check_forbidden),
        ("benchmark.stray", check_stray),
        ("benchmark.twice", check_twice),
    ]
