// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The names of MLIR's functions that are watched are written down in several files, none of which can
//! include another: they must be the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn names_in(path: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(|character| !is_part(character))
        // Behind the linker's prefixes, too.
        .filter_map(|word| word.find("_ZN").map(|start| word[start..].to_owned()))
        .collect()
}

#[test]
fn load_hooks_and_link_hooks_watch_the_same() {
    let names = names_in("src/mlir/names.rs");
    assert_eq!(names.len(), 10);
    for path in [
        "src/link_hooks/link_hooks.cpp",
        "src/link_hooks/CMakeLists.txt",
    ] {
        assert_eq!(names_in(path), names, "{path}");
    }
}
