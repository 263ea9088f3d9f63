package admit

import "time"

// MayHaveSubset tells whether a spread may cover the pod.
var MayHaveSubset = mayHaveSubset

// Told is what a replica remembers of the namespaces that were told.
type Told = told

// May is may, for tests.
func (t *told) May(namespace string, now time.Time) bool { return t.may(namespace, now) }
