"""The command line `quartzpy`: a module for each command or for a few that belong together."""
