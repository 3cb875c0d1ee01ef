"""Code that several commands share: options, output, finding the repository, running a pass."""
