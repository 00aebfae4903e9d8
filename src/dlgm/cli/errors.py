"""What a command says when its input is wrong."""


class UsageError(Exception):
    """Bad input: printed as one line, exit code 2. Anything else that is raised is a bug and shows its traceback."""
