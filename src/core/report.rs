// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reports of what a tracker knows: for people (text), for programs (JSON) and for pictures
//! (Graphviz DOT).

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};

use serde_json::json;

use super::forest::Entry;
use super::table::{NONE, Slot, State};
use super::tracker::Tracker;
use crate::Error;

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One line for each object, indented by depth.
    Text,
    /// One JSON object with `tracker`, `tracked`, `anchors` (the number of placeholders) and
    /// `nodes`. Addresses and epochs are strings of hexadecimal digits, since JSON's numbers do not
    /// hold 64 bits.
    Json,
    /// A Graphviz digraph. Placeholders are dashed.
    Dot,
}

/// One node of the report.
struct Line {
    /// The position of the parent in the list of lines.
    parent: Option<usize>,
    depth: usize,
    entry: Entry,
}

impl Tracker {
    /// Writes what the tracker knows. The tracker is read piece by piece. What other threads change
    /// meanwhile appears as it was before or after, or without its parent.
    ///
    /// Any thread may call it.
    ///
    /// # Errors
    /// [`ErrorKind::NoTracker`](crate::ErrorKind::NoTracker), or
    /// [`ErrorKind::Internal`](crate::ErrorKind::Internal) if `out` fails.
    pub fn report(self, format: Format, out: &mut dyn Write) -> Result<(), Error> {
        let name = self.name()?;
        let lines = lines(self.entries()?);
        let written = match format {
            Format::Text => text(&name, &lines, out),
            Format::Json => json(&name, &lines, out),
            Format::Dot => dot(&name, &lines, out),
        };
        written.map_err(|_| Error::internal(c"the report could not be written"))
    }
}

/// Brings nodes into the order of the tree, parents before their children. Gone nodes are left out.
fn lines(entries: Vec<Entry>) -> Vec<Line> {
    let known: HashSet<Slot> = entries.iter().map(|entry| entry.slot).collect();
    let gone = entries.iter().filter(|entry| entry.state == State::Gone);
    // What is gone, and where to look on from there.
    let mut gone: HashMap<Slot, Slot> = gone.map(|entry| (entry.slot, entry.parent)).collect();
    // The nearest parent that is not gone. What was read at different times may lead in a circle.
    let mut parent_of = |entry: &Entry| {
        let (mut parent, mut passed) = (entry.parent, Vec::new());
        while let Some(above) = gone.get_mut(&parent) {
            passed.push(parent);
            // Whoever comes here in a circle finds no parent.
            parent = std::mem::replace(above, NONE);
        }
        for slot in passed {
            gone.insert(slot, parent); // The next entry passes all of them at once.
        }
        known.contains(&parent).then_some(parent)
    };
    let mut children: HashMap<Option<Slot>, Vec<Entry>> = HashMap::new();
    for entry in entries {
        if entry.state != State::Gone {
            children.entry(parent_of(&entry)).or_default().push(entry);
        }
    }
    let mut lines: Vec<Line> = Vec::new();
    // What is left without a root is a circle. It is written from an arbitrary start.
    while let Some(first) = children
        .get(&None)
        .map(|_| None)
        .or_else(|| children.keys().next().copied())
    {
        let top = children.remove(&first).unwrap_or_default();
        let mut waiting: Vec<(Option<usize>, Entry)> =
            top.into_iter().rev().map(|entry| (None, entry)).collect();
        while let Some((parent, entry)) = waiting.pop() {
            let below = children.remove(&Some(entry.slot)).unwrap_or_default();
            let position = lines.len();
            waiting.extend(below.into_iter().rev().map(|entry| (Some(position), entry)));
            let depth = parent.map_or(0, |parent| lines[parent].depth + 1);
            lines.push(Line {
                parent,
                depth,
                entry,
            });
        }
    }
    lines
}

fn tracked(lines: &[Line]) -> usize {
    lines.iter().filter(|line| line.entry.epoch != 0).count()
}

fn text(name: &str, lines: &[Line], out: &mut dyn Write) -> fmt::Result {
    /// A deeper line shows its depth as a number, so that its length does not grow with it.
    const DEEPEST_INDENT: usize = 30;
    let tracked = tracked(lines);
    let anchors = lines.len() - tracked;
    writeln!(
        out,
        "tracker {name:?}: {tracked} tracked, {anchors} anchors"
    )?;
    for Line { depth, entry, .. } in lines {
        let indent = 2 * (1 + depth.min(&DEEPEST_INDENT));
        write!(out, "{:indent$}", "")?;
        if *depth > DEEPEST_INDENT {
            write!(out, "[depth {depth}] ")?;
        }
        write!(out, "{:#x}", entry.object)?;
        match entry.epoch {
            0 => write!(out, " (anchor)")?,
            epoch => {
                write!(out, " epoch {epoch:#x} kind {}", entry.kind)?;
                if entry.user != 0 {
                    write!(out, " user {:#x}", entry.user)?;
                }
            }
        }
        writeln!(out, " scope {:#x}", entry.scope)?;
    }
    Ok(())
}

fn json(name: &str, lines: &[Line], out: &mut dyn Write) -> fmt::Result {
    let tracked = tracked(lines);
    let nodes: Vec<_> = lines
        .iter()
        .map(|Line { parent, entry, .. }| {
            json!({
                "object": format!("{:#x}", entry.object),
                "epoch": (entry.epoch != 0).then(|| format!("{:#x}", entry.epoch)),
                "parent": parent.map(|parent| format!("{:#x}", lines[parent].entry.object)),
                "scope": format!("{:#x}", entry.scope),
                "kind": (entry.epoch != 0).then_some(entry.kind),
                "user": (entry.user != 0).then(|| format!("{:#x}", entry.user)),
            })
        })
        .collect();
    let report = json!({
        "tracker": name,
        "tracked": tracked,
        "anchors": nodes.len() - tracked,
        "nodes": nodes,
    });
    writeln!(out, "{report}")
}

fn dot(name: &str, lines: &[Line], out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "digraph {} {{", json!(name))?;
    writeln!(out, "  node [shape=box, fontname=monospace];")?;
    for (number, Line { parent, entry, .. }) in lines.iter().enumerate() {
        let object = entry.object;
        match entry.epoch {
            0 => writeln!(out, "  n{number} [label=\"{object:#x}\", style=dashed];")?,
            epoch => {
                let kind = entry.kind;
                writeln!(
                    out,
                    "  n{number} [label=\"{object:#x}\\nkind {kind}, epoch {epoch:#x}\"];"
                )?;
            }
        }
        if let Some(parent) = parent {
            writeln!(out, "  n{parent} -> n{number};")?;
        }
    }
    writeln!(out, "}}")
}
