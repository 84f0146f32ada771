//! The output of a run, read page by page on its node while it grows and is rotated.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::protocol::{OUTPUT_BYTES_MAX, OutputPlace};

/// How far the output of a run was read.
#[derive(Debug)]
pub(super) struct Cursor {
    log: PathBuf,
    place: OutputPlace,
    /// The file that is read, which may have another name by now.
    file: Option<File>,
    /// The largest number of files that are kept.
    pub(super) files_max: u32,
}

impl Cursor {
    /// Reads the log of a run directory from a place on.
    pub(super) fn new(run_dir: &Path, place: OutputPlace, files_max: u32) -> Self {
        Self { log: run_dir.join("log"), place, file: None, files_max }
    }

    /// The next page; `None` if there is no more for now.
    pub(super) fn next(&mut self) -> io::Result<Option<(OutputPlace, Vec<u8>)>> {
        if self.file.is_none() {
            self.open_first()?;
        }
        loop {
            let Some(file) = &self.file else { return Ok(None) };
            // Most looks find nothing new, and a page is made for those that do.
            let length = usize::try_from(file.metadata()?.len().saturating_sub(self.place.offset)).unwrap_or(OUTPUT_BYTES_MAX);
            let mut page = vec![0; length.min(OUTPUT_BYTES_MAX)];
            let length = file.read_at(&mut page, self.place.offset)?;
            if length > 0 {
                page.truncate(length);
                let at = self.place;
                self.place.offset += length as u64;
                return Ok(Some((at, page)));
            }
            if !self.open_next()? {
                return Ok(None);
            }
        }
    }

    fn aged(&self, age: u32) -> PathBuf {
        if age == 0 { self.log.clone() } else { self.log.with_added_extension(age.to_string()) }
    }

    /// Opens the file that the place is in: the log, or the one before it if the log was rotated meanwhile.
    fn open_first(&mut self) -> io::Result<()> {
        for age in 0..2 {
            match File::open(self.aged(age)) {
                Ok(file) if file.metadata()?.len() >= self.place.offset => {
                    self.file = Some(file);
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // Both are younger: what was between is gone.
        match File::open(&self.log) {
            Ok(file) => {
                self.place = OutputPlace { part: self.place.part + 1, offset: 0 };
                self.file = Some(file);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Goes on with the file after the one that was read to its end; false if that is still the log.
    fn open_next(&mut self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let own = file.metadata()?.ino();
        let is_own = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.ino() == own);
        let age = (0..self.files_max.max(1)).find(|age| is_own(&self.aged(*age)));
        let next = match age {
            Some(0) => return Ok(false),
            Some(age) => age - 1,
            // It was rotated out: the oldest that is left comes next.
            None => match (0..self.files_max.max(1)).rev().find(|age| self.aged(*age).exists()) {
                Some(oldest) => oldest,
                None => return Ok(false),
            },
        };
        match File::open(self.aged(next)) {
            Ok(file) => {
                self.file = Some(file);
                self.place = OutputPlace { part: self.place.part + 1, offset: 0 };
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(cursor: &mut Cursor) -> Vec<(u32, u64, String)> {
        let mut all = Vec::new();
        while let Some((place, bytes)) = cursor.next().unwrap() {
            all.push((place.part, place.offset, String::from_utf8(bytes).unwrap()));
        }
        all
    }

    #[test]
    fn a_log_is_read_to_its_end_while_it_grows_and_is_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut cursor = Cursor::new(folder.path(), OutputPlace::default(), 3);
        assert!(pages(&mut cursor).is_empty(), "there is no log yet");
        std::fs::write(&log, "one ").unwrap();
        assert_eq!(pages(&mut cursor), [(0, 0, "one ".to_owned())]);
        std::fs::write(&log, "one two").unwrap();
        // Rotated twice between two looks.
        std::fs::rename(&log, folder.path().join("log.2")).unwrap();
        std::fs::write(folder.path().join("log.1"), "three").unwrap();
        std::fs::write(&log, "four").unwrap();
        let expected = [(0, 4, "two"), (1, 0, "three"), (2, 0, "four")].map(|(part, at, text)| (part, at, text.to_owned()));
        assert_eq!(pages(&mut cursor), expected);
        assert!(pages(&mut cursor).is_empty());
    }

    #[test]
    fn a_cursor_begins_in_the_middle() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("log"), "hello").unwrap();
        let mut cursor = Cursor::new(folder.path(), OutputPlace { part: 0, offset: 3 }, 1);
        assert_eq!(pages(&mut cursor), [(0, 3, "lo".to_owned())]);
    }
}
