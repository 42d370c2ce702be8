package monitoring

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/catchwater/catchwater/test/harness"
)

// senseless is the exit status of a command line that the program does not take.
const senseless = 2

// TestTheRunbooksCommandsAreTaken gives the program every command line that the
// runbook tells people to type. None gets to a database; all are understood.
func TestTheRunbooksCommandsAreTaken(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(runbookPath)
	if err != nil {
		t.Fatal(err)
	}
	program := harness.Program(t, "catchwater")
	lines := regexp.MustCompile("(?m)(?:`|^    )catchwater\\s+((?:inbox|tasks|messages|effects)\\s[^`]*?)(?:`|$)").FindAllStringSubmatch(
		regexp.MustCompile("\n([a-z0-9-])").ReplaceAllString(string(text), " $1"), -1) // paragraphs as they are read
	if len(lines) < 10 {
		t.Fatalf("only %d command lines are found", len(lines))
	}
	example := strings.NewReplacer("…", "", "ID", "7")
	for _, line := range lines {
		command := exec.Command(program, strings.Fields(example.Replace(line[1]))...)
		command.Dir = t.TempDir() // where no system's folder is
		command.Env = []string{"DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}
		output, err := command.CombinedOutput()
		if err == nil || command.ProcessState.ExitCode() == senseless {
			t.Errorf("catchwater %s: %v\n%s", line[1], err, output)
		}
	}
}
