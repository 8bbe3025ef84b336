"""How values of samples become one number. Each module registers its own."""
