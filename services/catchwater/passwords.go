package catchwater

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// serviceRoles are the database roles that the migrations make, one a service.
var serviceRoles = []string{"catchwater_ingress", "catchwater_processor", "catchwater_reconciler"}

// minPassword is the shortest password that a role is given, in bytes.
const minPassword = 16

// checkPassword returns the password that a file's text holds. Characters
// beyond printable ASCII are refused: Postgres would have them normalised first.
func checkPassword(role, text string) (string, error) {
	password := strings.TrimSpace(text)
	if len(password) < minPassword {
		return "", fmt.Errorf("the password of %s has %d bytes: use at least %d", role, len(password), minPassword)
	}
	if strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("the password of %s has characters other than printable ASCII", role)
	}
	return password, nil
}

// setPassword gives a role its password. What is sent is what Postgres stores,
// so the password itself stands in no statement and in no log of the server.
func setPassword(ctx context.Context, conn *pgx.Conn, role, password string) error {
	verifier, err := scramVerifier(password)
	if err != nil {
		return fmt.Errorf("give %s its password: %w", role, err)
	}
	statement := fmt.Sprintf("alter role %s password '%s'", pgx.Identifier{role}.Sanitize(), verifier)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("give %s its password: %w", role, err)
	}
	return nil
}

// scramVerifier returns what Postgres keeps of a password (RFC 5803).
func scramVerifier(password string) (string, error) {
	const iterations = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac(salted, "Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, text(salt), text(stored[:]), text(mac(salted, "Server Key"))), nil
}
