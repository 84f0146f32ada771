"""Tests of the package against the real daemon: `python -m unittest discover -s tests -t .` in the folder above this one."""
