package signature

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func publicKey(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

func TestECDSA(t *testing.T) {
	t.Parallel()
	v, err := Scheme{
		Header: "X-Signature", Form: FormBare, TimestampHeader: "X-Timestamp", Signed: "{t}{body}", Algorithm: ECDSAP256,
		Encoding: Base64, KeyForm: Base64, Tolerance: time.Minute,
	}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := v.ParseKey(publicKey(t, private))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	stamp := strconv.FormatInt(now.Unix(), 10)
	digest := sha256.Sum256([]byte(stamp + "body"))
	made, err := ecdsa.SignASN1(rand.Reader, private, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		signature []byte
		body      string
		want      Reason
	}{
		"its own":        {made, "body", ""},
		"another body":   {made, "Body", Mismatch},
		"cut short":      {made[:len(made)-1], "body", Mismatch},
		"something else": {[]byte("signature"), "body", Mismatch},
	} {
		h := http.Header{"X-Timestamp": {stamp}, "X-Signature": {base64.StdEncoding.EncodeToString(c.signature)}}
		err := v.Verify(h, []byte(c.body), []Key{key}, now)
		var rejection *Rejection
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &rejection) || rejection.Reason != c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestECDSAKeysAreChecked(t *testing.T) {
	t.Parallel()
	v, err := Scheme{Header: "X", Form: FormBare, Signed: "{body}", Algorithm: ECDSAP256, Encoding: Base64, KeyForm: Base64}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]string{"not a key": "aHVudGVyMg==", "another curve": publicKey(t, other)} {
		if _, err := v.ParseKey(secret); err == nil || !strings.Contains(err.Error(), "curve P-256") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Scheme{Header: "X", Form: FormBare, Signed: "{body}", Algorithm: ECDSAP256, Encoding: Base64}).Compile(); err == nil ||
		!strings.Contains(err.Error(), "ecdsa-p256 keys are hex or base64") {
		t.Errorf("a key without an encoding: %v", err)
	}
}
