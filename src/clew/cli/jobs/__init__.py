"""`clew jobs` and `clew work`"""
