"""Text models: tokens, encoders, and the estimators AttentionXML, APLCXLNet and XGRank."""
