//! What the crate can tell about itself: the outcome of every dispatch, and what is held on the device.

mod inventory;
mod ledger;
mod profile;

pub use inventory::{Inventory, Owner, Presence, ResourceKind, ResourceRow, owned_key};
pub use ledger::{DispatchRecord, Ledger, RowNames};
pub(crate) use profile::Work;
pub use profile::{GpuFrame, GpuFrameRow};
