"""What a user types that stands for more: `@path`, and `/command` with its arguments. Pure: the files are read elsewhere."""
