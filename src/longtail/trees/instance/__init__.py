"""Trees over points: FastXML, PfastXML, PfastreXML."""
