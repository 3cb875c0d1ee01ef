"""The official Endpoints client takes the configuration that is written here, and what it leaves is what was asked."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.run.alphabet import answer, write_rehearsal
from reconciler.endpoints.results import point_format as points
from reconciler.endpoints.results.client import ClientPlaces, build_client_config
from reconciler.resource.records import LogFinding
from reconciler.resource.ruled_values import AccuracyLogRule, Metric
from reconciler.rules.context import RuleContext
from reconciler.rules.results.format import AttemptVerdict, Kept, RunFiles

CHECKOUT = Path(os.environ.get("MLPERF_ENDPOINTS_CLIENT", "/nowhere"))
PYTHON = CHECKOUT / ".venv/bin/python"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.is_file(), reason="MLPERF_ENDPOINTS_CLIENT names no checkout of mlcommons/endpoints with a .venv"
    ),
]
RULES = RuleContext(metric=Metric("system_tps", "tokens/s"), accuracy_log=AccuracyLogRule(0, 0, 0))
ASKED: dict[str, Any] = {
    "scenario": "c4",
    "point.concurrency": 4,
    "point.least_duration": 0,
    "harness.model_name": "alphabet",
    "min_duration": 0,
    "performance_sample_count": 64,
    "schedule_rng_seed": 10487924139932647040,
    "sample_index_rng_seed": 586478644936801402,
    "client.workers": 1,
    "client.warmup": 3,
    "client.parameters.max_new_tokens": 32,
    "client.parameters.temperature": "0",
    "client.accuracy.method": "string_match",
    "client.accuracy.ground_truth": "ground_truth",
    "client.accuracy.extractor": "identity_extractor",
    "accuracy_sample_count": 25,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def read_asked(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, model: str, deltas: Iterable[dict[str, Any]], reason: str, pause: float = 0.0) -> None:
        """Send each delta in a chunk of its own. ``pause``: seconds after each."""
        chunks: list[dict[str, Any]] = [{"index": 0, "delta": delta} for delta in deltas]
        chunks.append({"index": 0, "delta": {}, "finish_reason": reason})
        whole = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": model}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for text in (*(json.dumps({**whole, "choices": [chunk]}) for chunk in chunks), "[DONE]"):
            line = f"data: {text}\n\n"
            self.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
            self.wfile.flush()
            time.sleep(pause)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


class Alphabet(Handler):
    """Says the alphabet, a letter in each chunk of a stream."""

    def do_POST(self) -> None:
        asked = self.read_asked()
        letters = answer(asked["messages"][-1]["content"][-1])
        if asked.get("stream"):
            self.stream("alphabet", ({"role": "assistant", "content": letter} for letter in letters), "stop")
            return
        message = {"role": "assistant", "content": letters}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {"id": "0", "object": "chat.completion", "created": 0, "model": "alphabet", "choices": [choice]}
        self.answer(whole)


class Agent(Handler):
    """Calls a tool in the first turn of a conversation with tools, and states an intent in every other turn.
    ``padding``: text with which each answer ends."""

    padding = ""

    def do_POST(self) -> None:
        asked = self.read_asked()
        turn = sum(message["role"] in ("user", "tool") for message in asked["messages"])
        self.server.asked.append((self.headers["X-Session-ID"], turn, asked["messages"][0]["content"]))  # type: ignore[attr-defined]
        deltas: list[dict[str, Any]] = [{"content": text} for text in ("intent: ", "I00", "1")]
        reason = "stop"
        if "tools" in asked and turn == 1:
            arguments = ("", '{"command": "ls -l', ' | grep x"}')
            functions: list[dict[str, Any]] = [{"arguments": text} for text in arguments]
            functions[0]["name"] = "bash"
            calls = [{"index": 0, "type": "function", "function": function} for function in functions]
            calls[0]["id"] = "call_1"
            deltas, reason = [{"tool_calls": [call]} for call in calls], "tool_calls"
        if self.padding:
            deltas.append({"content": f" {self.padding}"})
        deltas[0] |= {"role": "assistant"}
        self.stream("agent", deltas, reason, 0.01)  # a later token is later by the client's clock, too


class SweBench(Handler):
    """The protocol of the client's SWE-bench service, which resolves three instances."""

    protocol_version = "HTTP/1.0"
    resolved = 3

    def do_GET(self) -> None:
        if self.path == "/health":
            names = ["swebench.run", "swebench.cancel", "artifacts.download"]
            self.answer({"api_version": "v1", "capabilities": names})
            return
        ids = self.server.asked[0]["evaluated_instance_ids"]  # type: ignore[attr-defined]
        names = ("submitted_instances", "completed_instances", "total_instances")
        result = {
            **dict.fromkeys(names, len(ids)),
            "resolved_instances": self.resolved,
            "resolved_ids": ids[: self.resolved],
            "unresolved_ids": ids[self.resolved :],
            "completed_ids": ids,
            "submitted_ids": ids,
        }
        self.answer({"run_id": "run-1", "status": "succeeded", "phase": "succeeded", "result": result, "artifacts": []})

    def do_POST(self) -> None:
        self.server.asked.append(self.read_asked())  # type: ignore[attr-defined]
        self.answer({"run_id": "run-1", "status": "queued"})


class Server(ThreadingHTTPServer):
    request_queue_size = 256  # a dedicated Offline run connects for all of its samples at once

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[Any] = []


@contextlib.contextmanager
def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def name_url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(Alphabet) as server:
        yield name_url(server)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alphabet")
    write_rehearsal(folder)
    return folder


def run(mode: str, url: str, data: Path, folder: Path, **more: Any) -> AttemptVerdict:
    asked, report = {**ASKED, "mode": mode, **more}, folder / "report"
    files = [str(data / name) for name in ("prompts.jsonl", "questions.jsonl", "model")]
    config = build_client_config(asked, ClientPlaces(url, str(report), *files))
    return start("perf" if mode == "performance" else "both", asked, config, folder)


def start(mode: str, asked: dict[str, Any], config: dict[str, Any], folder: Path) -> AttemptVerdict:
    """In a folder of its own, since the client keeps datasets below the one in which it is started. Before a run it
    opens a quarter of the connections for which the machine has ports, and here each would be a thread."""
    report = folder / "report"
    config["settings"]["client"]["warmup_connections"] = 0
    (folder / "client.yaml").write_text(json.dumps(config))
    words = ["-m", "inference_endpoint.main", "benchmark", "from-config", "--config", str(folder / "client.yaml")]
    command, environment = [str(PYTHON), *words, "--mode", mode], {**os.environ, "PYTHONPATH": str(CHECKOUT / "src")}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 or "client.audit.samples" in asked, ended.stderr[-2000:]
    for part in ("performance/result_summary.json", "accuracy/accuracy_results.json"):
        if (report / part).is_file():
            (report / part).rename(report / Path(part).name)
    (report / "outputs").mkdir()
    if (report / "events.jsonl").exists():
        (report / "events.jsonl").rename(report / points.EVENTS)
    return points.judge_run(RunFiles(report, asked, RULES, {}, folder / "client.yaml", folder, rehearsal=True))


def test_a_performance_run_is_what_was_asked_and_counts_every_letter(url: str, data: Path, tmp_path: Path) -> None:
    verdict = run("performance", url, data, tmp_path)
    assert verdict.problem == ""
    assert verdict.values["reasons"] == []
    assert verdict.values["point"]["completed"] == 64
    prompts = [json.loads(line)["prompt"] for line in (data / "prompts.jsonl").read_text().splitlines()]
    summary = json.loads((tmp_path / "report/result_summary.json").read_text())
    assert summary["output_sequence_lengths"]["total"] == sum(len(answer(prompt[-1])) for prompt in prompts)


def test_a_dedicated_offline_run_has_the_whole_dataset_at_once(url: str, data: Path, tmp_path: Path) -> None:
    more = {"point.concurrency": 64, "point.offline": True, "client.warmup": 0, "min_query_count": 64}
    verdict = run("performance", url, data, tmp_path, **more)
    assert (verdict.problem, verdict.values["reasons"]) == ("", [])
    assert verdict.values["point"]["concurrency"] == 64
    assert "tps_per_user" not in verdict.values["point"]
    (tmp_path / "scored").mkdir()
    assert run("accuracy", url, data, tmp_path / "scored", **more).problem == ""


def test_the_client_s_test_of_caching_is_read(url: str, data: Path, tmp_path: Path) -> None:
    """Its phases are short, and a server on the loopback is as fast as it happens to be: either verdict is read."""
    verdict = run("performance", url, data, tmp_path, **{"client.audit.samples": 20})
    assert verdict.problem == ""
    stated = json.loads((tmp_path / "report/audit/audit_output_caching_test.json").read_text())
    assert [reason for reason in verdict.values["reasons"] if reason.startswith("audit:")] == (
        [] if stated["passed"] else [f"audit: output_caching_test failed: {stated['reason']}"]
    )


def test_an_accuracy_run_scores_every_answer(url: str, data: Path, tmp_path: Path) -> None:
    assert run("accuracy", url, data, tmp_path).problem == ""
    scored = points.judge_score(tmp_path, tmp_path / "report", RULES, {})
    assert scored.values["metric"] == {"value": "1", "unit": "score"}


TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
CODING: list[dict[str, Any]] = [
    {"role": "user", "system": "You fix code.", "content": "fix it", "tools": TOOLS},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
    },
    {"role": "tool", "tool_results": [{"tool_call_id": "c", "content": "a b"}], "delay_seconds": 0.02},
    {"role": "assistant", "content": "done"},
]
ROUTING: list[dict[str, Any]] = [
    {"role": "user", "system": "You route calls.", "content": "help"},
    {"role": "assistant", "content": "intent: I001", "intent_codes": ["I001"]},
]
PLAYED: dict[str, Any] = {
    **ASKED,
    "point.agentic": True,
    "point.concurrency": 3,
    "client.warmup": 0,
    "performance_sample_count": 6,
    "min_query_count": 12,
    "client.parameters.chat_template_kwargs.preserve_thinking": True,
    "accuracy_sample_count": 4,
}


def write_conversations(path: Path) -> Path:
    """Three with tools and three that route."""
    rows = [
        {"conversation_id": name, "turn": turn, **row}
        for number in range(3)
        for name, turns in ((f"code_{number}", CODING), (f"sim_{number}", ROUTING))
        for turn, row in enumerate(turns, start=1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_conversations_with_tools_are_played_scored_and_read(data: Path, tmp_path: Path) -> None:
    """Of two passes over six conversations every second is of two turns: 18 turns. A command that names grep with the
    expected ls is half right, and every intent is right: three quarters."""
    asked = {**PLAYED, "mode": "performance"}
    conversations = write_conversations(tmp_path / "conversations.jsonl")
    with serve(Agent) as server:
        places = ClientPlaces(name_url(server), str(tmp_path / "report"), str(conversations), "", str(data / "model"))
        verdict = start("perf", asked, build_client_config(asked, places), tmp_path)
    assert (verdict.problem, verdict.values["reasons"]) == ("", [])
    assert [found.rule for found in judge_files(asked, tmp_path / "report")] == []
    point = verdict.values["point"]
    assert (point["inline"], point["concurrency"]) == ("0.75", 3)
    assert 16 <= point["completed"] <= 18  # the client counts no turn that is asked after the first user is done
    assert float(point["interactivity"]) > 0
    turns = Counter(turn for _, turn, _ in server.asked)
    assert turns == {1: 12, 2: 6}
    assert {name.partition("__repeat_")[0] for name, _, _ in server.asked} == {
        f"{kind}_{number}" for kind in ("code", "sim") for number in range(3)
    }
    assert all("[salt: " in system for _, _, system in server.asked)


def test_the_swe_bench_service_scores_an_accuracy_run(data: Path, tmp_path: Path) -> None:
    """It alone is asked: the endpoint's address is in what it is given."""
    code = "import sys, pandas; pandas.DataFrame({'instance_id': list('abcd'), 'prompt': 'p'}).to_parquet(sys.argv[1])"
    kept = tmp_path / "dataset_cache/swe_bench/verified/test/swe_bench_verified_test.parquet"
    kept.parent.mkdir(parents=True)
    subprocess.run([PYTHON, "-c", code, kept], check=True)
    asked = {**PLAYED, "mode": "accuracy"}
    conversations = write_conversations(tmp_path / "conversations.jsonl")
    with serve(Agent) as server, serve(SweBench) as service:
        places = ClientPlaces(name_url(server), str(tmp_path / "report"), str(conversations), "", str(data / "model"))
        verdict = start("acc", asked, build_client_config(asked, replace(places, service=name_url(service))), tmp_path)
        assert verdict.problem == ""
        (given,) = service.asked
        assert (given["endpoint_urls"], given["num_instances"], given["workers"]) == ([name_url(server)], 4, 3)
    scored = points.judge_score(tmp_path, tmp_path / "report", RULES, {})
    assert scored.values["metric"] == {"value": "0.75", "unit": "score"}


def judge_files(asked: dict[str, Any], output: Path) -> list[LogFinding]:
    """The findings on the files that a record keeps, the events among them."""
    files = {name: output / name for name in ("config.yaml", "result_summary.json", points.EVENTS)}
    return list(points.judge_kept(Kept(asked, 10_000.0, 0.0, files)))
