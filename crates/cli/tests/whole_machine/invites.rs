//! Invites, and the files that hold them.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::Daemon;
use crate::network::{LINKS, Network, ip, text};

#[test]
fn invites_that_do_not_do_are_told_in_a_line() {
    let Some(net) = Network::set_up() else { return };
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:0"]);
    let refuse = |invite: &str, part: &str| {
        let output = net.run(&net.client, &net.up_args(invite));
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{invite}: {output:?}");
        let lines = said.lines().filter(|line| line.starts_with("weftline: ")).count();
        assert_eq!(lines, 1, "{said}");
        net.restored(&before);
    };
    refuse("hello", "that is no invite");
    refuse(&invite[..invite.len() - 3], "damaged or cut off");
    let none = net.run(&net.client, &["up", "--state-dir", net.state()]);
    assert!(text(&none.stderr).contains("none kept in"), "{none:?}");
    let down = net.run(&net.client, &["down"]);
    assert!(text(&down.stderr).contains("this machine is not up"), "{down:?}");

    // One for another machine, the same again, and taken back.
    let args = ["invite", "phone", "--state-dir", net.state()];
    let phone = text(&net.run(&net.server, &args).stdout).trim().to_owned();
    assert!(phone.starts_with("weftline:") && phone != invite, "{phone}");
    assert_eq!(text(&net.run(&net.server, &args).stdout).trim(), phone);
    server.logs("has been read again");
    let up = net.up(&phone);
    let revoked = net.run(&net.server, &[&args[..], &["--revoke"]].concat());
    assert!(revoked.status.success(), "{revoked:?}");
    assert!(text(&revoked.stdout).contains("lets it in no more"), "{revoked:?}");
    server.logs("has been read again");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    refuse(&phone, "has been revoked or replaced");
    let unknown = net.run(&net.server, &[&args[..], &["--revoke"]].concat());
    assert!(text(&unknown.stderr).contains("no invite for 'phone'"), "{unknown:?}");

    // A server that is not there any more, and another one in its place.
    drop(server);
    refuse(&invite, "check that 'weftline serve --internet' runs there");
}

#[test]
fn what_a_revoked_invite_means_is_said_as_it_is() {
    let Some(net) = Network::set_up() else { return };
    let config = net.run.path().join("serve.toml");
    fs::write(&config, "listen = [\"0.0.0.0:0\"]\n").unwrap();
    let (server, _) = net.serve(&["--config", config.to_str().unwrap()]);
    let phone = text(&net.invite(&["phone"]).stdout).trim().to_owned();
    // The server cannot read its configuration any more, and so not its tokens.
    fs::write(&config, "listen = 7\n").unwrap();
    let revoked = net.invite(&["phone", "--revoke"]);
    let said = text(&revoked.stderr);
    assert!(!revoked.status.success() && revoked.stdout.is_empty(), "{revoked:?}");
    assert!(said.contains("goes on with what it had") && said.contains("may let it in"), "{said}");
    server.logs("nothing has changed");
    let up = net.up(&phone);
    // An invite that it does not know yet.
    let tablet = net.invite(&["tablet"]);
    assert!(text(&tablet.stdout).starts_with("weftline:"), "{tablet:?}");
    assert!(text(&tablet.stderr).contains("only when it has read that"), "{tablet:?}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    // None runs.
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    let revoked = net.invite(&["tablet", "--revoke"]);
    assert!(text(&revoked.stdout).contains("the server does not run now"), "{revoked:?}");
}

#[test]
fn an_invite_is_no_output_but_on_a_terminal_and_is_not_lost_with_a_start() {
    let Some(net) = Network::set_up() else { return };
    let taken = net.server.run(|| TcpListener::bind("0.0.0.0:4433")).unwrap();
    let args = ["serve", "--internet", "--control", "none", "--state-dir", net.state()];
    let args = [&args[..], &["--listen", "0.0.0.0:4433"]].concat();
    let failed = net.run(&net.server, &args);
    assert!(text(&failed.stderr).contains("4433") && !failed.status.success(), "{failed:?}");
    drop(taken);
    let mut server = Daemon::spawn(&mut net.command(&net.server, &args));
    server.says("fingerprint");
    server.says("listening on");
    server.logs("run 'weftline invite first");
    let invite = text(&net.invite(&["first"]).stdout).trim().to_owned();
    let up = net.up(&invite);
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    server.signal("-TERM");
    let (status, rest) = server.end();
    assert_eq!((status, &*rest), (Some(0), ""));
}

#[test]
fn an_invite_expires() {
    let Some(net) = Network::set_up() else { return };
    let (server, _) = net.serve(&["--listen", "0.0.0.0:0"]);
    let made = net.invite(&["phone", "--expires", "7d"]);
    let phone = text(&made.stdout).trim().to_owned();
    let up = net.up(&phone);
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));
    server.logs("has been read again");
    // Its time goes by.
    let file = net.state.path().join("internet.tokens");
    let tokens = fs::read_to_string(&file).unwrap();
    let line = tokens.lines().find(|line| line.starts_with("phone until ")).unwrap();
    let (name, secret) = line.split_once("Z: ").unwrap();
    let (name, _) = name.split_once(" until ").unwrap();
    let over = format!("{name} until 2020-01-01T00:00:00Z: {secret}");
    fs::write(&file, tokens.replace(line, &over)).unwrap();
    server.signal("-HUP");
    server.logs("has been read again");
    let refused = net.run(&net.client, &net.up_args(&phone));
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("the invite has expired"), "{said}");
    // It is not shown as if it were good, and can be let in again.
    let shown = net.invite(&["phone"]);
    assert!(text(&shown.stderr).contains("has expired"), "{shown:?}");
    for wrong in ["0s", "next week", "100000years"] {
        assert_eq!(net.invite(&["phone", "--expires", wrong]).status.code(), Some(2), "{wrong}");
    }
    let again = net.invite(&["phone", "--expires", "12h"]);
    assert_eq!(text(&again.stdout).trim(), phone, "{again:?}");
    net.up(&phone);
}

/// Makes all in a directory another user's.
fn give_away(dir: &Path, user: u32) {
    let entries = fs::read_dir(dir).unwrap().map(|one| one.unwrap().path());
    for path in entries.chain([dir.to_owned()]) {
        std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    }
}

#[test]
fn root_is_led_nowhere_by_the_files_of_a_server_s_user() {
    const USER: u32 = 1234;
    let Some(net) = Network::set_up() else { return };
    let (server, _) = net.serve(&["--listen", "0.0.0.0:0"]);
    let state = net.state.path();
    let [tokens, about, edit] =
        ["internet.tokens", "internet.toml", "internet.edit"].map(|name| state.join(name));
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    give_away(state, USER);
    mode(&tokens, 0o640).unwrap();
    // A file keeps its owner and mode, and the server hears of it.
    let made = net.invite(&["phone"]);
    assert!(text(&made.stdout).starts_with("weftline:"), "{made:?}");
    server.logs("has been read again");
    let of = |path: &Path| fs::metadata(path).map(|is| (is.uid(), is.gid(), is.mode() & 0o777));
    assert_eq!(of(&tokens).unwrap(), (USER, USER, 0o640));
    assert_eq!(of(&edit).unwrap(), (USER, USER, 0o600));

    // A file of root's, that only root can read or change.
    let own = net.run.path().join("internet.tokens");
    let line = "other: the first secret of all\n";
    fs::write(&own, line).unwrap();
    mode(net.run.path(), 0o755).unwrap();
    mode(&own, 0o600).unwrap();
    let kept = fs::read_to_string(&tokens).unwrap();
    let fails = |part: &str| {
        let got = net.invite(&["tablet"]);
        let said = text(&got.stderr);
        assert!(!got.status.success() && got.stdout.is_empty() && said.contains(part), "{got:?}");
        assert_eq!(fs::read_to_string(&own).unwrap(), line);
    };
    // By a link in its place, by what the server has noted, and by a link that is opened to be locked.
    fs::remove_file(&tokens).unwrap();
    symlink(&own, &tokens).unwrap();
    fails("Permission denied");
    fs::remove_file(&tokens).unwrap();
    fs::write(&tokens, kept).unwrap();
    give_away(state, USER);
    let noted = fs::read_to_string(&about).unwrap();
    let elsewhere = noted.replace(tokens.to_str().unwrap(), own.to_str().unwrap());
    fs::write(&about, &elsewhere).unwrap();
    fails("name it with --token-file");
    let named = net.invite(&["tablet", "--token-file", own.to_str().unwrap()]);
    assert!(text(&named.stdout).starts_with("weftline:"), "{named:?}");
    assert!(fs::read_to_string(&own).unwrap().contains("tablet: "));
    assert_eq!(of(&own).unwrap(), (0, 0, 0o600));
    fs::write(&own, line).unwrap();
    fs::write(&about, &noted).unwrap();
    fs::remove_file(&edit).unwrap();
    symlink(&own, &edit).unwrap();
    fails("internet.edit");
    fs::remove_file(&edit).unwrap();

    // Nor does it end a process because a file has its number.
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));
    let mut innocent = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let lock = fs::File::options().write(true).open(state.join("internet.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(state.join("internet.lock"), innocent.id().to_string()).unwrap();
    let got = net.invite(&["tablet"]);
    assert!(text(&got.stderr).contains("it is no 'weftline serve'"), "{got:?}");
    drop(innocent.stdin.take());
    assert!(innocent.wait().unwrap().success(), "it has ended by itself");
    drop(lock);

    // Where its user has no way to the directory, as to that of a unit with a user of its own.
    let closed = net.run.path().join("closed");
    fs::create_dir(&closed).unwrap();
    mode(&closed, 0o700).unwrap();
    let inside = closed.join("weftline");
    assert!(Command::new("cp").arg("-a").arg(state).arg(&inside).status().unwrap().success());
    let moved = noted.replace(state.to_str().unwrap(), inside.to_str().unwrap());
    fs::write(inside.join("internet.toml"), moved).unwrap();
    let args = ["invite", "last", "--state-dir", inside.to_str().unwrap()];
    let got = net.run(&net.server, &args);
    assert!(text(&got.stdout).starts_with("weftline:"), "{got:?}");
    assert!(fs::read_to_string(inside.join("internet.tokens")).unwrap().contains("last: "));
}

#[test]
fn the_doctor_looks_at_a_machine_before_and_while_it_is_up() {
    let Some(net) = Network::set_up() else { return };
    let before = net.snapshot();
    let (server, invite) = net.serve(&["--listen", "0.0.0.0:4433"]);
    let doctor = |args: &[&str]| {
        let own = ["doctor", "up", "--state-dir", net.state(), "--json"];
        let output = net.run(&net.client, &[&own, args].concat());
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.success(), said["errors"] == 0, "{output:?}");
        said
    };
    let finds = |said: &serde_json::Value, level: &str, check: &str| {
        let findings = said["findings"].as_array().unwrap();
        let one = findings.iter().find(|one| one["level"] == level && one["check"] == check);
        one.unwrap_or_else(|| panic!("{level} {check}: {said:#}"))["found"].to_string()
    };
    let said = doctor(&[&invite]);
    assert_eq!(said["errors"], 0, "{said:#}");
    for link in ["wlan0", "wwan0"] {
        assert!(said.to_string().contains(&format!("through {link}")), "{said:#}");
    }
    for link in ["wlan0", "wwan0"] {
        let lane = format!("lane {link}");
        let findings = said["findings"].as_array().unwrap();
        let of_lane: Vec<_> = findings.iter().filter(|one| one["subject"] == *lane).collect();
        let [one] = of_lane[..] else { panic!("{said:#}") };
        assert!(one["level"] == "ok" && one["found"].to_string().contains("UDP reaches"), "{one}");
    }
    net.restored(&before);
    // A network that lets no UDP through.
    crate::lanes::block_udp(&net, 4433, true);
    let said = doctor(&[&invite]);
    assert_eq!(said["errors"], 0, "{said:#}");
    assert!(finds(&said, "warning", "blocked").contains("go to the server over TCP"), "{said:#}");
    crate::lanes::block_udp(&net, 4433, false);

    let up = net.up(&invite);
    let said = doctor(&[]);
    assert_eq!(said["errors"], 0, "{said:#}");
    assert!(finds(&said, "ok", "machine").contains("this machine is up"), "{said:#}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(0));

    let said = doctor(&["--path", "wifi=wlan0", "--path", "lte=wwan7"]);
    // It may come later; the other one is enough.
    assert!(finds(&said, "warning", "link").contains("wwan7"), "{said:#}");
    assert!(!said.to_string().contains("lane lte"), "{said:#}");
    drop(server);
    finds(&doctor(&[]), "error", "port");
    // A server for something else.
    let token_file = net.state.path().join("internet.tokens");
    let args = ["serve", "--forward", "127.0.0.1:9", "--state-dir", net.state(), "--token-file"];
    let place = [token_file.to_str().unwrap(), "--listen", "0.0.0.0:4433", "--control", "none"];
    let mut other = Daemon::spawn(&mut net.command(&net.server, &[&args[..], &place].concat()));
    other.says("fingerprint");
    other.says("listening on");
    let said = doctor(&[]);
    assert!(finds(&said, "error", "forward").contains("one target only"), "{said:#}");

    for _ in LINKS {
        ip(&net.client, "route del default");
    }
    let said = doctor(&[]);
    assert!(finds(&said, "error", "link").contains("no interface has a default route"), "{said:#}");
    let said = doctor(&["--path", "wlan0"]);
    assert!(finds(&said, "error", "configuration").contains("'wlan0' is no path"), "{said:#}");
}
