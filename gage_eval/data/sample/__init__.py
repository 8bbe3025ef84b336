"""The Sample contract: the model and its schema, the rules that normalise a record, and the Arrow table."""
