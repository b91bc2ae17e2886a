"""Programs on the engine, one package for each host. They do not import each other; pyproject.toml lists exceptions."""
