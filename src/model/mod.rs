//! What a model folder is: its configuration, tokenizer and chat template.
