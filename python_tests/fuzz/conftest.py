"""Two sizes of the same fuzz tests: some hundred cases, or some ten thousand.

pytest python_tests/fuzz                                 # as in every run of the tests
pytest python_tests/fuzz --hypothesis-profile nightly    # new cases, 60 times as many
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "nightly", deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
