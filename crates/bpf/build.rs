//! Compiles the congestion controls in `bpf/` for the kernel's virtual machine.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The programs, each `bpf/NAME.bpf.c`. The last is for the tests.
const PROGRAMS: [&str; 5] = ["compound", "lia", "olia", "balia", "vectors"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return ExitCode::SUCCESS;
    }
    match PROGRAMS.iter().try_for_each(|name| compile(name)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn compile(name: &str) -> Result<(), String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo::rerun-if-changed={}", sources.display());
    let source = sources.join(format!("{name}.bpf.c"));
    let variable = |name| env::var_os(name).ok_or_else(|| format!("{name} is not set"));
    let object = PathBuf::from(variable("OUT_DIR")?).join(format!("{name}.bpf.o"));
    let include = variable("DEP_BPF_INCLUDE")?;
    let clang = env::var_os("CLANG").unwrap_or_else(|| OsString::from("clang"));
    let target = match env::var("CARGO_CFG_TARGET_ENDIAN").as_deref() {
        Ok("big") => "bpfeb",
        _ => "bpfel",
    };
    let mut command = Command::new(&clang);
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]);
    command.args(["-Wno-unused-function", "-mcpu=v3", "-target", target, "-c", "-I"]).arg(include);
    command.arg(source).arg("-o").arg(object);
    let output = command.output().map_err(|error| {
        let clang = clang.display();
        format!(
            "{clang} does not run ({error}): the feature bpf compiles with it; install the \
             package clang, name another one in CLANG, or build without the feature"
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(format!("bpf/{name}.bpf.c: {}", message.trim().replace('\n', " | ")))
}
