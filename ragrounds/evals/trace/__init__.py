"""Reading stored attempts: steps, hops, causes, and the language of filters."""
