//! Streams of a job that somebody passes on, in place of handing them over.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Context, Error, Result};

/// When the job has ended, and so long nothing came: what holds the stream open is none of it.
const PATIENCE: Duration = Duration::from_millis(500);

/// A thread that passes on what is written to a stream.
#[derive(Debug)]
pub struct Passing {
    thread: JoinHandle<()>,
    /// Closed when the job has ended.
    running: OwnedFd,
}

impl Passing {
    /// A stream to write to. What comes there goes through `change`, which is asked for the rest at
    /// the end, and on to `to`.
    pub fn begin(
        to: OwnedFd,
        change: impl FnMut(Option<&[u8]>) -> Vec<u8> + Send + 'static,
    ) -> Result<(OwnedFd, Self)> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).cannot(|| "make a pipe".to_owned());
        let ((reader, writer), (over, running)) = (pipe()?, pipe()?);
        let thread = std::thread::Builder::new()
            .spawn(move || pass_on(File::from(reader), File::from(to), &over, change));
        Ok((writer, Self { thread: thread.cannot(|| "start a thread".to_owned())?, running }))
    }

    /// A pipe in the place of a terminal, which can also be read by whom it is handed to: what is
    /// typed there later is not that one's. Anything else is given back.
    pub fn of_terminal(to: OwnedFd) -> Result<(OwnedFd, Option<Self>)> {
        if !to.is_terminal() {
            return Ok((to, None));
        }
        let (writer, passing) = Self::begin(to, |bytes| bytes.unwrap_or_default().to_vec())?;
        Ok((writer, Some(passing)))
    }

    /// Now that the job has ended: waits until all is passed on that it wrote. A process that has left
    /// the job may hold the stream open for ever, and is not waited for.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub fn end(self) -> Result<()> {
        drop(self.running);
        self.thread.join().map_err(|_| Error::new("a thread panicked"))
    }
}

fn pass_on(
    mut from: File,
    mut to: File,
    over: &OwnedFd,
    mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>,
) {
    let patience = Timespec::try_from(PATIENCE).ok();
    let (mut chunk, mut is_over) = ([0; 4096], false);
    loop {
        let mut fds = [PollFd::new(&from, PollFlags::IN), PollFd::new(over, PollFlags::IN)];
        // Once it is over, that is no news any more.
        let asked = if is_over { &mut fds[..1] } else { &mut fds[..] };
        let ready = poll(asked, patience.as_ref().filter(|_| is_over));
        let [has_more, ended] = fds.map(|fd| !fd.revents().is_empty());
        match ready {
            Ok(0) if is_over => break,
            Ok(_) if has_more => match from.read(&mut chunk) {
                // A reader that has gone must not stop the program.
                Ok(count @ 1..) => drop(to.write_all(&change(Some(&chunk[..count])))),
                _ => break,
            },
            _ => {}
        }
        is_over |= ended;
    }
    let _ = to.write_all(&change(None));
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// What arrives of what is written, by a stream that stays open when the job has ended.
    #[test]
    fn what_a_job_wrote_arrives_though_somebody_holds_its_stream() {
        let (reader, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let keep = |bytes: Option<&[u8]>| bytes.map_or(b"rest".to_vec(), <[u8]>::to_vec);
        let (writer, passing) = Passing::begin(to, keep).unwrap();
        let holder = writer.as_fd().try_clone_to_owned().unwrap();
        let mut writer = File::from(writer);
        writer.write_all(b"first, ").unwrap();
        writer.write_all(b"second, ").unwrap();
        drop(writer);
        passing.end().unwrap();
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "first, second, rest");
        drop(holder);
    }

    #[test]
    fn a_stream_that_is_closed_ends_it() {
        let (reader, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (writer, passing) = Passing::begin(to, |bytes| bytes.unwrap_or(b".").to_vec()).unwrap();
        File::from(writer).write_all(b"all").unwrap();
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "all.");
        passing.end().unwrap();
    }
}
