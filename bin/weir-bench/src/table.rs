//! The rows, as a table for people or one JSON document.

use serde_json::{Value, json};

/// What a row's figure should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// No more than this.
    Below(f64),
    /// No less than this.
    Above(f64),
    /// Only said, not compared.
    None,
}

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// 99th percentile, in the same unit.
    pub(crate) p99: Option<f64>,
    /// Of the design.
    pub(crate) target: Target,
    /// Of this stage, where the design's is for later.
    pub(crate) stage: Target,
    /// Said beside it.
    pub(crate) note: String,
}

/// All rows.
#[derive(Debug)]
pub(crate) struct Table {
    only: Option<String>,
    json: bool,
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(only: Option<String>, json: bool) -> Table {
        Table {
            only,
            json,
            rows: Vec::new(),
        }
    }

    /// Whether a row of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        let any = |only: &str| only.split(',').any(|part| name.contains(part.trim()));
        self.only.as_deref().is_none_or(any)
    }

    pub(crate) fn add(&mut self, row: Row) {
        if !self.wants(row.name) {
            return;
        }
        if !self.json {
            eprintln!("  {:<44} {:>12} {}", row.name, figure(row.value), row.unit);
        }
        self.rows.push(row);
    }

    pub(crate) fn print(&self) {
        if self.json {
            let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
            println!("{}", json!({"rows": rows}));
            return;
        }
        println!(
            "\n{:<44} {:>12} {:<12} {:>10} {:>14} {:>14}  note",
            "what", "median", "unit", "p99", "this stage", "design"
        );
        for row in &self.rows {
            let p99 = row.p99.map(figure).unwrap_or_default();
            let (stage, design) = (row.verdict(row.stage), row.verdict(row.target));
            println!(
                "{:<44} {:>12} {:<12} {:>10} {:>14} {:>14}  {}",
                row.name,
                figure(row.value),
                row.unit,
                p99,
                stage,
                design,
                row.note
            );
        }
        println!(
            "\n✓ reached, ✗ not reached on this machine in this run. Medians; machines are noisy, compare ratios."
        );
    }
}

impl Row {
    fn verdict(&self, target: Target) -> String {
        match target {
            Target::Below(most) => format!(
                "{} <{}",
                if self.value <= most { '✓' } else { '✗' },
                figure(most)
            ),
            Target::Above(least) => format!(
                "{} >{}",
                if self.value >= least { '✓' } else { '✗' },
                figure(least)
            ),
            Target::None => String::new(),
        }
    }

    fn json(&self) -> Value {
        let target = |target| match target {
            Target::Below(most) => json!({"below": most, "reached": self.value <= most}),
            Target::Above(least) => json!({"above": least, "reached": self.value >= least}),
            Target::None => Value::Null,
        };
        json!({"name": self.name, "value": self.value, "unit": self.unit, "p99": self.p99,
               "stage": target(self.stage), "design": target(self.target), "note": self.note})
    }
}

/// Three digits that matter.
fn figure(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 1e4 => format!("{:.1} k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}
