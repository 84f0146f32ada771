//! The protocol of Gavel's iterator, so that a script written for it runs unchanged: `IteratorToScheduler { InitJob, UpdateLease }`.
//!
//! Gavel's protocol has no tokens. It is served on loopback, to processes of jobs that were submitted for it ([`caller`]).

use crate::lease::caller;
use crate::lease::routes::LeaseService;
use crate::lease::running_leases::GavelTerms;
use crate::machine::platform::{LeaseRequest, RefusalKind};
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http;
use axum::routing::post;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Response, Status};
use tonic_prost::ProstCodec;

/// The first question of a process.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct InitJobRequest {
    /// The job's number.
    #[prost(uint64, tag = "1")]
    pub job_id: u64,
}

/// The question of a process whose lease is nearly used up.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct UpdateLeaseRequest {
    /// The job's number.
    #[prost(uint64, tag = "1")]
    pub job_id: u64,
    /// The process, by its GPU.
    #[prost(uint64, tag = "2")]
    pub worker_id: u64,
    /// Steps that the process has done in this run.
    #[prost(uint64, tag = "3")]
    pub steps: u64,
    /// Seconds that it took for them.
    #[prost(double, tag = "4")]
    pub duration: f64,
    /// The most steps of its present lease.
    #[prost(uint64, tag = "5")]
    pub max_steps: u64,
    /// The most seconds of its present lease.
    #[prost(double, tag = "6")]
    pub max_duration: f64,
}

/// The answer to both questions. All zeros means that the job is gone.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct UpdateLeaseResponse {
    /// The most steps that the process may do in this run.
    #[prost(uint64, tag = "1")]
    pub max_steps: u64,
    /// The most seconds that it may take.
    #[prost(double, tag = "2")]
    pub max_duration: f64,
    /// Seconds on top, in which it waits for the GPU.
    #[prost(double, tag = "3")]
    pub extra_time: f64,
}

impl From<GavelTerms> for UpdateLeaseResponse {
    fn from(terms: GavelTerms) -> Self {
        Self { max_steps: terms.max_steps, max_duration: terms.max_duration, extra_time: 0.0 }
    }
}

/// The routes of Gavel's protocol.
pub fn routes(service: Arc<LeaseService>) -> Router {
    Router::new()
        .route("/IteratorToScheduler/InitJob", post(init_job))
        .route("/IteratorToScheduler/UpdateLease", post(update_lease))
        .with_state(service)
}

type Peer = ConnectInfo<SocketAddr>;

async fn init_job(State(service): State<Arc<LeaseService>>, peer: Peer, request: Request) -> http::Response<tonic::body::Body> {
    Grpc::new(ProstCodec::default()).unary(InitJob(service, peer.0), request).await
}

async fn update_lease(
    State(service): State<Arc<LeaseService>>,
    peer: Peer,
    request: Request,
) -> http::Response<tonic::body::Body> {
    Grpc::new(ProstCodec::default()).unary(UpdateLease(service, peer.0), request).await
}

type Answered = Pin<Box<dyn Future<Output = Result<Response<UpdateLeaseResponse>, Status>> + Send>>;

struct InitJob(Arc<LeaseService>, SocketAddr);

impl UnaryService<InitJobRequest> for InitJob {
    type Response = UpdateLeaseResponse;
    type Future = Answered;

    fn call(&mut self, request: tonic::Request<InitJobRequest>) -> Answered {
        let (service, client) = (Arc::clone(&self.0), self.1);
        Box::pin(async move {
            let job = request.into_inner().job_id;
            caller::check(&service, client, job).await.map_err(status)?;
            let Some((holder, is_new, terms)) = service.leases.gavel_init(job).map_err(status)? else {
                return Ok(Response::new(UpdateLeaseResponse::default()));
            };
            if is_new {
                service.write(LeaseRequest::Take(holder)).await.map_err(status)?;
            }
            Ok(Response::new(terms.into()))
        })
    }
}

struct UpdateLease(Arc<LeaseService>, SocketAddr);

impl UnaryService<UpdateLeaseRequest> for UpdateLease {
    type Response = UpdateLeaseResponse;
    type Future = Answered;

    fn call(&mut self, request: tonic::Request<UpdateLeaseRequest>) -> Answered {
        let (service, client) = (Arc::clone(&self.0), self.1);
        Box::pin(async move {
            let ask = request.into_inner();
            caller::check(&service, client, ask.job_id).await.map_err(status)?;
            let terms = service.leases.gavel_update(&ask).map_err(status)?;
            Ok(Response::new(terms.map(Into::into).unwrap_or_default()))
        })
    }
}

fn status(refusal: crate::machine::platform::Refusal) -> Status {
    let code = match refusal.kind {
        RefusalKind::BadInput => Code::InvalidArgument,
        RefusalKind::NotFound => Code::NotFound,
        RefusalKind::Forbidden => Code::PermissionDenied,
        RefusalKind::Conflict => Code::FailedPrecondition,
        RefusalKind::TooMany => Code::ResourceExhausted,
        RefusalKind::Unavailable => Code::Unavailable,
    };
    Status::new(code, refusal.message)
}
