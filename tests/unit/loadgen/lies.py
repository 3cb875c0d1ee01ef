"""Lies: what somebody may write into the logs of an honest run, and what then gives them away.

Each is one or several edits of a log that the real LoadGen made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

Edit = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Lie:
    """``run``: the honest one by its name in RUNS. ``detail`` and ``answers``: edits of its files. ``key``: what the
    refusal names. ``dated``: only clocks contradict it, which is a doubt."""

    name: str
    run: str
    key: str
    detail: tuple[Edit, ...] = ()
    answers: tuple[Edit, ...] = ()
    dated: bool = False


def _substitute(key: str, shape: str, change: Callable[[re.Match[str]], str], *, most: int = 1) -> Edit:
    """What ``shape`` finds on lines of a key, changed; on the first, or on all where ``most`` is 0."""

    def edit(text: str) -> str:
        changed, count = re.subn(shape, change, text, count=most)
        assert count, f"no line of {key}"
        return changed

    return edit


def setting(key: str, value: str) -> Edit:
    """Another value on the line of a key."""
    shape = rf'("key": "{re.escape(key)}", "value": )("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^,]+)'
    return _substitute(key, shape, lambda found: f"{found[1]}{value}")


def times(key: str, factor: float) -> Edit:
    """A number that many times as large, as LoadGen prints doubles."""
    shape = rf'("key": "{re.escape(key)}", "value": )([\d.e+-]+)'
    return _substitute(key, shape, lambda found: f"{found[1]}{float(found[2]) * factor:.6g}")


def whole(key: str, factor: float) -> Edit:
    """The same of an integer."""
    shape = rf'("key": "{re.escape(key)}", "value": )(\d+)'
    return _substitute(key, shape, lambda found: f"{found[1]}{int(int(found[2]) * factor)}")


def times_another(key: str, other: str, factor: float) -> Edit:
    """A whole number that many times as large as that of another key."""

    def edit(text: str) -> str:
        found = re.search(rf'"key": "{re.escape(other)}", "value": ([\d.e+-]+)', text)
        assert found is not None, f"no line of {other}"
        return setting(key, f"{float(found[1]) * factor:.0f}")(text)

    return edit


def whole_another(key: str, other: str) -> Edit:
    """The integer of another key."""

    def edit(text: str) -> str:
        found = re.search(rf'"key": "{re.escape(other)}", "value": (\d+)', text)
        assert found is not None, f"no line of {other}"
        return setting(key, found[1])(text)

    return edit


def prepended(key: str, value: str) -> Edit:
    """A second line of a key before LoadGen's own: readers take the first."""
    return _repeat(key, value, after=0)


def appended(key: str, value: str) -> Edit:
    """A second line of a key behind LoadGen's own: some readers take the last."""
    return _repeat(key, value, after=1)


def _repeat(key: str, value: str, *, after: int) -> Edit:
    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if f'"key": "{key}"' in line)
        lines.insert(at + after, setting(key, value)(lines[at]))
        return "".join(lines)

    return edit


def within(key: str, name: str, value: str) -> Edit:
    """Another value of what LoadGen's logger writes on a line next to its key and value."""
    shape = rf'("key": "{key}".*"{name}": )("[^"]*"|[\d.]+)'
    return _substitute(key, shape, lambda found: f"{found[1]}{value}", most=0)


def doubled(key: str, more: str) -> Edit:
    """A line that says a second thing behind its value: readers of JSON take the last."""
    shape = rf'("key": "{re.escape(key)}", "value": (?:"[^"]*"|[^,]+))'
    return _substitute(key, shape, lambda found: f"{found[1]}, {more}")


def hidden(key: str, *forms: tuple[str, str]) -> Edit:
    """Another line before LoadGen's own, rewritten by each pattern and its replacement: some readers take the first."""

    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if f'"key": "{key}"' in line)
        line = lines[at]
        for shape, form in forms:
            line, count = re.subn(shape, lambda _, form=form: form, line)  # type: ignore[misc]
            assert count, f"no {shape}"
        return "".join((*lines[:at], line, *lines[at:]))

    return edit


_RATE_LINE = r'"key": "result_samples_per_second", "value": [\d.e+]+'
_BETTER = '"key": "result_samples_per_second", "value": 99999999'
_LONG = (r'"metadata": ', f'"more": "{"x" * 70_000}", "metadata": ')


def hundredth(text: str) -> str:
    """Every latency a hundredth of what it was."""
    shape = r'("key": "result_\S*latency_ns", "value": )(\d+)'
    return re.sub(shape, lambda found: f"{found[1]}{int(found[2]) // 100}", text)


def twice(text: str) -> str:
    """The whole log again, with a better result."""
    return text + times("result_samples_per_second", 10)(text)


def without(key: str) -> Edit:
    def edit(text: str) -> str:
        kept = [line for line in text.splitlines(keepends=True) if f'"key": "{key}"' not in line]
        assert len(kept) < text.count("\n")
        return "".join(kept)

    return edit


def moved(key: str, **by: float) -> Edit:
    """A time of LoadGen's clock, later by so many days, minutes and so on."""
    shape = re.compile(rf'("key": "{re.escape(key)}", "value": ")([^"]*)')

    def edit(text: str) -> str:
        changed, count = shape.subn(lambda found: found[1] + _later(found[2], timedelta(**by)), text, count=1)
        assert count == 1, f"no line of {key}"
        return changed

    return edit


def _later(text: str, by: timedelta) -> str:
    form = "%m-%d-%Y %H:%M:%S.%f"
    return (datetime.strptime(text, form) + by).strftime(form)[:-3]


def faster(text: str) -> str:
    """Every latency of a stream a tenth of what it was, in the text of early stopping, too."""
    less = re.sub(
        r'("key": "(?:result_\S*latency_ns|early_stopping_latency_\w+)", "value": )(\d+)',
        lambda found: f"{found[1]}{int(found[2]) // 10}",
        text,
    )
    less = re.sub(r"(percentile estimate: )(\d+)", lambda found: f"{found[1]}{int(found[2]) // 10}", less)
    mean = re.search(r'"key": "result_mean_latency_ns", "value": (\d+)', less)
    assert mean is not None
    if "result_qps_without_loadgen_overhead" not in less:
        return less
    rate = setting("result_qps_without_loadgen_overhead", f"{1e9 / int(mean[1]):.6g}")
    return times("result_qps_with_loadgen_overhead", 10)(rate(less))


def steady(text: str) -> str:
    """No query slower than nine of ten others: the slowest bounds how far queries may be apart."""
    most = re.search(r'"key": "result_90.00_percentile\S*", "value": (\d+)', text)
    assert most is not None
    shape = r'("key": "result_(?:9[579]\.\d+_percentile|max)\S*latency_ns", "value": )\d+'
    return re.sub(shape, lambda found: f"{found[1]}{most[1]}", text)


def negative(text: str) -> str:
    return re.sub(r'"qsl_idx" : \d+', '"qsl_idx" : -1', text, count=1)


def first_answers(count: int) -> Edit:
    """Only the first answers, in a list that is whole."""

    def edit(text: str) -> str:
        lines = [line for line in text.splitlines() if "qsl_idx" in line][:count]
        return "[\n" + "\n".join(line.rstrip(",") + "," for line in lines).rstrip(",") + "\n]\n"

    return edit


def one_answer_always(text: str) -> str:
    """Every answer is to one sample."""
    index = re.search(r'"qsl_idx" : (\d+)', text)
    assert index is not None
    return re.sub(r'"qsl_idx" : \d+', index[0], text)


def one_answer_twice(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([lines[0], lines[1], *lines[1:]])


def stranger(text: str) -> str:
    return re.sub(r'"qsl_idx" : \d+', '"qsl_idx" : 999999', text, count=1)


def renumbered(number: int) -> Edit:
    """Another seq_id of the first answer."""
    return lambda text: re.sub(r'"seq_id" : \d+', f'"seq_id" : {number}', text, count=1)


def second_number_again(text: str) -> str:
    """The first answer has the seq_id of the second."""
    return renumbered(int(re.findall(r'"seq_id" : (\d+)', text)[1]))(text)


def unnumbered(text: str) -> str:
    return re.sub(r'"seq_id" : \d+, ', "", text, count=1)


def answered_with(data: str) -> Edit:
    """Other data of the first answer."""
    return lambda text: re.sub(r'"data" : "[^"]*"', f'"data" : "{data}"', text, count=1)


def lowered_estimate(key: str, rank: str, other: str) -> Edit:
    """An estimate of early stopping, in its text too, as low as another latency of the log."""

    def edit(text: str) -> str:
        text = whole_another(key, other)(text)
        found = re.search(rf'"key": "{re.escape(key)}", "value": (\d+)', text)
        assert found is not None
        return re.sub(rf"{rank}th percentile estimate: \d+", f"{rank}th percentile estimate: {found[1]}", text)

    return edit


def reworded(old: str, new: str) -> Edit:
    """Other words in the text of early stopping."""
    return _substitute("early_stopping_result", old, lambda _: new)


_VALID = (
    setting("result_validity", '"VALID"'),
    setting("result_perf_constraints_met", "true"),
    setting("early_stopping_met", "true"),
)


def _lie(name: str, run: str, key: str, *edits: Edit, answer: Edit | None = None, dated: bool = False) -> Lie:
    return Lie(name, run, key, edits, () if answer is None else (answer,), dated=dated)


def _edit_of(name: str, run: str, key: str, edit: Callable[..., Edit], *arguments: object) -> Lie:
    """A lie on the line of its own key."""
    return _lie(name, run, key, edit(key, *arguments))


LIES = (
    # The settings that LoadGen says it used.
    _lie("one sample again and again", "server-valid", "performance_issue_same",
        setting("effective_performance_issue_same", "true")),
    _lie("each sample once", "offline-valid", "performance_issue_unique",
        setting("effective_performance_issue_unique", "true")),
    _lie("one sample again and again, requested too", "server-valid", "performance_issue_same",
        setting("effective_performance_issue_same", "true"), setting("requested_performance_issue_same", "true")),
    _lie("always sample 3", "single-stream-valid", "performance_issue_same_index",
        setting("effective_performance_issue_same_index", "3"), setting("requested_performance_issue_same_index", "3")),
    _lie("answers of a performance run logged", "offline-valid", "accuracy_log_sampling_target",
        setting("effective_accuracy_log_sampling_target", "64"),
        setting("requested_accuracy_log_sampling_target", "64")),
    _lie("answers logged by chance", "offline-valid", "accuracy_log_probability",
        setting("effective_accuracy_log_probability", "0.5"), setting("requested_accuracy_log_probability", "0.5")),
    _lie("accuracy of one sample", "offline-accuracy", "accuracy_sample_count",
        setting("effective_accuracy_sample_count", "1")),
    _lie("accuracy of half of the samples", "server-accuracy", "accuracy_sample_count",
        setting("effective_accuracy_sample_count", "500"), setting("requested_accuracy_sample_count_override", "500")),
    _lie("a library of one sample", "offline-valid", "effective_performance_sample_count",
        setting("qsl_reported_total_count", "1")),
    _lie("an override that LoadGen did not take", "offline-valid", "effective_performance_sample_count",
        setting("requested_performance_sample_count_override", "7")),
    _lie("a smaller library", "offline-accuracy", "loaded_qsl_set",
        setting("qsl_reported_total_count", "900"), setting("effective_accuracy_sample_count", "900")),
    _lie("more samples in memory than were loaded", "server-valid", "effective_performance_sample_count",
        setting("effective_performance_sample_count", "1000")),
    _lie("fewer samples in memory than were loaded", "server-valid", "effective_performance_sample_count",
        setting("effective_performance_sample_count", "2")),
    _lie("a bound on the queries", "server-valid", "max_query_count",
        setting("effective_max_query_count", "601"), setting("requested_max_query_count", "601")),
    _lie("a bound on the duration", "server-valid", "max_duration",
        setting("effective_max_duration_ms", "300"), setting("requested_max_duration_ms", "300")),
    _edit_of("a minimum duration that was not asked", "server-valid", "effective_min_duration_ms", setting, "600000"),
    _edit_of("another seed than was requested", "server-valid", "effective_schedule_rng_seed", setting, "1"),
    _lie("a permutation that was not asked", "offline-valid", "effective_sample_concatenate_permutation",
        setting("effective_sample_concatenate_permutation", "true")),
    # The verdict.
    _lie("INVALID changed to VALID, with all of its conditions", "server-too-few", "early_stopping_met", *_VALID),
    _edit_of("INVALID changed to VALID alone", "server-too-few", "result_validity", setting, '"VALID"'),
    _lie("early stopping changed to met without its text", "server-too-few", "early_stopping_met",
        *_VALID, without("early_stopping_result"), without("result_invalid_reason")),
    _lie("early stopping changed in a text that its counts contradict", "server-valid", "early_stopping_met",
        setting("early_stopping_result", '" * Run unsuccessful."')),
    _lie("a reason of INVALID left behind", "server-too-few", "result_validity",
        *_VALID, setting("early_stopping_result", '" * Run successful."')),
    _lie("too few queries that were enough", "offline-too-short", "result_min_duration_met",
        setting("result_validity", '"VALID"'), setting("result_min_duration_met", "true"),
        without("result_invalid_reason")),
    _lie("a minimum duration falsely logged as met", "single-stream-out-of-queries", "result_min_duration_met",
        setting("result_min_duration_met", "true")),
    _lie("a minimum of queries falsely logged as met", "single-stream-valid", "result_min_queries_met",
        setting("effective_min_query_count", "100000")),
    _edit_of("fewer ERROR lines than there are", "single-stream-max-count", "num_errors", setting, "0"),
    # Rates, counts and latencies.
    _edit_of("ten times the rate in Offline", "offline-valid", "result_samples_per_second", times, 10),
    _edit_of("one percent more in Offline", "offline-valid", "result_samples_per_second", times, 1.01),
    _lie("ten times the rate in Offline, and a tenth of the latency", "offline-too-short", "result_max_latency_ns",
        times("result_samples_per_second", 10), whole("result_max_latency_ns", 0.1)),
    _edit_of("ten times the completed rate in Server", "server-valid", "result_completed_samples_per_sec", times, 10),
    _lie("ten times both rates in Server", "server-valid", "result_scheduled_samples_per_sec",
        times("result_completed_samples_per_sec", 10), times("result_scheduled_samples_per_sec", 10)),
    _lie("ten times both rates, and a tenth of the schedule", "server-long", "generated_query_duration",
        times("result_completed_samples_per_sec", 10), times("result_scheduled_samples_per_sec", 10),
        whole("generated_query_duration", 0.1)),
    _lie("two percent more completed than scheduled", "server-valid", "result_completed_samples_per_sec",
        times_another("result_completed_samples_per_sec", "result_scheduled_samples_per_sec", 1.02)),
    _lie("a schedule longer than the run", "server-valid", "result_scheduled_samples_per_sec",
        whole("generated_query_duration", 10)),
    _edit_of("more queries than were generated", "server-valid", "result_query_count", setting, "60100"),
    _edit_of("a better rate on a line before", "offline-valid", "result_samples_per_second", prepended, "999999"),
    _edit_of("a better latency on a line before", "single-stream-valid", "early_stopping_latency_ss", prepended, "5"),
    _edit_of("a second verdict on a line before", "server-too-few", "result_validity", prepended, '"VALID"'),
    _edit_of("half the estimate of SingleStream", "single-stream-valid", "early_stopping_latency_ss", whole, 0.5),
    _lie("half the estimate of SingleStream, in its text too", "single-stream-valid", "early_stopping_latency_ss",
        setting("early_stopping_latency_ss", "10"),
        setting("early_stopping_result", '" * Early stopping 90.0th percentile estimate: 10"')),
    _edit_of("half the estimate of MultiStream", "multi-stream-valid", "early_stopping_latency_ms", whole, 0.5),
    _edit_of("a 99th percentile below the median", "server-valid", "result_99.00_percentile_latency_ns", setting, "5"),
    _edit_of("a slowest query faster than the others", "server-valid", "result_max_latency_ns", setting, "4400"),
    _edit_of("a mean above the slowest", "server-valid", "result_mean_latency_ns", setting, "9999999999"),
    _lie("a mean that does not fit the rate", "single-stream-valid", "result_qps_without_loadgen_overhead",
        times("result_qps_without_loadgen_overhead", 2)),
    _lie("queries that took longer than the run", "single-stream-valid", "result_mean_latency_ns",
        whole("result_query_count", 10000)),
    # Clocks.
    _lie("an end before the beginning", "offline-valid", "power_begin",
        setting("power_end", '"01-01-2020 00:00:00.000"'), dated=True),
    _lie("a run older than its LoadGen", "offline-valid", "power_begin",
        setting("power_begin", '"01-01-2020 00:00:00.000"'), setting("power_end", '"01-01-2020 00:00:00.100"'),
        dated=True),
    _lie("a longer run by a later end", "offline-valid", "power_end",
        setting("power_end", '"12-31-2099 00:00:00.000"'), dated=True),
    _lie("an older log with new dates", "offline-valid", "power_end",
        moved("power_begin", days=40, minutes=7), moved("power_end", days=40, minutes=7), dated=True),
    _lie("an older log with new dates, with no other date left to contradict them", "server-valid", "test_datetime",
        moved("power_begin", days=40, minutes=7), moved("power_end", days=40, minutes=7), without("test_datetime")),
    _lie("another day of the test", "server-valid", "power_end",
        setting("test_datetime", '"2020-02-03T04:05:06Z"'), dated=True),
    _lie("an hour more by its end", "single-stream-valid", "power_end", moved("power_end", hours=1), dated=True),
    _edit_of("a second end on a line before", "server-valid", "power_end", prepended, '"x"'),
    # What was taken out, so that nothing denies the rest.
    _lie("ten times the rate in Offline, without the latency", "offline-valid", "result_max_latency_ns",
        times("result_samples_per_second", 10), without("result_max_latency_ns")),
    _edit_of("no beginning", "offline-valid", "power_begin", without),
    _lie("a condition that was not met, taken out", "server-too-fast", "result_perf_constraints_met",
        setting("result_validity", '"VALID"'), without("result_perf_constraints_met"),
        without("result_invalid_reason")),
    _edit_of("no samples that were loaded", "offline-accuracy", "loaded_qsl_set", without),
    # Of several lines, so that they fit each other.
    _lie("ten times the samples and the rate in Offline", "offline-valid", "generated_samples_per_query",
        whole("generated_samples_per_query", 10), times("result_samples_per_second", 10)),
    _lie("ten times the queries of Server in the same time", "server-long", "result_scheduled_samples_per_sec",
        whole("generated_query_count", 10), whole("result_query_count", 10),
        times("result_completed_samples_per_sec", 10), times("result_scheduled_samples_per_sec", 10)),
    _lie("twice the target of Server", "server-long", "result_scheduled_samples_per_sec",
        times("effective_target_qps", 2), times("requested_server_target_qps", 2)),
    _lie("a tenth of every latency in SingleStream", "single-stream-slow", "result_mean_latency_ns", faster, steady),
    _lie("a tenth of every latency in MultiStream", "multi-stream-slow", "result_mean_query_latency_ns",
        faster, steady),
    _lie("a fastest query slower than the median", "server-valid", "result_50.00_percentile_latency_ns",
        setting("result_min_latency_ns", "9999999999")),
    _lie("ten minutes that were asked, and falsely logged as met", "server-long", "result_min_duration_met",
        setting("effective_min_duration_ms", "600000"), setting("requested_min_duration_ms", "600000")),
    _edit_of("a second seed on a line before", "offline-valid", "effective_qsl_rng_seed", prepended, "1"),
    # Lines that LoadGen's logger did not write, or not then.
    _lie("a rate that another process wrote", "offline-valid", "result_samples_per_second",
        within("result_samples_per_second", "pid", "4242424")),
    _lie("the results of another process", "server-valid", "result_validity", within(r"result_\S*", "pid", "4242424")),
    _lie("a rate that was logged before the run", "offline-valid", "result_samples_per_second",
        within("result_samples_per_second", "time_ms", "0.000001")),
    _edit_of("a rate of another logger", "offline-valid", "result_samples_per_second", within, "namespace", '"mine"'),
    _edit_of("a rate of another program", "offline-valid", "result_samples_per_second", within, "file", '"mine.py"'),
    _edit_of("a rate in quotes", "offline-valid", "result_samples_per_second", setting, '"9999999"'),
    _edit_of("a rate that is no number", "offline-valid", "result_samples_per_second", setting, "NaN"),
    _lie("a fastest query before it was asked", "server-valid", "result_min_latency_ns",
        setting("result_min_latency_ns", "-5"), dated=True),
    _edit_of("a better rate on a line behind", "offline-valid", "result_samples_per_second", appended, "999999"),
    _edit_of("a second verdict on its line", "server-too-few", "result_validity", doubled, '"value": "VALID"'),
    _lie("a rate on the line of another key", "offline-valid", "result_samples_per_second",
        doubled("num_errors", '"key": "result_samples_per_second", "value": 9999999')),
    _lie("a rate behind the list of another key", "offline-valid", "result_samples_per_second",
        hidden("result_samples_per_second", (_RATE_LINE, f'"key": "more", "value": [1], {_BETTER}'))),
    _lie("a rate on a long line of another key", "offline-valid", "result_samples_per_second",
        hidden("result_samples_per_second", (_RATE_LINE, f'"key": "more", "value": 1, {_BETTER}'), _LONG)),
    _lie("a rate on a long line whose key is written otherwise", "offline-valid", "result_samples_per_second",
        hidden("result_samples_per_second", (_RATE_LINE, _BETTER.replace("second", "se\\u0063ond")), _LONG)),
    _lie("two logs in one file", "offline-valid", "result_samples_per_second", twice),
    _lie("a hundredth of every latency in Server, and VALID", "server-too-fast", "early_stopping_met",
        *_VALID, hundredth, setting("early_stopping_result", '" * Run successful."'), without("result_invalid_reason")),
    _lie("a reason of INVALID left empty", "server-too-few", "early_stopping_met",
        *_VALID, setting("result_invalid_reason", '""'), setting("early_stopping_result", '" * Run successful."')),
    # Tokens.
    _edit_of("ten times the completed tokens", "server-tokens", "result_completed_tokens_per_second", times, 10),
    _edit_of("one percent more completed tokens", "server-tokens", "result_completed_tokens_per_second", times, 1.01),
    _lie("ten times the tokens, wherever they are counted", "server-tokens", "result_completed_tokens_per_second",
        times("result_completed_tokens_per_second", 10), times("result_token_throughput", 10)),
    _edit_of("a tenth of the tokens of Offline", "offline-tokens", "result_tokens_per_second", times, 0.1),
    _lie("a rate of tokens on a line before", "server-tokens", "result_completed_tokens_per_second",
        prepended("result_completed_tokens_per_second", "999999")),
    _lie("a first token behind the end of its answer", "server-tokens", "result_first_token_max_latency_ns",
        times_another("result_first_token_max_latency_ns", "result_max_latency_ns", 2)),
    _lie("first tokens that take longer on average than whole answers", "server-tokens",
        "result_first_token_mean_latency_ns",
        times_another("result_first_token_mean_latency_ns", "result_mean_latency_ns", 100)),
    _lie("a 99th percentile of first tokens below the median", "server-tokens",
        "result_first_token_99.00_percentile_latency_ns",
        times_another("result_first_token_99.00_percentile_latency_ns", "result_first_token_min_latency_ns", 0.5)),
    _lie("a 99th percentile of the time of a token below the median", "server-tokens",
        "result_time_per_output_token_99.00_percentile_ns",
        times_another("result_time_per_output_token_99.00_percentile_ns", "result_time_to_output_token_min", 0.5)),
    _lie("a slowest token faster than the others", "server-tokens", "result_time_to_output_token_max",
        times_another("result_time_to_output_token_max", "result_time_to_output_token_min", 0.5)),
    _lie("tokens that take longer on average than the slowest", "server-tokens", "result_time_to_output_token_mean",
        times_another("result_time_to_output_token_mean", "result_time_to_output_token_max", 2)),
    _lie("tokens too fast for the time of their answers", "server-tokens", "result_completed_tokens_per_second",
        *(times(key, 0.001) for key in ("result_time_to_output_token_min", "result_time_to_output_token_max"))),
    _lie("a bound on the first token that was missed, and called met", "server-tokens", "result_perf_constraints_met",
        setting("requested_server_ttft_latency", "1000")),
    _lie("a bound on the tokens that was missed, and called met", "server-tokens", "result_perf_constraints_met",
        setting("requested_server_tpot_latency", "10")),
    _lie("early stopping of first tokens that failed, and is called met", "server-tokens", "early_stopping_met",
        setting("early_stopping_ttft_result", '" * Run unsuccessful."')),
    _lie("early stopping of tokens that failed, and is called met", "server-tokens", "early_stopping_met",
        setting("early_stopping_tpot_result", '" * Run unsuccessful."')),
    _lie("no first tokens, which would have contradicted others", "server-tokens", "result_first_token_mean_latency_ns",
        without("result_first_token_mean_latency_ns")),
    _lie("no throughput, which would have contradicted the completed tokens", "server-tokens",
        "result_token_throughput",
        times("result_completed_tokens_per_second", 2), without("result_token_throughput")),
    _edit_of("no tokens in Offline", "offline-tokens", "result_tokens_per_second", without),
    # Answers.
    _lie("a sample without a number", "offline-accuracy", "answers", answer=negative),
    _lie("answers to 3 samples", "offline-accuracy", "answers", answer=first_answers(3)),
    _lie("one sample answered every time", "offline-accuracy", "answers", answer=one_answer_always),
    _lie("all answers but one", "server-accuracy", "answers", answer=first_answers(999)),
    _lie("one sample answered twice", "offline-accuracy", "answers", answer=one_answer_twice),
    _lie("an answer to a sample that is not there", "server-accuracy", "answers", answer=stranger),
    _lie("a test's answer to a sample that is not there", "offline-audit", "answers", answer=stranger),
    # Counts, estimates and what LoadGen takes over; numbers of answers.
    _lie("no query over the latency, although the slowest was", "server-too-fast", "result_overlatency_query_count",
        setting("result_overlatency_query_count", "0")),
    _lie("no query over the latency, and VALID", "server-too-fast", "result_overlatency_query_count",
        *_VALID, without("result_invalid_reason"), setting("result_overlatency_query_count", "0"),
        setting("early_stopping_result", '" * Run successful."')),
    _lie("no query over the latency, and VALID, where queries are handed over together", "server-coalesced",
        "result_overlatency_query_count",
        *_VALID, without("result_invalid_reason"), setting("result_overlatency_query_count", "0"),
        setting("early_stopping_result", '" * Run successful."')),
    _lie("queries called coalesced, and ten times both rates", "server-valid", "result_scheduled_samples_per_sec",
        setting("requested_server_coalesce_queries", "true"), times("result_scheduled_samples_per_sec", 10),
        times("result_completed_samples_per_sec", 10)),
    # Lines without which comparisons had passed over others.
    _edit_of("no version of LoadGen", "server-valid", "loadgen_version", without),
    _edit_of("a version of LoadGen that is none", "server-valid", "loadgen_version", setting, '"of ours"'),
    _lie("no share of the queries within the latency", "server-valid", "effective_target_latency_percentile",
        without("effective_target_latency_percentile")),
    _lie("another minimum duration, and none that was requested", "server-valid", "requested_min_duration_ms",
        setting("effective_min_duration_ms", "600000"), without("requested_min_duration_ms")),
    _lie("no percentile of MultiStream's queries that denies an estimate", "multi-stream-valid",
        "result_99.90_percentile_per_query_latency_ns",
        without("result_99.90_percentile_per_query_latency_ns")),
    _edit_of("no bound on the first token", "server-tokens", "requested_server_ttft_latency", without),
    # Values that are none of the kind which LoadGen writes, so that comparisons had passed them over.
    _lie("a count with a fraction, and VALID", "server-too-fast", "result_query_count",
        *_VALID, without("result_invalid_reason"),
        _substitute("result_query_count", r'("key": "result_query_count", "value": \d+)', lambda it: f"{it[1]}.0"),
        setting("result_overlatency_query_count", "0.0"), setting("early_stopping_result", '" * Run successful."')),
    _lie("a share of the queries in quotes, requested too", "server-valid", "effective_target_latency_percentile",
        setting("requested_server_target_latency_percentile", '"0.5"'),
        setting("effective_target_latency_percentile", '"0.5"')),
    _lie("a minimum duration in other digits, requested too", "server-valid", "effective_min_duration_ms",
        setting("requested_min_duration_ms", "6e5"), setting("effective_min_duration_ms", "6e5")),
    _edit_of("no value of a condition", "server-valid", "early_stopping_met", setting, "null"),
    _edit_of("a condition as a number", "server-valid", "result_min_duration_met", setting, "0"),
    _lie("one sample again and again, called 1", "server-valid", "effective_performance_issue_same",
        setting("requested_performance_issue_same", "1"), setting("effective_performance_issue_same", "1")),
    _edit_of("errors with a fraction", "single-stream-max-count", "num_errors", setting, "1.5"),
    _edit_of("a library below zero", "server-valid", "qsl_reported_total_count", setting, "-1"),
    _edit_of("a beginning that is no time", "offline-valid", "power_begin", setting, '"unknown"'),
    _edit_of("a beginning that is a number", "offline-valid", "power_begin", setting, "1"),
    _edit_of("a test of no date", "offline-valid", "test_datetime", setting, '"unknown"'),
    _lie("an end on a line that is not LoadGen's", "offline-valid", "power_end",
        _substitute("power_end", '"key": "power_end", "value"', lambda _: '"key":  "power_end", "value"')),
    _lie("an end without the time of LoadGen's logger", "offline-valid", "power_end",
        within("power_end", "time_ms", "1234567890123456.5")),
    _edit_of("half of the queries over the latency", "server-too-fast", "result_overlatency_query_count", whole, 0.5),
    _lie("all queries over the latency, although the slowest was not", "server-valid", "result_overlatency_query_count",
        whole_another("result_overlatency_query_count", "result_query_count")),
    _lie("a longer latency than was requested", "server-too-fast", "effective_target_latency_ns",
        setting("effective_target_latency_ns", "99000000000")),
    _lie("half of the queries within the latency", "server-valid", "effective_target_latency_percentile",
        setting("effective_target_latency_percentile", "0.5")),
    _lie("an estimate of MultiStream as low as its median", "multi-stream-valid", "early_stopping_latency_ms",
        lowered_estimate("early_stopping_latency_ms", "99.0", "result_50.00_percentile_per_query_latency_ns")),
    _lie("a 99th percentile of SingleStream as low as its median", "single-stream-valid", "early_stopping_latency_ms",
        lowered_estimate("early_stopping_latency_ms", "99.0", "result_50.00_percentile_latency_ns")),
    _lie("early stopping of another number of queries", "single-stream-valid", "early_stopping_result",
        reworded(r"queries \(\d+\)", "queries (99999)")),
    _lie("early stopping that discards more queries", "single-stream-valid", "early_stopping_result",
        reworded(r"discard \d+", "discard 2000")),
    _lie("early stopping that failed with more queries", "server-too-few", "early_stopping_result",
        reworded(r"Processed \d+", "Processed 9999")),
    _edit_of("no text of early stopping", "server-valid", "early_stopping_result", without),
    _edit_of("an empty text of early stopping", "server-valid", "early_stopping_result", setting, '""'),
    _lie("the text of another scenario", "server-valid", "early_stopping_result",
        reworded(r" \* Run successful\.", " * Processed at least 64 queries (100).")),
    _lie("eight samples of a query in Server", "server-valid", "effective_samples_per_query",
        setting("effective_samples_per_query", "8"), setting("generated_samples_per_query", "8")),
    _lie("sixteen samples of a query in MultiStream", "multi-stream-valid", "effective_samples_per_query",
        setting("effective_samples_per_query", "16"), setting("generated_samples_per_query", "16")),
    _lie("ten queries in Offline, and ten times the rate", "offline-valid", "result_query_count",
        setting("generated_query_count", "10"), setting("result_query_count", "10"),
        times("result_samples_per_second", 10)),
    _edit_of("another target in Offline than was requested", "offline-valid", "effective_target_qps", times, 2),
    _lie("a rate with LoadGen's own time beyond what its latencies allow", "single-stream-valid",
        "result_qps_with_loadgen_overhead",
        times("result_qps_with_loadgen_overhead", 1_000)),
    _lie("another commit of LoadGen", "server-valid", "loadgen_version",
        _substitute("loadgen_version", r"@ [0-9a-f]{10}", lambda _: "@ 0123456789")),
    _lie("a second version of LoadGen on a line before", "server-valid", "loadgen_version",
        prepended("loadgen_version", '"9.9.9 @ 0123456789"')),
    _lie("another version of LoadGen at the same commit", "server-valid", "loadgen_version",
        _substitute("loadgen_version", r'"\d+\.\d+\.\d+ @', lambda _: '"5.0.1 @')),
    _lie("a commit of LoadGen after it was built", "server-valid", "loadgen_git_commit_date",
        setting("loadgen_git_commit_date", '"2099-01-01T00:00:00Z"'), dated=True),
    _edit_of("samples loaded twice in a performance run", "offline-valid", "loaded_qsl_set", appended, "[1]"),
    _lie("one seq_id for two answers", "offline-accuracy", "answers", answer=second_number_again),
    _lie("a seq_id that LoadGen did not issue", "server-accuracy", "answers", answer=renumbered(99999)),
    _lie("an answer without seq_id", "offline-accuracy", "answers", answer=unnumbered),
    _lie("a test's seq_id that LoadGen did not issue", "offline-audit", "answers", answer=renumbered(99999)),
    _lie("one seq_id for two answers of a test", "offline-audit", "answers", answer=second_number_again),
    _lie("an answer of half a byte more", "offline-accuracy", "answers", answer=answered_with("00000")),
    _lie("a test's answer that is no hexadecimal", "offline-audit", "answers", answer=answered_with("class 7!")),
    _lie("a test that logged no answer", "offline-audit", "answers", answer=first_answers(0)),
    _edit_of("no text of early stopping of first tokens", "server-tokens", "early_stopping_ttft_result", without),
    _edit_of("no text of early stopping of tokens in Offline", "offline-tokens", "early_stopping_tpot_result", without),
    _edit_of("an empty text of early stopping of tokens", "server-tokens", "early_stopping_tpot_result", setting, '""'),
)  # fmt: skip
