package catchwater

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/catchwater/catchwater/pkg/inbox"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

// TestMain keeps the tests off a database that the environment names.
func TestMain(m *testing.M) {
	for _, name := range []string{"DATABASE_URL", "CATCHWATER_CONFIG", "CATCHWATER_DATA_DIR"} {
		_ = os.Unsetenv(name)
	}
	os.Exit(m.Run())
}

// quarantinedRow puts a row into quarantine that has a body.
const quarantinedRow = `
with row as (
  insert into inbox (source, event_key, body_hash, state, attempts, last_error)
  values ('answers', 'task_1', '', 'quarantined', 1, 'no such field')
  returning id, received_at
)
insert into inbox_payload (inbox_id, received_at, body) select id, received_at, '\x6100626f6479' from row`

func TestCommandLines(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		name string
		args string
		exit int
		says string
	}{
		{"nothing", "", 0, "Usage: catchwater"},
		{"help of a command", "tasks submit --help", 0, "--key"},
		{"version", "version", 0, "catchwater "},
		{"unknown command", "start", 2, "Try: catchwater --help"},
		{"unknown flag", "up --fast", 2, "--fast"},
		{"submit without a key", "tasks submit", 2, "--key"},
		{"add without ids", "tasks add", 2, "task-id"},
		{"retry of no number", "inbox retry first", 2, "first"},
		{"state that is none", "inbox list --state lost", 2, "quarantined"},
		{"limit", "inbox list --limit 0", 1, "--limit is 0"},
		{"limit of effects", "effects list --limit 0", 1, "--limit is 0"},
		{"retry of all effects", "effects retry", 2, "say which effects"},
		{"discarding all effects", "effects discard", 2, "say which effects"},
		{"discarding all of a source", "effects discard --source mail", 2, "both --source and --name"},
		{"discarding all of a name", "effects discard --name crm", 2, "both --source and --name"},
		{"an effect of no number", "effects show first", 2, "first"},
		{"state of effects that is none", "effects list --state done", 2, "given_up"},
		{"limit of tasks", "tasks list --limit=-1", 1, "--limit is -1"},
		{"config that is not there", "up --config /nowhere.yaml", 2, "/nowhere.yaml"},
		{"rate below", "up --rate=-1", 1, "use 0 for none"},
		{"rate above", "up --rate 1001", 1, "use 0 for none"},
		{"rate too small", "up --rate 1e-10", 1, "use 0 for none"},
		{"rate of mail", "up --mail-rate 1001", 1, "--mail-rate is 1001: use 0 for none"},
		{"rate that is none", "up --rate NaN", 1, "use 0 for none"},
		{"port out of range", "up --ingress-port 70000", 1, "--ingress-port is 70000"},
		{"data that is not JSON", "tasks submit --key k --data hello", 1, "named with @"},
		{"data file that is not there", "tasks submit --key k --data @/nowhere.json", 1, "read --data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			args := strings.Fields(c.args)
			if len(args) > 0 {
				args = append([]string{"--data-dir", empty}, args...)
			}
			if exit := Main(args, &out, &out); exit != c.exit || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit status %d, want %d, with %q in:\n%s", exit, c.exit, c.says, out.String())
			}
		})
	}
}

// TestSettingsComeFromTheEnvironmentOrTheEnvFile holds get to the words that
// writeEnv writes.
func TestSettingsComeFromTheEnvironmentOrTheEnvFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	odd := "/it's/here=there"
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte("A="+quote("file")+"\nB="+quote(odd)+"\n"), private); err != nil {
		t.Fatal(err)
	}
	s := &settings{dataDir: dir, getenv: func(name string) string {
		return map[string]string{"A": "environment"}[name]
	}}
	for name, want := range map[string]string{"A": "environment", "B": odd} {
		if got, err := s.get(name); got != want || err != nil {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
	if _, err := s.get("C"); err == nil || !strings.Contains(err.Error(), "C is not set") || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v, want an error that says how to set C", err)
	}
}

// onDatabase runs a command line on a database, and returns what it printed.
func onDatabase(t *testing.T, url string, args ...string) string {
	t.Helper()
	exit, out := runOnDatabase(t, url, args...)
	if exit != 0 {
		t.Errorf("%v: exit status %d:\n%s", args, exit, out)
	}
	return out
}

// runOnDatabase is onDatabase for command lines that may fail.
func runOnDatabase(t *testing.T, url string, args ...string) (exit int, printed string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	secrets := demoSecrets{signingFile: file, apiKeyFile: file}
	files := map[string]string{
		"env":             "DATABASE_URL=" + quote(url) + "\nCATCHWATER_CONFIG=" + quote(filepath.Join(dir, "catchwater.yaml")) + "\n",
		"catchwater.yaml": demoConfigFor(secrets, secrets, 8090),
		"secret":          "whsec_of-the-tests-alone",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), private); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	exit = Main(append([]string{"--data-dir", dir}, args...), &out, &out)
	return exit, out.String()
}

func TestMigrateSaysWhatItApplied(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	if out := onDatabase(t, url, "migrate"); !strings.Contains(out, "applied ") || !strings.Contains(out, "the schema is at version") {
		t.Errorf("the first time: %s", out)
	}
	if out := onDatabase(t, url, "migrate"); strings.Contains(out, "applied ") {
		t.Errorf("the second time: %s", out)
	}
}

func TestTasksAreRegisteredAndListed(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	if out := onDatabase(t, url, "tasks", "add", "task_1", "task_2"); !strings.Contains(out, "registered 2 tasks of 2") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "tasks", "add", "task_2", "task_3"); !strings.Contains(out, "registered 1 tasks of 2") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "tasks", "list"); !strings.Contains(out, "task_1") || !strings.Contains(out, "open") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "tasks", "list", "--json"); strings.Count(out, `"task_id":"task_`) != 3 {
		t.Error(out)
	}
}

func TestMessagesAreRegisteredAndListed(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	pool := pgtest.Pool(t, url)
	if out := onDatabase(t, url, "messages", "add", "--source", "mail", "msg_1", "msg_2"); !strings.Contains(out, "registered 2 messages of 2") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "messages", "add", "--source", "mail", "msg_2", "msg_3"); !strings.Contains(out, "registered 1 messages of 2") {
		t.Error(out)
	}
	if _, err := pool.Exec(t.Context(), "update messages set status = 'bounced', rank = 60, final = true, status_at = '2026-01-02' where message_id = 'msg_2'"); err != nil {
		t.Fatal(err)
	}
	if out := onDatabase(t, url, "messages", "list", "msg_2", "msg_3"); !strings.Contains(out, "msg_2") || !strings.Contains(out, "bounced") || strings.Contains(out, "msg_1") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "messages", "list", "--not-final", "--json"); strings.Count(out, `"message_id":"msg_`) != 2 || strings.Contains(out, "msg_2") {
		t.Error(out)
	}
}

func TestMessagesOfAnotherProjectionAreRefused(t *testing.T) {
	t.Parallel()
	s := &settings{dataDir: t.TempDir(), getenv: func(string) string { return "../../catchwater.example.yaml" }}
	err := messagesAddCommand{Source: "payments", IDs: []string{"m"}}.Run(t.Context(), s, output{})
	if err == nil || !strings.Contains(err.Error(), `source "payments" has projection none`) {
		t.Errorf("got %v", err)
	}
	_, err = s.reconciled("mail")
	if err == nil || !strings.Contains(err.Error(), `source "mail" is of messages, not tasks`) {
		t.Errorf("got %v", err)
	}
	err = messagesAddCommand{Source: "nobody", IDs: []string{"m"}}.Run(t.Context(), s, output{})
	if err == nil || !strings.Contains(err.Error(), `there is no source "nobody"`) {
		t.Errorf("got %v", err)
	}
}

// TestRowsRefusedAtTheirReceiptAreReadAgain mends a source's settings, in which
// the reference to the key was wrong.
func TestRowsRefusedAtTheirReceiptAreReadAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	pool := pgtest.Pool(t, url)
	refuse := func(body string) string {
		t.Helper()
		results, err := inbox.NewStore(pool, 0).Insert(t.Context(), []inbox.Delivery{{
			Source: "mail", EventKey: "sha256:" + body, Origin: inbox.FromDelivery, Body: []byte(body), Quarantine: "as it was told",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(results[0].ID)
	}
	good := refuse(`{"event":"message.sent","timestamp":1767323045,"message_id":"m1"}`)
	again := refuse(`{"event":"message.sent","timestamp":1767323045,"message_id":"m1" }`)
	bad := refuse(`{"event":"message.sent","timestamp":1767323045,"message_id":["m1"]}`)
	out := onDatabase(t, url, "inbox", "retry", good, again, bad)
	for _, want := range []string{"row " + good + " was read again: 1 events, 1 of them new", "row " + again + " was read again: 1 events, 0 of them new",
		"row " + bad + " still cannot be identified: the delivery's message_id is not a single value"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	var rows string
	if err := pool.QueryRow(t.Context(), `select string_agg(concat_ws(' ', state, origin, event_type, subject, last_error), ', ' order by id) from inbox`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	if rows != "processed delivery, processed delivery, quarantined delivery as it was told, pending import message.sent m1" {
		t.Errorf("the inbox has %s", rows)
	}
}

func TestInboxCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	pool := pgtest.Pool(t, url)
	_, err := pool.Exec(t.Context(), quarantinedRow)
	if err != nil {
		t.Fatal(err)
	}
	if out := onDatabase(t, url, "inbox", "list", "--state", "quarantined"); !strings.Contains(out, "answers") || !strings.Contains(out, "no such field") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "inbox", "show", "1", "--body"); out != "a\x00body" {
		t.Errorf("the body is %q", out)
	}
	if out := onDatabase(t, url, "inbox", "list", "--older-than", "1h"); strings.Contains(out, "task_1") {
		t.Error("a row of now is older than an hour: " + out)
	}
	if out := onDatabase(t, url, "inbox", "retry", "1", "2"); !strings.Contains(out, "row 1 will be processed again") || !strings.Contains(out, "row 2 is not in quarantine") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "inbox", "list", "--state", "quarantined"); strings.Contains(out, "no such field") {
		t.Error("the row is still in quarantine: " + out)
	}
}

func TestEffectsCommands(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	long := strings.Repeat("why ", 40) + "and what to do"
	if _, err := pgtest.Pool(t, url).Exec(t.Context(), `
insert into effects (source, event_key, name, inbox_id, received_at, state, attempts, next_attempt_at, last_error)
values ('mail', 'k1', 'crm', 1, now(), 'given_up', 20, null, 'the answer is 500: '||$1), ('mail', 'k2', 'crm', 2, now(), 'pending', 0, now(), null),
  ('mail', 'k3', 'crm', 3, now(), 'pending', 1, now() + interval '1 hour', 'the answer is 502')`, long); err != nil {
		t.Fatal(err)
	}
	if out := onDatabase(t, url, "effects", "list", "--state", "given_up"); !strings.Contains(out, "k1") || !strings.Contains(out, "the answer is 500") || strings.Contains(out, "k2") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "effects", "list", "--limit", "2"); !strings.Contains(out, "… more: --limit") || strings.Contains(out, "k1") {
		t.Error(out)
	}
	if out := onDatabase(t, url, "effects", "show", "1"); !strings.Contains(out, `"id":1,`) || !strings.Contains(out, long) {
		t.Error(out)
	}
	if out := onDatabase(t, url, "effects", "retry", "1", "2", "3"); out != "1 effects that were given up will be tried again, with all their attempts\n"+
		"1 effects that waited for their next attempt are due now\neffect 2 is due already, under way, performed, or not there; nothing was done\n" {
		t.Error(out)
	}
	if out := onDatabase(t, url, "effects", "list", "--json", "--name", "crm"); strings.Count(out, `"state":"pending"`) != 3 {
		t.Error(out)
	}
	if out := onDatabase(t, url, "effects", "discard", "2"); out != "1 effects were discarded\n" {
		t.Error(out)
	}
	if out := onDatabase(t, url, "effects", "discard", "--source", "mail", "--name", "crm"); out != "2 effects were discarded\n" {
		t.Error(out)
	}
}

func TestNamesThatAreNotInTheSourcesFile(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	for args, want := range map[string]string{
		"list --source male":                 "Is the source's name right?",
		"list --source mail --name crm":      "Is the effect's name right?",
		"retry --name crm":                   "Is the effect's name right?",
		"discard --source male --name crm":   `catchwater.yaml has no "male"; there are: `,
		"list --source mail --state pending": "",
	} {
		out := onDatabase(t, url, append([]string{"effects"}, strings.Fields(args)...)...)
		if hinted := strings.Contains(out, "name right?"); hinted != (want != "") || !strings.Contains(out, want) {
			t.Errorf("%s: %q is wanted in:\n%s", args, want, out)
		}
	}
}

func TestUpChecksEffectsBeforeAnythingIsStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("whsec_of-the-tests-alone"), private); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"{name: crm, http: {url: 'http://h', secret: {file: /nowhere}}}": `source "mail", effect "crm": read a secret`,
		"{name: crm, handler: own}":                                      `handler "own" is not in this program`,
	} {
		path := filepath.Join(t.TempDir(), "catchwater.yaml")
		text := fmt.Sprintf("sources:\n  mail:\n    preset: answerline\n    secrets: [{file: %q}]\n    effects:\n      - %s\n", secret, line)
		if err := os.WriteFile(path, []byte(text), private); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if exit := Main([]string{"--data-dir", dir, "up", "--config", path}, &out, &out); exit != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("exit status %d, with %q wanted in:\n%s", exit, want, out.String())
		}
	}
}
