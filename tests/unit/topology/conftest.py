"""What holds for the tests of the pure core."""

from hypothesis import settings

# A busy machine makes any example slow now and then; that says nothing about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
