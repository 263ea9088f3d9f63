package serving

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// headLength is how much of a body is read to learn its namespace. In the requests of an API
// server the namespace comes before the objects, after some 500 bytes and the name of the object.
const headLength = 4 << 10

// longestNamespace is the length of the longest name of a namespace.
const longestNamespace = 63

// peek reads the head of a body. The body is as before.
func peek(r *http.Request) (head []byte, err error) {
	head = make([]byte, headLength)
	n, err := io.ReadFull(r.Body, head)
	head = head[:n]
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), r.Body), r.Body}
	if err == io.EOF || err == io.ErrUnexpectedEOF { // a body that is shorter
		err = nil
	}
	return head, err
}

// namespaceOf is the namespace that an AdmissionReview is about, from its head; "" where the head
// does not tell it. A client that is not the API server may lie, and has its own share.
func namespaceOf(body []byte) string {
	d := json.NewDecoder(bytes.NewReader(body[:min(len(body), headLength)]))
	if !enter(d) || !find(d, "request") || !enter(d) || !find(d, "namespace") {
		return ""
	}
	token, err := d.Token()
	namespace, ok := token.(string)
	if err != nil || !ok || len(namespace) > longestNamespace {
		return ""
	}
	return namespace
}

// enter reads the beginning of an object.
func enter(d *json.Decoder) bool {
	token, err := d.Token()
	return err == nil && token == json.Delim('{')
}

// find reads the members of an object up to a key.
func find(d *json.Decoder, key string) bool {
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if token == key {
			return true
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}
