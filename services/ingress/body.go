package ingress

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/catchwater/catchwater/pkg/source"
)

var (
	errBodyCut       = errors.New("the body ended early")
	errBodyTooLarge  = errors.New("the body is over the source's limit")
	errBodyMemory    = errors.New("the memory for bodies is used up")
	errEncoding      = errors.New("the content encoding is not one that the source takes")
	errGzipMalformed = errors.New("the body is not gzip as its header says")
)

// budget bounds the bytes of all bodies held at once.
type budget struct {
	limit int64
	used  atomic.Int64
}

// lease is one request's part of the budget.
type lease struct {
	budget *budget
	held   int64
}

// grow takes n more bytes, unless that would be over the limit.
func (l *lease) grow(n int64) bool {
	if l.budget.used.Add(n) > l.budget.limit {
		l.budget.used.Add(-n)
		return false
	}
	l.held += n
	return true
}

func (l *lease) release() {
	l.budget.used.Add(-l.held)
	l.held = 0
}

// body is what came.
type body struct {
	signed []byte // verified, and stored exactly so
	plain  []byte // what they say, where the signed bytes are compressed
}

// readBody reads a request's body within the source's limit, which counts what
// is read, chunked or not, and what it inflates to.
func readBody(r *http.Request, src *source.Source, memory *lease) (body, error) {
	encoding := strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ","))
	gzipped := encoding == "gzip" || encoding == "x-gzip"
	if encoding != "" && encoding != "identity" && (!gzipped || src.GzipSigned == source.GzipRefused) {
		return body{}, errEncoding
	}
	if r.ContentLength > src.MaxBody {
		return body{}, errBodyTooLarge
	}
	wire, err := readLimited(r.Body, r.ContentLength, src.MaxBody, memory)
	switch {
	case errors.Is(err, errBodyTooLarge), errors.Is(err, errBodyMemory):
		return body{}, err
	case err != nil:
		return body{}, errors.Join(errBodyCut, err)
	case !gzipped:
		return body{signed: wire, plain: wire}, nil
	}
	plain, err := inflate(wire, src.MaxBody, memory)
	if src.GzipSigned == source.GzipWire {
		if errors.Is(err, errGzipMalformed) {
			plain, err = wire, nil // if signed, it is kept, and quarantined as what it is
		}
		return body{signed: wire, plain: plain}, err
	}
	return body{signed: plain, plain: plain}, err
}

func inflate(wire []byte, limit int64, memory *lease) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(wire))
	if err != nil {
		return nil, errGzipMalformed
	}
	plain, err := readLimited(reader, -1, limit, memory)
	if err != nil && !errors.Is(err, errBodyTooLarge) && !errors.Is(err, errBodyMemory) {
		return nil, errGzipMalformed
	}
	return plain, err
}

const firstRead = 4 << 10

// readLimited reads all of r into memory that it takes from the budget as it
// grows, so that neither a long body nor a lying length takes more than the
// limit. It reads one byte past the limit to tell "all" from "too much".
func readLimited(r io.Reader, length, limit int64, memory *lease) ([]byte, error) {
	size := int64(firstRead)
	if length >= 0 {
		size = min(length, 64<<10)
	}
	size = min(size, limit) + 1
	if !memory.grow(size) {
		return nil, errBodyMemory
	}
	buf := make([]byte, 0, size)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, errBodyTooLarge
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		}
		if len(buf) < cap(buf) {
			continue
		}
		grown := min(2*int64(cap(buf)), limit+1)
		if !memory.grow(grown) { // the old one is garbage only after the copy
			return nil, errBodyMemory
		}
		next := make([]byte, len(buf), grown)
		copy(next, buf)
		memory.held -= int64(cap(buf))
		memory.budget.used.Add(-int64(cap(buf)))
		buf = next
	}
}
