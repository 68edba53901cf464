"""The whole service beside a model of it in plain Python: what people and workers do, in any order.

`MODEL_EXAMPLES=2000 make test ARGS=tests/model` looks further, at random, than CI's fixed examples do.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as profile
from hypothesis.stateful import run_state_machine_as_test

from tests.model.model import MAX_PENDING
from tests.model.service import Service

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "0"))


@pytest.mark.timeout(0 if EXAMPLES else 300)
@pytest.mark.django_db(transaction=True)
def test_the_service_does_what_the_model_says(settings):
    settings.ENV = settings.ENV.model_copy(update={"max_pending_per_client_and_owner": MAX_PENDING})

    run_state_machine_as_test(
        Service,
        settings=profile(
            max_examples=EXAMPLES or 50,
            stateful_step_count=60 if EXAMPLES else 40,
            derandomize=not EXAMPLES,
            phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
            report_multiple_bugs=False,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
