class SimplexNMF: pass
