// Package guard answers before a pod is deleted, evicted, changed or resized.
//
// The webhook asks the budgets of the pod, for each of the four verbs. The API server sends requests
// from namespaces that have the label limpet.dev/budgets, and no others.
package guard
