"""How the format `json` puts its tools into words, measured with small models: `python -m tests.bench.wording`."""
