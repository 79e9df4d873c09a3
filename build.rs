// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Names the shared library for the dynamic linker.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The number is the ABI's, not the version's: it changes when a program that was linked
        // against an older library would misbehave. CMakeLists.txt installs the file by this name.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblot.so.0");
        // The load hooks leave addresses of this library in others' tables, so `dlclose` must not
        // unmap it.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
    }
}
