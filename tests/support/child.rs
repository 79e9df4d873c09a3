// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Child processes of tests that fork.

/// What a child may take, in seconds. It needs some milliseconds of a processor, which it may have to
/// wait for on a busy machine. A child that hangs does so for ever.
const PATIENCE_S: u32 = 20;

/// How a child ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome {
    /// Everything it asked was answered, and right.
    Fine,
    /// The step with that number was refused or answered wrong.
    Wrong(i32),
    Hung,
    Crashed(i32),
}

/// Runs `child` in a child process. It gives the number of the step that went wrong, or 0.
pub fn in_child(child: impl FnOnce() -> i32) -> Outcome {
    // SAFETY: the child ends in `_exit`, so nothing of the test harness runs twice. Besides the
    // tracker it uses memory, which the system's allocator allows in the child of a fork.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            // Ends a child that hangs.
            libc::alarm(PATIENCE_S);
            let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            libc::_exit(step.unwrap_or(99));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        match status {
            0 => Outcome::Fine,
            _ if libc::WIFEXITED(status) => Outcome::Wrong(libc::WEXITSTATUS(status)),
            _ if libc::WTERMSIG(status) == libc::SIGALRM => Outcome::Hung,
            _ => Outcome::Crashed(libc::WTERMSIG(status)),
        }
    }
}
