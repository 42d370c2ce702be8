package catchwater

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/catchwater/catchwater/pkg/pgtest"
)

// TestARoleLogsInWithThePasswordItWasGiven has Postgres itself check the
// verifier: it asks for SCRAM.
func TestARoleLogsInWithThePasswordItWasGiven(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const role = "with a space"
	if _, err := conn.Exec(t.Context(), `create role "with a space" login`); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"it's 16 bytes, or more\n", `another "one" \ with $ and %`} {
		password, err := checkPassword(role, text)
		if err != nil {
			t.Fatal(err)
		}
		if err := setPassword(t.Context(), conn, role, password); err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, password)
		own, err := pgx.Connect(t.Context(), u.String())
		if err != nil {
			t.Errorf("with %q: %v", password, err)
			continue
		}
		_ = own.Close(t.Context())
		u.User = url.UserPassword(role, password+"x")
		if other, err := pgx.Connect(t.Context(), u.String()); err == nil {
			_ = other.Close(t.Context())
			t.Error("another password is taken")
		}
	}
}

func TestPasswordsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n", "fifteen bytes..", "a tab\tin between them", "a line\nand another one", "Straße und Gässchen"} {
		if _, err := checkPassword("catchwater_ingress", text); err == nil || !strings.Contains(err.Error(), "catchwater_ingress") {
			t.Errorf("%q: %v", text, err)
		} else if text = strings.TrimSpace(text); text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}
