package signature

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Key is a secret in the form that its scheme uses.
type Key struct {
	bytes   []byte             // the HMAC key, or the public key
	private ed25519.PrivateKey // of a stand-in for a provider
	ecdsa   *ecdsa.PublicKey   // what bytes say, for ECDSAP256
}

// Len is the length of the key in bytes.
func (k Key) Len() int { return len(k.bytes) }

// signingPrefix marks an Ed25519 seed in Standard Webhooks' notation; it is
// what a stand-in for a provider signs with.
const signingPrefix = "whsk_"

// ParseKey decodes a secret. Its errors never contain the secret.
func (v *Verifier) ParseKey(secret string) (Key, error) {
	signing := v.scheme.Algorithm == Ed25519 && strings.HasPrefix(secret, signingPrefix)
	if signing {
		secret = strings.TrimPrefix(secret, signingPrefix)
	} else {
		secret = strings.TrimPrefix(secret, v.scheme.KeyPrefix)
	}
	key, err := decode(v.scheme.KeyForm, secret)
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("the secret is not %s", v.scheme.KeyForm)
	case len(key) == 0:
		return Key{}, errors.New("the secret is empty")
	case v.scheme.Algorithm == ECDSAP256:
		return ecdsaKey(key)
	case v.scheme.Algorithm != Ed25519:
		return Key{bytes: key}, nil
	case len(key) != ed25519.PublicKeySize: // a seed has the same length
		return Key{}, fmt.Errorf("an ed25519 key has %d bytes, this one %d", ed25519.PublicKeySize, len(key))
	case signing:
		private := ed25519.NewKeyFromSeed(key)
		return Key{bytes: private.Public().(ed25519.PublicKey), private: private}, nil
	}
	return Key{bytes: key}, nil
}

// ecdsaKey reads a public key in DER.
func ecdsaKey(der []byte) (Key, error) {
	parsed, err := x509.ParsePKIXPublicKey(der)
	public, ok := parsed.(*ecdsa.PublicKey)
	if err != nil || !ok || public.Curve != elliptic.P256() {
		return Key{}, errors.New("it is no ECDSA public key on the curve P-256, in DER (PKIX)")
	}
	return Key{bytes: der, ecdsa: public}, nil
}

// decode reads text in an encoding.
func decode(encoding Encoding, text string) ([]byte, error) {
	switch encoding {
	case Hex:
		return hex.DecodeString(text)
	case Base64:
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		return base64.RawStdEncoding.DecodeString(text)
	}
	return []byte(text), nil
}

func encode(encoding Encoding, b []byte) string {
	if encoding == Hex {
		return hex.EncodeToString(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}
