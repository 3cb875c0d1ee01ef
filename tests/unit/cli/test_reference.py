from pathlib import Path

from reconciler.cli.reference import effects, reference, written_into

SPEC = Path(__file__).parents[3] / "reconciler/docs/spec.md"


def test_readme_holds_the_reference_that_the_code_gives() -> None:
    text = SPEC.read_text(encoding="utf-8")
    assert written_into(text) == text, "run: python -m reconciler.cli.reference reconciler/docs/spec.md"


def test_effects_when_a_target_changes_name_the_performance_run_and_its_audits() -> None:
    assert effects()["target_qps"] == ("Run performance", "Compliance test")
    assert effects()["compliance.target_qps"] == ("Compliance test",)


def test_effects_when_a_batch_size_changes_name_the_engine() -> None:
    assert effects()["engine.batch_size"] == ("Engine",)


def test_reference_when_a_stall_timeout_changes_says_nothing_is_stale() -> None:
    row = next(line for line in reference().splitlines() if line.startswith("| `stall_timeout`"))
    assert row.endswith("| nothing |")
