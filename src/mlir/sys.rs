// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! MLIR's C interface, as the crate `mlir-sys` has it, for Rust users of the tracker: what an object is
//! tracked as, and where it is in the tree.
//!
//! `mlir-sys` brings an MLIR of its own, linked statically. A binding that is to be loaded beside
//! another MLIR must not be built with this.
//!
//! All functions ask MLIR, and only to read: the handles must be valid, and nobody may change the IR
//! meanwhile.

use mlir_sys::{
    MlirBlock, MlirContext, MlirOperation, MlirValue, mlirBlockArgumentGetOwner,
    mlirBlockGetParentOperation, mlirOperationGetBlock, mlirOperationGetContext,
};

use super::{BLOCK, BLOCK_ARGUMENT, OPERATION};
use crate::{Description, Error, Ref, Tracker};

/// The scope that a context's objects are tracked in.
pub fn scope(context: MlirContext) -> u64 {
    context.ptr as u64
}

/// An operation, a block or a block argument, and where it was when this was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// The object's address.
    pub address: usize,
    /// The context's address.
    pub scope: u64,
    /// Which kind of object of MLIR it is.
    pub kind: u8,
    /// What encloses it, nearest first: block, operation, block, ... up to the outermost.
    pub ancestors: Vec<usize>,
}

impl Object {
    /// # Safety
    /// A valid handle; nobody changes the IR meanwhile.
    pub unsafe fn operation(operation: MlirOperation) -> Self {
        // SAFETY: as promised by the caller.
        let (block, context) = unsafe {
            (
                mlirOperationGetBlock(operation),
                mlirOperationGetContext(operation),
            )
        };
        Self {
            address: operation.ptr as usize,
            scope: scope(context),
            kind: OPERATION,
            // SAFETY: as promised by the caller.
            ancestors: unsafe { enclosing(block) },
        }
    }

    /// `context` is the block's, since a block that is in no operation cannot tell.
    ///
    /// # Safety
    /// Valid handles; nobody changes the IR meanwhile.
    pub unsafe fn block(context: MlirContext, block: MlirBlock) -> Self {
        // SAFETY: as promised by the caller. The block itself comes first.
        let ancestors = unsafe { enclosing(block) }.split_off(1);
        Self {
            address: block.ptr as usize,
            scope: scope(context),
            kind: BLOCK,
            ancestors,
        }
    }

    /// # Safety
    /// Valid handles, `argument` of a block argument; nobody changes the IR meanwhile.
    pub unsafe fn block_argument(context: MlirContext, argument: MlirValue) -> Self {
        Self {
            address: argument.ptr as usize,
            scope: scope(context),
            kind: BLOCK_ARGUMENT,
            // SAFETY: as promised by the caller.
            ancestors: unsafe { enclosing(mlirBlockArgumentGetOwner(argument)) },
        }
    }

    /// For [`Tracker::track`] and [`Tracker::create`].
    pub fn description(&self, user: usize) -> Description<'_> {
        Description {
            object: self.address,
            scope: self.scope,
            kind: self.kind,
            ancestors: Some(&self.ancestors),
            user,
        }
    }

    /// The object exists: its live ref, or a new one.
    pub fn track(&self, tracker: Tracker) -> Result<Ref, Error> {
        tracker.track(&self.description(0)).map(|(found, _)| found)
    }

    /// The object was just made: whatever still counts as live at its address has ended.
    pub fn create(&self, tracker: Tracker) -> Result<Ref, Error> {
        tracker.create(&self.description(0))
    }

    /// The object has been put where it now is, with all that is in it.
    pub fn moved(&self, tracker: Tracker) -> Result<(), Error> {
        tracker.move_to(self.address, &self.ancestors)
    }
}

/// The addresses of `block`, if it is not null, and of what encloses it.
///
/// # Safety
/// A valid handle or null; nobody changes the IR meanwhile.
unsafe fn enclosing(mut block: MlirBlock) -> Vec<usize> {
    let mut addresses = Vec::new();
    while !block.ptr.is_null() {
        addresses.push(block.ptr as usize);
        // SAFETY: as promised by the caller.
        let parent = unsafe { mlirBlockGetParentOperation(block) };
        if parent.ptr.is_null() {
            break;
        }
        addresses.push(parent.ptr as usize);
        // SAFETY: as promised by the caller.
        block = unsafe { mlirOperationGetBlock(parent) };
    }
    addresses
}
