//! BBR against a rate-limited pipe.
