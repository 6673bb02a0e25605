//! From measurements to what people read: JSON files, tables, pictures.

mod backlog;
mod board;
mod collectives;
mod files;
mod json;
mod loggp;
mod plot;
mod scale;
mod soak;
mod table;
mod transformation;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Result, file_error};
use crate::outcome::Outcome;
use crate::{bandwidth, pingpong, ring};
use backlog::backlog_table;
pub use board::{figures_markdown, figures_table};
use board::{outcome_markdown, outcome_table};
use collectives::{collectives_markdown, collectives_table};
use files::{files_markdown, files_table};
pub use json::{read, write};
use loggp::loggp_table;
use plot::{Bars, Cases, Draw, Heat, Picture, Ranks, SpeedUp, draw_png, draw_svg};
pub use plot::{RankBar, SpeedUpCurve, SpeedUpWords};
pub use soak::{draw_soak, soak_table};
pub use table::length;
use table::{bandwidth_markdown, bandwidth_table, pingpong_markdown, pingpong_table, ring_table};
use transformation::{transformation_markdown, transformation_table};

/// What a benchmark measured, as people read it.
pub trait Reported: Serialize {
    /// Lays it out for a terminal.
    fn table(&self) -> String;

    /// Writes all about it into a folder: `NAME.json`, and beside it `.txt` with its table or, of what has a picture,
    /// `.md`, `.svg` and, where there is a font, `.png`.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    fn write(&self, folder: &Path) -> Result<Written>;
}

/// Says of each report its name, its table and, if it has one, its document and its picture.
macro_rules! reported {
    ($($report:ty: $name:expr, $table:path $(, $markdown:path, $picture:path)?;)*) => {$(
        impl Reported for $report {
            fn table(&self) -> String {
                $table(self)
            }

            fn write(&self, folder: &Path) -> Result<Written> {
                let name: fn(&Self) -> &str = $name;
                reported!(@write self, name(self), folder $(, $markdown, $picture)?)
            }
        }
    )*};
    (@write $report:expr, $name:expr, $folder:expr) => {
        write_text($report, &$report.table(), $folder, $name, "txt")
    };
    (@write $report:expr, $name:expr, $folder:expr, $markdown:path, $picture:path) => {
        write_all($report, &$markdown($report), &$picture($report), $folder, $name)
    };
}

reported! {
    pingpong::Report: |_| "pingpong", pingpong_table, pingpong_markdown, Picture::of;
    bandwidth::Report: |_| "bandwidth", bandwidth_table, bandwidth_markdown, Picture::of_bandwidth;
    crate::collectives::Report:
        |_| "collectives", collectives_table, collectives_markdown, Heat::of;
    crate::files::Report: |_| "files", files_table, files_markdown, Bars::of_files;
    crate::transformation::Report:
        |_| "transformation", transformation_table, transformation_markdown, SpeedUp::of;
    Outcome: |outcome| &outcome.name, outcome_table, outcome_markdown, Cases::of;
    ring::Report: |_| "ring", ring_table;
    crate::loggp::Report: |_| "loggp", loggp_table;
    crate::backlog::Report: |_| "backlog", backlog_table;
}

/// What became of a report on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The files, in the order in which to mention them.
    pub files: Vec<PathBuf>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Draws speed-up against the number of nodes, as SVG.
///
/// # Errors
/// When the file cannot be written.
pub fn draw_speed_up(words: &SpeedUpWords<'_>, curves: &[SpeedUpCurve], path: &Path) -> Result<()> {
    draw_svg(&SpeedUp::of_curves(words, curves), path)
}

/// Draws what each rank computed and how long it was in MPI, as SVG.
///
/// # Errors
/// When the file cannot be written.
pub fn draw_ranks(title: &str, subtitle: &str, bars: &[RankBar], path: &Path) -> Result<()> {
    draw_svg(&Ranks { title, subtitle, bars }, path)
}

/// Writes `NAME.json`, and a text beside it.
fn write_text(
    report: &impl Serialize,
    text: &str,
    folder: &Path,
    name: &str,
    ending: &str,
) -> Result<Written> {
    fs::create_dir_all(folder).map_err(file_error(folder))?;
    let files = ["json", ending].map(|ending| folder.join(format!("{name}.{ending}")));
    write(report, &files[0])?;
    fs::write(&files[1], text).map_err(file_error(&files[1]))?;
    Ok(Written { files: files.into(), notes: Vec::new() })
}

/// Writes a document and pictures.
fn write_all(
    report: &impl Serialize,
    markdown: &str,
    picture: &impl Draw,
    folder: &Path,
    name: &str,
) -> Result<Written> {
    let mut written = write_text(report, markdown, folder, name, "md")?;
    let [svg, png] = ["svg", "png"].map(|ending| folder.join(format!("{name}.{ending}")));
    draw_svg(picture, &svg)?;
    written.files.push(svg);
    match draw_png(picture, &png) {
        Ok(()) => written.files.push(png),
        Err(error) => written.notes.push(error.to_string()),
    }
    Ok(written)
}
