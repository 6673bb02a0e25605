//! A server by itself, for `WIGLAF_FILES_SERVER`: serves the folders that it
//! is given to whoever speaks to it on standard input and output.

fn main() {
    let folders = std::env::args_os().skip(1).map(Into::into).collect();
    if let Err(why) = wiglaf_files::server::run(&wiglaf_files::server::Exports(folders)) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
