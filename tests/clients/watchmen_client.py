#!/usr/bin/env python3
"""A training script as users of watchmen have it: asks for GPUs with the library's own client, waits, and keeps them until its input ends.

usage: watchmen_client.py PORT TOKEN ID queue|schedule GPUS COUNT

Prints the GPUs it was granted as one line of JSON. The package and its exact version are in watchmen.txt.
"""

import json
import sys

from watchmen import ClientMode, WatchClient

port, token, name, mode, gpus, count = sys.argv[1:]
client = WatchClient(
    id=name,
    gpus=[int(gpu) for gpu in gpus.split(",")],
    server_host="127.0.0.1",
    server_port=int(port),
    mode=ClientMode(mode),
    req_gpu_num=int(count),
    token=token,
)
print(json.dumps(client.wait()), flush=True)
sys.stdin.read()
