// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The committed C headers are what cbindgen makes of `src/ffi`. `make header` writes them anew.

use std::path::PathBuf;
use std::{env, fs};

const WRITE: &str = "LOT_WRITE_HEADERS";

const VERSION_MACROS: &str = concat!(
    "\n#define LOT_VERSION_MAJOR ",
    env!("CARGO_PKG_VERSION_MAJOR"),
    "\n#define LOT_VERSION_MINOR ",
    env!("CARGO_PKG_VERSION_MINOR"),
    "\n#define LOT_VERSION_PATCH ",
    env!("CARGO_PKG_VERSION_PATCH"),
    "\n#define LOT_VERSION_STRING \"",
    env!("CARGO_PKG_VERSION"),
    "\"",
);

const LOT_TRAILER: &str = r#"
/* What lot/lot.hpp reads to do inline what `lot_is_live` does; nobody else's business.
 *
 * The number in the name is that of the layout, of the struct and of the slots behind it. A library
 * with another layout exports another name: a program that reads this one inline does not link to
 * such a library, and does not start with it. */
struct lot_live_table {
  const void *slots;
  uint32_t mask;
};
#if defined(__cplusplus)
extern "C" struct lot_live_table lot_live_table_1;
#else
extern struct lot_live_table lot_live_table_1;
#endif

/* Both sides of the ABI pass a lot_ref by value, so both state its layout. */
#if defined(__cplusplus)
static_assert(sizeof(lot_ref) == 16, "lot_ref is 16 bytes");
static_assert(offsetof(lot_ref, object) == 0, "lot_ref starts with the object");
static_assert(offsetof(lot_ref, epoch) == 8, "the epoch of a lot_ref follows the object");
#else
_Static_assert(sizeof(lot_ref) == 16, "lot_ref is 16 bytes");
_Static_assert(offsetof(lot_ref, object) == 0, "lot_ref starts with the object");
_Static_assert(offsetof(lot_ref, epoch) == 8, "the epoch of a lot_ref follows the object");
#endif
"#;

struct Header {
    path: &'static str,
    source: &'static str,
    title: &'static str,
    guard: &'static str,
    includes: &'static [&'static str],
    before_types: &'static str,
    after_functions: &'static str,
}

const LOT: Header = Header {
    path: "include/lot/lot.h",
    source: "src/ffi/lot.rs",
    title: "The C interface of the live object tracker.",
    guard: "LOT_LOT_H",
    includes: &[],
    before_types: VERSION_MACROS,
    after_functions: LOT_TRAILER,
};

const MLIR: Header = Header {
    path: "include/lot/mlir.h",
    source: "src/ffi/mlir.rs",
    title: "The C interface of the live object tracker's MLIR layer.",
    guard: "LOT_MLIR_H",
    includes: &["lot/lot.h"],
    before_types: "",
    after_functions: "",
};

fn in_package(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn generate(header: &Header) -> String {
    let source = header.source;
    let mut config = cbindgen::Config::from_file(in_package("cbindgen.toml")).unwrap();
    config.header = Some(format!(
        "/* {}\n *\n \
         * cbindgen wrote this file from {source}: change that one and run `make header`.\n *\n \
         * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */",
        header.title
    ));
    config.include_guard = Some(header.guard.into());
    config.includes = header
        .includes
        .iter()
        .map(|include| include.to_string())
        .collect();
    if !header.before_types.is_empty() {
        config.after_includes = Some(header.before_types.into());
    }

    let mut bytes = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(in_package(source))
        .generate()
        .unwrap_or_else(|error| panic!("{source}: {error}"))
        .write(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();

    // cbindgen's own trailer comes after the include guard, where a second inclusion repeats it.
    let end = format!("\n#endif  /* {} */\n", header.guard);
    let body = text
        .strip_suffix(&end)
        .expect("the include guard closes the header");
    format!("{body}{}{end}", header.after_functions)
}

fn check(header: &Header) {
    let generated = generate(header);
    let path = in_package(header.path);
    if env::var_os(WRITE).is_some() {
        fs::write(&path, generated).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    if let Some(line) = first_difference(&committed, &generated) {
        panic!(
            "{} is stale from line {line} on: run `make header` and commit the result",
            header.path
        );
    }
}

fn first_difference(left: &str, right: &str) -> Option<usize> {
    if left == right {
        return None;
    }
    let same = left
        .lines()
        .zip(right.lines())
        .take_while(|(left, right)| left == right)
        .count();
    Some(same + 1)
}

#[test]
fn lot_h_is_what_cbindgen_writes() {
    check(&LOT);
}

#[test]
fn mlir_h_is_what_cbindgen_writes() {
    check(&MLIR);
}

#[test]
fn a_stale_line_is_found() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
    assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
}
