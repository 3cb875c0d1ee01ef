"""An endpoint that serves another model than the declared one is refused before anything is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.verbs.served_model import refuse_other_model
from tests.unit.harness.openai_server import KEY, MODEL, Server


def write_config(folder: Path, *urls: str, model: str = MODEL, key: str = "") -> Path:
    path = folder / "client.json"
    endpoint = {"endpoints": urls, **({"api_key": key} if key else {})}
    path.write_text(json.dumps({"model_params": {"name": model}, "endpoint_config": endpoint}))
    return path


def test_the_declared_model_is_measured(tmp_path: Path) -> None:
    with Server() as server:
        refuse_other_model(write_config(tmp_path, server.url, server.url + "/", key="${KEY}"), {"KEY": KEY})


def test_another_model_is_refused_by_name_at_whichever_endpoint_it_is(tmp_path: Path) -> None:
    with Server() as server, Server(mischief="wrong model") as other:
        config = write_config(tmp_path, server.url, other.url)
        with pytest.raises(HarnessError, match=f"{other.url} serves another-model, not {MODEL}") as caught:
            refuse_other_model(config, {})
    assert caught.value.problem_class == "input"
    assert "client.model_name" in caught.value.fix


def test_the_key_is_the_one_of_the_clients_environment(tmp_path: Path) -> None:
    """A wrong one is refused by this server, which then says nothing of its models."""
    with Server() as server:
        config = write_config(tmp_path, server.url, model="absent", key="${KEY}")
        refuse_other_model(config, {"KEY": "wrong"})
        with pytest.raises(HarnessError, match="not absent"):
            refuse_other_model(config, {"KEY": KEY})


@pytest.mark.parametrize("mischief", ["no protocol", "expired"])
def test_an_endpoint_that_lists_no_models_is_measured(tmp_path: Path, mischief: str) -> None:
    with Server(mischief=mischief) as server:
        refuse_other_model(write_config(tmp_path, server.url, server.url + "/elsewhere", model="absent"), {})


def test_an_endpoint_that_no_one_reaches_is_left_to_the_client(tmp_path: Path) -> None:
    with Server() as server:
        gone = server.url
    refuse_other_model(write_config(tmp_path, gone, "no address", model="absent"), {})
