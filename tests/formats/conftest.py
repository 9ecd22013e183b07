import pytest

pytest.register_assert_rewrite("tests.formats.goldens", "tests.parsing.streams")
