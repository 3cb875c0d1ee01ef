"""The harness of a spec: its placeholders, what it must give its command, and the examples of the documents."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from reconciler.desired.checks import check
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared
from tests.unit.spec import writing

DOCUMENTS = [Path(__file__).parents[3] / f"reconciler/docs/{name}.md" for name in ("harnesses", "services")]
_SPEC = writing.give_head("""\
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
%s
  divisions: {open: {box: {%s: {Offline: {}}}}}
""")


def load(benchmarks: str, name: str = "resnet") -> Declared:
    return writing.declare(_SPEC % (textwrap.indent(benchmarks, "    "), name))


def refused(harness: str) -> list[str]:
    found = writing.catch_problems(load, f"resnet:\n  target_qps: 9\n  harness: {harness}\n")
    return [f"{problem.line}: {problem.message}; {problem.fix}" for problem in found]


def examples() -> list[str]:
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    found = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return [example for example in found if "kind: Adapter" not in example]


@pytest.mark.parametrize("example", examples(), ids=lambda text: text.partition(":")[0])
def test_the_examples_of_the_documents_are_specs(example: str) -> None:
    declared = load(example, example.partition(":")[0])
    check(declared, load_ruleset("v6.1"))
    (cell,) = declared.cells
    assert cell.settings["engine.backend"].value == "command"
    assert cell.settings["benchmark.code"].value == "command"


def test_a_condition_that_no_run_meets_is_refused() -> None:
    (problem,) = refused('{command: [run, "{run_dir}", "{user_conf}", "{acuracy:+--accuracy}"], score: {command: [s]}}')
    assert "acuracy" in problem
    assert "accuracy" in problem.partition(";")[2]
    (problem,) = refused('{command: [run, "{run_dir}", "{user_conf}", "{_maxq:+--slow}"], score: {command: [s]}}')
    assert "write _MaxQ " in problem
    (problem,) = refused('{command: [run, "{run_dir}", "{user_conf}", "{test:+--t"], score: {command: [s]}}')
    assert "closing brace" in problem


def test_an_unknown_placeholder_is_named_with_the_nearest() -> None:
    (problem,) = refused('{command: [run, "{run_dir}", "{user_conf}", "{senario}"], score: {command: [s]}}')
    assert problem.startswith("11: {senario} is not a placeholder; write scenario (valid:")
    assert refused('{command: [run, "{run_dir}", "{user_conf}"], cwd: "{rundir}", score: {command: [s]}}')


def test_a_command_must_learn_where_its_logs_and_its_conf_are() -> None:
    score, first, second = refused("{command: [run]}")
    assert "has no scorer" in score
    assert "its log folder" in first
    assert "its user.conf" in second
    assert load("resnet: {harness: {command: [run], logs: build/logs, user_conf: harvested, score: {command: [s]}}}")


@pytest.mark.parametrize(
    ("harness", "message"),
    [
        ("{code: ours}", "harness has no command"),
        ("{command: run it}", "expected a command, not 'run it'"),
        ("{command: []}", "expected a command, not a list"),
        ("{command: [run], image: 'ubuntu:22.04'}", "'ubuntu:22.04' does not pin an image"),
        ("{command: [run], env: {1A: x}}", "'1A' is not a valid environment variable name"),
        ("{command: [run], env: {A: {from: B}}}", "a group of settings is not a valid environment variable value"),
        ("{command: [run], env: {HF_TOKEN: sesame}}", "looks like a secret"),
        ("{command: [run], user_conf: writen}", "'writen' is not a valid source of user.conf"),
        ("{command: [run], cwd: $HOME/x}", "uses an unsupported variable syntax"),
        ("{comand: [run]}", "comand is not a setting of harness"),
    ],
)
def test_what_cannot_be_meant_is_refused(harness: str, message: str) -> None:
    assert message in "\n".join(refused(harness))


GIVEN = '{command: [run, "{run_dir}", "{user_conf}", "{service_url}"], score: {command: [s]}, '


@pytest.mark.parametrize(
    ("part", "declared", "message"),
    [
        ("service", "{code: server}", "service has no command"),
        ("service", "{command: [serve]}", "the service has no readiness check"),
        (
            "service",
            '{command: [serve, "{port}", "{mode}"]}',
            "{mode} is not a placeholder of a service, which several runs share",
        ),
        (
            "service",
            '{command: [serve, "{port}"], env: {A: "{user_conf}"}}',
            "{user_conf} is not a placeholder of a service",
        ),
        (
            "service",
            '{command: [serve, "{port}"], ready: {tcp: "a:1", log: up}}',
            "a service can have only one readiness check",
        ),
        (
            "service",
            '{command: [serve, "{port}"], stop: {signal: SIGSTOP}}',
            "'SIGSTOP' is not a valid signal to stop a service with",
        ),
        ("service", '{command: [serve, "{port}"], ready: {timeout: 5}}', "'5' has no unit"),
        ("service", '{comand: [serve, "{port}"]}', "comand is not a setting of"),
        ("build", "{code: builder}", "build has no command"),
        ("build", "{command: [build]}", "the build's output is not declared"),
        ("build", '{command: [build, "{run_dir}", "{engine}"]}', "{engine} is not a placeholder of a build"),
        ("build", '{command: [build, "{run_dir}"], outputs: ["{modell}"]}', "{modell} is not a placeholder of a build"),
    ],
)
def test_a_service_or_build_that_cannot_be_meant_is_refused(part: str, declared: str, message: str) -> None:
    given = GIVEN if part == "service" else GIVEN.replace("{service_url}", "{engine}")
    assert message in "\n".join(refused(f"{given}{part}: {declared}}}"))


def test_a_command_must_learn_where_its_service_listens() -> None:
    harness = '{command: [run, "{run_dir}", "{user_conf}"], score: {command: [s]}, service: {command: [s, "{port}"]}}'
    assert "the command does not use its service's address" in refused(harness)[0]
    without = '{command: [run, "{run_dir}", "{user_conf}", "{service_url}"], score: {command: [s]}}'
    assert "{service_url} is not a placeholder" in refused(without)[0]
    scored = GIVEN.replace("[s]", '[s, "{service_url}"]') + 'service: {command: [s, "{port}"]}}'
    assert "{service_url} is not a placeholder" in refused(scored)[0]  # a score is made when no server runs
