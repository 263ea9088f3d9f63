// Package guard answers before a pod is deleted, evicted, changed or resized.
//
// The webhook asks every guard of one list, for each of the four verbs. A request passes when every guard allows it; the
// first refusal is the answer. Today the list is empty, and the match conditions in
// deploy/controller/webhooks.yaml keep every pod from being sent here.
package guard
