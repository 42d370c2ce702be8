package signature

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHeadersBesideTheSignature has a scheme that signs a time and an id, each
// in a header of its own, and what may be wrong with those.
func TestHeadersBesideTheSignature(t *testing.T) {
	t.Parallel()
	v, key := verifier(t, Scheme{
		Header: "S", Form: FormVersioned, SignatureKeys: []string{"v1"}, TimestampHeader: "T", TimestampUnit: Milliseconds, IDHeader: "Webhook-Id",
		Signed: "{id}.{t}.{header:x-kind}.{body}.end", Algorithm: HMACSHA512, Encoding: Base64, Tolerance: 300 * time.Second,
	})
	good := http.Header{"Webhook-Id": {"wh_1"}, "X-Kind": {"k"}}
	if err := v.Sign(good, []byte("body"), []Key{key}, now); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(http.Header)
		want   Reason
	}{
		"as signed":                {func(http.Header) {}, ""},
		"spaces round the time":    {func(h http.Header) { h["T"][0] = " " + h["T"][0] + " " }, ""},
		"url alphabet, no padding": {func(h http.Header) { h["S"][0] = strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(h["S"][0]) }, ""},
		"no time":                  {func(h http.Header) { h.Del("T") }, Malformed},
		"13 two times":             {func(h http.Header) { h.Add("T", h.Get("T")) }, Malformed},
		"13 a time that is none":   {func(h http.Header) { h.Set("T", "NaN") }, Malformed},
		"13 an empty time":         {func(h http.Header) { h.Set("T", "") }, Malformed},
		"another time":             {func(h http.Header) { h.Set("T", "1790000000001") }, Mismatch},
		"the same time in seconds": {func(h http.Header) { h.Set("T", "1790000000") }, Mismatch},
		"no id":                    {func(h http.Header) { h.Del("Webhook-Id") }, Malformed},
		"an empty id":              {func(h http.Header) { h.Set("Webhook-Id", "") }, Malformed},
		"two ids":                  {func(h http.Header) { h.Add("Webhook-Id", "wh_1") }, Malformed},
		"14 another id":            {func(h http.Header) { h.Set("Webhook-Id", "wh_2") }, Mismatch},
		"another kind":             {func(h http.Header) { h.Set("X-Kind", "l") }, Mismatch},
		"another version":          {func(h http.Header) { h.Set("S", strings.Replace(h.Get("S"), "v1", "v2", 1)) }, Malformed},
		"bytes over 0x7F":          {func(h http.Header) { h.Set("Webhook-Id", "\xff\x80") }, Mismatch},
	} {
		h := good.Clone()
		c.change(h)
		if got := reason(v.Verify(h, []byte("body"), []Key{key}, now)); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	if got := reason(v.Verify(good, []byte("body"), []Key{key}, now.Add(301*time.Second))); got != Expired {
		t.Errorf("301 s on: %q", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	const seed = "TVVTVEJFVEhJUlRZVFdPQllURVNMT05HRVhBQ1RMWSE=" // 32 bytes
	scheme := func(form Encoding, prefix string, algorithm Algorithm) *Verifier {
		v, err := Scheme{Header: "S", Form: FormBare, Signed: "{body}", Algorithm: algorithm, Encoding: Hex, KeyForm: form, KeyPrefix: prefix}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		v      *Verifier
		secret string
		length int // 0: refused
	}{
		{scheme(Verbatim, "", HMACSHA1), "whsec_abc", 9},
		{scheme(Verbatim, "", HMACSHA1), "", 0},
		{scheme(Hex, "", HMACSHA1), "00FFab", 3},
		{scheme(Hex, "", HMACSHA1), "hunter2hunter2", 0},
		{scheme(Base64, "whsec_", HMACSHA256), "whsec_" + seed, 32},
		{scheme(Base64, "whsec_", HMACSHA256), strings.TrimRight(seed, "="), 32},
		{scheme(Base64, "whsec_", HMACSHA256), "whsec_", 0},
		{scheme(Base64, "whsec_", HMACSHA256), "whsec_hunter2*hunter2", 0},
		{scheme(Base64, "whpk_", Ed25519), "whpk_" + seed, 32},
		{scheme(Base64, "whpk_", Ed25519), "whsk_" + seed, 32},
		{scheme(Base64, "whpk_", Ed25519), "whpk_aHVudGVyMg==", 0},
	} {
		key, err := c.v.ParseKey(c.secret)
		if (err != nil) != (c.length == 0) || key.Len() != c.length {
			t.Errorf("%s: %d bytes, %v; want %d", c.secret, key.Len(), err, c.length)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
	v := scheme(Base64, "whpk_", Ed25519)
	public, err := v.ParseKey("whpk_" + seed)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Sign(http.Header{}, nil, []Key{public}, now); err == nil {
		t.Error("a public key signed")
	}
}
