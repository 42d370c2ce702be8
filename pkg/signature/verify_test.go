package signature

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Unix(1_790_000_000, 0)

const secret = "a secret of enough bytes"

func verifier(t testing.TB, s Scheme) (*Verifier, Key) {
	t.Helper()
	v, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	key, err := v.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return v, key
}

func signed(t testing.TB, v *Verifier, body string, at time.Time, keys ...Key) http.Header {
	t.Helper()
	h := http.Header{"Webhook-Id": {"wh_1"}}
	if err := v.Sign(h, []byte(body), keys, at); err != nil {
		t.Fatal(err)
	}
	return h
}

func reason(err error) Reason {
	var rejection *Rejection
	if errors.As(err, &rejection) {
		return rejection.Reason
	}
	return ""
}

// TestEverySchemeTakesWhatItSigns checks each scheme against its own signing,
// with one bit of everything changed.
func TestEverySchemeTakesWhatItSigns(t *testing.T) {
	t.Parallel()
	for name, scheme := range schemes {
		t.Run(name, func(t *testing.T) {
			v, err := scheme.Compile()
			if err != nil {
				t.Fatal(err)
			}
			text := secret
			if scheme.KeyForm == Base64 {
				text = "TVVTVEJFVEhJUlRZVFdPQllURVNMT05HRVhBQ1RMWSE="
			}
			if scheme.Algorithm == Ed25519 {
				text = signingPrefix + text
			}
			key, err := v.ParseKey(text)
			if err != nil {
				t.Fatal(err)
			}
			h := signed(t, v, "body", now, key)
			if err := v.Verify(h, []byte("body"), []Key{key}, now); err != nil {
				t.Errorf("its own signature: %v", err)
			}
			if err := v.Verify(h, []byte("bodY"), []Key{key}, now); reason(err) != Mismatch {
				t.Errorf("another body: %v", err)
			}
			if err := v.Verify(h, []byte("body"), nil, now); reason(err) != Mismatch {
				t.Errorf("no key: %v", err)
			}
			if err := v.Verify(http.Header{}, []byte("body"), []Key{key}, now); reason(err) != Missing {
				t.Errorf("no header: %v", err)
			}
		})
	}
}

func TestHardInput09_AnyGoodEntryUnderAnySecretAccepts(t *testing.T) {
	t.Parallel()
	v, key := verifier(t, stripeLike("S"))
	other, err := v.ParseKey("another secret of enough bytes")
	if err != nil {
		t.Fatal(err)
	}
	good := signed(t, v, "body", now, key).Get("S")
	both := signed(t, v, "body", now, other, key).Get("S")
	for _, lines := range [][]string{
		{good}, {both}, {strings.Replace(good, "v1=", "v1=00,v1=", 1)}, {good + ",v2=00"}, {"t=1,v1=00", good}, {"garbage", good},
		{strings.Replace(good, "v1=", "v1=00,", 1)}, // a bare item repeats the key
		{strings.ReplaceAll(good, ",", " , ")},
	} {
		if err := v.Verify(http.Header{"S": lines}, []byte("body"), []Key{other, key}, now); err != nil {
			t.Errorf("%q: %v", lines, err)
		}
	}
}

func TestForgedCandidatesAreFew(t *testing.T) {
	t.Parallel()
	v, key := verifier(t, stripeLike("S"))
	good := signed(t, v, "body", now, key).Get("S")
	for _, lines := range [][]string{
		append(slices.Repeat([]string{"t=1,v1=00"}, maxLines), good),
		{good + strings.Repeat(",v1=00", maxSignatures)},
	} {
		if got := reason(v.Verify(http.Header{"S": lines}, []byte("body"), []Key{key}, now)); got != Malformed {
			t.Errorf("%d lines, %d bytes in the first: %q, want malformed", len(lines), len(lines[0]), got)
		}
	}
	lines := append(slices.Repeat([]string{"t=1,v1=00"}, maxLines-1), good+strings.Repeat(",v1=00", maxSignatures-1))
	if err := v.Verify(http.Header{"S": lines}, []byte("body"), []Key{key}, now); err != nil {
		t.Errorf("as many as are read: %v", err)
	}
}

func TestHardInput10_OddSignatures(t *testing.T) {
	t.Parallel()
	v, key := verifier(t, Scheme{Header: "S", Form: FormBare, Signed: "{body}", Algorithm: HMACSHA256, Encoding: Hex})
	good := signed(t, v, "body", now, key).Get("S")
	for text, want := range map[string]Reason{
		"": Malformed, good[:63]: Malformed, good + "0": Malformed, good + "00": Mismatch, good[:62]: Mismatch, "zz": Malformed,
		"\x80\xff": Malformed, strings.ToUpper(good): "", " " + good + "\t": "",
	} {
		if got := reason(v.Verify(http.Header{"S": {text}}, []byte("body"), []Key{key}, now)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestHardInput13_Timestamps(t *testing.T) {
	t.Parallel()
	v, key := verifier(t, stripeLike("S"))
	for offset, want := range map[time.Duration]Reason{
		-301 * time.Second: Expired, -300 * time.Second: "", -299 * time.Second: "", 299 * time.Second: "", 301 * time.Second: Ahead,
	} {
		if got := reason(v.Verify(signed(t, v, "body", now.Add(offset), key), []byte("body"), []Key{key}, now)); got != want {
			t.Errorf("%s: %q, want %q", offset, got, want)
		}
	}
	good := signed(t, v, "body", now, key).Get("S")
	sig := good[strings.Index(good, "v1="):]
	for _, stamp := range []string{"t=NaN,", "t=,", "t=1e9,", "t=-1,", "t=12345678901234567890,", "t=1790000000,t=1790000000,", "t=+1,", "t=0x1,", "t=１,", ""} {
		if got := reason(v.Verify(http.Header{"S": {stamp + sig}}, []byte("body"), []Key{key}, now)); got != Malformed {
			t.Errorf("%q: %q, want malformed", stamp, got)
		}
	}
	// The most telling of several candidates is reported; time is only told of
	// authentic ones.
	old := signed(t, v, "body", now.Add(-time.Hour), key).Get("S")
	if got := reason(v.Verify(http.Header{"S": {"garbage", old, "t=1,v1=00"}}, []byte("body"), []Key{key}, now)); got != Expired {
		t.Errorf("several candidates: %q, want expired", got)
	}
	if got := reason(v.Verify(http.Header{"S": {"t=1,v1=00"}}, []byte("body"), []Key{key}, now)); got != Mismatch {
		t.Errorf("a forged old one: %q, want mismatch", got)
	}
}

func TestCompileNamesTheField(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Scheme){
		"header":         func(s *Scheme) { s.Header = "" },
		"form":           func(s *Scheme) { s.Form = "x" },
		"algorithm":      func(s *Scheme) { s.Algorithm = "md5" },
		"encoding":       func(s *Scheme) { s.Encoding = "verbatim" },
		"signature_keys": func(s *Scheme) { s.SignatureKeys = nil },
		"key_form":       func(s *Scheme) { s.Algorithm = Ed25519 },
		"{body} must":    func(s *Scheme) { s.Signed = "{t}" },
		"not closed":     func(s *Scheme) { s.Signed = "{body}{t" },
		"{who} is not":   func(s *Scheme) { s.Signed = "{body}{who}" },
		"{id} needs":     func(s *Scheme) { s.Signed = "{id}.{body}" },
		"{t} needs":      func(s *Scheme) { s.TimestampKey = "" },
		"no timestamp":   func(s *Scheme) { s.TimestampKey, s.Signed = "", "{body}" },
	} {
		s := stripeLike("S")
		change(&s)
		if _, err := s.Compile(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func FuzzVerifyAnswers(f *testing.F) {
	f.Add("t=1790000000,v1=00", "body")
	f.Add("v1,AAAA v1a,BBBB", "")
	f.Add("sha256=", "\xff")
	type compiled struct {
		v   *Verifier
		key Key
	}
	var all []compiled
	for _, scheme := range schemes {
		if scheme.KeyForm == Base64 {
			continue
		}
		v, key := verifier(f, scheme)
		all = append(all, compiled{v, key})
	}
	f.Fuzz(func(t *testing.T, header, body string) {
		for _, c := range all {
			h := http.Header{http.CanonicalHeaderKey(c.v.scheme.Header): {header}, "X-Cloro-Timestamp": {"1790000000"}}
			if err := c.v.Verify(h, []byte(body), []Key{c.key}, now); err == nil {
				t.Fatalf("%q was taken for a signature of %q", header, body)
			}
		}
	})
}
