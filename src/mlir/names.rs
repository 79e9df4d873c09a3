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
    /// Some of those children go, but not the object.
    Arguments(Choice),
}

/// How the call's other arguments say which of them go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// `unsigned`: its number.
    One,
    /// `unsigned, unsigned`: the first one's number, and how many.
    Range,
    /// `const llvm::BitVector &`, which starts with the address of its words.
    Bits,
    /// `llvm::function_ref<bool(BlockArgument)>`: a function and the data that is its first argument.
    /// It is asked once for each of them, in their order, just before that one goes.
    Predicate,
}

pub(crate) struct Function {
    /// The mangled name.
    pub name: &'static CStr,
    /// The name for people.
    pub label: &'static str,
    pub ends: Ends,
    pub needed: Needed,
}

/// What a library has to have for every end to be seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Needed {
    /// Nothing.
    No,
    /// The function.
    Defined,
    /// The function, and a call of it from elsewhere in the library that goes through its tables.
    Called,
}

/// `mlir::Operation::~Operation` is reached from the first three only, and `mlir::Block::~Block` is
/// called from `mlir::Block::erase` without a detour through the tables. Each of them may have
/// another inlined, so all are watched. Calls that arrive twice are harmless: the second one finds
/// an address that nobody tracks. Arguments of a block that stays go by the last four only.
pub(crate) const FUNCTIONS: [Function; 10] = [
    Function {
        name: c"_ZN4mlir9Operation5eraseEv",
        label: "mlir::Operation::erase",
        ends: Ends::Object,
        needed: Needed::Called,
    },
    Function {
        name: c"_ZN4mlir9Operation7destroyEv",
        label: "mlir::Operation::destroy",
        ends: Ends::Object,
        needed: Needed::Called,
    },
    Function {
        // A static member: the operation is its only argument.
        name: c"_ZN4llvm12ilist_traitsIN4mlir9OperationEE10deleteNodeEPS2_",
        label: "llvm::ilist_traits<mlir::Operation>::deleteNode",
        ends: Ends::Object,
        needed: Needed::Called,
    },
    Function {
        name: c"_ZN4mlir5BlockD1Ev",
        label: "mlir::Block::~Block",
        ends: Ends::ObjectAndArguments,
        needed: Needed::Called,
    },
    Function {
        // The base object destructor: the same code as the one above; compilers seldom call it.
        name: c"_ZN4mlir5BlockD2Ev",
        label: "mlir::Block::~Block (base)",
        ends: Ends::ObjectAndArguments,
        needed: Needed::No,
    },
    Function {
        name: c"_ZN4mlir5Block5eraseEv",
        label: "mlir::Block::erase",
        ends: Ends::ObjectAndArguments,
        needed: Needed::Called,
    },
    Function {
        name: c"_ZN4mlir5Block13eraseArgumentEj",
        label: "mlir::Block::eraseArgument",
        ends: Ends::Arguments(Choice::One),
        needed: Needed::Defined,
    },
    Function {
        name: c"_ZN4mlir5Block14eraseArgumentsEjj",
        label: "mlir::Block::eraseArguments (range)",
        ends: Ends::Arguments(Choice::Range),
        needed: Needed::Defined,
    },
    Function {
        name: c"_ZN4mlir5Block14eraseArgumentsERKN4llvm9BitVectorE",
        label: "mlir::Block::eraseArguments (bits)",
        ends: Ends::Arguments(Choice::Bits),
        needed: Needed::Defined,
    },
    Function {
        name: c"_ZN4mlir5Block14eraseArgumentsEN4llvm12function_refIFbNS_13BlockArgumentEEEE",
        label: "mlir::Block::eraseArguments (predicate)",
        ends: Ends::Arguments(Choice::Predicate),
        needed: Needed::Defined,
    },
];

pub(crate) const FUNCTION_COUNT: usize = FUNCTIONS.len();

/// The place of the last one, which can do what the other three do.
pub(crate) const ERASE_ARGUMENTS_IF: usize = FUNCTION_COUNT - 1;

const _: () = assert!(matches!(
    FUNCTIONS[ERASE_ARGUMENTS_IF].ends,
    Ends::Arguments(Choice::Predicate)
));
