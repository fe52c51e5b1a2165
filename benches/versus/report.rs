//! Tables and JSON.

use crate::Took;
use crate::work::Work;
use serde_json::{Value, json};
use std::time::Duration;

pub struct Report {
    rows: Vec<Value>,
    device: String,
    driver: String,
    disqualified: usize,
}

/// Median, least and most.
pub fn spread(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    [all[all.len() / 2], all[0], all[all.len() - 1]]
}

impl Report {
    pub fn new(device: &str, driver: &str) -> Self {
        println!("{device}, {driver}");
        Self { rows: Vec::new(), device: device.to_owned(), driver: driver.to_owned(), disqualified: 0 }
    }

    /// Frames of dispatches: by contestant what each took, and whether its bytes were right.
    pub fn dispatches(&mut self, title: &str, work: &Work, names: &[&str], took: &[Vec<Took>], right: &[bool]) {
        println!("\n{title}: {} levels, {} rounds; ns a dispatch", work.ends.len(), took[0].len());
        println!("{:18} {:>31} {:>12} {:>31} {:>12}", "", "record + submit", "/hand /wgpu", "to idle", "/hand /wgpu");
        let per = |d: Duration| d.as_secs_f64() * 1e9 / work.dispatches as f64;
        let of = |at: usize, part: fn(&Took) -> Duration| spread(took[at].iter().map(|t| per(part(t))).collect());
        let parts: [fn(&Took) -> Duration; 2] = [|t| t.recorded, |t| t.idle];
        let hand = names.iter().position(|n| n.contains("hand")).unwrap_or(0);
        let web = names.iter().position(|n| n.contains("once")).unwrap_or(0);
        for (at, name) in names.iter().enumerate() {
            let [recorded, idle] = parts.map(|part| of(at, part));
            let ratios =
                |index: usize| [hand, web].map(|other| [recorded, idle][index][0] / of(other, parts[index])[0]);
            let cell = |index: usize| {
                let ([median, least, most], [by_hand, by_web]) = ([recorded, idle][index], ratios(index));
                format!("{median:9.0} ({least:8.0} to {most:8.0}) {by_hand:6.2}{by_web:6.2}")
            };
            let verdict = if right[at] { "" } else { "  DISQUALIFIED: its bytes are wrong" };
            println!("{name:18} {} {}{verdict}", cell(0), cell(1));
            self.disqualified += usize::from(!right[at]);
            self.rows.push(json!({
                "work": title, "contestant": name, "levels": work.ends.len(), "right": right[at],
                "recorded_ns": recorded, "recorded_over_hand": ratios(0)[0], "recorded_over_wgpu": ratios(0)[1],
                "idle_ns": idle, "idle_over_hand": ratios(1)[0], "idle_over_wgpu": ratios(1)[1],
            }));
        }
    }

    /// Writes the JSON and ends the process with 1 if any bytes were wrong.
    pub fn finish(self, json: Option<&str>) {
        if let Some(file) = json {
            let all = json!({ "device": self.device, "driver": self.driver, "rows": self.rows });
            std::fs::write(file, format!("{all:#}\n")).unwrap();
        }
        if self.disqualified > 0 {
            eprintln!("{} times the bytes were wrong", self.disqualified);
            std::process::exit(1);
        }
    }
}
