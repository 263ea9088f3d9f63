package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MarshalJSON writes the entries as lines.
func (l DisruptionEntries) MarshalJSON() ([]byte, error) {
	return inLines(len(l), func(w *lineWriter, i int) {
		e := &l[i]
		w.text(string(e.UID), e.Pod, e.Use, e.Vector, e.By)
		w.time(e.Since.Time, e.Expires.Time)
		w.text(e.Version)
		w.number(e.Generation)
		w.number(e.Restarts)
		w.text(e.Subset, string(e.Owner))
	})
}

// UnmarshalJSON reads entries from lines.
func (l *DisruptionEntries) UnmarshalJSON(data []byte) error {
	*l = ofLines(data, func(r *lineReader) (e DisruptionEntry) {
		e.UID, e.Pod, e.Use, e.Vector, e.By = types.UID(r.text()), r.text(), r.text(), r.text(), r.text()
		e.Since, e.Expires = metav1.NewMicroTime(r.time()), metav1.NewMicroTime(r.time())
		e.Version, e.Generation, e.Restarts = r.text(), r.number(), r.number()
		e.Subset, e.Owner = r.text(), types.UID(r.text())
		return e
	})
	return nil
}

// MarshalJSON writes the requests as lines.
func (l WaitingRequests) MarshalJSON() ([]byte, error) {
	return inLines(len(l), func(w *lineWriter, i int) {
		w.text(string(l[i].UID), l[i].Pod, l[i].By)
		w.time(l[i].Since.Time, l[i].Last.Time)
		w.field(strconv.FormatBool(l[i].ByWorkload))
		if l[i].Blocked { // else a former version reads the line, too
			w.field("true")
		}
	})
}

// UnmarshalJSON reads requests from lines.
func (l *WaitingRequests) UnmarshalJSON(data []byte) error {
	*l = ofLines(data, func(r *lineReader) WaitingRequest {
		return WaitingRequest{
			UID: types.UID(r.text()), Pod: r.text(), By: r.text(), Since: metav1.NewMicroTime(r.time()), Last: metav1.NewMicroTime(r.time()),
			ByWorkload: r.field() == "true", Blocked: !r.done && r.field() == "true",
		}
	})
	return nil
}

// MarshalJSON writes the decisions as lines.
func (l BookedDecisions) MarshalJSON() ([]byte, error) {
	return inLines(len(l), func(w *lineWriter, i int) {
		d := &l[i]
		w.time(d.Time.Time)
		w.text(d.Pod)
		w.list(d.Budgets)
		w.text(d.Vector, d.Verdict, d.Reason, d.By)
	})
}

// UnmarshalJSON reads decisions from lines.
func (l *BookedDecisions) UnmarshalJSON(data []byte) error {
	*l = ofLines(data, func(r *lineReader) BookedDecision {
		return BookedDecision{
			Time: metav1.NewMicroTime(r.time()), Pod: r.text(), Budgets: r.list(),
			Vector: r.text(), Verdict: r.text(), Reason: r.text(), By: r.text(),
		}
	})
	return nil
}

// inLines writes n items as one JSON string.
func inLines(n int, write func(w *lineWriter, i int)) ([]byte, error) {
	var w lineWriter
	for i := range n {
		write(&w, i)
		w.end()
	}
	data, err := json.Marshal(w.String())
	if err != nil {
		return nil, fmt.Errorf("encode %d lines: %w", n, err)
	}
	return data, nil
}

// ofLines reads items from a JSON string. A line that is no item is left out, and so is a value
// that is no string: an error would stop the watch of all objects.
func ofLines[T any](data []byte, read func(*lineReader) T) (items []T) {
	var text string
	if json.Unmarshal(data, &text) != nil || text == "" {
		return nil
	}
	for line := range strings.Lines(text) {
		r := lineReader{rest: strings.TrimSuffix(line, "\n")}
		if item := read(&r); r.ended() {
			items = append(items, item)
		}
	}
	return items
}
