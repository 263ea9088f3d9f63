package v1beta1

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxMatch is longer than any annotation that String returns: two names of 253 characters and a
// UID, each of whose characters may be escaped.
const maxMatch = 4096

// Match is the value of AnnotationMatchedSpread: the WorkloadSpread and the subset of a pod.
//
// +kubebuilder:object:generate=false
type Match struct {
	// Name of the WorkloadSpread.
	Name string `json:"name"`
	// Subset is the name of the subset.
	Subset string `json:"subset"`
	// UID identifies a pod that had no name yet when it was created; it is not the UID of the pod.
	UID string `json:"uid,omitempty"`
}

// String is the value of the annotation.
func (m Match) String() string {
	text, _ := json.Marshal(m) // strings alone
	return string(text)
}

// ParseMatch reads the value of the annotation. Users may write the annotation too, so a long
// value is not read.
func ParseMatch(text string) (Match, error) {
	var m Match
	if len(text) > maxMatch {
		return m, fmt.Errorf("read annotation %s: %d characters are too many", AnnotationMatchedSpread, len(text))
	}
	if m, ok := usualMatch(text); ok {
		return m, nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return Match{}, fmt.Errorf("read annotation %s: %w", AnnotationMatchedSpread, err)
	}
	if m.Name == "" || m.Subset == "" {
		return Match{}, fmt.Errorf("read annotation %s: name or subset is missing", AnnotationMatchedSpread)
	}
	return m, nil
}

// usualMatch reads the form that String and OpenKruise write, unless it has escapes. The
// annotation is read with each event of a pod, and JSON takes ten times as long.
func usualMatch(text string) (Match, bool) {
	quoted := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' }) < 0
	rest, begins := strings.CutPrefix(text, `{"name":"`)
	name, rest, named := strings.Cut(rest, `","subset":"`)
	rest, ends := strings.CutSuffix(rest, `"}`)
	subset, uid, _ := strings.Cut(rest, `","uid":"`)
	usual := quoted && begins && named && ends && name != "" && subset != "" && !strings.Contains(name+subset+uid, `"`)
	return Match{Name: name, Subset: subset, UID: uid}, usual
}
