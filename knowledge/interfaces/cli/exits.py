"""What the exit code of a command means."""

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1  #: the service refused or could not do it, or nothing of what was waited for succeeded
    USAGE = 2  #: the command line itself is wrong, or there is no application to run it with
    PARTIAL = 3  #: some of the items that `--wait` waited for failed or were deleted meanwhile, others completed
    STOPPED = 130  #: Ctrl-C; accepted work goes on
