"""The Sample contract: the model and its schema, the rules that bring a record into form, the Arrow table."""
