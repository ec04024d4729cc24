"""The commands of the app: each module is one of them."""
