//! Rules on hand-made views, and what holds of every scheduler whatever happens.

mod bond;
mod builder;
mod copies;
mod deadlines;
mod properties;
mod rules;
mod window;
