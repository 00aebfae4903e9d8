"""Our imputer beside the others, on real tables with their own holes and with holes we make."""
