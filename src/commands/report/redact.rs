//! Takes out of a text what tells who and where its reader is: home folders, user and host names, keys.
//!
//! | in the text | becomes |
//! | --- | --- |
//! | a home folder, with either slash, with doubled ones, as a URL | `~` |
//! | a name behind `/home/`, `/Users/` or `C:\Users\` | `<user>` |
//! | the user's name as a word | `<user>` |
//! | the host's name as a word | `<host>` |
//! | `name:password@` in a URL, tokens of Hugging Face and of others | `<credentials>@`, `<token>` |
//!
//! Case does not matter: Windows' paths have none. A name that is also a word of the language is taken out, too.

use std::path::PathBuf;

use serde_json::Value;

pub const HOME: &str = "~";
pub const USER: &str = "<user>";
pub const HOST: &str = "<host>";
const CREDENTIALS: &str = "<credentials>";
const TOKEN: &str = "<token>";

/// Folders whose folders are users'.
const USERS: [&str; 2] = ["home", "users"];
/// Folders beside users' that are nobody's.
const NOBODYS: [&str; 5] = ["public", "default", "shared", "all users", USER];
/// How secret tokens begin.
const TOKENS: [&str; 3] = ["hf_", "sk-", "sk_"];
/// Shorter words behind those beginnings are no tokens.
const SHORTEST_TOKEN: usize = 12;

#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// Each in all its forms, the longest first.
    homes: Vec<String>,
    users: Vec<String>,
    hosts: Vec<String>,
}

impl Redactor {
    /// For this user on this machine.
    pub fn of_this_machine() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let own = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_path_buf());
        let named = ["HOME", "USERPROFILE"].into_iter().filter_map(variable).map(PathBuf::from);
        let homes: Vec<PathBuf> = own.into_iter().chain(named).collect();
        let users = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(variable).collect();
        let hosts = ["HOSTNAME", "COMPUTERNAME"].into_iter().filter_map(variable);
        Self::new(&homes, users, hosts.chain(sysinfo::System::host_name().ok()).collect())
    }

    /// A home folder's last part counts as a user's name, and a host's first label as its name.
    pub fn new(homes: &[PathBuf], users: Vec<String>, hosts: Vec<String>) -> Self {
        let mut all_homes = Vec::new();
        let mut all_users = users;
        for home in homes {
            // It may be a link.
            let real = home.canonicalize().unwrap_or_else(|_| home.clone());
            for home in [home, &real] {
                let text = home.to_string_lossy();
                let text = text.trim_start_matches(r"\\?\").trim_end_matches(['/', '\\']);
                if let Some(name) = text.rsplit(['/', '\\']).next() {
                    all_users.push(name.to_owned());
                }
                // A root is nobody's home, and would be found everywhere.
                if text.chars().filter(|c| matches!(c, '/' | '\\')).count() >= 1 && text.len() > 3 {
                    all_homes.extend(forms(text));
                }
            }
        }
        let labels: Vec<String> = hosts.iter().filter_map(|host| host.split('.').next()).map(str::to_owned).collect();
        Self {
            homes: longest_first(all_homes, 1),
            users: longest_first(all_users, 2),
            hosts: longest_first([hosts, labels].concat(), 2),
        }
    }

    pub fn text(&self, text: &str) -> String {
        let mut text = without_credentials(text);
        text = without_tokens(&text);
        for home in &self.homes {
            text = replace(&text, home, HOME, ends_a_path_part);
        }
        text = without_users_folders(&text);
        for (names, mark) in [(&self.hosts, HOST), (&self.users, USER)] {
            for name in names {
                text = replace(&text, name, mark, ends_a_word);
            }
        }
        text
    }

    /// All texts in it; keys are ours.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.json(value)),
            Value::Object(values) => values.values_mut().for_each(|value| self.json(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// How a path is written: as it is, with the other slash, with doubled backslashes, in a URL.
fn forms(path: &str) -> Vec<String> {
    let slashes = path.replace('\\', "/");
    let backslashes = path.replace('/', "\\");
    let doubled = backslashes.replace('\\', r"\\");
    let url = slashes.replace(' ', "%20");
    vec![path.to_owned(), slashes, backslashes, doubled, url]
}

fn longest_first(mut texts: Vec<String>, shortest: usize) -> Vec<String> {
    texts.iter_mut().for_each(|text| *text = text.trim().to_lowercase());
    texts.retain(|text| text.chars().count() >= shortest);
    texts.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    texts.dedup();
    texts
}

/// Whether what was found stands for itself, by the characters before and after it.
type Ends = fn(Option<char>, Option<char>) -> bool;

fn ends_a_word(before: Option<char>, after: Option<char>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    !is_word(before) && !is_word(after)
}

fn ends_a_path_part(_before: Option<char>, after: Option<char>) -> bool {
    !after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
}

/// Replaces what stands for itself; `wanted` is in small letters.
fn replace(text: &str, wanted: &str, mark: &str, ends: Ends) -> String {
    let chars: Vec<char> = text.chars().collect();
    let wanted: Vec<char> = wanted.chars().collect();
    let mut replaced = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = at + wanted.len();
        let is_same = |(a, b): (&char, &char)| a == b || a.to_lowercase().eq(std::iter::once(*b));
        let found = end <= chars.len()
            && chars[at..end].iter().zip(&wanted).all(is_same)
            && ends(at.checked_sub(1).map(|at| chars[at]), chars.get(end).copied());
        if found {
            replaced.push_str(mark);
            at = end;
        } else {
            replaced.push(chars[at]);
            at += 1;
        }
    }
    replaced
}

/// `/home/ann/x` and `D:\Users\Ann Smith\x`, whoever that is.
fn without_users_folders(text: &str) -> String {
    let is_slash = |c: char| matches!(c, '/' | '\\');
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_slash) {
        let behind = rest[at..].trim_start_matches(is_slash);
        let start = rest.len() - behind.len();
        result.push_str(&rest[..start]);
        rest = behind;
        let is_users = |name: &&&str| {
            rest.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name))
                && rest[name.len()..].starts_with(is_slash)
        };
        if let Some(users) = USERS.iter().find(is_users) {
            let behind = rest[users.len()..].trim_start_matches(is_slash);
            let name = user_name(behind);
            result.push_str(&rest[..rest.len() - behind.len()]);
            rest = &behind[name.len()..];
            let is_nobodys = name.is_empty() || NOBODYS.iter().any(|nobody| name.eq_ignore_ascii_case(nobody));
            result.push_str(if is_nobodys { name } else { USER });
        }
    }
    result + rest
}

/// The part of a path at the start of `text`. A space is part of it where the path goes on behind it.
fn user_name(text: &str) -> &str {
    let end = text.find(['/', '\\', '\'', '"', '`', ':', ',', ';', ')', '\n']);
    let part = &text[..end.unwrap_or(text.len())];
    let goes_on = end.is_some_and(|end| text[end..].starts_with(['/', '\\']));
    if goes_on { part } else { part.split(char::is_whitespace).next().unwrap_or_default() }
}

/// `https://ann:secret@host/` becomes `https://<credentials>@host/`.
fn without_credentials(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        result.push_str(head);
        let authority = tail.find(|c: char| matches!(c, '/' | '\'' | '"') || c.is_whitespace()).unwrap_or(tail.len());
        rest = match tail[..authority].rfind('@') {
            Some(at) => {
                result.push_str(CREDENTIALS);
                &tail[at..]
            }
            None => tail,
        };
    }
    result + rest
}

fn without_tokens(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut result = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c| !is_part(c)) {
        let word = piece.trim_end_matches(|c| !is_part(c));
        let is_token = word.len() >= SHORTEST_TOKEN && TOKENS.iter().any(|start| word.starts_with(start));
        match is_token {
            true => result.extend([TOKEN, &piece[word.len()..]]),
            false => result.push_str(piece),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn linux() -> Redactor {
        Redactor::new(&["/home/ann".into()], vec!["ann".into()], vec!["annes-laptop.example.org".into()])
    }

    fn windows() -> Redactor {
        Redactor::new(&[r"C:\Users\Ann Smith".into()], vec!["Ann Smith".into()], vec!["DESKTOP-7Q".into()])
    }

    #[test]
    fn linux_homes_users_and_hosts() {
        for (text, expected) in [
            ("/home/ann/.cache/ortalk/lib", "~/.cache/ortalk/lib"),
            ("model '/home/ann' is no file", "model '~' is no file"),
            ("file:///home/ann/m.gguf", "file://~/m.gguf"),
            ("/home/anna/m.gguf and /home/ann-2/x", "/home/<user>/m.gguf and /home/<user>/x"),
            ("/mnt/home/bob/m, /var/home/bob: full", "/mnt/home/<user>/m, /var/home/<user>: full"),
            ("/Users/bob/m and /Users/Shared/m", "/Users/<user>/m and /Users/Shared/m"),
            ("/data/ann/m.gguf", "/data/<user>/m.gguf"),
            ("ann's model of Ann, ANN_x.onnx", "<user>'s model of <user>, <user>_x.onnx"),
            ("channel joann planned", "channel joann planned"),
            ("built on annes-laptop.example.org", "built on <host>"),
            ("Linux version 6.1 (root@annes-laptop)", "Linux version 6.1 (root@<host>)"),
            ("/homes/x and home/x and /home", "/homes/x and home/x and /home"),
            ("//home//ann//x", "//home//<user>//x"),
            ("", ""),
        ] {
            assert_eq!(linux().text(text), expected);
        }
    }

    #[test]
    fn windows_paths_in_every_form() {
        for (text, expected) in [
            (r"C:\Users\Ann Smith\AppData\Local\ortalk", r"~\AppData\Local\ortalk"),
            (r"c:\users\ann smith\x", r"~\x"),
            ("C:/Users/Ann Smith/x", "~/x"),
            (r#""C:\\Users\\Ann Smith\\x""#, r#""~\\x""#),
            (r"\\?\C:\Users\Ann Smith\x", r"\\?\~\x"),
            ("file:///C:/Users/Ann%20Smith/x", "file:///~/x"),
            (r"C:\Users\ANNSMI~1\AppData", r"C:\Users\<user>\AppData"),
            (r"D:\Users\Bob Jones\x and D:\Users\Public\x", r"D:\Users\<user>\x and D:\Users\Public\x"),
            (r"'C:\Users\bob' is missing", r"'C:\Users\<user>' is missing"),
            ("/mnt/c/Users/bob/x", "/mnt/c/Users/<user>/x"),
            (r"CORP\Ann Smith on DESKTOP-7Q", r"CORP\<user> on <host>"),
            (r"C:\Windows\System32\x.dll", r"C:\Windows\System32\x.dll"),
        ] {
            assert_eq!(windows().text(text), expected);
        }
    }

    #[test]
    fn secrets_of_other_kinds() {
        for (text, expected) in [
            ("HF_ENDPOINT=https://ann:pa55@hub.example/x", "HF_ENDPOINT=https://<credentials>@hub.example/x"),
            ("http://hub.example/a@b", "http://hub.example/a@b"),
            ("token hf_AbCdEfGhIjKlMn, again", "token <token>, again"),
            ("hf_hub is a package; sk-1", "hf_hub is a package; sk-1"),
            ("Authorization: sk-abcdefghijklmnop\n", "Authorization: <token>\n"),
        ] {
            assert_eq!(linux().text(text), expected);
        }
    }

    #[test]
    fn a_root_is_nobody_s_home_and_a_letter_nobody_s_name() {
        let redactor = Redactor::new(&["/".into(), "/root".into()], vec!["a".into()], vec![]);
        assert_eq!(redactor.text("/usr/lib/a of a machine, /root/x"), "/usr/lib/a of a machine, ~/x");
    }

    #[test]
    fn texts_within_json() {
        let mut value = serde_json::json!({"ann": ["/home/ann/x", {"user": "Ann", "n": 1}], "b": null});
        linux().json(&mut value);
        assert_eq!(value, serde_json::json!({"ann": ["~/x", {"user": "<user>", "n": 1}], "b": null}));
    }

    /// Whatever stands around it, the name is gone; and a text without one is left alone.
    #[test]
    fn nothing_gets_through() {
        use proptest::prelude::*;
        proptest!(|(before in "[ /\\\\'\":=@.,(]{0,3}", after in "[ /\\\\'\":=.,)]{0,3}", tail in "[a-z/\\\\ ]{0,9}")| {
            for secret in ["ann", "Ann", "/home/ann", "/HOME/Ann", "annes-laptop"] {
                let text = format!("{tail}{before}{secret}{after}{tail}");
                let redacted = linux().text(&text).to_lowercase();
                let words: Vec<_> = redacted.split(|c: char| !c.is_alphanumeric()).collect();
                let own: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
                // Where it stood for itself.
                if own.iter().any(|word| word == "ann") {
                    prop_assert!(!words.contains(&"ann"), "{} became {}", text, redacted);
                }
            }
            let clean = format!("{before}lane{after}{tail}").replace("ann", "");
            if !clean.to_lowercase().contains("home") && !clean.contains("://") {
                prop_assert_eq!(linux().text(&clean), clean);
            }
        });
    }
}
