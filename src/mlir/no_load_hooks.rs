// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Load hooks where there are none.

use super::Failure;
use crate::Tracker;

pub(super) fn install(
    _tracker: Tracker,
    _symbol: usize,
    _self_test: &mut dyn FnMut(Tracker) -> bool,
) -> Result<(), Failure> {
    Err("load hooks exist for Linux on 64-bit x86 and ARM only"
        .to_owned()
        .into())
}

pub(super) fn uninstall(_tracker: Tracker) -> bool {
    false
}

pub(super) fn is_installed(_tracker: Tracker) -> bool {
    false
}

pub(super) fn refresh(_tracker: Tracker) -> Result<(), (String, Vec<Tracker>)> {
    Ok(())
}

pub(super) fn extent(_tracker: Tracker) -> (u32, u32) {
    (0, 0)
}
