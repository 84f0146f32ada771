"""A training loop under a lease: what it tells the daemon, when it stops, and how it goes on.

Iterator (iterator.py)  the loop: a counter and a flag for each step
  Keeper (keeper.py)      the lease: two threads renew it and hear of notices
    Service (service.py)    the daemon's lease service, over HTTP
  Gang (gang.py)          the ranks of a job agree on the step after which all of them stop
  Vault (vault.py)        checkpoints in files: whole or not there at all
  Streams (randomness.py) the random numbers of Python, NumPy and PyTorch, so that a resumed run draws what it would have drawn
"""
