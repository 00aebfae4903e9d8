"""Readers of published file formats, one a file: from a path to arrays, or an error naming the path."""
