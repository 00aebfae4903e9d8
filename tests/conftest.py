import hypothesis
import jax
import pytest

# Properties are checked on the same examples every time: a failure can be run again, and a pass is not luck.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield
