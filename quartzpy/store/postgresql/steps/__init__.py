"""The steps of a node in SQL, each one transaction: acquire, fire, complete, misfire, check-in and recover."""
