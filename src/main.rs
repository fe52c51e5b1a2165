//! The command line: run scripts, list devices, check shaders.

use ashfall::asset::{FolderAssets, Root};
use ashfall::shader::{self, Interface, ProgramSource};
use ashfall::{DeviceOptions, Gpu, ScriptHost, ScriptOptions, devices};
use clap::{Parser, Subcommand};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

mod picture;
use picture::Wish;

/// Immediate-mode Vulkan compute driven by Luau scripts.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a Luau script until none of its tasks is left.
    Run {
        /// The script.
        file: PathBuf,
        /// Device: an index, or part of a device or driver name. Default: $ASHFALL_DEVICE, or the best one.
        #[arg(long)]
        device: Option<String>,
        /// Folder of assets, as FOLDER (its root is @user) or NAME=FOLDER; may be given several times.
        #[arg(long, value_name = "[NAME=]FOLDER")]
        assets: Vec<String>,
        /// Write a texture to a PNG file when the script has ended: KEY=FILE; a buffer as KEY:WxH:FORMAT=FILE. May be
        /// given several times.
        #[arg(long, value_name = "KEY[:WxH:FORMAT]=FILE")]
        png: Vec<String>,
        /// Stop after this many frames.
        #[arg(long)]
        frames: Option<u64>,
        /// Turn the Vulkan validation layer with synchronization validation on; any message is an error.
        #[arg(long)]
        validate: bool,
        /// Print each frame's commands, levels and barriers to stderr.
        #[arg(long)]
        stats: bool,
        /// Print each frame's plan, with the reason of each barrier, to stderr.
        #[arg(long)]
        plan: bool,
    },
    /// List the Vulkan devices of this machine and what becomes of each.
    Devices {
        /// The device that a run would be asked for.
        #[arg(long)]
        device: Option<String>,
    },
    /// Print the type definitions of the script surface.
    Types,
    /// Compile WGSL files for a device and print their bindings; exit 1 if one does not compile.
    Check {
        /// WGSL files with their own @group(0) @binding(n) declarations.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Entry point. Default: main, or the only one there is.
        #[arg(long)]
        entry: Option<String>,
        /// Device whose limits are checked against. Default: $ASHFALL_DEVICE, or the best one.
        #[arg(long)]
        device: Option<String>,
    },
}

/// What a failed command exits with.
enum Failure {
    /// The script, a shader or a file is at fault: 1.
    Input(String),
    /// There is no usable Vulkan: 2.
    Machine(String),
}

impl From<ashfall::Error> for Failure {
    fn from(error: ashfall::Error) -> Self {
        match error.id() {
            "no-vulkan" | "no-device" | "no-validation-layer" => Self::Machine(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("ASHFALL_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false)
        .without_time()
        .init();
    let done = match Cli::parse().command {
        Command::Run { file, device, assets, png, frames, validate, stats, plan } => {
            let options = DeviceOptions { device, validation: validate, labels: validate, ..DeviceOptions::default() };
            run(&file, &options, &assets, &png, &Pace { frames, stats, plan })
        }
        Command::Types => {
            print!("{}", ashfall::TYPES);
            Ok(())
        }
        Command::Devices { device } => list(device.as_deref()),
        Command::Check { files, entry, device } => check(&files, entry.as_deref(), device),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Input(text)) => {
            eprintln!("{text}");
            ExitCode::from(1)
        }
        Err(Failure::Machine(text)) => {
            eprintln!("ashfall: {text}");
            ExitCode::from(2)
        }
    }
}

/// How long to go on and what to tell on the way.
struct Pace {
    frames: Option<u64>,
    stats: bool,
    plan: bool,
}

/// The longest sleep between frames: a task's time may come, and a device may finish, at any moment.
const NAP: Duration = Duration::from_millis(10);

fn run(
    file: &Path,
    options: &DeviceOptions,
    assets: &[String],
    pictures: &[String],
    pace: &Pace,
) -> Result<(), Failure> {
    let pictures: Vec<Wish> =
        pictures.iter().map(|text| Wish::parse(text)).collect::<Result<_, _>>().map_err(Failure::Input)?;
    let roots: Vec<Root> = assets.iter().map(|text| Root::parse(text)).collect();
    // A mistyped folder would otherwise show as assets that are not there.
    if let Some(root) = roots.iter().find(|r| !r.folder.is_dir()) {
        return Err(Failure::Input(format!("ashfall: --assets: {} is no folder", root.folder.display())));
    }
    let source = std::fs::read(file).map_err(|e| Failure::Input(format!("ashfall: {}: {e}", file.display())))?;
    let gpu = Rc::new(RefCell::new(Gpu::open(options)?));
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = folder.to_owned();
    gpu.borrow_mut().set_includes(Box::new(move |name| ashfall::read_beside(&beside, name).ok()));
    let luau = |e: mlua::Error| Failure::Input(e.to_string());
    let host = ScriptHost::new(Rc::clone(&gpu), options_of(folder, roots)).map_err(luau)?;
    host.spawn(&file.display().to_string(), &source).map_err(luau)?;
    let outcome = frames(&host, pace)
        .and_then(|()| pictures.iter().try_for_each(|wish| wish.write(&mut gpu.borrow_mut()).map_err(Failure::Input)));
    for row in gpu.borrow().failing() {
        let (target, reason) = (&row.target, row.last_error.as_deref().unwrap_or_default());
        tracing::warn!(
            "{} on \"{target}\" failed in {} of {} dispatches: {reason}",
            row.shader,
            row.failures,
            row.dispatches
        );
    }
    // The device is brought to rest first: what it still finds wrong belongs to this run.
    if outcome.is_ok() {
        gpu.borrow_mut().wait_idle()?;
    }
    let messages = gpu.borrow().validation_messages();
    if options.validation && !messages.is_empty() {
        return Err(Failure::Input(format!("validation: {} messages\n{}", messages.len(), messages.join("\n"))));
    }
    outcome
}

fn options_of(folder: &Path, roots: Vec<Root>) -> ScriptOptions {
    ScriptOptions {
        files: Some(folder.to_owned()),
        assets: Box::new(FolderAssets::new(roots)),
        ..ScriptOptions::default()
    }
}

fn frames(host: &ScriptHost, pace: &Pace) -> Result<(), Failure> {
    let mut done = 0;
    while pace.frames.is_none_or(|most| done < most) && !host.is_idle() {
        let errors = host.step();
        if !errors.is_empty() {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(Failure::Input(texts.join("\n")));
        }
        if pace.plan {
            eprint!("frame {}\n{}", host.gpu().borrow().frame(), host.gpu().borrow().plan_text());
        }
        let stats = host.end_frame()?;
        if pace.stats {
            eprintln!(
                "frame {}: {} commands, {} levels, {} barriers",
                stats.frame, stats.commands, stats.levels, stats.barriers
            );
        }
        done += 1;
        if stats.commands == 0 {
            rest(host)?;
        }
    }
    Ok(())
}

/// A frame that recorded nothing was a poll: instead of the next one at once, wait for something to happen.
fn rest(host: &ScriptHost) -> Result<(), Failure> {
    let due = host.until_due().map_or(NAP, |s| Duration::from_secs_f64(s.min(1.0)));
    let start = std::time::Instant::now();
    host.gpu().borrow_mut().wait_for_progress(NAP)?;
    let left = due.min(NAP).saturating_sub(start.elapsed());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
    Ok(())
}

fn list(wish: Option<&str>) -> Result<(), Failure> {
    let reports = devices(wish)?;
    if reports.is_empty() {
        return Err(Failure::Machine(
            "no Vulkan driver is installed (Debian and Ubuntu: apt-get install mesa-vulkan-drivers)".into(),
        ));
    }
    for report in reports {
        println!("{report}");
    }
    Ok(())
}

fn check(files: &[PathBuf], entry: Option<&str>, device: Option<String>) -> Result<(), Failure> {
    let gpu = Gpu::open(&DeviceOptions { device, ..DeviceOptions::default() })?;
    let mut problems = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let source = match std::fs::read_to_string(file) {
            Ok(source) => source,
            Err(error) => {
                problems.push(format!("{name}: {error}"));
                continue;
            }
        };
        let interface = Interface::REFLECTED;
        let mut program =
            ProgramSource { entry_point: entry.map(str::to_owned), ..ProgramSource::new(&*name, source, interface) };
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let expanded = shader::expand(&mut program, &|name| ashfall::read_beside(folder, name).ok());
        match expanded.and_then(|()| shader::compile(&program, gpu.target())) {
            Ok(compiled) => print!("{}", summary(&name, &compiled)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::Input(problems.join("\n"))) }
}

fn summary(name: &str, compiled: &shader::Compiled) -> String {
    let [x, y, z] = compiled.workgroup_size;
    let mut text = format!(
        "{name}: ok, entry point {}, workgroup {x}x{y}x{z}, {} words of SPIR-V\n",
        compiled.entry_point,
        compiled.spirv.len()
    );
    for b in &compiled.bindings {
        let access = match (b.access.read, b.access.write) {
            (true, true) => "read and written",
            (true, false) => "read",
            (false, true) => "written",
            (false, false) => "not used",
        };
        text += &format!("  binding {} {}: {access}, at least {} bytes\n", b.binding, b.name, b.min_bytes);
    }
    text
}
