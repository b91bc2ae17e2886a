"""The JSON objects that surfaces send and print: each shape is defined here once."""
