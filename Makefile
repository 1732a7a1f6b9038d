# Everything from a fresh clone, with nothing but python3 and make.
#   make demo    prunes an XGBoost model and writes the result to ./pine-demo
#   make test    style, types, the test suite and the documentation
#   make dist    sdist and wheels in ./dist, each checked, installed into an empty environment and run
#   make coverage   the share of lines that the tests run, as one figure
#   make benchmarks MINUTES=60   what benchmarks/plan.py lists, resumable, then tables and README
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
MINUTES ?= 60

BIN := $(abspath $(VENV))/bin
# one thread per library call: pytest-xdist already uses the cores
export OMP_NUM_THREADS ?= 1
# tests start many processes: each would compile the package again where no bytecode may be kept
export PYTHONDONTWRITEBYTECODE :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.PHONY: dist demo test lint types pytest coverage docs serve-docs benchmarks clean

demo: $(VENV)/.demo
	$(BIN)/pine-boost demo

test: lint types pytest docs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=$(CURDIR) $(BIN)/lint-imports --no-cache

# mypy does not follow the package_dir of an editable install (pine_boost.parsers lies in parsers/),
# so what is checked is the wheel, from a folder where the sources are out of sight.
types: $(VENV)/.test
	rm -rf build $(VENV)/wheel $(VENV)/typed
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(VENV)/wheel .
	$(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/typed $(VENV)/wheel/*.whl
	cd $(VENV)/typed && $(BIN)/mypy --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache -p pine_boost

pytest: $(VENV)/.test
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow"

# one figure: the share of the package's lines that the tests run
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow" --cov=pine_boost --cov-report= > $(VENV)/coverage.log \
		|| { tail -40 $(VENV)/coverage.log; exit 1; }
	@echo "coverage: $$($(BIN)/coverage report --format=total) %"

docs: $(VENV)/.test
	$(BIN)/mkdocs build --quiet --strict --site-dir $(abspath $(VENV))/site

serve-docs: $(VENV)/.test
	$(BIN)/mkdocs serve

# the sdist, a pure wheel and one with the compiled kernel; the demo runs from each in an environment of its own
dist: $(VENV)/.made
	rm -rf build dist $(VENV)/dist
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e ".[release]"
	PINE_BOOST_PURE=1 $(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/twine check --strict dist/*
	for file in dist/*; do \
		rm -rf $(VENV)/dist && $(PYTHON) -m venv $(VENV)/dist && cd $(VENV) \
		&& dist/bin/pip install --quiet "pine-boost[demo] @ file://$(CURDIR)/$$file" \
		&& dist/bin/pine-boost --version && dist/bin/pine-boost demo -o dist/demo > dist/demo.log && cd $(CURDIR) \
		&& echo "$$file: installed, demo ran" || exit 1; \
	done

benchmarks: $(VENV)/.test
	$(BIN)/python -m benchmarks.all --jobs $(JOBS) --minutes $(MINUTES)

clean:
	rm -rf $(VENV) build site pine-demo .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=69" wheel
	touch $@

$(VENV)/.demo: $(VENV)/.made setup.cfg
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e ".[demo]"
	touch $@

$(VENV)/.test: $(VENV)/.made setup.cfg pyproject.toml
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet -e ".[test,docs]"
	touch $@
