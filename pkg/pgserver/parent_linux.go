package pgserver

import "syscall"

// dieWithParent has the kernel stop the child when its parent ends, even when
// the parent is killed.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = fastStop }
