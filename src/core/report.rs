// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What a tracker holds, written out for people (text), programs (JSON) and pictures (Graphviz DOT).

use std::fmt::{self, Write};

use serde_json::json;

use super::forest::Entry;
use super::tracker::Tracker;
use crate::Error;

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One line an object, indented by depth.
    Text,
    /// One object: `tracker`, `tracked`, `anchors` and `nodes`. Addresses and epochs are strings of hexadecimal
    /// digits, since JSON's numbers do not hold 64 bits.
    Json,
    /// A Graphviz digraph; anchors are dashed.
    Dot,
}

impl Tracker {
    /// Writes what the tracker holds: a snapshot, taken scope by scope.
    pub fn report(self, format: Format, out: &mut dyn Write) -> Result<(), Error> {
        let name = self.name()?;
        let nodes = self.entries()?;
        let written = match format {
            Format::Text => text(&name, &nodes, out),
            Format::Json => json(&name, &nodes, out),
            Format::Dot => dot(&name, &nodes, out),
        };
        written.map_err(|_| Error::internal(c"the report could not be written"))
    }
}

fn tracked(nodes: &[Entry]) -> usize {
    nodes.iter().filter(|node| node.epoch != 0).count()
}

fn text(name: &str, nodes: &[Entry], out: &mut dyn Write) -> fmt::Result {
    let tracked = tracked(nodes);
    writeln!(
        out,
        "tracker {name:?}: {tracked} tracked, {} anchors",
        nodes.len() - tracked
    )?;
    let mut depths: Vec<usize> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let depth = node.parent.map_or(0, |parent| depths[parent] + 1);
        depths.push(depth);
        write!(
            out,
            "{:indent$}{:#x}",
            "",
            node.object,
            indent = 2 * (depth + 1)
        )?;
        match node.epoch {
            0 => write!(out, " (anchor)")?,
            epoch => {
                write!(out, " epoch {epoch:#x} kind {}", node.kind)?;
                if node.user != 0 {
                    write!(out, " user {:#x}", node.user)?;
                }
            }
        }
        writeln!(out, " scope {:#x}", node.scope)?;
    }
    Ok(())
}

fn json(name: &str, nodes: &[Entry], out: &mut dyn Write) -> fmt::Result {
    let tracked = tracked(nodes);
    let list: Vec<_> = nodes
        .iter()
        .map(|node| {
            json!({
                "object": format!("{:#x}", node.object),
                "epoch": (node.epoch != 0).then(|| format!("{:#x}", node.epoch)),
                "parent": node.parent.map(|parent| format!("{:#x}", nodes[parent].object)),
                "scope": format!("{:#x}", node.scope),
                "kind": (node.epoch != 0).then_some(node.kind),
                "user": (node.user != 0).then(|| format!("{:#x}", node.user)),
            })
        })
        .collect();
    let report = json!({
        "tracker": name,
        "tracked": tracked,
        "anchors": nodes.len() - tracked,
        "nodes": list,
    });
    writeln!(out, "{report}")
}

fn dot(name: &str, nodes: &[Entry], out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "digraph {} {{", json!(name))?;
    writeln!(out, "  node [shape=box, fontname=monospace];")?;
    for (number, node) in nodes.iter().enumerate() {
        let object = node.object;
        match node.epoch {
            0 => writeln!(out, "  n{number} [label=\"{object:#x}\", style=dashed];")?,
            epoch => {
                let kind = node.kind;
                writeln!(
                    out,
                    "  n{number} [label=\"{object:#x}\\nkind {kind}, epoch {epoch:#x}\"];"
                )?;
            }
        }
        if let Some(parent) = node.parent {
            writeln!(out, "  n{parent} -> n{number};")?;
        }
    }
    writeln!(out, "}}")
}
