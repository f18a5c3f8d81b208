"""Trees: over the labels (label/: Parabel, Bonsai) and over the points (instance/: FastXML and its kin)."""
