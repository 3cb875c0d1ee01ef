"""Names of files: LoadGen's logs and the endpoints harness's results, what stands beside them, and the texts of
compliance tests. A run's folder, the artifacts of a record and the submission tree use the same ones."""

from __future__ import annotations

SUMMARY, DETAIL = "mlperf_log_summary.txt", "mlperf_log_detail.txt"
ACCURACY_LOG, ACCURACY_TEXT = "mlperf_log_accuracy.json", "accuracy.txt"
TRUNCATED = "mlperf_log_accuracy.truncated.json"  # of a record: the accuracy log as the tree shows it
VERIFY_ACCURACY, VERIFY_PERFORMANCE = "verify_accuracy.txt", "verify_performance.txt"
# Reports of the benchmark's scorer: over the accuracy run's answers to the samples that a test logged, and over the
# test's own answers.
BASELINE, COMPLIANCE = "baseline_accuracy.txt", "compliance_accuracy.txt"
# Of the endpoints harness; its own folder has the latter two below performance/ and accuracy/.
CONFIG, RESULT_SUMMARY, ACCURACY_RESULTS = "config.yaml", "result_summary.json", "accuracy_results.json"
