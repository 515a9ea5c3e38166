"""The policy entry of a destination, and the decision that it leads to after each delivery."""
