// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The rules of `docs/contract.md` against those that code, documents and tests cite.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Rule = u32;

/// The folders and files of the repository that may cite rules.
const PLACES: [&str; 11] = [
    "README.md",
    "SECURITY.md",
    "benches",
    "cpp-tests",
    "demo",
    "docs",
    "fuzz",
    "include",
    "src",
    "tests",
    "tools",
];
const TEXTS: [&str; 10] = [
    "c", "cmake", "cpp", "h", "hpp", "md", "py", "rs", "sh", "txt",
];
const BUILT: [&str; 3] = ["__pycache__", "build", "target"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The texts in a folder, or a text itself.
fn texts_in(place: &Path, texts: &mut BTreeMap<PathBuf, String>) {
    let name = place.file_name().and_then(|name| name.to_str());
    if place.is_dir() && !name.is_some_and(|name| BUILT.contains(&name)) {
        for entry in fs::read_dir(place).unwrap() {
            texts_in(&entry.unwrap().path(), texts);
        }
    }
    let extension = place.extension().and_then(|extension| extension.to_str());
    if place.is_file() && extension.is_some_and(|extension| TEXTS.contains(&extension)) {
        texts.insert(place.to_owned(), fs::read_to_string(place).unwrap());
    }
}

fn texts() -> BTreeMap<PathBuf, String> {
    let mut texts = BTreeMap::new();
    for place in PLACES {
        texts_in(&root().join(place), &mut texts);
    }
    assert!(texts.len() > 100, "only {} texts were found", texts.len());
    texts
}

/// The rules that a text states, each in a paragraph that begins with its number.
fn stated_in(contract: &str) -> Vec<Rule> {
    let number = |line: &str| line.strip_prefix("**R")?.split_once(".**")?.0.parse().ok();
    contract.lines().filter_map(number).collect()
}

fn stated() -> BTreeSet<Rule> {
    let contract = fs::read_to_string(root().join("docs/contract.md")).unwrap();
    stated_in(&contract).into_iter().collect()
}

/// The rule that a word names: `R5`, `R05`, or a name that begins with `r05_` or `R05_`.
fn rule_of(word: &str) -> Option<Rule> {
    let (number, is_name) = match word.split_once('_') {
        Some((number, _)) => (number, true),
        None => (word, false),
    };
    let digits = match number.strip_prefix('R') {
        None if is_name => number.strip_prefix('r')?,
        digits => digits?,
    };
    let is_number = matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit());
    (is_number && (!is_name || digits.len() == 2)).then(|| digits.parse().unwrap())
}

fn cited_in(text: &str) -> BTreeSet<Rule> {
    let is_between = |letter: char| !letter.is_alphanumeric() && letter != '_';
    text.split(is_between).filter_map(rule_of).collect()
}

/// The rules of the Rust tests in a text, by the tests' names.
fn tested_in_rust(text: &str) -> BTreeSet<Rule> {
    let mut rules = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(function) = line.strip_prefix("fn ") {
            let name = function.split('(').next().unwrap();
            rules.extend(rule_of(name).filter(|_| is_test && name.starts_with('r')));
        }
        is_test = line == "#[test]" || is_test && line.starts_with("#[");
    }
    rules
}

/// The rules of the GoogleTest tests in a text, by the tests' names.
fn tested_in_cpp(text: &str) -> BTreeSet<Rule> {
    text.lines()
        .filter(|line| line.starts_with("TEST"))
        .filter_map(|line| line.split_once(", ")?.1.split(')').next())
        .filter(|name| name.contains('_'))
        .filter_map(rule_of)
        .collect()
}

fn tested(extension: &str, rules_of: fn(&str) -> BTreeSet<Rule>) -> BTreeSet<Rule> {
    texts()
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|known| known == extension))
        .flat_map(|(_, text)| rules_of(text))
        .collect()
}

#[test]
fn the_contract_states_each_rule_once_and_in_order() {
    let contract = fs::read_to_string(root().join("docs/contract.md")).unwrap();
    let rules = stated_in(&contract);
    assert!(rules.len() >= 19, "{rules:?}");
    assert_eq!(rules, (1..=rules.len() as Rule).collect::<Vec<_>>());
}

#[test]
fn each_rule_that_is_cited_is_in_the_contract() {
    let stated = stated();
    let unknown: Vec<_> = texts()
        .iter()
        .flat_map(|(path, text)| {
            let unknown: Vec<_> = cited_in(text).difference(&stated).copied().collect();
            unknown.into_iter().map(move |rule| (path.clone(), rule))
        })
        .collect();
    assert!(unknown.is_empty(), "docs/contract.md lacks: {unknown:?}");
}

#[test]
fn each_rule_has_a_test_in_rust() {
    let tested = tested("rs", tested_in_rust);
    let untested: Vec<_> = stated().difference(&tested).copied().collect();
    assert!(untested.is_empty(), "rules without a test: {untested:?}");
}

#[test]
fn each_rule_has_a_test_in_cpp() {
    let tested = tested("cpp", tested_in_cpp);
    let untested: Vec<_> = stated().difference(&tested).copied().collect();
    assert!(untested.is_empty(), "rules without a test: {untested:?}");
}
