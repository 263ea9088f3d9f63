package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
)

// audit reads the API server's log of the controller's requests.
type audit struct {
	path string
	at   int64 // how much of it was read
}

// request is a kind of request. The scope of a list or watch is a namespace, a name, or
// the whole cluster.
type request struct {
	verb, resource, scope string
}

// conflict is the scope of what was written from a state that is no longer.
const conflict = "refused: conflict"

// tally counts requests by kind.
type tally map[request]int

// next counts the requests since the last call.
func (a *audit) next() (tally, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	if _, err := f.Seek(a.at, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	t := tally{}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err != nil { // what is left is half a line, for the next time
			return t, nil
		}
		a.at += int64(len(line))
		if err := t.add(line); err != nil {
			return nil, err
		}
	}
}

func (t tally) add(line []byte) error {
	var event struct {
		Stage, Verb    string
		ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus struct{ Code int }
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("decode audit log: %w", err)
	}
	if event.Verb == "watch" && event.Stage != "ResponseStarted" || event.Verb != "watch" && event.Stage != "ResponseComplete" {
		return nil
	}
	ref := event.ObjectRef
	q := request{verb: event.Verb, resource: ref.Resource}
	if ref.Subresource != "" {
		q.resource += "/" + ref.Subresource
	}
	if q.verb == "list" || q.verb == "watch" {
		switch {
		case ref.Name != "":
			q.scope = "one object"
		case ref.Namespace != "":
			q.scope = "namespace " + ref.Namespace
		default:
			q.scope = "cluster"
		}
	}
	if event.ResponseStatus.Code == http.StatusConflict {
		q.scope = conflict
	}
	t[q]++
	return nil
}

// house is what a controller does whatever happens: it holds its lease.
func (q request) house() bool { return q.resource == "leases" || q.resource == "" }

// changes tells whether a request changes an object, events among them.
func (q request) changes() bool {
	return !q.house() && !slices.Contains([]string{"get", "list", "watch"}, q.verb)
}

// writes counts what changes an object.
func (t tally) writes() int {
	n := 0
	for q, times := range t {
		if q.changes() {
			n += times
		}
	}
	return n
}

// written counts what changes an object, by verb and kind.
func (t tally) written() map[string]int {
	n := map[string]int{}
	for q, times := range t {
		if q.changes() {
			n[q.verb+" "+q.resource] += times
		}
	}
	return n
}

// lists counts those of more than one object.
func (t tally) lists() int {
	n := 0
	for q, times := range t {
		if q.verb == "list" && q.scope != "one object" {
			n += times
		}
	}
	return n
}

// requests counts all but those for its lease.
func (t tally) requests() int {
	n := 0
	for q, times := range t {
		if !q.house() {
			n += times
		}
	}
	return n
}
