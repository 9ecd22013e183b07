"""One checkout's side: `python -m tests.same.side`, in a folder that holds `tests` of one tree, the package of another.

Writes a line `name<TAB>hash` for each item; with `--texts FILE` a JSON line with its text, for the names in it.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import sys
import time
from pathlib import Path

from .fixed import fix


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--inputs", type=Path, required=True)
    parser.add_argument("--sections", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--mutated", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", default="*")
    parser.add_argument("--texts", type=Path)
    given = parser.parse_args()
    fix()

    import toolcall_middleware

    found = Path(toolcall_middleware.__file__).resolve().parent
    if found != given.package.resolve():
        print(f"the package is imported from {found}, not from {given.package}", file=sys.stderr)
        return 2
    from .sections import SECTIONS, Run

    wanted = None if given.texts is None else set(json.loads(given.texts.read_text("utf-8")))
    groups = None if wanted is None else {name.rpartition("/")[0] for name in wanted}
    run = Run(given.inputs, quick=given.quick, mutated=given.mutated, seed=given.seed)
    raised = 0
    with given.out.open("w", encoding="utf-8") as out:
        for section in given.sections.split(","):
            begin, count = time.process_time(), 0
            for group, make in SECTIONS[section](run):
                full = f"{section}/{group}"
                if full not in groups if groups is not None else not fnmatch.fnmatchcase(full, given.only):
                    continue
                for part, text in make().items():
                    name = f"{full}/{part}"
                    if wanted is not None:
                        if name in wanted:
                            out.write(json.dumps({"name": name, "text": text}) + "\n")
                        continue
                    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
                    out.write(f"{name}\t{digest}\n")
                    count += 1
                    raised += text.startswith("raised ")
            if wanted is None:
                print(f"{section}: {count} items, {time.process_time() - begin:.1f} s", file=sys.stderr, flush=True)
    if wanted is None:
        print(f"exceptions: {raised}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
