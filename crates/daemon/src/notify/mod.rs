//! Notifications: users and sites are told what becomes of jobs, by hooks, chat and mail.
//!
//! [`notifier`] is the thread that follows the journal. A [`target`] is an address with the events it is told of; [`target_store`] keeps
//! targets on the disk. A [`notification`] goes out through [`webhook`], [`chat`] or [`mail`]; [`public_addresses`] keeps users' hooks away
//! from this machine and its network. [`settings`] are what a site configures.

mod chat;
mod mail;
mod notification;
mod notifier;
mod public_addresses;
pub mod settings;
mod target;
mod target_store;
mod webhook;

pub use notifier::{DeliveryError, NotifierMessage, follow, start};
