// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Linker options.

use std::env;

/// What tests/mlir_sys.rs has hooks for: functions of MLIR that end an operation or a block.
const WRAPPED_IN_TESTS: [&str; 6] = [
    "_ZN4mlir9Operation5eraseEv",
    "_ZN4mlir9Operation7destroyEv",
    "_ZN4llvm12ilist_traitsIN4mlir9OperationEE10deleteNodeEPS2_",
    "_ZN4mlir5BlockD1Ev",
    "_ZN4mlir5BlockD2Ev",
    "_ZN4mlir5Block5eraseEv",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The number is the ABI's, not the version's: it changes when a program that was linked
        // against an older library would misbehave. CMakeLists.txt installs the file by this name.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblot.so.0");
        // The load hooks leave addresses of this library in others' tables, so `dlclose` must not
        // unmap it.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        // The instrumentation of a fuzzer refers to what only its program defines.
        if env::var_os("CARGO_CFG_FUZZING").is_none() {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
        }
    }
    if env::var_os("CARGO_FEATURE_MLIR_SYS").is_some() {
        for name in WRAPPED_IN_TESTS {
            println!("cargo::rustc-link-arg-tests=-Wl,--wrap={name}");
        }
    }
}
