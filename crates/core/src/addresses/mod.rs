//! Which addresses of a host are dialled, and when: [`Names`] says which those of a server's name are
//! and which comes first, [`Race`] when each of several has its turn.
//!
//! Sans-IO: the driver asks the resolver and dials. What one attempt on a path does with addresses is
//! here, and when a path makes an attempt is in [`path_manager`](crate::path_manager).

mod names;
mod race;

pub use self::names::{Names, Resolve};
pub use self::race::{Race, STAGGER};
