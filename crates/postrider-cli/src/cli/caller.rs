//! Who runs this command, for the audit.

use postrider::core::Actor;
use rustix::process::getuid;
use rustix::system::uname;

/// The user and the host, as `anna@db-1`. The user is the process's own, whatever the environment says; where root was
/// borrowed by sudo, also who borrowed it.
pub(crate) fn actor() -> Actor {
    let uid = getuid();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = user_name(&passwd, uid.as_raw()).unwrap_or_else(|| format!("uid {}", uid.as_raw()));
    let borrower = std::env::var("SUDO_USER").ok().filter(|_| uid.is_root());
    let user = borrower.map_or(user.clone(), |borrower| format!("{borrower} as {user}"));
    Actor(format!("{user}@{}", uname().nodename().to_string_lossy()))
}

fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let found: u32 = fields.nth(1)?.parse().ok()?;
        (found == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\nbroken\nanna:x:1001:100:Anna,,,:/home/anna:/bin/sh\n";
        assert_eq!(user_name(passwd, 1001).as_deref(), Some("anna"));
        assert_eq!(user_name(passwd, 7), None);
        assert!(actor().0.contains('@'));
    }
}
