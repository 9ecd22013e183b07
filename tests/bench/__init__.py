"""What the middleware costs: `python -m tests.bench [--smoke] [--write] [NAME...]`. See README.md beside this file."""
