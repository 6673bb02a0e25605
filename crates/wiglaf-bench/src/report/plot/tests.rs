use super::*;
use crate::pingpong::Report;
use crate::report::table::tests::{sample_bandwidth, sample_report};

fn svg_of(report: &Report) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.svg");
    draw_svg(&Picture::of(report), &path).unwrap();
    fs::read_to_string(path).unwrap()
}

/// Checks that tags nest and every attribute value is quoted.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "stray > before {}", &rest[start..][..20]);
        let end = start + rest[start..].find('>').expect("an unclosed tag");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        assert!(!tag.contains('<'), "<{tag}>");
        let name = tag.trim_matches('/').split_whitespace().next().unwrap().to_owned();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed.trim()));
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn the_svg_is_well_formed_and_names_everyone() {
    let report = sample_report();
    let svg = svg_of(&report);
    assert_well_formed(&svg);
    for name in ["Wiglaf", "Open MPI TCP", "UCX TCP", "bare link packet", "4 MiB", "message size"] {
        assert!(svg.contains(name), "{name}");
    }
}

#[test]
fn streams_have_a_panel_for_each_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("b.svg");
    draw_svg(&Picture::of_bandwidth(&sample_bandwidth()), &path).unwrap();
    let svg = fs::read_to_string(path).unwrap();
    assert_well_formed(&svg);
    for words in ["one way, windows of 64", "both ways at once", "libfabric TCP", "4 MiB"] {
        assert!(svg.contains(words), "{words}");
    }
}

#[test]
fn every_point_is_inside_the_canvas() {
    let svg = svg_of(&sample_report());
    for points in svg.split("points=\"").skip(1).map(|s| s.split('"').next().unwrap()) {
        for pair in points.split_whitespace() {
            let (x, y) = pair.split_once(',').unwrap();
            let (x, y): (i32, i32) = (x.parse().unwrap(), y.parse().unwrap());
            assert!((0..=WIDTH).contains(&x) && (0..=HEIGHT).contains(&y), "{pair}");
        }
    }
}

#[test]
fn hostile_names_cannot_break_the_svg() {
    let mut report = sample_report();
    report.floors[0].link = "<script>&\"".into();
    assert_well_formed(&svg_of(&report));
}

#[test]
fn an_empty_report_gives_an_empty_picture() {
    let mut report = sample_report();
    report.contenders.clear();
    report.floors.clear();
    assert_well_formed(&svg_of(&report));
}

#[test]
fn the_png_is_one_or_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.png");
    match draw_png(&Picture::of(&sample_report()), &path) {
        Ok(()) => assert!(fs::read(path).unwrap().starts_with(b"\x89PNG\r\n")),
        Err(error) => {
            assert!(!Path::new(FONT_FILE).is_file(), "{error}");
            assert!(error.to_string().contains(FONT_PACKAGE), "{error}");
        }
    }
}

#[test]
fn bars_have_a_name_and_a_figure_each() {
    let report = crate::report::files::tests::sample_files();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.svg");
    draw_svg(&Bars::of_files(&report), &path).unwrap();
    let svg = fs::read_to_string(path).unwrap();
    assert_well_formed(&svg);
    for contender in &report.contenders {
        assert_eq!(svg.matches(&format!("\n{}\n", contender.label)).count(), 4, "{svg}");
    }
    assert!(svg.contains("Sequential read, 1 MiB calls") && svg.contains("1000 small files"));
}

#[test]
fn everybody_has_a_bar_in_every_case() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("o.svg");
    let outcome = crate::report::board::tests::sample_outcome();
    draw_svg(&Cases::of(&outcome), &path).unwrap();
    let svg = fs::read_to_string(path).unwrap();
    assert_well_formed(&svg);
    for words in ["MTU 1500, one way: goodput", "ceiling 120", "blocking sockets", "Open MPI TCP"] {
        assert!(svg.contains(words), "{words}");
    }
    // The white ground is a rectangle, too.
    assert_eq!(svg.matches("<rect").count(), 1 + 5);
    assert!(svg.contains("&gt; 15.0"), "{svg}");
}
