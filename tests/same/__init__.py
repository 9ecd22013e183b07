"""Whether two checkouts of this repository behave the same, to the byte: `python -m tests.same OLD NEW`.

OLD and NEW are folders (`git worktree add ../old COMMIT` makes one). Run it in the tree whose `tests/` is to be used,
as a rule NEW, in an environment with the extra `test`. Each checkout runs in a process of its own, with the same
program, the same goldens, recordings and random exchanges (all of the tree that the command is run in), and says for
each item its name and a hash. What differs is shown with both texts, and the command fails.

    python -m tests.same ../old . --quick                     # a minute and a half of CPU
    python -m tests.same ../old .                             # everything, some minutes
    python -m tests.same ../old . --sections prompts,cli --show 20
    python -m tests.same ../old . --allow changed.txt         # differences that are wanted

The sections:

- **prompts**: what each format writes: tools, the choice, calls, results, and the constraint; `auto` for each model.
- **requests**: what the backend is sent, and the client gets, for chat requests in each format, mode and setting.
- **goldens**: the events of each golden text, by its format and by `auto`: whole, by characters, cut by a seed.
- **mutated**: the events of damaged golden texts (tests/bench/fuzzed/damaged.py), whole, by characters, cut by a seed.
- **wire**: each golden as an answer, streamed and whole, by its format and by `auto`.
- **fuzzed**: random exchanges, each with the stream in one piece, by events and cut by a seed, and whole.
- **recorded**: the answers of real engines in each mode, with usage, stop strings, two choices, logprobs.
- **proxy**: exchanges through the proxy, to each API that an upstream speaks.
- **cli**: `--help` of each command, `config`, `formats`, `replay`; each setting with values that are not allowed.

An item of an exchange is split: `answer` is what the client gets in the end, `pieces` how that is spread over messages
and behind which piece of the backend's each leaves, `asked` what the backend gets, `log` what is logged. A change that
moves a flush changes `pieces` only. Random ids are numbered in the order in which they appear.

The file of `--allow` has a line for each kind of difference that is wanted: a glob of names, blanks, and the reason.
`#` begins a comment. A glob that matches no difference is told, as it is no longer needed.

    cli/help/*      --help names the command `launch`
    requests/*/log  words of the log

The driver knows of the package only what is public, the registry of formats with the methods of a format, and the names
of a few values (product.py), which are found in whatever module they lie: the files of the package may be moved.
What an exception says is behaviour as well; how many items are exceptions is told for each side, and more than a few
say that the driver no longer fits the package.
"""
