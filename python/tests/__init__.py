"""Tests of the package against the real daemon: `python -m unittest discover -s tests -t .` in the folder above this one."""

import signal

# A shell that starts a program in the background has it ignore interrupts, and all that the program starts inherits this.
signal.signal(signal.SIGINT, signal.default_int_handler)
