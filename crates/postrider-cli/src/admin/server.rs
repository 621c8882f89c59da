//! Accepts connections within [`limits`], until told to stop.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::stall::Patient;
use super::{Admin, limits, router};

/// After a failed accept (too many open files, say), so that it is no hot loop.
const PAUSE: Duration = Duration::from_millis(100);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn serve(listener: TcpListener, admin: Admin, stop: CancellationToken) {
    let router = router(admin.clone());
    let slots = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    let accept = async {
        // The semaphore is never closed, so this loop ends by being dropped.
        while let Ok(slot) = slots.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = connection(stream, router.clone(), stop.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "admin address does not accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = stop.cancelled() => {}
    }
    connections.close();
    if tokio::time::timeout(CLOSE_TIMEOUT, connections.wait())
        .await
        .is_err()
    {
        tracing::debug!("admin connections were cut off");
    }
    admin.close().await;
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_TIMEOUT)
        .max_buf_size(limits::HEADER_BYTES_MAX)
        .max_headers(limits::HEADERS_MAX)
        .serve_connection(
            TokioIo::new(Patient::new(stream, limits::WRITE_TIMEOUT)),
            TowerToHyperService::new(router),
        );
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "admin connection ended");
    }
}
