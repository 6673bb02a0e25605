//! The page as HTML. All text of others goes through [`text`].

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::marks::{speed, text};
use crate::picture;
use crate::view::{Check, Node, Part, Queue, Series, View};

pub(crate) const STYLE: &str = include_str!("page/style.css");
pub(crate) const SCRIPT: &str = include_str!("page/page.js");
pub(crate) const ICON: &str = include_str!("page/icon.svg");

/// So many jobs.
const JOBS_MAX: usize = 200;

fn frame(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"/icon.svg\">\n<link rel=\"stylesheet\" href=\"/style.css\">\n\
         <script src=\"/page.js\" defer></script>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// Where the token is asked for, or the password of that user; with what was wrong.
pub(crate) fn sign_in(wrong: &str, user: Option<&str>) -> String {
    let wrong = match wrong {
        "" => String::new(),
        wrong => format!("<p class=\"bad\">{}</p>\n", text(wrong)),
    };
    let password = user.map_or_else(String::new, |user| {
        format!(
            "<form method=\"post\" action=\"/sign-in\">\n\
             <label for=\"password\">Or the password of {} on this machine</label>\n\
             <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required>\n\
             <button>Sign in</button>\n</form>\n",
            text(user)
        )
    });
    frame(
        "Wiglaf: sign in",
        &format!(
            "<main class=\"sign-in\">\n<h1>Wiglaf</h1>\n{wrong}\
             <form method=\"post\" action=\"/sign-in\">\n\
             <label for=\"token\">Token</label>\n\
             <input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" required autofocus>\n\
             <button>Sign in</button>\n</form>\n{password}\
             <p class=\"quiet\"><code>wiglaf web</code> has printed an address with the token in it.</p>\n</main>\n"
        ),
    )
}

/// The whole page.
pub(crate) fn whole(view: &View) -> String {
    let title = format!("{}: Wiglaf", text(&view.cluster));
    let body = format!(
        "<noscript><p class=\"quiet\">Without JavaScript this page stands still: load it again.</p></noscript>\n\
         <div id=\"part\">\n{}</div>\n",
        part(view)
    );
    frame(&title, &body)
}

/// What is fetched again and again.
pub(crate) fn part(view: &View) -> String {
    let up = view.nodes.iter().filter(|node| node.error.is_none()).count();
    let all = view.nodes.len();
    let class = if up == all { "good" } else { "bad" };
    let mut html = format!(
        "<header>\n<h1>{}</h1>\n<p><span class=\"{class}\">{up} of {all} nodes up</span>{}</p>\n\
         <p class=\"quiet\" id=\"age\">seen {}</p>\n</header>\n<main>\n",
        text(&view.cluster),
        match &view.queue {
            Part::Is(queue) => {
                let running = queue.jobs.iter().filter(|job| job.state == "running").count();
                let waiting = queue.jobs.iter().filter(|job| job.state == "pending").count();
                format!(" · jobs: {running} running, {waiting} waiting")
            }
            Part::Not(_) => String::new(),
        },
        ago(view.at_s)
    );
    html += &troubles(view);
    html += &nodes(view);
    html += &network(view);
    html += &queue(view);
    html += &history(view);
    html += "</main>\n";
    html
}

fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\" class=\"card\">\n<h2>{title}</h2>\n{body}</section>\n")
}

fn missing(why: &str) -> String {
    format!("<p class=\"quiet\">{}</p>\n", text(why))
}

fn troubles(view: &View) -> String {
    let silent = view.nodes.iter().filter_map(|node| {
        let error = node.error.as_ref()?;
        let says = match error.contains(&node.name) {
            true => error.clone(),
            false => format!("{} does not tell: {error}", node.name),
        };
        Some((says, "wiglaf check".to_owned()))
    });
    let said = view.troubles.iter().map(|one| (one.says.clone(), one.fix.clone()));
    let items: String = silent
        .chain(said)
        .map(|(says, fix)| format!("<li><p>{}</p><code>{}</code></li>\n", text(&says), text(&fix)))
        .collect();
    if items.is_empty() {
        return String::new();
    }
    section(
        "trouble",
        "What is wrong, and what to type",
        &format!("<ul class=\"trouble\">\n{items}</ul>\n"),
    )
}

fn nodes(view: &View) -> String {
    let rows: String = view.nodes.iter().map(node).collect();
    section(
        "nodes",
        "Nodes",
        &format!(
            "<table class=\"nodes\">\n<thead><tr><th>node<th>load<th>memory<th class=\"n\">temperature\
             <th class=\"n\">link<th class=\"n\">sent<th class=\"n\">sent again<th>programs</tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table>\n"
        ),
    )
}

fn node(node: &Node) -> String {
    let name = text(&node.name);
    if node.error.is_some() {
        return format!(
            "<tr class=\"silent\"><th scope=\"row\"><i class=\"dot bad\"></i>{name}<td colspan=\"7\">does not tell</tr>\n"
        );
    }
    let shown = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    #[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
    let gib = |kib: u64| kib as f64 / 1_048_576.0;
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    let load = node.load.map(|load| {
        format!(
            "{}{load:.2} <small>of {}</small>",
            bar(load / node.cores.max(1) as f64),
            node.cores
        )
    });
    let memory = node.memory_used_kib.zip(node.memory_total_kib).map(|(used, total)| {
        let (used, total) = (gib(used), gib(total));
        format!(
            "{}{used:.1} <small>of {total:.0} GiB</small>",
            bar(used / total.max(f64::MIN_POSITIVE))
        )
    });
    let heat = match node.temperature_c {
        Some(degrees) if degrees > 85.0 => " bad",
        Some(degrees) if degrees > 75.0 => " fair",
        _ => "",
    };
    let again = match node.retransmitted_per_s {
        Some(rate) if rate > 10.0 => " fair",
        _ => "",
    };
    format!(
        "<tr><th scope=\"row\"><i class=\"dot good\"></i>{name}\
         <td data-of=\"load\">{}<td data-of=\"memory\">{}<td class=\"n{heat}\" data-of=\"temperature\">{}\
         <td class=\"n\" data-of=\"link\">{}<td class=\"n\" data-of=\"sent\">{}\
         <td class=\"n{again}\" data-of=\"sent again\">{}<td class=\"programs\" data-of=\"programs\">{}</tr>\n",
        shown(load),
        shown(memory),
        shown(node.temperature_c.map(|degrees| format!("{degrees:.0} °C"))),
        shown(node.link_mbit_per_s.map(speed)),
        shown(node.sent_mb_per_s.map(|rate| format!("{rate:.1} MB/s"))),
        shown(node.retransmitted_per_s.map(|rate| format!("{rate:.0}/s"))),
        shown((!node.programs.is_empty()).then(|| text(&node.programs.join(", ")))),
    )
}

/// A share as a bar.
fn bar(share: f64) -> String {
    let width = (share * 100.0).clamp(0.0, 100.0);
    let class = if share > 0.95 { " fair" } else { "" };
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <path class=\"rail\" d=\"M0 0h100v6h-100z\"/><path class=\"fill{class}\" d=\"M0 0h{width:.0}v6h-{width:.0}z\"/></svg>"
    )
}

fn network(view: &View) -> String {
    let picture = picture::cluster(&view.nodes);
    let pairs = match &view.check {
        Part::Is(check) => measured(view, check),
        Part::Not(why) => missing(why),
    };
    section(
        "network",
        "Network",
        &format!("<div class=\"two\">\n<div>{picture}</div>\n<div>{pairs}</div>\n</div>\n"),
    )
}

fn measured(view: &View, check: &Check) -> String {
    let names: Vec<&str> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    let mut html = format!("<h3>Pairs, as measured {}</h3>\n", ago(check.at_s));
    html += &picture::pairs(&names, &check.pairs);
    let mut slow: Vec<_> = check.pairs.iter().filter(|pair| pair.failure.is_none()).collect();
    slow.sort_by(|one, other| {
        let of = |rate: Option<f64>| rate.unwrap_or(f64::INFINITY);
        of(one.mb_per_s).total_cmp(&of(other.mb_per_s))
    });
    let best = check.pairs.iter().filter_map(|pair| pair.mb_per_s).fold(0.0, f64::max);
    html += "<p class=\"legend\"><span><i class=\"box good\"></i>90 % of the best and more</span> \
             <span><i class=\"box fair\"></i>half and more</span> \
             <span><i class=\"box bad\"></i>less, or not at all</span> \
             <span><i class=\"box none\"></i>not measured</span></p>\n";
    if best > 0.0 {
        let _ = writeln!(
            html,
            "<p class=\"quiet\">Best pair: {best:.0} MB/s, one direction at a time.</p>"
        );
    }
    let failed = check.pairs.iter().filter_map(|pair| {
        let why = pair.failure.as_ref()?;
        Some(format!("<li>{} – {}: {}</li>\n", text(&pair.a), text(&pair.b), text(why)))
    });
    let slow = slow.iter().filter_map(|pair| {
        let rate = pair.mb_per_s.filter(|rate| *rate < 0.9 * best)?;
        Some(format!("<li>{} – {}: {rate:.0} MB/s</li>\n", text(&pair.a), text(&pair.b)))
    });
    let items: String = failed.chain(slow).take(8).collect();
    if !items.is_empty() {
        let _ = write!(html, "<ul class=\"slow\">\n{items}</ul>\n");
    }
    html
}

fn queue(view: &View) -> String {
    let Queue { user, jobs } = match &view.queue {
        Part::Is(queue) => queue,
        Part::Not(why) => return section("jobs", "Jobs", &missing(why)),
    };
    let mut html = String::new();
    if !jobs.is_empty() {
        html += "<table class=\"jobs\">\n<thead><tr><th>job<th>name<th>user<th>state<th>time<th>nodes</tr></thead>\n<tbody>\n";
    }
    for job in jobs.iter().take(JOBS_MAX) {
        let says = job.says.as_ref().map(|says| format!(" <small>{}</small>", text(says)));
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}<td data-of=\"name\">{}<td data-of=\"user\">{}<td data-of=\"state\">{}{}\
             <td data-of=\"time\">{}<td data-of=\"nodes\">{}</tr>",
            text(&job.id),
            text(&job.name),
            text(&job.user),
            text(&job.state),
            says.unwrap_or_default(),
            text(&job.time),
            text(&job.nodes)
        );
    }
    if !jobs.is_empty() {
        html += "</tbody>\n</table>\n";
    }
    if jobs.len() > JOBS_MAX {
        let _ = writeln!(
            html,
            "<p class=\"quiet\">and {} more; see <code>squeue</code></p>",
            jobs.len() - JOBS_MAX
        );
    }
    let none = if jobs.is_empty() { "No jobs. " } else { "" };
    let _ = writeln!(html, "<p class=\"quiet\">{none}What Slurm shows to {}.</p>", text(user));
    section("jobs", "Jobs", &html)
}

fn history(view: &View) -> String {
    let all = match &view.history {
        Part::Is(all) => all,
        Part::Not(why) => return section("history", "History", &missing(why)),
    };
    let most = |one: &Series| {
        let values =
            one.nodes.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
        values.fold(0.0, f64::max)
    };
    let mosts: Vec<f64> = all.iter().map(most).collect();
    let heads: String = all
        .iter()
        .zip(&mosts)
        .map(|(one, most)| {
            format!("<th>{} <small>to {most:.1} {}</small>", text(&one.name), text(&one.unit))
        })
        .collect();
    let mut rows = String::new();
    for node in &view.nodes {
        let _ = write!(rows, "<tr><th scope=\"row\">{}", text(&node.name));
        for (one, most) in all.iter().zip(&mosts) {
            let points = one.nodes.iter().find(|(name, _)| *name == node.name);
            let line = match points {
                Some((_, points)) => picture::line(points, one.from_to_s, *most),
                None => "–".to_owned(),
            };
            let _ = write!(rows, "<td data-of=\"{}\">{line}", text(&one.name));
        }
        rows += "</tr>\n";
    }
    let hours = all.first().map_or(0, |one| one.from_to_s.1.saturating_sub(one.from_to_s.0) / 3600);
    section(
        "history",
        &format!("The last {hours} hours"),
        &format!(
            "<table class=\"lines\">\n<thead><tr><th>node{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
        ),
    )
}

/// How long ago that was.
fn ago(at_s: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seconds = now.saturating_sub(at_s);
    match (seconds / 60, seconds / 3600, seconds / 86_400) {
        (0, ..) => format!("{seconds} s ago"),
        (minutes, 0, _) => format!("{minutes} min ago"),
        (_, hours, 0) => format!("{hours} h ago"),
        (_, _, days) => format!("{days} days ago"),
    }
}
