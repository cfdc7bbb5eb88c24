"""Labels judged by probabilities or embeddings that the user has already."""
