"""Where workers are, by the name of ``--engine`` (:data:`ragrounds.hooks.CLUSTER`)."""
