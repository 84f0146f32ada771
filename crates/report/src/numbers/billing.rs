//! What the GPUs of a run cost: each GPU is paid for while a job holds it, at the price in force.
//!
//! A job holds a share of each of its GPUs. While the shares on a GPU come to less than the whole of it, that much is paid; two jobs
//! that hold the whole of one GPU together pay for it once.

use rota_core::{Bound, GpuId, MilliGpu, PriceSeries, Time};

/// What has been held and paid of one GPU.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    held: u32,
    since: Time,
    usd: f64,
}

/// The accounts of all GPUs.
pub(crate) struct Billing<'a> {
    /// Prices by GPU type; `None` where they are not known.
    prices: Vec<Option<&'a PriceSeries>>,
    accounts: Vec<Account>,
}

impl<'a> Billing<'a> {
    pub fn new(bound: &'a Bound) -> Self {
        let prices = bound.cluster.types.iter().map(|kind| bound.prices.series(&kind.name)).collect();
        Self { prices, accounts: vec![Account::default(); bound.cluster.gpus.len()] }
    }

    /// A job takes a share of a GPU.
    pub fn take(&mut self, bound: &Bound, gpu: GpuId, share: MilliGpu, now: Time) {
        self.settle(bound, gpu, now);
        self.accounts[gpu.index()].held += u32::from(share.0);
    }

    /// A job gives its share back.
    pub fn give_back(&mut self, bound: &Bound, gpu: GpuId, share: MilliGpu, now: Time) {
        self.settle(bound, gpu, now);
        let held = &mut self.accounts[gpu.index()].held;
        *held = held.saturating_sub(u32::from(share.0));
    }

    /// What a GPU has cost until its last change; `None` if its type has no price.
    pub fn usd(&self, bound: &Bound, gpu: GpuId) -> Option<f64> {
        self.prices[bound.cluster.gpus[gpu.index()].gpu_type.index()].map(|_| self.accounts[gpu.index()].usd)
    }

    /// Pays for the time since the last change.
    fn settle(&mut self, bound: &Bound, gpu: GpuId, now: Time) {
        let account = &mut self.accounts[gpu.index()];
        let from = std::mem::replace(&mut account.since, now);
        if account.held == 0 || now <= from {
            return;
        }
        let Some(prices) = self.prices[bound.cluster.gpus[gpu.index()].gpu_type.index()] else { return };
        let part = f64::from(account.held.min(u32::from(MilliGpu::WHOLE.0))) / f64::from(MilliGpu::WHOLE.0);
        account.usd += part * prices.cost_usd(from, now).unwrap_or(0.0);
    }
}
