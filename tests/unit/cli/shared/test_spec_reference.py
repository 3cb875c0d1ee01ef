from reconciler.cli.shared.spec_reference import find_field_effects, render_spec_reference


def test_effects_when_a_target_changes_name_the_performance_run_and_its_audits() -> None:
    assert find_field_effects()["target_qps"] == ("Run performance", "Compliance test")
    assert find_field_effects()["compliance.target_qps"] == ("Compliance test",)


def test_effects_when_a_batch_size_changes_name_the_engine() -> None:
    assert find_field_effects()["engine.batch_size"] == ("Engine",)


def test_reference_when_a_stall_timeout_changes_says_nothing_is_stale() -> None:
    row = next(line for line in render_spec_reference().splitlines() if line.startswith("| `stall_timeout`"))
    assert row.endswith("| nothing |")
