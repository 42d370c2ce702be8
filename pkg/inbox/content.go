package inbox

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// maxContent bounds what a compressed body may inflate to, in bytes. The
// ingress has held it to the source's limit already.
const maxContent = 256 << 20

// Compressed reports whether the body is compressed: a source's senders may sign
// the compressed bytes. (No JSON text, form or XML begins with gzip's two magic
// bytes.)
func (r *Row) Compressed() bool { return bytes.HasPrefix(r.Body, []byte{0x1f, 0x8b}) }

// Content is what the body says: the body itself, inflated where it is
// Compressed.
func (r *Row) Content() ([]byte, error) {
	if !r.Compressed() {
		return r.Body, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("inflate the body: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, maxContent))
	if err != nil {
		return nil, fmt.Errorf("inflate the body: %w", err)
	}
	return plain, nil
}
