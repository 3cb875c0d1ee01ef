"""Token generation: a prompt in, a stream of tokens out. The engine batches; this module admits prompts, reports first
tokens and complete answers to LoadGen, and ensures that each prompt is answered exactly once, even after a failure.

A backend that generates tokens is a module (``TokenBackend``) that loads a ``Generator``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from harness.contract import Counter, Fact, Scenario
from harness.errors import HarnessError
from harness.run.qsl import Arrays
from harness.run.sut import Guard, Indexed, Respond

PROMPTS, SOUNDS, MESSAGES = "input_ids", "sound", "messages"
"""The names of a benchmark's samples. Each sample is a row of token ids of any length, a waveform in -1..1, or the
messages of a chat, including images, as the bytes of their JSON."""
STOP_SEQUENCE = "stop_sequence"
"""An input next to prompts: which entry of ``Sampling.stop_sequences`` ends the answer, counted from 1; 0 for none."""
SOUND_RATE = 16_000  # samples per second of a waveform

_NOTHING = np.int32(0)
_WARM_UP_LIMIT = 600.0  # seconds; a server may compile kernels for its first request


class StopSequence(NamedTuple):
    """A sequence that ends an answer and is included in it, as text and as tokens."""

    text: str
    tokens: tuple[int, ...]

    def find(self, answer: Sequence[int], start: int = 0) -> int:
        """Return the number of tokens up to the end of the first such sequence that begins at ``start`` or later; 0 if
        there is none."""
        count, first = len(self.tokens), self.tokens[0]
        for place in range(max(0, start), len(answer) - count + 1):
            if answer[place] == first and tuple(answer[place : place + count]) == self.tokens:
                return place + count
        return 0

    def cut(self, answer: Sequence[int]) -> Sequence[int]:
        """Return the answer up to and including its stop sequence."""
        return answer[: self.find(answer) or len(answer)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the tokens of an answer are chosen, and when it ends. ``temperature`` 0 always takes the likeliest token.

    ``max_new_tokens`` 0: limited only by the engine's capacity. ``top_k`` below 1: tokens are drawn from the whole
    vocabulary. ``seed`` below 0: equal prompts get different answers. ``stop``: token ids that end an answer; empty for
    the model's own. ``beams``: the width of a beam search, whose answer is its likeliest complete beam.
    ``stop_sequences``: further sequences that end answers to some of the prompts (``STOP_SEQUENCE``).
    """

    min_new_tokens: int = 1
    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 1
    seed: int = 42
    stop: tuple[int, ...] = ()
    beams: int = 1
    stop_sequences: tuple[StopSequence, ...] = ()

    def __post_init__(self) -> None:
        if self.min_new_tokens < 1 or 0 != self.max_new_tokens < self.min_new_tokens:
            problem = f"an answer cannot have from {self.min_new_tokens} to {self.max_new_tokens} tokens"
            raise HarnessError(problem, "input", "fix run.options.min_new_tokens and max_new_tokens")

    def find_stop_sequence(self, number: int) -> StopSequence | None:
        """Return the sequence with this number in ``STOP_SEQUENCE``."""
        return self.stop_sequences[number - 1] if number else None

    def describe_choice(self) -> dict[str, float | int]:
        """Return the choice of tokens as parameters that vLLM and servers of the OpenAI protocol share."""
        if not self.temperature:
            return {"temperature": self.temperature}
        known = {"temperature": self.temperature, "top_p": self.top_p}
        if self.top_k > 0:
            known["top_k"] = self.top_k
        return known | ({"seed": self.seed} if self.seed >= 0 else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationPlan:
    """Load a generator for one run. ``model``: the folder of the Model artifact. ``source``: the model path from the
    spec, for a checkpoint that is too large to copy. ``logged``: LoadGen reads the tokens themselves, not only their
    number. ``samples``: the name of the input with the samples. ``service_url``, ``service_log``: as in a RunRequest.
    Each submitted prompt gets ``first`` (at most once, only if ``streaming``), then exactly one of ``completed`` and
    ``failed``, from any thread.
    """

    model: Path | None
    source: Path | None
    scenario: Scenario
    sampling: Sampling
    streaming: bool
    logged: bool
    threads: int
    precision: str
    options: Mapping[str, Any]
    first: Callable[[int, Sequence[int]], None]
    completed: Callable[[int, Answer], None]
    failed: Callable[[int, BaseException], None]
    samples: str = PROMPTS
    service_url: str = ""
    service_log: str = ""


def read_extra(text: str) -> dict[str, Any]:
    """Read the option ``extra``: a JSON object, "" for an empty one."""
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise HarnessError(f"run.options.extra is not JSON: {error}", "input", "write '{\"name\": value}'") from error
    if not isinstance(found, dict):
        raise HarnessError("run.options.extra is not an object", "input", "write '{\"name\": value}'")
    return found


@dataclass(frozen=True, slots=True)
class Spoken:
    """A text answer, and the number of tokens generated for it."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A text answer converted back to token ids, and the number of tokens generated for it. The two numbers differ if
    the text ends within a character, or was not generated in the tokens that the tokenizer chooses for it."""

    ids: Sequence[int]
    tokens: int


Answer = Sequence[int] | int | Spoken | Tokenized
"""The tokens of an answer, only their number if they are not read, or a text."""


class Generator(Protocol):
    """A loaded model that answers prompts. It chooses how many it answers at a time."""

    @property
    def notes(self) -> Mapping[str, Any]:
        """Settings in use."""

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Facts found while loading that must be the same in all runs of a cell, such as the server's identity."""

    def place(self, prompts: Sequence[np.ndarray], stops: Sequence[int] = ()) -> None:
        """Make these the resident prompts. Nothing is in flight. Requests are prepared now, while no clock runs.
        ``stops``: the ``STOP_SEQUENCE`` of each prompt; empty if none has any."""

    def submit(self, identity: int, row: int) -> None:
        """Admit the prompt at ``row``. Returns at once; one thread calls it."""

    def close(self) -> None:
        """Free everything. Nothing is in flight."""


class TokenBackend(Protocol):
    """A backend module that generates."""

    def facts(self) -> dict[str, Fact]:
        """Identify the library, as in any backend."""

    def load(self, plan: GenerationPlan) -> Generator:
        """Load the model, or connect to the server."""


@dataclass(slots=True)
class TokenCounts:
    """Counts of a run's answers. ``single``: answers of one token, for which LoadGen cannot compute the time per
    token."""

    samples: int = 0
    tokens: int = 0
    single: int = 0
    shortest: int = 0
    longest: int = 0

    def add(self, count: int) -> None:
        self.shortest = min(self.shortest, count) if self.samples else count
        self.longest = max(self.longest, count)
        self.samples += 1
        self.tokens += count
        self.single += count == 1


class TokenCompleter:
    """Completes prompts, from any thread: generators call ``first``, ``completed`` and ``failed``."""

    def __init__(
        self,
        respond: Respond,
        sampling: Sampling,
        counter: Counter,
        guard: Guard,
        *,
        dtype: str,
        streaming: bool,
        logged: bool,
        write_text: Callable[[str], np.ndarray] | None = None,
    ) -> None:
        """``write_text``: converts a text answer to the logged array."""
        self.counts = TokenCounts()
        self._respond, self._sampling, self._counter, self._guard = respond, sampling, counter, guard
        self._dtype, self._streaming, self._logged = np.dtype(dtype), streaming, logged
        self._write_text = write_text
        self._waiting: dict[int, bool] = {}  # LoadGen's id -> whether the first token has arrived
        self._lock = threading.Lock()

    def expect(self, identity: int) -> None:
        self._waiting[identity] = False

    def first(self, identity: int, tokens: Sequence[int]) -> None:
        if self._waiting.get(identity) is not False:
            problem = "returned the first token of an answer twice" if identity in self._waiting else _STRAY
            self._guard.record(HarnessError(f"the backend {problem}", "backend", "see its log"))
            return
        self._waiting[identity] = True
        if self._streaming:
            self._respond.first(identity, np.array(tokens, self._dtype))

    def completed(self, identity: int, tokens: Answer) -> None:
        seen = self._waiting.pop(identity, None)
        if seen is None:
            self._guard.record(HarnessError(f"the backend {_STRAY}", "backend", "see its log"))
            return
        if self._guard.failure is not None:
            self._abandon(identity, seen=seen)
            return
        count = count_tokens(tokens)
        try:
            self._check(count)
            answer = self._make_response(tokens, seen=seen)
            if self._streaming and not seen:  # the whole answer came at once
                self._respond.first(identity, answer[:1])
                seen = True
            counts = [count] if isinstance(tokens, Spoken) else None
            self._respond.complete([identity], [answer], counts)
        except Exception as error:
            self._guard.record(error)
            self._abandon(identity, seen=seen)
            return
        with self._lock:
            self.counts.add(count)
            self._counter.bump(1)

    def _make_response(self, tokens: Answer, *, seen: bool) -> np.ndarray:
        if isinstance(tokens, Spoken):
            if self._write_text is None:
                problem = "the backend returns text, but the benchmark needs tokens"
                raise HarnessError(problem, "input", "use another backend, or write write_text() in the benchmark")
            return self._write_text(tokens.text)
        if not isinstance(tokens, int):
            return np.array(tokens.ids if isinstance(tokens, Tokenized) else tokens, self._dtype)
        if self._logged or (self._streaming and not seen):
            raise HarnessError("the backend reported only the number of tokens", "backend", "see its log")
        return np.broadcast_to(_NOTHING, tokens)

    def failed(self, identity: int, error: BaseException) -> None:
        self._guard.record(error)
        seen = self._waiting.pop(identity, None)
        if seen is not None:
            self._abandon(identity, seen=seen)

    def give_up(self, identity: int) -> None:
        """Complete a prompt without an answer."""
        self._abandon(identity, seen=False)

    def _abandon(self, identity: int, *, seen: bool) -> None:
        """Complete an answer of a failed run. If LoadGen expects first tokens and logs answers, it reads each answer's
        first token without checking that there is one, so the process would crash before it reports the failure."""
        if self._streaming and not seen:
            self._respond.first(identity, np.zeros(1, self._dtype))
        self._respond.complete([identity], None)

    def _check(self, count: int) -> None:
        sampling = self._sampling
        if sampling.min_new_tokens <= count and (not sampling.max_new_tokens or count <= sampling.max_new_tokens):
            return
        few = count < sampling.min_new_tokens
        problem = f"an answer has {count} tokens, and must have at {'least' if few else 'most'} "
        bound = sampling.min_new_tokens if few else sampling.max_new_tokens
        fix = "check that the server obeys min_tokens, max_tokens and stop_token_ids, and loaded the model"
        raise HarnessError(f"{problem}{bound}", "backend", fix)


def count_tokens(answer: Answer) -> int:
    if isinstance(answer, (Spoken, Tokenized)):
        return answer.tokens
    return answer if isinstance(answer, int) else len(answer)


_STRAY = "completed a prompt that was not in flight: never sent, or already answered"


class TokenSut:
    """SUT for any scenario: every prompt is passed on arrival to the generator, which queues prompts that it has no
    room for."""

    def __init__(self, generator: Generator, samples: Indexed, completer: TokenCompleter, guard: Guard) -> None:
        self._generator, self._samples, self._completer, self._guard = generator, samples, completer, guard

    def issue(self, ids: list[int], indices: list[int]) -> None:
        rows = self._samples.rows(indices)
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for identity, row in zip(ids, numbers, strict=True):
            if self._guard.failure is not None:
                self._completer.give_up(identity)
                continue
            self._completer.expect(identity)
            try:
                self._generator.submit(identity, row)
            except Exception as error:
                self._completer.failed(identity, error)

    def flush(self) -> None:
        """Nothing to do, since answers are sent at once."""


def place_prompts(generator: Generator, samples: Arrays) -> None:
    stops = samples.get(STOP_SEQUENCE)
    generator.place(list(samples[name_samples(samples)]), () if stops is None else [int(each) for each in stops])


def name_samples(samples: Arrays) -> str:
    found = next((name for name in (PROMPTS, SOUNDS, MESSAGES) if name in samples), None)
    if found is None:
        known = ", ".join(samples) or "nothing"
        fix = f"add {PROMPTS!r} to the benchmark's load_samples(): one row of token ids per prompt"
        raise HarnessError(f"the dataset has no {PROMPTS}, but {known}", "input", fix)
    return found


class WarmUp:
    """Answers a few prompts before the clock starts, through the callbacks that a run uses afterwards."""

    def __init__(self) -> None:
        self.problem: BaseException | None = None
        self._over = threading.Semaphore(0)

    def first(self, _identity: int, _tokens: Sequence[int]) -> None:
        """Ignore the first token."""

    def completed(self, _identity: int, _tokens: Answer) -> None:
        self._over.release()

    def failed(self, _identity: int, error: BaseException) -> None:
        self.problem = self.problem or error
        self._over.release()

    def wait(self, count: int) -> None:
        """Wait for the answers. Raises the first error."""
        for _ in range(count):
            if not self._over.acquire(timeout=_WARM_UP_LIMIT):
                problem = f"no answer to a first prompt within {_WARM_UP_LIMIT:.0f} s"
                raise HarnessError(problem, "resources", "see the server's log")
        if self.problem is not None:
            raise self.problem


class TokenRelay:
    """A generator's callbacks, used first for the warm-up and then for the run."""

    def __init__(self) -> None:
        self.target: WarmUp | TokenCompleter = WarmUp()

    def first(self, identity: int, tokens: Sequence[int]) -> None:
        self.target.first(identity, tokens)

    def completed(self, identity: int, tokens: Answer) -> None:
        self.target.completed(identity, tokens)

    def failed(self, identity: int, error: BaseException) -> None:
        self.target.failed(identity, error)
