//! What the crate can tell about itself: the outcome of every dispatch, for now.

mod ledger;

pub use ledger::{DispatchRecord, Ledger, RowNames};
