// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Real IR through MLIR's C interface: structural mode, and exact mode by link hooks in Rust. MLIR is
//! linked statically here, with the linker options that build.rs gives for the feature `mlir-sys`.
#![cfg(feature = "mlir-sys")]

use std::ffi::c_void;
use std::sync::Mutex;

use live_object_tracker::mlir::sys::Object;
use live_object_tracker::mlir::{self, Source};
use live_object_tracker::{Cause, Description, ErrorKind, Ref, Tracker};
use mlir_sys::*;

/// Link hooks: `-Wl,--wrap=NAME` makes calls of NAME arrive here. The C++ ones in src/link_hooks are
/// the same; they also watch the arguments of blocks that stay, which nothing here erases.
mod hooks {
    use super::*;

    macro_rules! hook {
        ($wrap:ident, $real:ident, $report:path) => {
            unsafe extern "C-unwind" {
                fn $real(object: *mut c_void);
            }
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $wrap(object: *mut c_void) {
                $report(object as usize);
                // SAFETY: the caller called exactly this function.
                unsafe { $real(object) }
            }
        };
    }
    hook!(
        __wrap__ZN4mlir9Operation5eraseEv,
        __real__ZN4mlir9Operation5eraseEv,
        mlir::report_operation
    );
    hook!(
        __wrap__ZN4mlir9Operation7destroyEv,
        __real__ZN4mlir9Operation7destroyEv,
        mlir::report_operation
    );
    hook!(
        __wrap__ZN4llvm12ilist_traitsIN4mlir9OperationEE10deleteNodeEPS2_,
        __real__ZN4llvm12ilist_traitsIN4mlir9OperationEE10deleteNodeEPS2_,
        mlir::report_operation
    );
    hook!(
        __wrap__ZN4mlir5BlockD1Ev,
        __real__ZN4mlir5BlockD1Ev,
        mlir::report_block
    );
    hook!(
        __wrap__ZN4mlir5BlockD2Ev,
        __real__ZN4mlir5BlockD2Ev,
        mlir::report_block
    );
    hook!(
        __wrap__ZN4mlir5Block5eraseEv,
        __real__ZN4mlir5Block5eraseEv,
        mlir::report_block
    );
}

struct Context(MlirContext);

impl Context {
    fn new() -> Self {
        // SAFETY: plain calls; the registry is given back.
        unsafe {
            let registry = mlirDialectRegistryCreate();
            mlirRegisterAllDialects(registry);
            let context = mlirContextCreateWithRegistry(registry, false);
            mlirDialectRegistryDestroy(registry);
            mlirContextLoadAllAvailableDialects(context);
            mlirContextSetAllowUnregisteredDialects(context, true);
            Self(context)
        }
    }

    fn parse(&self, text: &str) -> MlirModule {
        // SAFETY: a live context; the text is copied.
        let module = unsafe { mlirModuleCreateParse(self.0, string(text)) };
        assert!(!module.ptr.is_null(), "{text}");
        module
    }

    fn scope(&self) -> u64 {
        mlir::sys::scope(self.0)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the tests drop their IR first.
        unsafe { mlirContextDestroy(self.0) };
    }
}

fn string(text: &str) -> MlirStringRef {
    MlirStringRef {
        data: text.as_ptr().cast(),
        length: text.len(),
    }
}

/// Every operation, block and block argument below `operation`, itself first.
fn all(context: &Context, operation: MlirOperation) -> Vec<Object> {
    let mut found = Vec::new();
    // SAFETY: the IR is live, and changed by nobody.
    unsafe {
        found.push(Object::operation(operation));
        let mut region = mlirOperationGetFirstRegion(operation);
        while !region.ptr.is_null() {
            let mut block = mlirRegionGetFirstBlock(region);
            while !block.ptr.is_null() {
                found.push(Object::block(context.0, block));
                for number in 0..mlirBlockGetNumArguments(block) {
                    let argument = mlirBlockGetArgument(block, number);
                    found.push(Object::block_argument(context.0, argument));
                }
                let mut inner = mlirBlockGetFirstOperation(block);
                while !inner.ptr.is_null() {
                    found.extend(all(context, inner));
                    inner = mlirOperationGetNextInBlock(inner);
                }
                block = mlirBlockGetNextInRegion(block);
            }
            region = mlirRegionGetNextInOperation(region);
        }
    }
    found
}

const TEXT: &str = r#"
  func.func private @unused() {
    %c = arith.constant 1 : i32
    return
  }
  func.func private @callee(%a: i32) -> i32 {
    %c = arith.constant 3 : i32
    %r = arith.addi %a, %c : i32
    return %r : i32
  }
  func.func @caller(%a: i32, %b: i1) -> i32 {
    %one = arith.constant 1 : i32
    %again = arith.constant 1 : i32
    %x = arith.addi %a, %one : i32
    %y = arith.addi %a, %again : i32
    %z = arith.addi %x, %y : i32
    %g = scf.if %b -> (i32) {
      scf.yield %z : i32
    } else {
      scf.yield %a : i32
    }
    %r = func.call @callee(%g) : (i32) -> i32
    return %r : i32
  }"#;

const PIPELINES: [(&str, &str); 5] = [
    ("canonicalize", "builtin.module(canonicalize)"),
    ("cse", "builtin.module(cse)"),
    ("symbol-dce", "builtin.module(symbol-dce)"),
    ("inline", "builtin.module(inline)"),
    (
        "to LLVM",
        "builtin.module(convert-scf-to-cf,convert-arith-to-llvm,convert-cf-to-llvm,\
         convert-func-to-llvm,reconcile-unrealized-casts)",
    ),
];

fn run(context: &Context, module: MlirModule, pipeline: &str) {
    static REGISTER: std::sync::Once = std::sync::Once::new();
    // SAFETY: live handles; each that is made is given back.
    unsafe {
        REGISTER.call_once(|| mlirRegisterAllPasses());
        let manager = mlirPassManagerCreate(context.0);
        let passes = mlirPassManagerGetAsOpPassManager(manager);
        unsafe extern "C" fn complain(text: MlirStringRef, _: *mut c_void) {
            // SAFETY: valid during the call.
            let text = unsafe { std::slice::from_raw_parts(text.data.cast(), text.length) };
            eprintln!("{}", String::from_utf8_lossy(text));
        }
        let parsed = mlirParsePassPipeline(
            passes,
            string(pipeline),
            Some(complain),
            std::ptr::null_mut(),
        );
        assert!(parsed.value != 0, "{pipeline}");
        let result = mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module));
        assert!(result.value != 0, "{pipeline}");
        mlirPassManagerDestroy(manager);
    }
}

fn body(module: MlirModule) -> Vec<MlirOperation> {
    let mut found = Vec::new();
    // SAFETY: the module is live.
    unsafe {
        let mut operation = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
        while !operation.ptr.is_null() {
            found.push(operation);
            operation = mlirOperationGetNextInBlock(operation);
        }
    }
    found
}

/// A self-test, as the C header has one: each way in which the C interface destroys.
fn self_test(trial: Tracker) -> bool {
    let context = Context::new();
    let mut passed = true;
    for way in 0..3 {
        let module = context.parse(TEXT);
        // SAFETY: live handles, each destroyed once.
        unsafe {
            let root = mlirModuleGetOperation(module);
            let refs: Vec<Ref> = all(&context, root)
                .iter()
                .map(|object| object.track(trial).unwrap())
                .collect();
            let functions = body(module);
            match way {
                0 => {}
                1 => mlirOperationDestroy(functions[0]),
                _ => {
                    let block = mlirRegionGetFirstBlock(mlirOperationGetFirstRegion(functions[1]));
                    mlirBlockDetach(block);
                    mlirBlockDestroy(block);
                }
            }
            let live = refs.iter().filter(|one| one.is_live()).count();
            passed &= live == all(&context, root).len();
            mlirModuleDestroy(module);
            passed &= !refs.iter().any(|one| one.is_live());
        }
    }
    passed
}

/// One tracker in exact mode at a time, so that counts are of one test alone.
static ONE: Mutex<()> = Mutex::new(());

fn with_link_hooks(test: impl FnOnce(Tracker, &Context)) {
    let _one = ONE.lock();
    let tracker = Tracker::new("link hooks").unwrap();
    mlir::install_link_hooks(tracker, self_test).unwrap();
    test(tracker, &Context::new());
    mlir::uninstall_link_hooks(tracker).unwrap();
    tracker.destroy_tracker().unwrap();
}

#[test]
fn ancestors_are_complete_and_nearest_first() {
    let context = Context::new();
    let module = context.parse(TEXT);
    // SAFETY: the module is live.
    unsafe {
        let root = mlirModuleGetOperation(module);
        let top = mlirModuleGetBody(module);
        assert!(Object::operation(root).ancestors.is_empty());
        assert_eq!(Object::block(context.0, top).ancestors, [root.ptr as usize]);
        let function = body(module)[1];
        let entry = mlirRegionGetFirstBlock(mlirOperationGetFirstRegion(function));
        let expected = [entry.ptr, function.ptr, top.ptr, root.ptr].map(|each| each as usize);
        let inner = Object::operation(mlirBlockGetFirstOperation(entry));
        assert_eq!(inner.ancestors, expected);
        assert_eq!(
            (inner.scope, inner.kind),
            (context.scope(), mlir::OPERATION)
        );
        let argument = Object::block_argument(context.0, mlirBlockGetArgument(entry, 0));
        assert_eq!(argument.ancestors, expected);
        assert_eq!(argument.kind, mlir::BLOCK_ARGUMENT);
        let block = Object::block(context.0, entry);
        assert_eq!(block.ancestors, expected[1..]);
        assert_eq!(block.kind, mlir::BLOCK);
        mlirModuleDestroy(module);

        let alone = mlirBlockCreate(0, std::ptr::null(), std::ptr::null());
        assert!(Object::block(context.0, alone).ancestors.is_empty());
        mlirBlockDestroy(alone);
    }
}

#[test]
fn structural_mode_ends_what_the_binding_erases() {
    // R4, R5: what is below, whichever was tracked first.
    let context = Context::new();
    let tracker = Tracker::new("structural").unwrap();
    let status = mlir::status(tracker).unwrap();
    assert_eq!(status.source, Source::Structural);
    assert_eq!(status.reason, c"no exact source was asked for");

    let module = context.parse(TEXT);
    let functions = body(module);
    let mut objects = all(&context, functions[2]);
    objects.reverse();
    let refs: Vec<Ref> = objects
        .iter()
        .map(|each| each.track(tracker).unwrap())
        .collect();
    // SAFETY: live handles.
    unsafe {
        let other = Object::operation(functions[0]).track(tracker).unwrap();
        tracker.erase(functions[2].ptr as usize).unwrap();
        mlirOperationDestroy(functions[2]);
        assert!(refs.iter().all(|each| !each.is_live()));
        assert!(other.is_live());
        let death = refs[0].death().unwrap();
        assert_eq!(death.cause, Cause::AncestorDestroyed);
        assert_eq!(death.by.object, functions[2].ptr as usize);
        tracker
            .parent_destroy(mlirModuleGetOperation(module).ptr as usize)
            .unwrap();
        mlirModuleDestroy(module);
        assert!(!other.is_live());
    }
    assert_eq!(tracker.count(None, None).unwrap(), 0);
    tracker.destroy_tracker().unwrap();
}

#[test]
fn structural_mode_follows_moves_that_are_reported() {
    // R8
    let context = Context::new();
    let tracker = Tracker::new("moves").unwrap();
    let (from, to) = (context.parse(TEXT), context.parse(""));
    let moved = body(from)[0];
    // SAFETY: live handles.
    unsafe {
        let inner = all(&context, moved).pop().unwrap().track(tracker).unwrap();
        mlirOperationRemoveFromParent(moved);
        mlirBlockAppendOwnedOperation(mlirModuleGetBody(to), moved);
        Object::operation(moved).moved(tracker).unwrap();
        tracker
            .parent_destroy(mlirModuleGetOperation(from).ptr as usize)
            .unwrap();
        mlirModuleDestroy(from);
        assert!(inner.is_live());
        tracker
            .parent_destroy(mlirModuleGetOperation(to).ptr as usize)
            .unwrap();
        mlirModuleDestroy(to);
        assert!(!inner.is_live());
    }
    tracker.destroy_tracker().unwrap();
}

#[test]
fn structural_mode_takes_a_pass_for_an_opaque_mutation() {
    // R9, and R1: no old ref answers for what is at its address now.
    let context = Context::new();
    let tracker = Tracker::new("opaque").unwrap();
    for (_, pipeline) in PIPELINES {
        let module = context.parse(TEXT);
        // SAFETY: the module is live.
        let root = unsafe { mlirModuleGetOperation(module) };
        let refs: Vec<Ref> = all(&context, root)
            .iter()
            .map(|each| each.track(tracker).unwrap())
            .collect();
        run(&context, module, pipeline);
        tracker.opaque_mutation(root.ptr as usize).unwrap();
        assert!(refs[0].is_live());
        assert!(refs[1..].iter().all(|each| !each.is_live()));
        for object in &all(&context, root)[1..] {
            let new = object.track(tracker).unwrap();
            assert!(new.is_live() && !refs.contains(&new));
        }
        tracker.parent_destroy(root.ptr as usize).unwrap();
        // SAFETY: destroyed once.
        unsafe { mlirModuleDestroy(module) };
        assert_eq!(tracker.count(None, None).unwrap(), 0);
    }
    tracker.destroy_tracker().unwrap();
}

#[test]
fn a_new_object_at_an_old_address_is_a_missed_end() {
    // R6
    let context = Context::new();
    let tracker = Tracker::new("reuse").unwrap();
    let mut old: Vec<Ref> = Vec::new();
    for _ in 0..1_000_000 {
        // SAFETY: each block is destroyed once, behind the tracker's back.
        unsafe {
            let block = mlirBlockCreate(0, std::ptr::null(), std::ptr::null());
            let new = Object::block(context.0, block).create(tracker).unwrap();
            mlirBlockDestroy(block);
            assert!(new.is_live());
            if old.iter().any(|each| each.object == new.object) {
                assert_eq!(tracker.stats().unwrap().missed_ends, 1);
                assert_eq!(old.iter().filter(|each| !each.is_live()).count(), 1);
                tracker.destroy_tracker().unwrap();
                return;
            }
            old.push(new);
        }
    }
    panic!("no address was used again");
}

#[test]
fn link_hooks_end_exactly_what_a_pass_destroys() {
    // R10
    with_link_hooks(|tracker, context| {
        assert_eq!(mlir::status(tracker).unwrap().source, Source::LinkHooks);
        for (name, pipeline) in PIPELINES {
            let module = context.parse(TEXT);
            // SAFETY: the module is live.
            let root = unsafe { mlirModuleGetOperation(module) };
            let refs: Vec<Ref> = all(context, root)
                .iter()
                .map(|each| each.track(tracker).unwrap())
                .collect();
            let before = tracker.stats().unwrap();
            run(context, module, pipeline);
            let after = tracker.stats().unwrap();
            assert_eq!(after.missed_ends, before.missed_ends);
            let live: Vec<&Ref> = refs.iter().filter(|each| each.is_live()).collect();
            assert_eq!(live.len(), after.tracked);
            assert_eq!(
                (after.ended - before.ended) as usize,
                refs.len() - live.len()
            );
            assert!(live.len() < refs.len(), "{name} ended nothing");
            // Each survivor is found by a walk.
            let there: Vec<usize> = all(context, root).iter().map(|each| each.address).collect();
            for one in live {
                assert!(there.contains(&one.object), "{name}: a stale ref is live");
            }
            // SAFETY: destroyed once.
            unsafe { mlirModuleDestroy(module) };
            assert_eq!(tracker.count(Some(context.scope()), None).unwrap(), 0);
        }
    });
}

#[test]
fn link_hooks_know_one_incarnation_from_the_next() {
    // R1
    with_link_hooks(|tracker, context| {
        let mut old: Vec<Ref> = Vec::new();
        for _ in 0..1_000_000 {
            // SAFETY: each block is destroyed once.
            unsafe {
                let block = mlirBlockCreate(0, std::ptr::null(), std::ptr::null());
                let new = Object::block(context.0, block).track(tracker).unwrap();
                assert!(new.is_live() && !old.contains(&new));
                mlirBlockDestroy(block);
                assert!(!new.is_live());
                if old.iter().any(|each| each.object == new.object) {
                    return;
                }
                old.push(new);
            }
        }
        panic!("no address was used again");
    });
}

#[test]
fn a_self_test_that_proves_nothing_is_not_believed() {
    let tracker = Tracker::new("not believed").unwrap();
    let mut calls = 0;
    let mut refused = |outcome: bool, track: bool, expected: &str| {
        let error = mlir::install_link_hooks(tracker, |trial| {
            calls += 1;
            assert!(trial.is_exact() && trial != tracker);
            if track {
                let description = Description {
                    object: 16,
                    ..Description::default()
                };
                trial.track(&description).unwrap();
            }
            outcome
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let message = error.message().to_string_lossy();
        assert!(message.contains(expected), "{message}");
        assert_eq!(mlir::status(tracker).unwrap().reason, error.message());
        assert!(!tracker.is_exact());
    };
    refused(true, false, "tracked nothing");
    refused(true, true, "saw 0 of the 1 ends");
    refused(false, true, "saw 0 of the 1 ends");
    assert_eq!(calls, 3);
    assert!(
        mlir::install_link_hooks(tracker, |_| panic!("on purpose"))
            .unwrap_err()
            .message()
            .to_string_lossy()
            .contains("panicked")
    );
    tracker.destroy_tracker().unwrap();
    assert_eq!(
        mlir::install_link_hooks(tracker, |_| true)
            .unwrap_err()
            .kind(),
        ErrorKind::NoTracker
    );
}
