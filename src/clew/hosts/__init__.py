"""What is built on the engine: one package a host. They do not import each other; the linter has the exceptions."""
