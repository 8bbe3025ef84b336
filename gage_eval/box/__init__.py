"""Where programs run that a model wrote: contained, limited, and unable to forge their verdict."""
