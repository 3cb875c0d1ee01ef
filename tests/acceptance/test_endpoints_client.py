"""The official Endpoints client takes the configuration that is written here, and what it leaves is what was asked."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.run.alphabet import answer, write_rehearsal
from reconciler.endpoints.results import point_format as points
from reconciler.endpoints.results.client import ClientPlaces, build_client_config
from reconciler.resource.ruled_values import AccuracyLogRule, Metric
from reconciler.rules.context import RuleContext
from reconciler.rules.results.format import RunFiles, Verdict

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


class Alphabet(BaseHTTPRequestHandler):
    """Says the alphabet, a letter in each chunk of a stream."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        letters = answer(asked["messages"][-1]["content"][-1])
        if not asked.get("stream"):
            self.answer_at_once(letters)
            return
        chunks = [{"index": 0, "delta": {"role": "assistant", "content": letter}} for letter in letters]
        chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        whole = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": "alphabet"}
        lines = [f"data: {json.dumps({**whole, 'choices': [chunk]})}\n\n" for chunk in chunks]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in (*lines, "data: [DONE]\n\n"):
            self.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def answer_at_once(self, letters: str) -> None:
        message = {"role": "assistant", "content": letters}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {"id": "0", "object": "chat.completion", "created": 0, "model": "alphabet", "choices": [choice]}
        body = json.dumps(whole).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256  # a dedicated Offline run connects for all of its samples at once


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Alphabet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alphabet")
    write_rehearsal(folder)
    return folder


def run(mode: str, url: str, data: Path, folder: Path, **more: Any) -> Verdict:
    asked, report = {**ASKED, "mode": mode, **more}, folder / "report"
    files = [str(data / name) for name in ("prompts.jsonl", "questions.jsonl", "model")]
    config = build_client_config(asked, ClientPlaces(url, str(report), *files))
    (folder / "client.yaml").write_text(json.dumps(config))
    words = ["-m", "inference_endpoint.main", "benchmark", "from-config", "--config", str(folder / "client.yaml")]
    command = [str(PYTHON), *words, "--mode", "perf" if mode == "performance" else "both"]
    environment = {**os.environ, "PYTHONPATH": "src"}
    ended = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 or "client.audit.samples" in more, ended.stderr[-2000:]
    for part in ("performance/result_summary.json", "accuracy/accuracy_results.json"):
        if (report / part).is_file():
            (report / part).rename(report / Path(part).name)
    (report / "outputs").mkdir()
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
