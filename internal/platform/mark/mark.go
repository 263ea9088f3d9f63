package mark

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Mark is a label of namespaces by which the API server sends requests to the webhooks of a
// feature.
type Mark struct {
	Label string
	// Idle is the annotation that says since when no object needs the label.
	Idle string
	// Manager is the field manager of what the controller writes for the feature.
	Manager string
	// Without says what happens to pods of a namespace that lacks the label.
	Without string
}

// Values of the label: while no webhook answers, requests pass where it is Open, and fail where
// it is Closed. Where it is Asked, fewer are sent, and they pass, too.
const (
	Asked  = policyv1beta1.LabelBudgetsAsked
	Open   = policyv1beta1.LabelBudgetsOpen
	Closed = policyv1beta1.LabelBudgetsClosed
)

// Marks of the features.
var (
	Budgets = Mark{
		Label: policyv1beta1.LabelBudgets, Idle: policyv1beta1.AnnotationIdleSince, Manager: policyv1beta1.FieldManagerBudgets,
		Without: "no request about its pods is judged",
	}
	Spreads = Mark{
		Label: appsv1beta1.LabelSpreads, Idle: appsv1beta1.AnnotationSpreadsIdleSince, Manager: "limpet-spreads",
		Without: "its new pods get no subset",
	}
)

// Of returns the label of a namespace; "" for none.
func (m Mark) Of(namespace client.Object) string { return namespace.GetLabels()[m.Label] }

// Set makes sure that a namespace has the label, Open or Closed, and ends the removal of the label
// where one has begun. The result reports whether that changes the namespace.
func (m Mark) Set(namespace client.Object) bool {
	value := Open
	if m.Of(namespace) == Closed {
		value = Closed
	}
	_, idle := namespace.GetAnnotations()[m.Idle]
	if m.Of(namespace) == value && !idle {
		return false
	}
	m.put(namespace, value, "")
	return true
}

// With returns labels of a namespace with another value of the label; "" for none.
func (m Mark) With(labels map[string]string, value string) map[string]string {
	return with(maps.Clone(labels), m.Label, value)
}

// put sets the label and the annotation of a namespace; an empty value removes.
func (m Mark) put(namespace client.Object, label, idle string) {
	namespace.SetLabels(with(namespace.GetLabels(), m.Label, label))
	namespace.SetAnnotations(with(namespace.GetAnnotations(), m.Idle, idle))
}

// with sets a key of a map; an empty value removes the key.
func with(in map[string]string, key, value string) map[string]string {
	if value == "" {
		delete(in, key)
		return in
	}
	if in == nil {
		in = map[string]string{}
	}
	in[key] = value
	return in
}
