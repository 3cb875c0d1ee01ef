"""Code that several commands share: options, output, finding the repository, carrying out a pass."""
