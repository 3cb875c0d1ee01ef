"""Full-length runs that the official checkers judge: about 35 minutes. Outside the suite; see ``__main__``."""
