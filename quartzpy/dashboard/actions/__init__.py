"""The actions of the page: their subjects, their forms, and what they answer."""
