"""A git work tree for every key, made from one repository."""
