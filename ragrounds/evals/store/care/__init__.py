"""Care of a store: salvage, verification, garbage, repricing, and moving runs between stores."""
