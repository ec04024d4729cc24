"""The lists of operators, each described once: the command line, the JSON API and the web page derive from that."""
