// Package audit checks the state of a node: whether its parts agree with each other, and with the containers of the
// node. The command limpet-ipam check and the agent share the package. An audit changes nothing.
package audit

import (
	"github.com/limpet-io/limpet/pkg/persistence"
)

// Severity says whether a finding breaks a rule.
type Severity string

const (
	// Violation breaks a rule.
	Violation Severity = "violation"
	// Note breaks no rule, and goes away without help.
	Note Severity = "note"
)

// Kind says what a finding is about. docs/operate/operations.md lists the kinds, and what to do about each.
type Kind string

const (
	// KindFile is a violation: the file is lost, damaged, or of a newer version.
	KindFile Kind = "file"
	// KindRecord is a violation: a record cannot be used.
	KindRecord Kind = "record"
	// KindHolders is a violation: an address has two holders (rules 1 and 2).
	KindHolders Kind = "holders"
	// KindIndex is a violation: an index and the records differ.
	KindIndex Kind = "index"
	// KindRunning is a violation: a container has an address that the state does not give to the container.
	KindRunning Kind = "running"
	// KindNamespace is a violation: a network namespace holds addresses, and its container or pod is gone. Only the agent
	// finds it, because the plugin knows no pods.
	KindNamespace Kind = "namespace"
	// KindLapsed is a note: a reservation has lapsed, and is not deleted yet.
	KindLapsed Kind = "lapsed"
	// KindGone is a note: the network namespace of an attachment is gone, and the DEL has not come yet.
	KindGone Kind = "gone"
	// KindMarker is a note: the marker is missing, and the next verb writes it.
	KindMarker Kind = "marker"
	// KindBackup is a note: a damaged state file is kept for the user to examine.
	KindBackup Kind = "aside"
)

// Violations returns the kinds of violations.
func Violations() []Kind {
	return []Kind{KindFile, KindRecord, KindHolders, KindIndex, KindRunning, KindNamespace}
}

var kindOfFault = map[persistence.FaultKind]Kind{
	persistence.FaultRecord: KindRecord, persistence.FaultHolders: KindHolders, persistence.FaultIndex: KindIndex,
}

// Finding is one result of an audit. The JSON form is documented in docs/operate/operations.md.
type Finding struct {
	Severity Severity `json:"severity"`
	Kind     Kind     `json:"kind"`
	Subject  string   `json:"subject"`
	Problem  string   `json:"problem"`
}

// Fleeting reports whether a pod that starts or ends can cause the finding. Such a finding counts only when two audits
// in a row have it.
func (f Finding) Fleeting() bool { return f.Kind == KindRunning || f.Kind == KindNamespace }
