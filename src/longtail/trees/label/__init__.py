"""Label trees: labels are partitioned, small linear models stand in the nodes, prediction searches with a beam."""
