"""Files, locks, processes, git, archives and untrusted input: the only modules that access them."""
