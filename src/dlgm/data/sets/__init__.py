"""The data sets, one a file: from the paths of their files to rows in splits."""
