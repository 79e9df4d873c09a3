// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The functions whose calls are watched. This is all that this crate knows of MLIR, and it is data.

use std::ffi::CStr;

/// What a call says about its first argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    /// The memory of exactly this object goes away.
    Object,
    /// The same, and its tracked children of kind [`super::BLOCK_ARGUMENT`] go with it.
    ObjectAndArguments,
}

pub(crate) struct Function {
    /// The mangled name.
    pub name: &'static CStr,
    /// The name for people.
    pub label: &'static str,
    pub ends: Ends,
    /// Without it, or without a call to it that the watched library makes through its tables, not
    /// every end would be seen.
    pub required: bool,
}

/// `mlir::Operation::~Operation` is reached from the first three only, and `mlir::Block::~Block` is
/// called from `mlir::Block::erase` without a detour through the tables. Each of them may have
/// another inlined, so all are watched. Calls that arrive twice are harmless: the second one finds
/// an address that nobody tracks.
pub(crate) const FUNCTIONS: [Function; 6] = [
    Function {
        name: c"_ZN4mlir9Operation5eraseEv",
        label: "mlir::Operation::erase",
        ends: Ends::Object,
        required: true,
    },
    Function {
        name: c"_ZN4mlir9Operation7destroyEv",
        label: "mlir::Operation::destroy",
        ends: Ends::Object,
        required: true,
    },
    Function {
        // A static member: the operation is its only argument.
        name: c"_ZN4llvm12ilist_traitsIN4mlir9OperationEE10deleteNodeEPS2_",
        label: "llvm::ilist_traits<mlir::Operation>::deleteNode",
        ends: Ends::Object,
        required: true,
    },
    Function {
        name: c"_ZN4mlir5BlockD1Ev",
        label: "mlir::Block::~Block",
        ends: Ends::ObjectAndArguments,
        required: true,
    },
    Function {
        // The base object destructor: the same code as the one above; compilers seldom call it.
        name: c"_ZN4mlir5BlockD2Ev",
        label: "mlir::Block::~Block (base)",
        ends: Ends::ObjectAndArguments,
        required: false,
    },
    Function {
        name: c"_ZN4mlir5Block5eraseEv",
        label: "mlir::Block::erase",
        ends: Ends::ObjectAndArguments,
        required: true,
    },
];

pub(crate) const FUNCTION_COUNT: usize = FUNCTIONS.len();
