"""Models that read texts: tokens, encoders, and the estimators AttentionXML, APLCXLNet and XGRank."""
