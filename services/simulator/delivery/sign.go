package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Sign makes the value of a timestamped signature header:
// t=<unix seconds>,v1=<hex HMAC-SHA256(secret, "<t>." + body)>, one v1 for each
// secret. It is written out here, not shared with the receiver's code, so that
// each is a check on the other.
func Sign(secrets []string, at time.Time, body []byte) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	items := []string{"t=" + stamp}
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		items = append(items, "v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(items, ",")
}
