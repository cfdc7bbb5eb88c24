"""T(x): anchors, the transition matrices of the parts, and the model that they make up."""
