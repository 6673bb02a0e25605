//! From measurements to what people read: JSON files, tables, pictures.

mod json;
mod plot;
mod scale;
mod table;

pub use json::{read, write};
pub use plot::{FONT_PACKAGE, Picture, draw_png, draw_svg};
pub use table::{applications_table, length, pingpong_markdown, pingpong_table, ring_table};
