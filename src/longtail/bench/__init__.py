"""From names and files to numbers: estimators by name, recipes, runs, and the tables made of them."""
