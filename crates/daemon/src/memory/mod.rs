//! The memory of GPUs that jobs share: what classes of programs need ([`profiles`]), how much each job is given ([`sharing`]), what the
//! queue knows of both ([`knowledge`]), and how a job that had too little is recognised ([`out_of_memory`]).

pub mod knowledge;
pub mod out_of_memory;
pub mod profiles;
pub mod sharing;
