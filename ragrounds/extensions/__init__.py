"""Jobs that the core does not need, one folder each, which can be deleted (:mod:`ragrounds.base.hooks`)."""
