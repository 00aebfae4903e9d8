"""The paper's evidence, one file for each table or figure."""
