"""Files, locks, processes, git, archives, untrusted input: the only modules that touch them."""
