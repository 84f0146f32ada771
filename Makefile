# The commands of the README. `make test` and `make lint` install what they need.

CARGO ?= cargo
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
ROTA := target/release/rota

# Where the tools for the Python package are.
PYTHON := target/python
# An interpreter with PyTorch: Debian's.
TORCH_PYTHON ?= /usr/bin/python3
# The same with Gymnasium, stable-baselines3 and sb3-contrib.
GYM := target/gym
# Browser tests drive the system's Chromium.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD = 1

# A page that came with the sources is not built again.
PAGE_SHIPPED := $(wildcard web/dist.shipped)

.PHONY: run quick demo build dist dist-check web test lint parity bench chaos chaos-leases chaos-slurm fuzz tools lint-tools python-tools browser torch gym slurm namespaces node clean

# The first look: a queue with virtual GPUs, example jobs and the dashboard, until Ctrl-C. It is built in a hurry; `make build` makes
# the program that is shipped and measured.
run: quick
	@target/quick/rota demo

quick: web
	$(CARGO) build --profile quick --locked -p rota

demo: build
	$(ROTA) sim --trace scenarios/classroom.toml --cluster t4:4 --policy fcfs --place best-fit
	$(ROTA) sim --trace scenarios/classroom.toml --cluster t4:4 --place best-fit \
	  --policy fcfs --policy sjf --policy srtf --policy rr:quantum=5 --policy lottery --policy wfq --policy priority \
	  --policy least-loaded --policy random --policy las:first=10 --policy gittins:first=2 --policy lag-match:tick=5 \
	  --policy lag-gittins:tick=5 --policy lag-srsf:tick=5 --out demo
	@echo
	@echo "The tasks of a class on 4 GPUs, under every policy. Open demo/report.html in a browser."
	@echo "Next: target/release/rota sim --help"

build: web
	$(CARGO) build --release --locked

# What is shipped, in the folder `dist`: an archive, a Debian package, a wheel, the sources, dependencies with licences, checksums.
dist: build
	python3 packaging/dist.py --binary $(ROTA) --out dist

# The same packages of the program that tests were run with, each installed into an empty place, where it runs a job.
dist-check:
	python3 tests/dist/dist.py target/debug/rota

# The dashboard; the next build takes it into the binary.
ifeq ($(PAGE_SHIPPED),)
web: node
	cd web && npm ci --no-audit --no-fund && npm run build
else
web:
endif

# Property tests draw the same cases in every run of `make test`, so that a change is judged by what it changed; `make fuzz` draws others.
test: export PROPTEST_RNG_SEED ?= 1
test: tools python-tools browser web torch gym slurm namespaces
	python3 -m unittest discover examples/workloads
	cd web && npm test
	# It leaves the binary that the tests below use in target/debug.
	$(CARGO) nextest run --workspace --locked -E 'not test(/^parity/) & not test(/::parity/)'
	python3 tests/chaos/chaos.py target/debug/rota --rounds 20 --seconds 30 --seed 1
	$(SUDO) python3 tests/cluster/three_workers.py target/debug/rota
	$(MAKE) dist-check
	ROTA_BINARY=target/debug/rota python3 -W error::ResourceWarning -m unittest discover -s tests/slurm -t tests/slurm
	$(CARGO) nextest run --workspace --locked --run-ignored only -E 'test(workers_in_allocations_of_slurm)'
	cd web && npm run e2e
	cd python && ROTA_BINARY=../target/debug/rota ../$(PYTHON)/bin/python -W error::ResourceWarning -m unittest discover -s tests -t .
	cd python && $(TORCH_PYTHON) -W error::ResourceWarning -m unittest tests.training tests.growth tests.growth_loop tests.growth_teaching
	cd python && ROTA_BINARY=../target/debug/rota $(TORCH_PYTHON) -W error::ResourceWarning -m unittest tests.growth_live
	cd python && ROTA_BINARY=../target/debug/rota ../$(GYM)/bin/python -W error::ResourceWarning -m unittest tests.environments tests.live_environment

parity: tools
	$(CARGO) nextest run --workspace --locked -E 'test(/^parity/) | test(/::parity/)'

lint: lint-tools python-tools node
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) deny check bans licenses sources
	@if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny check advisories; \
	else echo "advisories: not checked, because their database cannot be had here"; fi
	cd python && ../$(PYTHON)/bin/ruff check --config pyproject.toml . ../examples/claim.py ../examples/learning && ../$(PYTHON)/bin/ruff format --config pyproject.toml --check . ../examples/claim.py ../examples/learning && ../$(PYTHON)/bin/mypy
	cd web && npm ci --no-audit --no-fund && npm run lint

bench: build gym
	python3 benches/run.py $(ROTA)
	python3 benches/live.py $(ROTA)
	python3 benches/api.py $(ROTA)
	python3 benches/peers.py $(ROTA)
	python3 benches/history.py $(ROTA)
	python3 benches/learn.py $(ROTA) $(wildcard ../shared/data/lublin/lublin-2.swf)
	$(GYM)/bin/python benches/ppo.py $(ROTA)
	python3 benches/power.py $(ROTA)
	$(TORCH_PYTHON) benches/adapt.py $(ROTA) $(wildcard ../shared/data/adaptation/simulations.csv)
	python3 benches/iterator.py
	python3 benches/leases.py $(ROTA)
	python3 benches/workers.py $(ROTA)
	python3 benches/shares.py $(ROTA)
	$(TORCH_PYTHON) benches/workloads.py $(ROTA)
	$(TORCH_PYTHON) benches/growth.py
	python3 benches/slurm.py $(ROTA)
	python3 benches/crowd.py $(ROTA)
	$(CARGO) run --release --locked -p rota-sim --example fork
	$(CARGO) run --release --locked -p rota-forecast --example speed

# Users, accidents and malice against the real binary; as root with three users. `make chaos ROUNDS=500 SEED=7` for more, or for others.
ROUNDS ?= 100
SEED ?= 1
chaos:
	$(CARGO) build --locked -p rota
	python3 tests/chaos/chaos.py target/debug/rota --rounds $(ROUNDS) --seed $(SEED)

# Kills of the daemon, supervisors and jobs while trainings take turns.
chaos-leases: build
	python3 tests/leases/kills.py $(ROTA) --rounds 100

# The engine on a Slurm of the tests' own; 200 jobs beside a stranger under three policies; then kills of the daemon, workers, slurmd and slurmctld, cancelled allocations and drained nodes.
chaos-slurm: slurm
	$(CARGO) build --locked --workspace
	cd tests/slurm && ROTA_BINARY=../../target/debug/rota python3 -W error::ResourceWarning -m unittest engine
	ROTA_BINARY=target/debug/rota python3 tests/slurm/crowd.py --jobs 200 --seed $(SEED)
	ROTA_BINARY=target/debug/rota python3 tests/slurm/accidents.py --rounds 50 --seed $(SEED)

# Every parser, a minute each; `make fuzz SECONDS=10` for less.
SECONDS ?= 60
fuzz:
	command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz@0.13.2
	cd fuzz && for target in $$(cargo fuzz list); do \
	  cargo +nightly fuzz run --sanitizer none $$target -- -max_total_time=$(SECONDS) -rss_limit_mb=4096 || exit 1; \
	done
	PROPTEST_CASES=10000 $(CARGO) nextest run --locked -p rota-solver -p rota-place -p rota-policy -p rota-trace
	PROPTEST_CASES=100 $(CARGO) nextest run --locked -p rota-daemon virtual_test

tools:
	command -v cargo-nextest >/dev/null || $(CARGO) install --locked cargo-nextest@0.9.143

# Only `make lint` looks at licences and bans. Unoptimised, the tool is quick enough, and built in a third of the time.
lint-tools:
	command -v cargo-deny >/dev/null || $(CARGO) install --debug --locked cargo-deny@0.20.2

# The tools of the Python package, as pinned; made anew when that changes.
python-tools: $(PYTHON)/complete

$(PYTHON)/complete: python/requirements-dev.txt
	python3 -m venv --clear $(PYTHON)
	$(PYTHON)/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# The report is checked in a real browser.
browser:
	command -v chromium >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq chromium; }

# Trainings that are stopped and go on, to the bit.
torch:
	$(TORCH_PYTHON) -c 'import torch' 2>/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends python3-torch; }

# Machines of the tests' own, as network namespaces.
namespaces:
	command -v ip >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends iproute2; }

# Tests start a Slurm of their own. Its packages must not start another.
SLURM_PACKAGES := munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins
slurm:
	@command -v sbatch >/dev/null && command -v munged >/dev/null && [ -x /usr/sbin/slurmctld ] && [ -x /usr/sbin/slurmd ] || { \
	  $(SUDO) apt-get update -qq; \
	  [ -e /usr/sbin/policy-rc.d ] || { printf '#!/bin/sh\nexit 101\n' | $(SUDO) install -m 755 /dev/stdin /usr/sbin/policy-rc.d; made=1; }; \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SLURM_PACKAGES); status=$$?; \
	  [ -z "$$made" ] || $(SUDO) rm -f /usr/sbin/policy-rc.d; exit $$status; }

# Gymnasium and stable-baselines3 beside Debian's PyTorch; Debian's Python may come without pip.
gym: torch $(PYTHON)/complete $(GYM)/complete

$(GYM)/complete: python/requirements-gym.txt
	$(TORCH_PYTHON) -m venv --clear --system-site-packages --without-pip $(GYM)
	$(PYTHON)/bin/python -m pip --python $(GYM)/bin/python install --quiet --no-deps --only-binary :all: --require-hashes -r $<
	touch $@

# The dashboard is built with Node 20.19 or later.
node:
	command -v npm >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq nodejs npm; }
	@node -e 'const [a, b] = process.versions.node.split("."); if (a < 20 || (a == 20 && b < 19)) { console.error("the dashboard needs Node 20.19 or later"); process.exit(1); }'

clean:
	rm -rf web/dist web/node_modules
	$(CARGO) clean
