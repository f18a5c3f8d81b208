"""Trees over labels (label/: Parabel, Bonsai) and over points (instance/: FastXML, PfastXML, PfastreXML)."""
