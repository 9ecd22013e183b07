"""The families of models, one file a lineage: the tuple `FAMILIES` of each holds its formats."""
