"""The geometry of the drawings; templates write it as SVG. Colours are in the style sheet."""
