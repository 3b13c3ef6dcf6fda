//! A connection whose reader must keep reading: what is to be written may not stay for long.
//!
//! Ends with `TimedOut` when less than [`STEP_BYTES`] were taken within the time given while something was to be written. A connection
//! with nothing to write (a blocked query, a quiet stream) may stay as it is.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// So much must be taken each time.
pub(crate) const STEP_BYTES: usize = 32 << 10;

/// A connection that ends when its peer does not read.
#[derive(Debug)]
pub(crate) struct Stall<T> {
    inner: T,
    within: Duration,
    /// Runs while something is to be written.
    due: Option<Pin<Box<Sleep>>>,
    taken: usize,
}

impl<T> Stall<T> {
    pub(crate) fn new(inner: T, within: Duration) -> Self {
        Self {
            inner,
            within,
            due: None,
            taken: 0,
        }
    }

    /// Nothing could be written: has it been so for too long?
    fn blocked(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let within = self.within;
        let due = self
            .due
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + within)));
        ready!(due.as_mut().poll(cx));
        Poll::Ready(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        ))
    }

    fn wrote(&mut self, result: &io::Result<usize>) {
        if let (Some(_), Ok(count)) = (&self.due, result) {
            self.taken += count;
            if self.taken >= STEP_BYTES {
                self.idle();
            }
        }
    }

    /// All is written, or enough of it.
    fn idle(&mut self) {
        self.due = None;
        self.taken = 0;
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.inner).poll_write(cx, buf) {
            Poll::Ready(result) => {
                self.wrote(&result);
                Poll::Ready(result)
            }
            Poll::Pending => self.blocked(cx).map(Err),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.inner).poll_write_vectored(cx, bufs) {
            Poll::Ready(result) => {
                self.wrote(&result);
                Poll::Ready(result)
            }
            Poll::Pending => self.blocked(cx).map(Err),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if flushed.is_ready() {
            self.idle();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(test);
    }

    #[test]
    fn a_reader_that_stops_ends_the_connection_and_one_that_crawls_too() {
        run(async {
            let (ours, _theirs) = tokio::io::duplex(1024);
            let mut ours = Stall::new(ours, Duration::from_millis(50));
            let error = ours.write_all(&[0; 4096]).await.expect_err("nobody reads");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);

            let (ours, mut theirs) = tokio::io::duplex(64);
            let mut ours = Stall::new(ours, Duration::from_millis(50));
            let crawl = async {
                let mut byte = [0; 1];
                loop {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    if theirs.read(&mut byte).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            };
            tokio::select! {
                result = ours.write_all(&[0; 4096]) => {
                    let error = result.expect_err("a byte now and then is not enough");
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                }
                () = crawl => {}
            }
        });
    }

    #[test]
    fn a_reader_that_reads_may_take_as_long_as_it_is_much() {
        run(async {
            let (ours, mut theirs) = tokio::io::duplex(STEP_BYTES);
            let mut ours = Stall::new(ours, Duration::from_millis(200));
            let all = vec![7; STEP_BYTES * 20];
            let read = async {
                let mut got = 0;
                let mut buffer = vec![0; STEP_BYTES];
                while got < STEP_BYTES * 20 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    got += theirs.read(&mut buffer).await.expect("read");
                }
            };
            let (wrote, ()) = tokio::join!(ours.write_all(&all), read);
            wrote.expect("it read all the time");
        });
    }
}
