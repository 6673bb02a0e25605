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
use crate::{bandwidth, pingpong};

pub use backlog::backlog_table;
pub use board::{figures_markdown, figures_table, outcome_markdown, outcome_table};
pub use collectives::{collectives_markdown, collectives_table};
pub use files::{files_markdown, files_table};
pub use json::{read, write};
pub use loggp::loggp_table;
use plot::{Bars, Cases, Draw, Heat, Picture, Ranks, SpeedUp, draw_png, draw_svg};
pub use plot::{RankBar, SpeedUpCurve, SpeedUpWords};
pub use soak::{draw_soak, soak_table};
pub use table::{
    bandwidth_markdown, bandwidth_table, length, pingpong_markdown, pingpong_table, ring_table,
};
pub use transformation::{transformation_markdown, transformation_table};

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

/// Writes everything about a ping-pong into a folder: `pingpong.json`, `.md`,
/// `.svg` and, where there is a font, `.png`.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_pingpong(report: &pingpong::Report, folder: &Path) -> Result<Written> {
    write_all(report, &pingpong_markdown(report), &Picture::of(report), folder, "pingpong")
}

/// Writes everything about streams into a folder: `bandwidth.json`, `.md`, `.svg` and, where there is a font, `.png`.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_bandwidth(report: &bandwidth::Report, folder: &Path) -> Result<Written> {
    let picture = Picture::of_bandwidth(report);
    write_all(report, &bandwidth_markdown(report), &picture, folder, "bandwidth")
}

/// Writes everything about remote files into a folder: `files.json`, `.md`, `.svg` and, where there is a font, `.png`.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_files(report: &crate::files::Report, folder: &Path) -> Result<Written> {
    write_all(report, &files_markdown(report), &Bars::of_files(report), folder, "files")
}

/// Writes everything about the transformation into a folder: `transformation.json`, `.md`, `.svg` and, where there is a
/// font, `.png`.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_transformation(
    report: &crate::transformation::Report,
    folder: &Path,
) -> Result<Written> {
    let picture = SpeedUp::of(report);
    write_all(report, &transformation_markdown(report), &picture, folder, "transformation")
}

/// Writes everything about collectives into a folder: `collectives.json`, `.md`, `.svg` and, where there is a font,
/// `.png`.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_collectives(report: &crate::collectives::Report, folder: &Path) -> Result<Written> {
    write_all(report, &collectives_markdown(report), &Heat::of(report), folder, "collectives")
}

/// Writes everything about cases into a folder: `NAME.json`, `.md`, `.svg` and, where there is a font, `.png`.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write_outcome(outcome: &Outcome, folder: &Path) -> Result<Written> {
    write_all(outcome, &outcome_markdown(outcome), &Cases::of(outcome), folder, &outcome.name)
}

fn write_all(
    report: &impl Serialize,
    markdown: &str,
    picture: &impl Draw,
    folder: &Path,
    name: &str,
) -> Result<Written> {
    fs::create_dir_all(folder).map_err(file_error(folder))?;
    let file = |ending: &str| folder.join(format!("{name}.{ending}"));
    write(report, &file("json"))?;
    fs::write(file("md"), markdown).map_err(file_error(folder))?;
    draw_svg(picture, &file("svg"))?;
    let mut written = Written { files: ["json", "md", "svg"].map(file).to_vec(), notes: vec![] };
    match draw_png(picture, &file("png")) {
        Ok(()) => written.files.push(file("png")),
        Err(error) => written.notes.push(error.to_string()),
    }
    Ok(written)
}
