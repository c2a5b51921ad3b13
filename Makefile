# Two commands are enough: `make demo` and `make test`. Everything happens in .venv, which the first call makes.

PYTHON ?= python3
# Tests start hundreds of processes, each of which would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
WORKERS := -n auto --maxprocesses 4 --dist worksteal
READY := .venv/ready
# Python compiles the modules that are imported; pip would compile all 21,000, in over a minute.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
TORCH := 'torch==2.13.0' 'torchdata>=0.11' 'sacrebleu>=2.4'

.PHONY: check lint format demo test docs everything torch ray clients s3 campaigns coverage mutants audit wheel release bench report notebooks paper evidence clean
CLIENTS_NEED := omegaconf hydra-core scikit-learn bitarray cffi sacremoses matplotlib portalocker tensorboard datasets importlib-metadata tyro
LANGUAGES := en de fr cs

check: lint  ## what a commit must pass: lint and fast tests
	$(BIN)/pytest $(WORKERS) -m "not slow"

lint: $(READY)  ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports
	$(BIN)/python experiments/house.py --check
	$(BIN)/python experiments/density.py --check

format: $(READY)  ## rewrite the code as ruff likes it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: $(READY)  ## the main job on the embedded corpus
	$(BIN)/volt demo

test: $(READY)  ## all tests but campaigns; with VOLT_DATA=FOLDER also those on real corpora
	$(BIN)/pytest $(WORKERS) -m "not campaign"

campaigns: $(READY) s3  ## all tests, each law at its full size: streams stopped, killed and run long, all examples drawn
	VOLT_EXAMPLES=all $(BIN)/pytest $(WORKERS)

coverage: $(READY)  ## tests with compiled loops run as plain Python, so that their lines are counted
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest $(WORKERS) -m "not slow" --cov --cov-report=term-missing:skip-covered

SEED ?= 7
N ?= 300

mutants: $(READY)  ## draw N mutants of the code with SEED, and print those that the tests do not detect
	$(BIN)/python experiments/mutants.py --seed $(SEED) -n $(N)

audit: $(READY)  ## are the dependencies declared, used, met, licensed, and without published faults?
	$(BIN)/python experiments/audit.py

docs: $(READY)  ## the site, in build/site: open build/site/index.html; nothing on it is fetched from elsewhere
	$(INSTALL) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet -f docs/mkdocs.yml

everything: .venv/bin/python  ## all that tests can use, in one installation; one core installs, and the other compiles loops
	$(INSTALL) numba rich typer
	PYTHONPATH=.:cli nice $(BIN)/python -m volt_cli warmup --quiet & $(INSTALL) --editable '.[dev,docs,ray]' $(TORCH) && wait
	touch $(READY)

torch: $(READY)  ## PyTorch, for the tests of volt.ext.torch and of the trainings in experiments/, which are skipped without it
	$(INSTALL) $(TORCH)

ray: $(READY)  ## Ray, for the tests of volt.ext.ray, which are skipped without it
	$(INSTALL) --editable '.[ray]'

clients: torch  ## the trainers of examples/, for tests of `make campaigns` that are skipped without them; some pin old libraries: --no-deps
	$(INSTALL) accelerate lightning 'ray[train]' $(CLIENTS_NEED)
	$(INSTALL) --no-deps ve-fairseq joeynmt megatron-core torchtitan

s3: $(READY)  ## a server of S3 and what reads it, for tests of URLs that are skipped without them
	$(INSTALL) --editable '.[s3-tests]'

notebooks: $(READY)  ## run the notebooks and keep their outputs
	$(BIN)/python notebooks/execute.py

HOURS ?= 2

evidence: torch  ## trial trainings on the corpora in VOLT_DATA for HOURS hours, and the tables, pictures and notebook of what each rule loses
	PYTHONPATH=.:cli $(BIN)/python -m experiments.evidence run --data $(VOLT_DATA) --hours $(HOURS)
	PYTHONPATH=.:cli $(BIN)/python -m experiments.evidence picks --data $(VOLT_DATA)
	PYTHONPATH=.:cli $(BIN)/python -m experiments.evidence report
	$(BIN)/python notebooks/execute.py notebooks/05-evidence.ipynb

paper: $(READY)  ## the objective of the paper's published program, reproduced on the corpora in VOLT_DATA
	$(BIN)/python experiments/published.py

report: $(READY)  ## report.html: Multi30k in four languages from VOLT_DATA, or the embedded corpus without it
ifdef VOLT_DATA
	$(BIN)/volt compare $(foreach name,$(LANGUAGES),$(name)=$(VOLT_DATA)/multi30k/train.$(name).gz) \
	  $(foreach name,$(LANGUAGES),--heldout $(name)=$(VOLT_DATA)/multi30k/val.$(name).gz) -o report.html
else
	mkdir -p build
	$(BIN)/python -c 'from pydoc_data.topics import topics; print("\n".join(topics.values()))' > build/topics.txt
	$(BIN)/volt compare topics=build/topics.txt -o report.html
endif

BENCH ?=

bench: $(READY)  ## one table of speeds beside all peers that are installed; needs VOLT_DATA. BENCH='--with NAME=PYTHON' adds others
	mkdir -p build
	$(BIN)/python experiments/bench --json build/bench.json $(BENCH)

wheel: $(READY)  ## the wheel and the source distribution, into dist/: built, installed into empty environments, used
	$(BIN)/python experiments/wheel.py --keep dist

release: $(READY)  ## make release VERSION=0.2.0: check everything, commit, tag; nothing is sent anywhere
	$(BIN)/python experiments/release.py "$(VERSION)"

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "VOLT needs Python 3.11 or newer; call make with PYTHON=python3.12, say")'
	$(PYTHON) -m venv .venv
	-$(INSTALL) --upgrade pip  # Python 3.11 contains pip 23, which looks for versions that agree three times as long

$(READY): pyproject.toml | .venv/bin/python
	$(INSTALL) --editable '.[dev]'
	touch $(READY)
