use std::process::Command;

use crate::binary::Project;

/// Every verb that `--help` lists, those below another included, as words.
fn verbs(project: &Project, above: &[&str]) -> Vec<Vec<String>> {
    let mut args = above.to_vec();
    args.push("--help");
    let help = project.run(&args).ok().stdout;
    let Some((_, rest)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let names = lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    let mut found = Vec::new();
    for name in names {
        let mut verb: Vec<&str> = above.to_vec();
        verb.push(name);
        let below = verbs(project, &verb);
        found.push(verb.iter().map(ToString::to_string).collect());
        found.extend(below);
    }
    found
}

#[test]
fn every_verb_has_a_man_page() {
    let project = Project::new("");
    project.run(&["man", "pages/man1"]).ok();
    let verbs = verbs(&project, &[]);
    assert!(verbs.len() > 10, "{verbs:?}");
    for verb in verbs {
        let name = format!("postrider-{}.1", verb.join("-"));
        let page = std::fs::read_to_string(project.path("pages/man1").join(&name));
        let page = page.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    let main = project.run(&["man"]).ok();
    main.prints(".TH postrider 1").prints("postrider\\-status");
}

#[test]
fn every_verb_is_completed_in_every_shell() {
    let project = Project::new("");
    let verbs = verbs(&project, &[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = project.run(&["completions", shell]).ok().stdout;
        for verb in &verbs {
            let name = verb.last().unwrap();
            assert!(script.contains(name), "{shell}: {verb:?}");
        }
        assert!(
            script.contains("--max-age") || script.contains("max-age"),
            "{shell}"
        );
    }
    project.run(&["completions", "tcsh"]).exits(2).says("bash");
}

/// Bash itself takes the script, and completes by it.
#[test]
fn bash_completes_verbs_and_flags() {
    let project = Project::new("");
    let script = project.run(&["completions", "bash"]).ok().stdout;
    let path = project.path("postrider.bash");
    std::fs::write(&path, script).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&path).output().unwrap();
    assert!(
        checked.status.success() && checked.stderr.is_empty(),
        "{checked:?}"
    );
    let complete = |words: &str, index: usize| {
        let source = path.display();
        let script = format!(
            "source {source}; COMP_WORDS=({words}); COMP_CWORD={index}; \
             _postrider postrider \"${{COMP_WORDS[{index}]}}\" \"${{COMP_WORDS[{index}-1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let ran = Command::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    assert_eq!(complete("postrider stat", 1).trim(), "status");
    let flags = complete("postrider status --max", 2);
    assert!(
        flags.contains("--max-age") && flags.contains("--max-dead"),
        "{flags}"
    );
}
