//! What the hidden commands `wiglaf host-facts` and `wiglaf host-probe` do, without the rest of
//! Wiglaf: `host facts < ask.json` and `host probe`.

use std::io::{stdin, stdout};

use wiglaf_check::facts::{Ask, collect};

fn main() -> std::io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("facts") => {
            let ask: Ask = serde_json::from_reader(stdin().lock()).unwrap_or_default();
            serde_json::to_writer(stdout(), &collect(&ask)).map_err(Into::into)
        }
        Some("probe") => wiglaf_check::probe::serve(stdin().lock(), stdout().lock()),
        _ => {
            eprintln!("host facts, or host probe");
            std::process::exit(2)
        }
    }
}
