"""Reads the text of /metrics from standard input as Prometheus does, strictly, and prints its families as JSON."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families


def main():
    families = {}
    for family in text_string_to_metric_families(sys.stdin.read()):
        if not family.documentation:
            sys.exit(f"{family.name} has no help")
        samples = [{"name": sample.name, "labels": sample.labels, "value": sample.value} for sample in family.samples]
        families[family.name] = {"type": family.type, "samples": samples}
    json.dump(families, sys.stdout)


if __name__ == "__main__":
    main()
