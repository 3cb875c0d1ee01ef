"""Keys of every resource of some whole specs, and the names of their inputs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from reconciler.desired.compile import compile_desired
from reconciler.desired.requirements import list_needed_pins
from reconciler.desired.state import Desired, Pins
from reconciler.resource.resources import Resource
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared
from tests.unit.desired.test_curves import SPEC as CURVE
from tests.unit.spec import writing

EXPECTED = YAML(typ="safe").load(Path(__file__).with_name("keys.yaml"))
OWN = """\
  documents: {calibration: docs/calibration.md}
  systems:
    box:
      category: edge
      status: available
      original: systems/box.json
      launcher: [docker, run, "lab@sha256:IMAGE"]
      hardware: {accelerator: none, count: 0, cpu: EPYC, nodes: 1}
      description: {cooling: air}
      power: {director: "meter:4950", kit: kit, analyzer: WT310}
      power_state: {set: [a], restore: [b], read: [c], expect: "400"}
  benchmarks:
    net:
      as: resnet
      code: net.py
      source: [src, more]
      excluded_code: [internal/*]
      model: {path: m.onnx, retraining: "No", settings: {epochs: 3}}
      dataset: {path: images, settings: {count: 10, seed: 1}}
      engine: {backend: onnxruntime, precision: fp32, batch_size: 4, options: {graph_optimization: none}}
      run: {streams: 2, threads: 1, stall_timeout: 9 min}
      measurements: {input_data_types: fp32, weight_data_types: fp32}
    mine:
      as: resnet
      code: mine.py
      dataset: {sha256: "DATASET"}
      engine: {backend: onnxruntime, version: "1.20.1"}
  divisions:
    open:
      box:
        net:
          Offline:
            {target_qps: 9, min_query_count: 12, power: measured, accuracy_sample_count: 7, attempts: 2, publish: best}
          SingleStream: {}
          MultiStream: {infer_from: SingleStream}
        mine: {Offline: {target_qps: 3}}
""".replace("IMAGE", "a" * 64).replace("DATASET", "b" * 64)
COMMAND = """\
  systems:
    box: {category: datacenter, status: available, launcher: [docker, run, "lab@sha256:IMAGE"]}
  benchmarks:
    chat:
      as: llama3.1-8b
      code: command
      model: {path: weights, sha256: "WEIGHTS"}
      dataset: {path: prompts.json}
      engine: {precision: fp8, batch_size: 64}
      harness:
        command: [run, "{run_dir}", "{service_url}"]
        code: client
        configs: [one.yaml, two.yaml]
        env: {THREADS: "2", KEY: {from_env: KEY}}
        image: "client@sha256:IMAGE"
        user_conf: harvested
        audit_config: placed
        timeout: 2 h
        score: {command: [score, "{accuracy_log}"]}
        build: {command: [build, "{model}", "{precision}", "{scenario}"], configs: [build.yaml], outputs: [out]}
        service:
          command: [serve, "{port}", "{batch_size}"]
          env: {SYSTEM: "{system}", DATA: "{dataset}"}
          image: "server@sha256:IMAGE"
          code: server
          ready: {log: started}
  divisions:
    open:
      box:
        chat: {Offline: {target_qps: 1, attempts: 3}, Server: {target_qps: 1, target_latency: 2 s}}
""".replace("IMAGE", "a" * 64).replace("WEIGHTS", "b" * 64)
TESTED = """\
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
    gpt:
      as: gpt-oss-120b
      harness: {command: [run, "{run_dir}", "{user_conf}"], code: ., score: {command: [s, "{accuracy_log}"]}}
      dataset: {path: data, settings: {count: 6, shuffle: true}}
  divisions:
    closed:
      box:
        gpt:
          Offline:
            target_qps: 5
            attempts: 2
            compliance:
              TEST07: {target_qps: 4, dataset: {path: other, settings: {count: 5}}}
              TEST09: {attempts: 3}
    open:
      box: {gpt: {Server: {target_qps: 5, compliance: [TEST07]}}}
"""
COMPARED = """\
  systems: {box: {category: edge, status: available}}
  benchmarks:
    net: {as: resnet, code: digits, engine: {backend: onnxruntime, version: "1.20.1"}}
  divisions:
    closed:
      box:
        net: {Offline: {target_qps: 5, compliance: {TEST01: {dtype: int32, target_qps: 4}, TEST04: {attempts: 3}}}}
"""
OTHER_INPUTS = """\
  rehearsal: true
  systems:
    box:
      category: edge
      status: available
      hardware: {accelerator: A100, count: 1, mig: {profile: 1g.10gb, count: 2}}
  benchmarks:
    net: {as: resnet, code: digits, engine: {backend: onnxruntime, version: "1.20.1"}, run: {streams: 2}}
    words: {as: llama3.1-8b, code: llama3_1_8b, engine: {backend: openvino-genai, version: "1"}}
  divisions:
    open:
      box:
        net: {Server: {target_qps: 5}, Offline: {target_qps: 9, background: [net/Server]}}
        words: {Offline: {target_qps: 9}}
"""
OTHERS = """\
  systems:
    box: {category: edge, status: available}
    hall: {category: datacenter, status: available, description: {system_name: Hall}}
  defaults: {endpoints: {harness: {command: [run, "{run_dir}"], code: ., results: endpoints, model_name: net}}}
  benchmarks:
    net: {as: resnet, code: digits, engine: {backend: onnxruntime, version: "1.20.1"}}
    wan: {as: wan-2.2-t2v-a14b, use: [endpoints]}
    gpt: {as: gpt-oss-120b, use: [endpoints]}
    tiny: {as: llama3.1-8b-edge, use: [endpoints]}
    mine: {as: of-my-own, code: digits, engine: {backend: onnxruntime, version: "1"}}
  divisions:
    closed:
      box: {net: {Offline: {target_qps: 3}, SingleStream: {}}}
      hall: {gpt: {Server: {target_qps: 1}}, wan: {Offline: {target_qps: 1}}}
    open:
      box: {net: {Offline: {target_qps: 3}, MultiStream: {}}, tiny: {SingleStream: {}}}
      hall: {net: {Server: {target_qps: 3}}, mine: {Offline: {target_qps: 3}}}
"""
CASES = {
    "several divisions and systems": writing.give_head(OTHERS),
    "own harness": writing.give_head(OWN),
    "a command with its own engine and server": writing.give_head(COMMAND),
    "tests with samples of their own": writing.give_head(TESTED),
    "tests that are compared with runs": writing.give_head(COMPARED),
    "a background, slices, and answers that are generated": writing.give_head(OTHER_INPUTS),
}
POINTS = "two points of a curve"


def declare(text: str, root: Path) -> Declared:
    for name in ("net.py", "mine.py"):
        (root / name).write_text("", encoding="utf-8")
    return writing.load_texts(root, a=text)


def compile_text(text: str, root: Path) -> Desired:
    """With what the world supplies: of each source and version, words that name it."""
    declared = declare(text, root)
    ruleset = load_ruleset(str(declared.round.value))
    needed = list_needed_pins(declared, ruleset)
    pins = Pins({pin: f"of {pin.owner} at {pin.location}" for pin in needed}, dict.fromkeys(needed, "here"))
    return compile_desired(declared, ruleset, pins)[0]


def outline(desired: Desired, resources: Iterable[Resource]) -> dict[str, str]:
    """The first digits of each key, and the names of the inputs that it is made from."""
    return {
        str(resource.address): " ".join(
            [resource.key[:12], *(item.name for item in desired.detail(resource.address).inputs)]
        )
        for resource in resources
    }


@pytest.mark.parametrize("name", CASES)
def test_keys_of_a_spec_stay_as_they_are(name: str, tmp_path: Path) -> None:
    """Another key makes stale whatever was measured: where that is meant, a kind's revision rises."""
    desired = compile_text(CASES[name], tmp_path)
    assert outline(desired, desired.resources) == EXPECTED[name]


def test_keys_of_points_of_a_curve_stay_as_they_are(tmp_path: Path) -> None:
    desired = compile_text(CURVE, tmp_path)
    chosen = [r for r in desired.resources if r.cell is None or r.cell.scenario in ("c4", "c2")]
    assert outline(desired, chosen) == EXPECTED[POINTS]
