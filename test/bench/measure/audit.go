package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
)

// Audit reads the API server's log of the controller's requests.
type Audit struct {
	Path string
	at   int64 // how much of it was read
}

// Request is a kind of request. The scope of a list or watch is a namespace, a name, or
// the whole cluster.
type Request struct {
	Verb, Resource, Scope string
}

// conflict is the scope of what was written from a state that is no longer.
const conflict = "refused: conflict"

// Tally counts requests by kind.
type Tally map[Request]int

// Next counts the requests since the last call.
func (a *Audit) Next() (Tally, error) {
	f, err := os.Open(a.Path)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	if _, err := f.Seek(a.at, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	t := Tally{}
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

func (t Tally) add(line []byte) error {
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
	q := Request{Verb: event.Verb, Resource: ref.Resource}
	if ref.Subresource != "" {
		q.Resource += "/" + ref.Subresource
	}
	if q.Verb == "list" || q.Verb == "watch" {
		switch {
		case ref.Name != "":
			q.Scope = "one object"
		case ref.Namespace != "":
			q.Scope = "namespace " + ref.Namespace
		default:
			q.Scope = "cluster"
		}
	}
	if event.ResponseStatus.Code == http.StatusConflict {
		q.Scope = conflict
	}
	t[q]++
	return nil
}

// House is what a controller does whatever happens: it holds its lease.
func (q Request) House() bool { return q.Resource == "leases" || q.Resource == "" }

// changes reports whether a request changes an object, events among them.
func (q Request) changes() bool {
	return !q.House() && !slices.Contains([]string{"get", "list", "watch"}, q.Verb)
}

// Writes counts what changes an object.
func (t Tally) Writes() int {
	n := 0
	for q, times := range t {
		if q.changes() {
			n += times
		}
	}
	return n
}

// Written counts what changes an object, by verb and kind.
func (t Tally) Written() map[string]int {
	n := map[string]int{}
	for q, times := range t {
		if q.changes() {
			n[q.Verb+" "+q.Resource] += times
		}
	}
	return n
}

// Lists counts those of more than one object.
func (t Tally) Lists() int {
	n := 0
	for q, times := range t {
		if q.Verb == "list" && q.Scope != "one object" {
			n += times
		}
	}
	return n
}

// Requests counts all but those for its lease.
func (t Tally) Requests() int {
	n := 0
	for q, times := range t {
		if !q.House() {
			n += times
		}
	}
	return n
}

// Conflicts counts what was written from a state that is no longer.
func (t Tally) Conflicts() int {
	n := 0
	for q, times := range t {
		if q.Scope == conflict {
			n += times
		}
	}
	return n
}

// Sorted returns the kinds in an order that stays.
func (t Tally) Sorted() []Request {
	return slices.SortedFunc(maps.Keys(t), func(a, b Request) int {
		return slices.Compare([]string{a.Resource, a.Verb, a.Scope}, []string{b.Resource, b.Verb, b.Scope})
	})
}
