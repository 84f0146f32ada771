# The commands of the README. `make test` and `make lint` install what they need.

CARGO ?= cargo
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
ROTA := target/release/rota

# What the example queue of `make run` keeps.
STATE ?= .rota

.PHONY: run demo build test lint parity bench fuzz tools browser clean

run: build
	@if $(ROTA) status --state $(STATE) >/dev/null 2>&1; then echo "a queue already runs on $(STATE)"; \
	elif nvidia-smi -L >/dev/null 2>&1; then $(ROTA) up --detach --state $(STATE); \
	else echo "no GPU here: the queue gets virtual ones, with real processes"; $(ROTA) up --detach --state $(STATE) --virtual-gpus a100:2,t4:2; fi
	@for work in matmul cnn lstm boosting; do \
	  $(ROTA) submit --state $(STATE) --name $$work --estimate 30s -- python3 examples/workloads/$$work.py --epochs 4 --id $$$$ >/dev/null; done
	@$(ROTA) submit --state $(STATE) --name wide -g 2 --estimate 10s -- sleep 10 >/dev/null
	@$(ROTA) submit --state $(STATE) --name after --after 1:any -- echo "the first job is over" >/dev/null
	@$(ROTA) status --state $(STATE)
	@echo
	@$(ROTA) queue --state $(STATE)
	@echo
	@echo "Look with:  $(ROTA) top --state $(STATE)      or queue, explain ID, logs -f ID, gpus"
	@echo "Submit:     $(ROTA) submit --state $(STATE) -- COMMAND"
	@echo "Stop:       $(ROTA) down --state $(STATE)"

demo: build
	$(ROTA) sim --trace scenarios/classroom.toml --cluster t4:4 --policy fcfs --place best-fit
	$(ROTA) sim --trace scenarios/classroom.toml --cluster t4:4 --place best-fit \
	  --policy fcfs --policy sjf --policy srtf --policy rr:quantum=5 --policy lottery --policy wfq --policy priority \
	  --policy least-loaded --policy random --policy las:first=10 --policy gittins:first=2 --policy lag-match:tick=5 \
	  --policy lag-gittins:tick=5 --policy lag-srsf:tick=5 --out demo
	@echo
	@echo "The tasks of a class on 4 GPUs, under every policy. Open demo/report.html in a browser."
	@echo "Next: target/release/rota sim --help"

build:
	$(CARGO) build --release --locked

# Property tests draw the same cases in every run of `make test`, so that a change is judged by what it changed; `make fuzz` draws others.
test: export PROPTEST_RNG_SEED ?= 1
test: tools browser
	python3 -m unittest discover examples/workloads
	$(CARGO) nextest run --workspace --locked -E 'not test(/^parity/) & not test(/::parity/)'

parity: tools
	$(CARGO) nextest run --workspace --locked -E 'test(/^parity/) | test(/::parity/)'

lint: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) deny check bans licenses sources

bench: build
	python3 benches/run.py $(ROTA)
	python3 benches/live.py $(ROTA)
	python3 benches/peers.py $(ROTA)

# Every parser, a minute each; `make fuzz SECONDS=10` for less.
SECONDS ?= 60
fuzz:
	command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz@0.13.2
	cd fuzz && for target in $$(cargo fuzz list); do \
	  cargo +nightly fuzz run --sanitizer none $$target -- -max_total_time=$(SECONDS) -rss_limit_mb=4096 || exit 1; \
	done
	PROPTEST_CASES=10000 $(CARGO) nextest run --locked -p rota-solver -p rota-place -p rota-policy -p rota-trace

tools:
	command -v cargo-nextest >/dev/null || $(CARGO) install --locked cargo-nextest@0.9.143
	command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny@0.20.2

# The report is checked in a real browser.
browser:
	command -v chromium >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq chromium; }

clean:
	$(CARGO) clean
