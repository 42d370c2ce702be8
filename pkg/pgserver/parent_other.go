//go:build !linux

package pgserver

import "syscall"

// dieWithParent can do nothing here: only Linux tells children. A server left
// behind is stopped by the next start on its folder.
func dieWithParent(*syscall.SysProcAttr) {}
