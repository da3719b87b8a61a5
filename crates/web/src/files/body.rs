//! A part of a file as the body of an answer, read as the client takes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

/// What is read at once. A client takes so much within its time, or is ended.
pub(super) const PIECE: u64 = 64 << 10;

/// Bytes of a file from one place to another.
pub(super) struct FileBody {
    file: Arc<File>,
    at: u64,
    until: u64,
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl FileBody {
    pub(super) fn new(file: File, from: u64, until: u64) -> Self {
        Self { file: Arc::new(file), at: from, until, reading: None }
    }

    /// Reads on, where a disk may take its time.
    fn read(&self) -> JoinHandle<io::Result<Vec<u8>>> {
        let (file, at) = (Arc::clone(&self.file), self.at);
        let length = PIECE.min(self.until - self.at) as usize;
        spawn_blocking(move || {
            let mut piece = vec![0; length];
            // Less, if the file was cut meanwhile: the connection ends before what was promised.
            file.read_exact_at(&mut piece, at)?;
            Ok(piece)
        })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.at == self.until {
            return Poll::Ready(None);
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.read());
        let Poll::Ready(read) = Pin::new(&mut reading).poll(context) else {
            self.reading = Some(reading);
            return Poll::Pending;
        };
        let piece = read.map_err(io::Error::from).flatten()?;
        self.at += piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.at == self.until
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.until - self.at)
    }
}
