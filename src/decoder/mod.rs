//! One forward pass on one execution provider.
