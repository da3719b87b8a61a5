//! What holds of every scheduler, whatever happens around it.
