package pgserver

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// stoppedWithPid returns the folder of a stopped cluster whose lock file names a
// process, as a restart of the machine may leave it.
func stoppedWithPid(t *testing.T, pid int) string {
	t.Helper()
	dir := dataDir(t)
	if err := start(t, dir).Stop(); err != nil {
		t.Fatal(err)
	}
	account, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	if err := account.write(filepath.Join(dir, "postmaster.pid"), fmt.Sprintf("%d\n%s", pid, dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAnotherClustersServerIsLeftAlone(t *testing.T) {
	t.Parallel()
	other := start(t, dataDir(t))
	if err := stopLeftover(t.Context(), stoppedWithPid(t, other.Pid())); err != nil {
		t.Fatal(err)
	}
	select {
	case <-other.Done():
		t.Fatal("it was stopped")
	default:
	}
	if n := query(t, other, "select 1"); n != 1 {
		t.Errorf("it answers %d", n)
	}
}

func TestAProcessIDGivenToAnotherProgramDoesNotHoldTheFolder(t *testing.T) {
	t.Parallel()
	account, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	program, err := account.start(exec.Command("sleep", "60"), os.TempDir(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.cmd.Process.Kill()
		<-program.done
	})
	server := start(t, stoppedWithPid(t, program.cmd.Process.Pid))
	if n := query(t, server, "select 1"); n != 1 {
		t.Errorf("it answers %d", n)
	}
	select {
	case <-program.done:
		t.Error("the program was stopped")
	default:
	}
}

func TestALeftoverServerIsStopped(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	leftover := start(t, dir)
	query(t, leftover, "create table n (n int)", "insert into n values (7)", "select 1")
	next := start(t, dir)
	select {
	case <-leftover.Done():
	default:
		t.Error("two servers run on one folder")
	}
	if n := query(t, next, "select n from n"); n != 7 {
		t.Errorf("n is %d, want 7", n)
	}
}
