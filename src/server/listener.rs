//! Connections: takes them, keeps them to their times, and ends them when the server stops.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

use super::app::{App, Phase};

/// A connection on which nothing comes is asked after so long whether its other end is still there.
const ASK_AFTER: Duration = Duration::from_secs(30);
/// An accept that failed, as for want of file descriptors, is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// For connections to end after the last answer was cut.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves until the phase is no longer `Running`, and then until all connections have ended, or shortly after `Cut`.
pub async fn serve(listener: TcpListener, router: Router, app: Arc<App>) {
    let places = Arc::new(Semaphore::new(app.limits.connections));
    let mut phase = app.phase.clone();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Running) => break,
            // What does not fit waits in the system's queue.
            accepted = accept(&listener, &places) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let (stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(_) => {
                sleep(RETRY).await;
                continue;
            }
        };
        let (router, app) = (router.clone(), app.clone());
        connections.spawn(async move {
            let _open = (place, app.metrics.connection());
            connection(stream, router, &app).await;
        });
    }
    drop(listener);
    let mut cut = phase.clone();
    let over = async {
        let _ = cut.wait_for(|phase| *phase == Phase::Cut).await;
        sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = over => connections.shutdown().await,
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn connection(stream: TcpStream, router: Router, app: &App) {
    // Where the system knows no such options, the other times still hold.
    let _ = stream.set_nodelay(true);
    let socket = SockRef::from(&stream);
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_AFTER / 3));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket.set_tcp_user_timeout(Some(app.limits.write_time));
    let stream = Patient { stream, patience: app.limits.write_time, waiting: None };
    let service = TowerToHyperService::new(router);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(app.limits.head_time).max_buf_size(64 << 10);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut phase: watch::Receiver<Phase> = app.phase.clone();
    // A connection that ends badly is its client's matter.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = phase.wait_for(|phase| *phase != Phase::Running) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A connection whose other end must take what is written to it within a time.
struct Patient {
    stream: TcpStream,
    patience: Duration,
    /// Runs while something waits to be taken.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn within_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.waiting = None;
            return done;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_time(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.within_time(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
