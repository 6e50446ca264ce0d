"""Foundation of all packages: records, contracts, specs, settings, errors, text, HTTP, files, hooks and plugins."""
