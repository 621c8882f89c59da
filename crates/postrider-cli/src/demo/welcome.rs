//! What the demo says: where it is, what runs, what to try next, and how it ended.

use std::path::Path;

use super::database::{Found, SCHEMA};
use super::folder::Folder;
use super::settings::Settings;

pub(super) struct Welcome<'a> {
    pub(super) settings: &'a Settings,
    pub(super) folder: &'a Folder,
    pub(super) config: &'a Path,
    pub(super) rate: u32,
    pub(super) found: Found,
    /// Topics that this start has created on a real broker.
    pub(super) created: Vec<String>,
}

impl Welcome<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = format!("Postrider demo: {}/\n", self.address());
        text.push_str(&self.what_runs());
        text.push_str(&self.what_to_try());
        text.push_str(&self.what_is_kept());
        text.push_str("Stop it with Ctrl-C.\n");
        text
    }

    fn address(&self) -> String {
        format!("http://{}", self.settings.listen)
    }

    fn what_runs(&self) -> String {
        let Settings { topic, kafka, .. } = self.settings;
        let broker = match kafka {
            Some(bootstrap) => format!("of Kafka at {bootstrap}"),
            None => "of a broker in this process".to_owned(),
        };
        let orders = match self.rate {
            0 => "places your orders".to_owned(),
            1 => "places an order a second".to_owned(),
            rate => format!("places {rate} orders a second"),
        };
        format!(
            "
What runs
  order service  {orders}; an order and its event are one transaction
  outbox         table outbox_events {}
  relay          publishes what is committed to topic {topic} {broker}
  billing        writes an invoice for every order, once
  shipping       ships every order, once: glass after some tries, pianos never (they go to {topic}.dlt)
  dashboard      at the address above
",
            self.place()
        )
    }

    /// Where the tables are. Never the URL, which may hold a password.
    fn place(&self) -> String {
        match self.is_on_postgres() {
            true => format!("in schema {SCHEMA} of your Postgres"),
            false => format!("in a SQLite file in {}", self.folder.path().display()),
        }
    }

    fn is_on_postgres(&self) -> bool {
        !self.settings.database.starts_with("sqlite:")
    }

    fn what_to_try(&self) -> String {
        let (address, topic) = (self.address(), &self.settings.topic);
        let order = |item: &str, quantity: u32| {
            format!(
                "curl -s {address}/demo/orders -H content-type:application/json \
                 -d '{{\"customer\":\"you\",\"item\":\"{item}\",\"quantity\":{quantity}}}'"
            )
        };
        let (tea, none, piano) = (order("tea", 2), order("tea", 0), order("piano", 1));
        let (program, config) = (program(), quoted(&self.config.display().to_string()));
        format!(
            "
Emit an event; the answer has its id
  {tea}

Read what a topic holds
  curl -s '{address}/demo/topics/{topic}?last=3'
  curl -s '{address}/demo/topics/{topic}.dlt?last=3'

Ask the tables, in another terminal
  {program} status --config {config}
  {program} dead list --config {config}

Then
  1. An order of 0 pieces does not fit its schema. Its record is dead and its customer's key is
     parked: later orders of that customer wait behind it, those of others do not. With orders
     that come by themselves there is one in the first seconds. Make another:
     {none}
  2. Find it on the dashboard under Dead letters. Resend it: it fails the same way. Discard it:
     the key is free, and what waited is published.
  3. What a consumer gives up is a dead letter on the broker, and holds nobody up:
     {piano}
"
        )
    }

    fn what_is_kept(&self) -> String {
        let mut text = "\n".to_owned();
        if self.is_on_postgres() {
            let did = match self.found {
                Found::Nothing => "was created",
                Found::Data => "was there, and the demo goes on with its data",
            };
            text.push_str(&format!(
                "Schema {SCHEMA} {did}. It stays; DROP SCHEMA {SCHEMA} CASCADE removes it.\n"
            ));
        }
        if self.settings.kafka.is_some() {
            let topic = &self.settings.topic;
            let did = match self.created.as_slice() {
                [] => "were there".to_owned(),
                created => format!("were created ({})", created.join(", ")),
            };
            text.push_str(&format!(
                "Topics {topic} and {topic}.dlt {did}. They stay, with consumer groups {topic}.billing, \
                 {topic}.shipping and {topic}.window.\n"
            ));
        }
        let folder = self.folder.path().display();
        let fate = match (self.folder.is_removed_at_end(), self.found) {
            (true, _) => "is removed at the end; --dir DIR keeps it",
            (false, Found::Nothing) => "stays",
            (false, Found::Data) => "stays; the demo goes on with its data",
        };
        text.push_str(&format!("The folder {folder} {fate}.\n"));
        text
    }
}

/// What is said at the end.
pub(super) fn farewell(folder: &Folder) -> String {
    let path = folder.path().display();
    match folder.is_removed_at_end() {
        true => format!("\nStopped. The folder {path} was removed.\n"),
        false => format!(
            "\nStopped. Start again with the same data: {} demo --dir {}\n",
            program(),
            quoted(&path.to_string())
        ),
    }
}

/// How this program is called from where we are.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    if !called.to_string_lossy().contains('/') {
        return "postrider".into();
    }
    let (Ok(program), Ok(here)) = (std::env::current_exe(), std::env::current_dir()) else {
        return quoted(&called.to_string_lossy());
    };
    let near = program.strip_prefix(&here).unwrap_or(&program);
    quoted(&near.display().to_string())
}

/// As a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_shell_reads_a_word_back_as_it_was() {
        for word in [
            "/tmp/a-b_c.toml",
            "/tmp/a b",
            "it's",
            "$HOME;`x`",
            "",
            "ä\n",
        ] {
            let read = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(read.stdout).unwrap(), word);
        }
        assert_eq!(quoted("/tmp/a"), "/tmp/a");
    }
}
