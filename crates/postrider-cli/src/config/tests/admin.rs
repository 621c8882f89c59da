//! Tokens and their roles.

use super::super::Role;
use super::*;

fn admin(lines: &str) -> String {
    format!("{GOOD}[admin]\n{lines}")
}

#[test]
fn tokens_have_names_and_roles() {
    let config = read(&admin(
        r#"
        listen = "0.0.0.0:9464"
        token = "the-first-one-is-short"
        [admin.tokens.grafana]
        role = "view"
        token = "only-for-looking-at-it"
        [admin.tokens.on-call]
        role = "operate"
        token = "for-the-one-on-call-at-night"
        "#,
    ))
    .unwrap();
    let roles: Vec<(&str, Role)> = config
        .admin
        .tokens
        .iter()
        .map(|(name, token)| (name.as_str(), token.role))
        .collect();
    assert_eq!(
        roles,
        [
            ("grafana", Role::View),
            ("on-call", Role::Operate),
            ("token", Role::Operate)
        ]
    );
}

#[test]
fn named_tokens_alone_open_an_address_to_others() {
    let tokens = "[admin.tokens.ops]\nrole = \"operate\"\ntoken = \"a-token-of-some-length\"";
    assert!(read(&admin(&format!("listen = \"0.0.0.0:1\"\n{tokens}"))).is_ok());
}

#[test]
fn a_token_comes_from_the_environment_too() {
    let variables = [
        ("POSTRIDER__ADMIN__TOKENS__OPS__ROLE", "view"),
        ("POSTRIDER__ADMIN__TOKENS__OPS__TOKEN", "env:OPS"),
        ("OPS", "1234567812345678"),
    ];
    let config = read_with(GOOD, variables.into()).unwrap();
    let token = &config.admin.tokens["ops"];
    assert_eq!(
        (token.role, token.token.expose()),
        (Role::View, "1234567812345678")
    );
}

#[test]
fn a_wrong_token_is_refused_without_being_quoted() {
    let named = |name: &str, rest: &str| format!("[admin.tokens.{name}]\n{rest}");
    let view = "role = \"view\"\ntoken = \"7072721-and-much-more\"";
    for (lines, parts) in [
        (
            "token = \"7072721\"".to_owned(),
            vec!["admin.token", "16 to 256", "this one has 7"],
        ),
        (
            format!("token = \"{}\"", "7072721".repeat(40)),
            vec!["admin.token", "16 to 256"],
        ),
        (
            "token = \"7072721 has spaces in it\"".to_owned(),
            vec!["admin.token", "without spaces"],
        ),
        (
            "token = \"7072721-ünïcödé-letters\"".to_owned(),
            vec!["ASCII"],
        ),
        (
            format!("token = \"7072721-and-much-more\"\n{}", named("ops", view)),
            vec!["admin.tokens.ops.token", "same as that of `token`"],
        ),
        (
            format!(
                "token = \"7072721-and-something-else\"\n{}",
                named("token", view)
            ),
            vec!["admin.tokens.token", "already"],
        ),
        (
            named("ops", "token = \"7072721-and-much-more\""),
            vec!["admin.tokens.ops.role", "\"view\" or \"operate\""],
        ),
        (
            named("ops", "role = \"view\""),
            vec!["admin.tokens.ops.token", "env:NAME"],
        ),
        (
            named("ops", &view.replace("view", "root")),
            vec!["root", "view", "operate"],
        ),
        (
            named("\"o p s\"", view),
            vec!["admin.tokens", "1 to 63 letters"],
        ),
    ] {
        let text = refused(&admin(&lines));
        says(&text, &parts);
        assert!(!text.contains("7072721"), "{text}");
    }
}
