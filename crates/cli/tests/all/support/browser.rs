//! Chromium without a window, by the DevTools protocol over a pair of pipes: JSON messages that end with a zero byte.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Debian's names of the program: with a part of its libraries, and whole.
const PROGRAMS: &[&str] = &["chromium-headless-shell", "chromium"];
/// The longest time that an answer or a state of a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// One page of a browser, killed when dropped.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// Messages that answer nothing.
    events: Vec<Value>,
    session: Option<String>,
    count: u64,
}

/// The program, if this machine has it.
pub(crate) fn program() -> Option<&'static str> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    PROGRAMS.iter().copied().find(is_there)
}

impl Browser {
    /// Starts it with an empty page; `profile` is a folder for its files.
    pub(crate) fn start(program: &str, profile: &Path) -> Browser {
        // The protocol uses the descriptors 3 and 4. A sandbox needs rights that root in a container lacks.
        let script = r#"exec "$0" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
            --remote-debugging-pipe --user-data-dir="$1" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
        let mut child = Command::new("sh")
            .args(["-c", script, program])
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (found, messages) = channel();
        std::thread::spawn(move || {
            for message in answers.split(0) {
                let message = serde_json::from_slice(&message.unwrap()).unwrap();
                if found.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            commands,
            messages,
            events: Vec::new(),
            session: None,
            count: 0,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let which = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", which);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    fn send(&mut self, method: &str, parameters: Value) -> u64 {
        self.count += 1;
        let mut message = json!({ "id": self.count, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = Value::from(session.as_str());
        }
        let text = message.to_string() + "\0";
        self.commands.write_all(text.as_bytes()).unwrap();
        self.count
    }

    fn receive(&mut self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE);
        message.expect("the browser answers")
    }

    /// Has the browser do something; its answer. Events that come before it are kept.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.send(method, parameters);
        loop {
            let mut message = self.receive();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// The parameters of all events so far that have this name.
    pub(crate) fn events(&self, name: &str) -> Vec<&Value> {
        let events = self.events.iter().filter(|event| event["method"] == name);
        events.map(|event| &event["params"]).collect()
    }

    /// The value of an expression of JavaScript in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", parameters);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        self.wait_for_value(expression, &Value::Bool(true));
    }

    /// Waits until an expression has this value.
    pub(crate) fn wait_for_value(&mut self, expression: &str, expected: &Value) {
        let began = Instant::now();
        loop {
            let found = self.evaluate(expression);
            if found == *expected {
                return;
            }
            let text = self.evaluate("document.body.innerText");
            assert!(
                began.elapsed() < PATIENCE,
                "{expression} is {found}, not {expected}: {text}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Gives the window a size in CSS pixels.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Has the user prefer `dark` or `light` pages.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
    }

    /// Writes a picture of the page to a PNG file.
    pub(crate) fn screenshot(&mut self, file: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(file).unwrap())
            .spawn()
            .unwrap();
        let text = shot["data"].as_str().unwrap();
        let mut input = decoder.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        assert!(decoder.wait().unwrap().success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
