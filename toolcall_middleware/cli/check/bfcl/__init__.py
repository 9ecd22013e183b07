"""Questions of the Berkeley Function Calling Leaderboard, from files that the user has.

The files are `BFCL_*.json` of github.com/ShishirPatil/gorilla, berkeley-function-call-leaderboard/bfcl_eval/data, and
those of the same names in `possible_answer` there; none is part of this package.
"""
