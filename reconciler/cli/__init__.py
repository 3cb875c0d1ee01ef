"""One file per command, thin: a command composes the stages it needs in one function and gives back its exit code."""
