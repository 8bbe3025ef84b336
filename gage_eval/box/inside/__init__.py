"""What runs inside the box. Only the standard library is there, so this package imports nothing else of gage_eval."""
