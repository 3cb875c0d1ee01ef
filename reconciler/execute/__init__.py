"""Execute a plan and yield one Outcome at a time: each kind has an executor, and each step is a child process with a
request and a result file."""
