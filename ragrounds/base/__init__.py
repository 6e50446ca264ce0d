"""What every package stands on: records, contracts, specs, settings, errors, text, HTTP, files, hooks and plugins."""
