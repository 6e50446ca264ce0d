"""Where workers are, by the name of ``--engine`` (:data:`ragrounds.base.hooks.CLUSTER`)."""
