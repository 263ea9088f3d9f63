// Package guard answers before a pod is deleted, evicted, changed or resized.
//
// The webhook asks every guard of one list, for each of the four verbs. A request passes when
// every guard allows it; the first refusal is the answer. The API server sends requests from
// namespaces that have the label limpet.dev/budgets, and no others.
package guard
