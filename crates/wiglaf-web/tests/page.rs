//! The page in a browser: `cargo test -p wiglaf-web --test page -- --ignored --nocapture`. By hand, because a browser is
//! 100 MB of packages: Debian's chromium-headless-shell or chromium, or what `WIGLAF_CHROMIUM` names.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use common::{TOKEN, cluster, serve};
use serde_json::{Value, json};

/// Where the pictures go.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/page");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Chromium, which is told what to do through a pipe.
struct Browser {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    asked: u64,
    /// What pages have complained of.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn new(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#, "sh"]).arg(program);
        shell.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]);
        shell.args(["--disable-background-networking", "--no-first-run", "--hide-scrollbars"]);
        shell.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self {
            child,
            to,
            from,
            session: None,
            asked: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let tab = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let tab = json!({ "targetId": tab["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", tab);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for part in ["Page", "Log", "Runtime"] {
            browser.ask(&format!("{part}.enable"), json!({}));
        }
        browser
    }

    #[allow(clippy::needless_pass_by_value, reason = "callers make it on the spot")]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let to = self.to.as_mut().unwrap();
        to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut text = Vec::new();
            self.from.read_until(0, &mut text).unwrap();
            assert_eq!(text.pop(), Some(0), "the browser has ended");
            let said: Value = serde_json::from_slice(&text).unwrap();
            if said["id"] == self.asked {
                assert!(said["error"].is_null(), "{method}: {said}");
                return said["result"].clone();
            }
            if ["Log.entryAdded", "Runtime.exceptionThrown"]
                .iter()
                .any(|kind| said["method"] == *kind)
            {
                self.complaints.push(said["params"].to_string());
            }
        }
    }

    /// What a script comes to, once it has.
    fn eval(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let said = self.ask("Runtime.evaluate", params);
        assert!(said["exceptionDetails"].is_null(), "{script}: {said}");
        said["result"]["value"].clone()
    }

    /// Opens a page in a window of that width, of a screen that is light or dark.
    fn open(&mut self, url: &str, width: u32, scheme: &str) {
        let window =
            json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.ask("Emulation.setDeviceMetricsOverride", window);
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": scheme }));
        let went = self.ask("Page.navigate", json!({ "url": url }));
        assert!(went["errorText"].is_null(), "{went}");
        while self.eval("document.readyState") != "complete" {
            std::thread::yield_now();
        }
    }

    fn picture(&mut self, name: &str) {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.ask("Page.captureScreenshot", params);
        let path = folder().join(name);
        let mut decode = Command::new("base64");
        decode.arg("-d").stdin(Stdio::piped()).stdout(fs::File::create(&path).unwrap());
        let mut decode = decode.spawn().unwrap();
        let text = picture["data"].as_str().unwrap().as_bytes();
        decode.stdin.take().unwrap().write_all(text).unwrap();
        assert!(decode.wait().unwrap().success());
        println!("{}", path.display());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends with its pipe.
        drop(self.to.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What hinders a reader at this width: how far the page is wider, and what sticks out or is too small to read.
const READABLE: &str = "
    (() => {
        const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
        const out = [...document.querySelectorAll('main *, header *')].filter(e => {
            const box = e.getBoundingClientRect();
            return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
        });
        const small = [...document.querySelectorAll('main p, main td, main th, main li, main code')]
            .filter(e => e.textContent && parseFloat(getComputedStyle(e).fontSize) < 11);
        return [wide, out.map(e => e.outerHTML.slice(0, 80)), small.map(e => e.outerHTML.slice(0, 80))];
    })()";

#[test]
#[ignore = "takes a browser"]
fn page_is_read_on_a_phone_and_on_a_desk() {
    let named = std::env::var_os("WIGLAF_CHROMIUM").map(PathBuf::from);
    let found =
        ["chromium-headless-shell", "chromium"].iter().find_map(wiglaf_base::program::find_program);
    let Some(program) = named.or(found) else {
        eprintln!("skipped: no chromium; `apt-get install chromium-headless-shell`");
        return;
    };
    let mut browser = Browser::new(&program);
    let (few, many) = (serve(cluster(6)), serve(cluster(64)));
    for (what, at) in [("few", few), ("many", many)] {
        browser.open(&format!("http://{at}/"), 360, "light");
        assert_eq!(browser.eval(READABLE), json!([0, [], []]));
        browser.picture(&format!("sign-in-{what}.png"));
        // Unauthorized is what the browser was told, and says.
        browser.complaints.retain(|complaint| !complaint.contains("401"));
        browser.eval(&format!("document.getElementById('token').value = '{TOKEN}'"));
        browser.eval("document.forms[0].submit()");
        while browser
            .eval("document.readyState == 'complete' && document.getElementById('nodes') != null")
            != true
        {
            std::thread::yield_now();
        }
        for (width, scheme) in [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")] {
            browser.open(&format!("http://{at}/"), width, scheme);
            assert_eq!(browser.eval(READABLE), json!([0, [], []]), "{what} at {width}");
            let seen = browser.eval(
                "performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource')) \
                 .map(e => [e.name.replace(/.*\\//, '/'), e.transferSize, Math.round(e.responseEnd)])",
            );
            let load = browser
                .eval("Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd)");
            println!("{what} nodes, {width} wide, {scheme}: loaded after {load} ms; {seen}");
            let bytes: u64 =
                seen.as_array().unwrap().iter().filter_map(|one| one[1].as_u64()).sum();
            assert!(bytes <= 300_000, "{seen}");
            browser.picture(&format!("{what}-{width}-{scheme}.png"));
        }
        // What is fetched later replaces what was there.
        browser.eval("document.getElementById('nodes').remove()");
        browser.eval("renew()");
        assert_eq!(browser.eval("document.querySelectorAll('#nodes tbody tr').length > 5"), true);
        assert_eq!(browser.eval("document.cookie"), "", "a script can read the session");
    }
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
}
