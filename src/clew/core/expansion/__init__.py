"""What a user types that stands for more: `@path`, and `/command` with its arguments. The files are read elsewhere."""
