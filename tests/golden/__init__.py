"""Our product beside recorded outputs of the papers' own programs, case by case."""
