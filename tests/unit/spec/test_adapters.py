"""Published harnesses as data, and what somebody published as presets: taken only where a spec names it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.contract import BACKENDS
from reconciler.errors import SpecError
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.placeholders import fill_placeholders, fill_words
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.spec.adapters import list_adapters
from reconciler.spec.declaration import list_presets
from reconciler.spec.files import Source
from reconciler.spec.loading import load, load_sources
from reconciler.spec.proposal import Proposal
from reconciler.spec.published import find_published_rate
from reconciler.spec.starter import render_starter_spec
from tests.unit.spec.writing import OWN, VALID, catch_problems, give_head, load_texts, problems_in

SPEC = give_head("""\
  systems: {node: {category: datacenter, status: available}}
  benchmarks:
    BENCHMARK:
      model: {path: /models/one}
      dataset: {path: /data/one}
      harness: {adapter: ADAPTER, code: /code}
  divisions: {closed: {node: {BENCHMARK: {Offline: {target_qps: 10}}}}}
""").replace("v6.1", "v5.1")


def settings(folder: Path, benchmark: str, adapter: str) -> Mapping[str, Value]:
    (folder / "specs").mkdir(exist_ok=True)
    (folder / "specs/acme.yaml").write_text(SPEC.replace("BENCHMARK", benchmark).replace("ADAPTER", adapter))
    (cell,) = load([folder / "specs"], folder, {}).cells
    return cell.settings


@pytest.mark.parametrize("name", list_adapters())
def test_every_benchmark_of_an_adapter_makes_a_spec(name: str, tmp_path: Path) -> None:
    adapter = list_adapters()[name]
    official = {benchmark for round_name in list_rounds() for benchmark in load_ruleset(round_name).benchmarks}
    assert official >= {*adapter.known.benchmarks, *adapter.known.unsupported}
    for benchmark in adapter.known.benchmarks:
        found = settings(tmp_path, benchmark, name)
        assert found["harness.command"].value
        assert found["harness.command"].origin.file == f"adapter {name}"
        assert found["harness.score.command"].value
        assert found["harness.code"].origin.file == "specs/acme.yaml"
        assert adapter.list_missing(tmp_path / "empty", benchmark, {})


def test_words_of_a_benchmark_are_filled_in(tmp_path: Path) -> None:
    found = settings(tmp_path, "llama2-70b-99.9", "nvidia-v5.1")
    run = found["harness.command"].value[-1]
    assert "--benchmarks=llama2-70b " in run
    assert "--accuracy_target=0.999" in run
    assert "{test:+--audit_test={test}}" in run
    assert found["harness.user_conf_at"].value.endswith("/{system}/llama2-70b-99.9/{scenario}/user.conf")


RECORD = """\
#!/bin/sh
printf '%s\\n' "$@" > "$RUN_DIR/asked"
mkdir -p script/generate-mlperf-inference-user-conf/tmp
echo written > script/generate-mlperf-inference-user-conf/tmp/0f.conf
exit 3
"""


@pytest.mark.parametrize(
    ("test", "mode", "asked"),
    [
        ("", "accuracy", {"--mode=accuracy"}),
        ("", "performance", {"--mode=performance"}),
        (
            "TEST04",
            "performance",
            {
                "--mode=compliance",
                "--env.MLC_MLPERF_LOADGEN_COMPLIANCE_TEST=TEST04",
                "--env.MLC_MLPERF_COMPLIANCE_RERUN_MAX=0",
                "--env.MLC_MLPERF_TEST04_SERVER_ADJUST_FACTOR=1",
            },
        ),
    ],
)
def test_mlcflow_is_asked_for_one_run(test: str, mode: str, asked: set[str], tmp_path: Path) -> None:
    """It applies a test's audit.config only in its mode ``compliance``."""
    found = settings(tmp_path, "resnet", "mlcflow")
    (tmp_path / "mlcr").write_text(RECORD)
    (tmp_path / "mlcr").chmod(0o755)
    values = {"run_dir": str(tmp_path), "test": test, "mode": mode, mode: mode, "Server": "Server", "target_qps": "7"}
    filled = {
        name.rpartition(".")[2]: fill_placeholders(str(setting.value), {"target_latency": "", **values})
        for name, setting in found.items()
        if name.startswith("harness.env.")
    }
    done = subprocess.run(
        fill_words(found["harness.command"].value, values),
        env={**filled, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        check=False,
    )
    words = set((tmp_path / "asked").read_text().splitlines())
    assert done.returncode == 3
    assert asked <= words
    assert "--target_qps=7" in words
    assert {word for word in words if "COMPLIANCE" in word} <= asked
    assert any(word.endswith("_resnet50,_onnxruntime,_cpu,_valid,_server") for word in words)
    assert (tmp_path / "user.conf").read_text() == "written\n"


@pytest.mark.parametrize(
    ("adapter", "asked"),
    [
        ("nvidia-v4.1", "--config_ver=high_accuracy_maxq"),
        ("nvidia-v5.1", "--power_setting=MaxQ"),
        ("nvidia-v6.0", "--power_setting=MaxQ"),
    ],
)
def test_a_system_of_nvidias_power_state_is_run_with_its_settings(adapter: str, asked: str, tmp_path: Path) -> None:
    command = settings(tmp_path, "llama2-70b-99.9", adapter)["harness.command"].value
    slow, fast = (fill_words(command, values)[-1].split() for values in ({"_MaxQ": "_MaxQ"}, {"_TRT": "_TRT"}))
    assert asked in slow
    assert [word.removesuffix("_maxq") for word in slow if word != "--power_setting=MaxQ"] == fast


def test_an_adapter_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/ours.yaml").write_text(OWN)
    found = settings(tmp_path, "llama3.1-8b", "ours")
    assert found["harness.command"].value == ("python", "run.py", "{run_dir}", "{user_conf}")
    assert found["harness.command"].origin.file == "specs/ours.yaml"
    assert found["harness.timeout"].value == 7_200_000


@pytest.mark.parametrize(
    ("benchmark", "adapter", "named"),
    [("llama3.1-8b", "nvidia-5.1", "nvidia-v5.1"), ("deepseek-r1", "nvidia-v5.1", "llama3.1-8b")],
)
def test_what_is_unfit_is_refused_where_it_is(benchmark: str, adapter: str, named: str, tmp_path: Path) -> None:
    problem = catch_problems(settings, tmp_path, benchmark, adapter)[0]
    assert (problem.path, problem.line) == (f"spec.benchmarks.{benchmark}.harness.adapter", 12)
    assert named in f"{problem.message} {problem.fix}"


def test_needs_of_an_own_adapter_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    needs = '  needs: {command: ["{script}", "configs/{system}/{scenario}.py"]}\n'
    (tmp_path / "specs/ours.yaml").write_text(OWN.replace("  settings:", f"{needs}  settings:"))
    (tmp_path / "specs/acme.yaml").write_text(SPEC.replace("BENCHMARK", "llama3.1-8b").replace("ADAPTER", "ours"))
    (cell,) = load([tmp_path / "specs"], tmp_path, {}).cells
    assert {**cell.needs} == {"needs.command": "run.py\nconfigs/node/Offline.py", "needs.code": "our lab"}


def test_a_scenario_that_an_adapter_does_not_run_is_refused_at_its_cell(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    text = SPEC.replace("BENCHMARK", "llama3.1-8b").replace("ADAPTER", "redhat-vllm").replace("Offline:", "Server:")
    (tmp_path / "specs/acme.yaml").write_text(text)
    (problem,) = catch_problems(load, [tmp_path / "specs"], tmp_path, {})
    assert problem.path == "spec.divisions.closed.node.llama3.1-8b.Server"
    assert "redhat-vllm does not run llama3.1-8b in Server: " in problem.message
    (tmp_path / "specs/acme.yaml").write_text(
        text.replace("code: /code", "code: /code, command: [own, '{run_dir}', '{user_conf}']")
    )
    assert load([tmp_path / "specs"], tmp_path, {}).cells


def test_a_wrong_adapter_is_refused_where_it_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/ours.yaml").write_text(OWN.replace("timeout: 2 h", "timeout: 2"))
    with pytest.raises(SpecError) as raised:
        settings(tmp_path, "llama3.1-8b", "ours")
    assert any((p.file, p.line) == ("specs/ours.yaml", 6) for p in raised.value.problems)


@pytest.mark.parametrize(
    ("right", "wrong"), [('command: [python, "{', 'comand: [python, "{'), ("words:", "word:"), ("source:", "sources:")]
)
def test_an_unknown_key_of_an_adapter_gets_the_nearest(right: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/ours.yaml").write_text(OWN.replace(right, wrong))
    fixes = {p.message: p.fix for p in catch_problems(settings, tmp_path, "llama3.1-8b", "ours")}
    assert fixes[f"{wrong.partition(':')[0]}: not a field here"] == f"write {right.partition(':')[0]}"


PUBLISHED = '  published: {files: "{script}/{system}", target_qps: {Offline: qps}}\n'


@pytest.mark.parametrize(
    ("right", "wrong", "at", "named"),
    [
        ("{script: run.py}", "{script: run.py, mode: fast}", (8, 43), "{mode}"),
        ("{whisper:", "{llama3.1-8b:", (9, 17), "specs/ours.yaml:8:5"),
        ("name: ours", "name: nvidia-v5.1", (3, 18), "nvidia-v5.1-own"),
        ("{script}/", "{scirpt}/", (10, 22), "write script "),
        ("unsupported: {whisper:", "unsupported: {resnet50:", (9, 17), "write resnet "),
        ("  unsupported: {whisper: no", "    bert: {}\n  unsupported: {whisper: no", (9, 5), "write bert-99"),
        ("{Offline:", "{Ofline:", (10, 56), "write Offline "),
        ("files:", "file:", (10, 15), "write files"),
        ("  settings:", '  needs: {score: ["{scenaro}.py"]}\n  settings:', (6, 19), "write scenario "),
    ],
)
def test_a_mistake_in_an_own_adapter_is_the_only_problem(
    right: str, wrong: str, at: tuple[int, int], named: str, tmp_path: Path
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/ours.yaml").write_text((OWN + PUBLISHED).replace(right, wrong))
    (problem,) = catch_problems(settings, tmp_path, "llama3.1-8b", "nvidia-v5.1" if "nvidia" in wrong else "ours")
    assert (problem.file, problem.line, problem.column) == ("specs/ours.yaml", *at)
    assert named in f"{problem.message} {problem.fix}"


def test_two_adapters_of_one_name_are_refused(tmp_path: Path) -> None:
    spec = SPEC.replace("BENCHMARK", "llama3.1-8b").replace("ADAPTER", "ours")
    (problem,) = problems_in(tmp_path, ours=OWN, second=OWN, spec=spec)
    assert (problem.file[-11:], problem.line, problem.column) == ("second.yaml", 3, 18)
    assert "ours.yaml:3:18" in problem.message


CONFIGURATION = """\
base = {
    model_fields.gpu_batch_size: {
        'llama2-70b': 2048,
    },
    # loadgen_fields.offline_expected_qps: 390,
    loadgen_fields.offline_expected_qps: 400, loadgen_fields.min_duration: 2400000,
    loadgen_fields.min_query_count: 8313 * 18,
}
high = copy.deepcopy(base)
high[loadgen_fields.offline_expected_qps] = 376.5
high.update({model_fields.gpu_batch_size: {'encoder': 1024, 'decoder': 2 * 256}})
OTHERS = {C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.99), C.PowerSetting.MaxP): high}
EXPORTS = {
    C.WorkloadSetting(C.HarnessType.Triton, C.AccuracyTarget(0.99), C.PowerSetting.MaxP): high,
    C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.99), C.PowerSetting.MaxP): {**base},
    C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.99), C.PowerSetting.MaxQ): {
        loadgen_fields.offline_expected_qps: 300,
    },
    C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.999), C.PowerSetting.MaxP): high,
}
ATOMIC_EXPORTS = {C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.99), C.PowerSetting.MaxP): {"one": base}}
"""


@pytest.mark.parametrize(
    ("system", "benchmark", "value", "line", "batch", "duration", "count"),
    [
        ("B200-SXM-180GBx8_TRT", "llama2-70b-99", "400", 6, "2048 in line 3", "2400000", "149634"),
        (
            "B200-SXM-180GBx8",
            "llama2-70b-99.9",
            "376.5",
            10,
            "encoder 1024, decoder 512 in line 11",
            "2400000",
            "149634",
        ),
        ("B200-SXM-180GBx8_TRT_MaxQ", "llama2-70b-99", "300", 17, "", "", ""),
    ],
)
def test_published_rates_have_their_lines(
    system: str, benchmark: str, value: str, line: int, batch: str, duration: str, count: str, tmp_path: Path
) -> None:
    path = "configs/B200-SXM-180GBx8/Offline/llama2-70b.py"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(CONFIGURATION)
    adapter = list_adapters()["nvidia-v5.1"]
    found = find_published_rate(adapter, tmp_path, system, benchmark, "Offline")
    assert found is not None
    assert (found.value, found.where) == (value, f"{path}:{line}")
    assert found.also == (f"gpu_batch_size {batch}" if batch else "")
    assert (found.min_duration, found.min_query_count) == (duration, count)
    assert find_published_rate(adapter, tmp_path, system, benchmark, "Server") is None
    assert find_published_rate(adapter, tmp_path, "H200", benchmark, "Offline") is None
    assert find_published_rate(adapter, tmp_path, f"{system}_MaxQ", "llama2-70b-99.9", "Offline") is None


CLASSES = """\
class ServerGPUBaseConfig(GPUBaseConfig):
    min_duration = 2400000
@ConfigRegistry.register(HarnessType.Custom, AccuracyTarget.k_99, PowerSetting.MaxP)
class H100_NVL_94GBx1(ServerGPUBaseConfig):
    system = KnownSystem.H100_NVL_94GBx1
    server_target_qps: float = 12.5 # 13
@ConfigRegistry.register(HarnessType.Custom, AccuracyTarget.k_99_9, PowerSetting.MaxP)
class H100_NVL_94GBx4(H100_NVL_94GBx1):
    system = KnownSystem.H100_NVL_94GBx4
    server_target_qps = H100_NVL_94GBx1.server_target_qps * 4 - 1
@ConfigRegistry.register(HarnessType.Custom, AccuracyTarget.k_99_9, PowerSetting.MaxP)
class H100_SXM_80GBx4(ServerGPUBaseConfig):
    system = KnownSystem.H100_SXM_80GBx4
    server_target_qps = 90
@ConfigRegistry.register(HarnessType.Custom, AccuracyTarget.k_99_9, PowerSetting.MaxP)
class GH200_96GB_aarch64x1(H100_SXM_80GBx4):
    system = KnownSystem.GH200_96GB_ARMx1
    server_target_qps = 0.0
"""
RATES = {
    "nvidia-v6.0": (
        "../configs/node/Server/llama2-70b.py",
        "EXPORTS = {C.WorkloadSetting(C.HarnessType.Custom, C.AccuracyTarget(0.999), C.PowerSetting.MaxP): {\n"
        "    loadgen_fields.server_target_qps: 9 * 2}}\n",
    ),
    "nvidia-v4.1": ("configs/llama2-70b/Server/__init__.py", CLASSES),
    "amd-v5.1": (
        "user_mi300x.conf",
        "llama2-70b.Server.min_duration = 700000\n"
        "#llama2-70b.Server.target_qps = 85\nllama2-70b.Server.target_qps = 83.5\n",
    ),
    "amd-v6.0": (
        "llama2-70b-99/user_mi355x.conf",
        "llama2-70b.Server.min_duration = 1800000\nllama2-70b.Server.target_qps = 360\n",
    ),
    "intel-v5.1": (
        "systems/user.conf.node",
        "llama2-70b.Server.target_qps = .90\nllama2-70b.*.min_query_count = 24576\n",
    ),
    "redhat-vllm": ("h100_user.conf", "*.Offline.min_duration = 600000\n*.Offline.target_qps = 43.64\n"),
}


@pytest.mark.parametrize(
    ("name", "system", "value", "line", "duration", "count"),
    [
        ("nvidia-v6.0", "node", "18", 2, "", ""),
        ("nvidia-v4.1", "H100-NVL-94GBx4_TRT", "49", 10, "2400000", ""),
        ("nvidia-v4.1", "R750_H100_SXM_80GBx4_TRT", "90", 14, "2400000", ""),
        ("nvidia-v4.1", "H100-PCIe-80GBx4_TRT", "", 0, "", ""),
        ("nvidia-v4.1", "H100-NVL-94GBx4_TRT_MaxQ", "", 0, "", ""),
        ("nvidia-v4.1", "H100-NVL-94GBx1_TRT", "", 0, "", ""),  # for the other accuracy target only
        ("nvidia-v4.1", "GH200-GraceHopper-Superchip_GH200-96GB_aarch64x1_TRT", "", 0, "", ""),  # a rate of 0
        ("amd-v5.1", "8xMI300X_2xEPYC_9575F", "83.5", 3, "700000", ""),
        ("amd-v5.1", "mi325x8", "", 0, "", ""),
        ("amd-v5.1", "mi300x4", "", 0, "", ""),
        ("amd-v6.0", "mi355x8", "360", 2, "1800000", ""),
        ("amd-v6.0", "node", "", 0, "", ""),
        ("intel-v5.1", "node", "0.9", 1, "", "24576"),
        ("redhat-vllm", "XE8640_4xH100_vLLM", "43.64", 2, "600000", ""),
        ("redhat-vllm", "R7715-H100-NVL-94GBx3", "", 0, "", ""),
    ],
)
def test_rates_of_exactly_the_named_system_are_read_as_each_harness_writes_them(
    name: str, system: str, value: str, line: int, duration: str, count: str, tmp_path: Path
) -> None:
    path, text = RATES[name]
    code = tmp_path / "src"
    code.mkdir()
    (code / path).parent.mkdir(parents=True, exist_ok=True)
    (code / path).write_text(text)
    cell = ("llama3.1-8b", "Offline") if name == "redhat-vllm" else ("llama2-70b-99.9", "Server")
    found = find_published_rate(list_adapters()[name], code, system, *cell)
    expected = (value, f"{path}:{line}", duration, count) if value else None
    assert (found and (found.value, found.where, found.min_duration, found.min_query_count)) == expected


@pytest.mark.parametrize(
    ("name", "gpu", "chosen"),
    [
        ("amd-v5.1", "8xMI300X_2xEPYC_9575F", "server_mi300x"),
        ("amd-v5.1", "mi325x", "server_mi325x"),
        ("amd-v5.1", "node", ""),
        ("amd-v6.0", "mi355x8", "server_mi355x"),
    ],
)
def test_amds_command_takes_the_configuration_of_the_named_accelerator(
    name: str, gpu: str, chosen: str, tmp_path: Path
) -> None:
    found = settings(tmp_path, "llama2-70b-99", name)
    (tmp_path / "python").write_text('#!/bin/sh\nprintf "%s " "$@"\n')
    (tmp_path / "python").chmod(0o755)
    assert found["harness.env.GPU"].value == "{system}"
    values = {"Server": "Server", "mode": "performance", "user_conf": "user.conf", "run_dir": str(tmp_path)}
    words = [fill_placeholders(str(word), values) for word in found["harness.command"].value]
    done = subprocess.run(
        words, env={"GPU": gpu, "PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, f"--config-name {chosen} " in done.stdout) == ((0, True) if chosen else (2, False))
    assert ("names no accelerator" in done.stderr) is not bool(chosen)


ENGINE = "      engine: {backend: onnxruntime, batch_size: 1}\n"


assert ENGINE in VALID


def load_with(folder: Path, benchmark: str, official: str = "llama3.1-8b") -> dict[str, Value]:
    """Settings of a cell whose benchmark says this."""
    declared = load_texts(folder, main=VALID.replace(ENGINE, benchmark).replace("as: resnet", f"as: {official}"))
    return dict(declared.cells[0].settings)


@pytest.mark.parametrize("name", list_presets())
def test_preset_is_a_right_spec_with_its_source(name: str, tmp_path: Path) -> None:
    source = str(list_presets()[name][f"preset.{name}"][0].value.value)
    official = next((one for one in ("bert-99", "dlrm-v2-99", "stable-diffusion-xl") if one in source), None)
    settings = load_with(tmp_path, f"      use: [{name}]\n", official or "llama3.1-8b")
    assert source.startswith(("MLPerf Inference v5.1, ", "measured with "))
    assert settings[f"preset.{name}"] == Value(source, Origin(f"preset {name}"))
    backend = BACKENDS[str(settings["engine.backend"].value)]
    assert backend.generates is not bool(official)
    taken = {key: value for key, value in settings.items() if key.startswith(("engine.", "run."))}
    assert len(taken) > 3
    assert {value.origin for value in taken.values()} == {Origin(f"preset {name}")}
    assert ("harness.service.command" in settings) is backend.serves


def test_what_is_written_next_to_it_wins(tmp_path: Path) -> None:
    settings = load_with(tmp_path, "      use: h100/vllm\n      run: {options: {sequences: 7}}\n")
    assert settings["run.options.sequences"].value == 7
    assert settings["run.options.sequences"].origin.file == "main.yaml"
    assert settings["run.options.batched_tokens"] == Value(4096, Origin("preset h100/vllm"))


def test_nothing_of_any_preset_is_taken_unasked(tmp_path: Path) -> None:
    settings = load_texts(tmp_path, main=VALID).cells[0].settings
    assert not [name for name, value in settings.items() if value.origin.file.startswith("preset") or "preset" in name]


def test_one_that_there_is_not_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    (problem,) = problems_in(tmp_path, main=VALID.replace(ENGINE, "      use: [h100/vlm]\n" + ENGINE))
    assert problem.message == "h100/vlm is not a preset"
    assert problem.fix.startswith("write h100/vllm (valid: ")


printable = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=("Cc", "Cs")), min_size=1)


words = printable.filter(lambda text: text.strip() and "$" not in text)


@given(words, words, st.integers(0, 16))
def test_it_loads_whatever_the_machine(cpu: str, accelerator: str, count: int) -> None:
    described = {"host_processor_model_name": cpu, "accelerator_model_name": accelerator, "system_name": cpu}
    read = Proposal({"cpu": cpu, "accelerator": accelerator, "count": count}, described, ())
    text = render_starter_spec(read)
    declared = load_sources([Source("starter.yaml", text, "")], Path(), {})
    assert len(declared.cells) == 4
    assert declared.systems["this-machine"].settings["hardware.cpu"].value == cpu
    assert declared.systems["this-machine"].settings["hardware.accelerator"].value == accelerator
    assert declared.systems["this-machine"].description["accelerator_model_name"].value == accelerator


def test_the_commented_examples_load_too(tmp_path: Path) -> None:
    example = re.compile(r"^( +)# ( *(?:\w+:.*))$", re.MULTILINE)
    text = example.sub(r"\1\2", render_starter_spec()).replace(
        "64 characters, as 'sha256sum FILE' prints them", "a" * 64
    )
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "resnet.py").touch()
    declared = load_sources([Source("starter.yaml", text, "")], tmp_path, {"MLPERF_SCRATCH_PATH": "/scratch"})
    assert len(declared.cells) == 6
    assert declared.cells[-1].settings["model.path"].value == "/scratch/models/resnet50_v1.onnx"


@pytest.mark.parametrize("kind", ["adapter", "Adaptor", "ADAPTERS"])
def test_a_misspelled_kind_of_an_adapter_is_one_problem(kind: str, tmp_path: Path) -> None:
    spec = SPEC.replace("BENCHMARK", "llama3.1-8b").replace("ADAPTER", "ours")
    own = OWN.replace("kind: Adapter", f"kind: {kind}")
    (problem,) = problems_in(tmp_path, ours=own, spec=spec)
    assert problem.file.endswith("ours.yaml")
    assert (problem.line, problem.column, problem.path) == (2, 7, "kind")
    assert (problem.message, problem.fix) == (f"kind is '{kind}', not Adapter", "write 'kind: Adapter'")
